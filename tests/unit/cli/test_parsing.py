"""Commands are found, whatever is mistyped, and each prints JSON for programs."""

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.author.completion import known_words
from landfall.cli.parser import COMMANDS, grouped, imported, parser
from tests.support.files.folder_feed import FolderFeed, rows
from tests.support.pages.markdown import ROOT

NO_JSON = {
    "completion": "a script for a shell",
    "manifest": "--format Json",
    "schema": "a JSON schema",
}
"""Commands without ``--json``, and what they print instead."""


def commands(
    parser: argparse.ArgumentParser, path: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield path, parser
    for name, command in below[0].choices.items() if below else ():
        yield from commands(command, f"{path} {name}".strip())


ALL = dict(commands(parser()))


def test_every_command_is_listed_in_one_group() -> None:
    listed = re.findall(r"^  ([a-z][a-z-]*)  +\S", parser().format_help(), re.MULTILINE)
    names = {name.partition(" ")[0] for name in ALL}

    assert sorted(listed) == sorted(names)
    assert names <= grouped()


def test_every_command_has_its_code_and_all_code_its_command() -> None:
    named = {name for names in COMMANDS.values() for name in names}

    assert all(callable(imported(command.get_default("code"))) for command in ALL.values())
    assert named <= ALL.keys() | {name.partition(" ")[0] for name in ALL}


@pytest.mark.parametrize("name", ALL.keys() - NO_JSON)
def test_every_command_prints_json_for_programs(name: str) -> None:
    options = ALL[name]._option_string_actions

    assert "--json" in options
    assert "--output" in options or "-o" in options or name.startswith("migrate ")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["stauts"], "no command 'stauts', did you mean status?"),
        (["backfill", "statsu"], "no command 'statsu', did you mean status?"),
        (["xyz"], "no command 'xyz'; `landfall --help` lists the commands"),
        (["status", "x.yaml", "--jsn"], "unrecognized arguments: --jsn, did you mean --json?"),
        (["audit", "x.yaml", "--zz=1"], "unrecognized arguments: --zz=1"),
    ],
)
def test_the_word_that_is_meant_is_named(
    typed: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(typed)

    said = capsys.readouterr().err
    assert ended.value.code == ExitCode.USAGE
    assert message in said


def test_promote_and_retry_have_one_meaning_each(capsys: pytest.CaptureFixture[str]) -> None:
    """`promote` is about a rollout, by kubectl; a backfill is promoted by a word of its own."""
    for typed in (["promote", "--help"], ["promote-backfill", "--help"]):
        with pytest.raises(SystemExit):
            main(typed)
        assert "usage: landfall promote-backfill " in capsys.readouterr().out
    assert "promote" not in ALL
    texts = [
        *ROOT.glob("docs/**/*.md"),
        *(p for folder in ("spark_app", "operator", "charts") for p in (ROOT / folder).rglob("*")),
    ]
    former = [
        str(file)
        for file in texts
        if file.suffix in {".md", ".py", ".yaml"} and {"adr", "evidence"}.isdisjoint(file.parts)
        if re.search(r"(?<!kubectl )landfall promote[ `\n]", file.read_text())
    ]
    assert former == []
    assert ALL["retry"].description
    assert "`landfall files retry`" in ALL["retry"].description


def test_the_usage_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["status", "x.yaml", "--nothing"])

    assert capsys.readouterr().err.startswith("usage: landfall status ")


def test_completion_knows_every_command_and_option() -> None:
    words = known_words(parser())

    for name, command in ALL.items():
        path = tuple(name.split())
        assert path[-1] in words[path[:-1]]
        assert set(command._option_string_actions) <= set(words[path])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["ver"], {"verify"}),
        (["backfill", "st"], {"status"}),
        (["backfill", "status", "--js"], {"--json"}),
        (["audit", "--all"], {"--allow-unchecked"}),
    ],
)
def test_bash_completes(
    line: list[str], expected: set[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["completion", "bash"]) == ExitCode.OK
    script = capsys.readouterr().out
    words = " ".join(["landfall", *line])
    ask = f'COMP_WORDS=({words}); COMP_CWORD={len(line)}; _landfall; echo "${{COMPREPLY[@]}}"'

    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_too(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == ExitCode.OK

    assert "replay-dead-letters" in capsys.readouterr().out


@pytest.fixture
def feed(tmp_path: Path) -> FolderFeed:
    made = FolderFeed(tmp_path)
    made.put("a.json", rows(range(5)))
    return made


def test_results_as_json(feed: FolderFeed, capsys: pytest.CaptureFixture[str]) -> None:
    assert feed.land() is ExitCode.OK
    file = str(feed.file)

    def said(*typed: str, code: ExitCode = ExitCode.OK) -> object:
        capsys.readouterr()
        assert main([*typed, "-o", "json"]) == code
        return json.loads(capsys.readouterr().out)

    fsck = said("fsck", file)
    assert isinstance(fsck, dict)
    assert fsck["whole"] is True
    assert {rule["name"] for rule in fsck["invariants"]} >= {"I1", "I5", "I11"}
    assert all(rule["checked"] and not rule["findings"] for rule in fsck["invariants"])

    explained = said("explain", file, "hits")
    assert isinstance(explained, dict)
    assert explained["spec"]["output"]["url"].startswith("file://")

    refused = said("undo", file, "1", "--why", "INC-12", code=ExitCode.REFUSED)
    assert isinstance(refused, dict)
    assert refused["outcome"] == "refused"
    assert "no REPLACE" in refused["message"]


def test_a_fault_as_json_has_its_place(
    feed: FolderFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert feed.land() is ExitCode.OK
    (landed,) = (p for p in (feed.root / "out").rglob("*.gz") if "_landfall" not in str(p))
    landed.unlink()
    capsys.readouterr()

    assert main(["fsck", str(feed.file), "--json"]) == ExitCode.FAULT

    found = json.loads(capsys.readouterr().out)
    (finding,) = (each for rule in found["invariants"] for each in rule["findings"])
    assert found["whole"] is False
    assert finding["key"] == str(landed.relative_to(feed.root / "out"))
