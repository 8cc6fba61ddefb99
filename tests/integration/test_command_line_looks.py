"""``ls``, ``log``, ``top`` and ``check`` as a user types them, on a real broker and a real bucket.

Programs are started as processes, with what a shell hands to them; completion is that of bash.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import ExitCode
from tests.support.audit.independent_audit import events
from tests.support.landing.group import Scene, land

LANDFALL = Path(sys.executable).parent / "landfall"


@dataclass(frozen=True)
class Said:
    """What a program printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """The lines as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


def landfall(*arguments: object) -> Said:
    argv = [str(LANDFALL), *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def topic(s3_scene: Scene) -> str:
    """A topic of which 300 records have landed."""
    made = s3_scene.topic()
    s3_scene.kafka.produce(made, events(range(300)))
    assert land(s3_scene.group(), None).code is ExitCode.OK
    return made


def test_a_bucket_is_looked_at(
    s3_scene: Scene, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = s3_scene.file(tmp_path)
    output = s3_scene.document()["spec"]["output"]
    url = output["url"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", output["s3"]["endpoint"])

    listed = landfall("ls", url, "-o", "json")
    looked = landfall("top", url, "--once", "-o", "json")
    seen = landfall("top", url, "--once")
    logged = landfall("log", file, "-o", "json", "--reverse")
    commits = landfall("log", file, "--kind", "commit", "--topic", topic, "-o", "json")

    assert url.startswith("s3://")
    (group,) = listed.documents
    assert (group["group"], group["state"], group["topics"]) == ("scene", "yielded", 1)
    ((shown,),) = looked.documents
    assert (shown["group"], shown["records"], shown["error"]) == ("scene", 300, None)
    assert seen.out.splitlines()[1].split()[0] == "scene"
    kinds = [each["kind"] for each in logged.documents]
    assert kinds[0] == "OPEN"
    assert {"ADD", "COMMIT", "YIELD"} <= {*kinds}
    assert [each["slot"] for each in logged.documents] == sorted(
        each["slot"] for each in logged.documents
    )
    assert sum(each["counts"]["records"] for each in commits.documents) == 300
    assert {said.code for said in (listed, looked, seen, logged, commits)} == {0}


def test_check_names_the_faults_of_the_file_that_has_them_as_json(
    s3_scene: Scene, tmp_path: Path
) -> None:
    (tmp_path / "wrong").mkdir()
    s3_scene.topic()
    sound = s3_scene.file(tmp_path)
    wrong = s3_scene.file(
        tmp_path / "wrong",
        kafka={"topicPattern": "no such topic"},
        transforms=[{"use": "Select", "options": {"field": ["id"]}}],
        uploadPolicy={"maxAge": "5min"},
    )

    said = landfall("check", sound, wrong, "-o", "json")

    (found,) = said.documents
    assert (said.code, said.err) == (ExitCode.USAGE, "")
    assert {fault["file"] for fault in found["faults"]} == {str(wrong)}
    assert [fault["message"].partition(": ")[0] for fault in found["faults"]] == [
        "spec.uploadPolicy.maxAge",
        "spec.transforms[0].options",
        "spec.source.kafka.topicPattern",
    ]


def test_a_command_that_is_misspelt_gets_a_suggestion() -> None:
    said = landfall("stauts", "group.yaml")

    assert said.code == ExitCode.USAGE
    assert "did you mean status?" in said.err
    assert len(said.err.splitlines()) <= 3, said.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sta"], {"status"}),
        (["backfill", "com"], {"compare"}),
        (["log", "--dec"], {"--decisions"}),
        (["files", ""], {"ls", "retry"}),
    ],
    ids=["command", "subcommand", "option", "all-subcommands"],
)
def test_bash_completes_commands_and_options(words: list[str], expected: set[str]) -> None:
    line = ["landfall", *words]
    script = (
        f'source <("{LANDFALL}" completion bash)\n'
        f"COMP_WORDS=({' '.join(repr(word) for word in line)})\nCOMP_CWORD={len(line) - 1}\n"
        "_landfall\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True, cwd="/"
    )

    assert expected <= {*done.stdout.splitlines()}
