"""Every command that needs a server says in one line why it does not answer, and ends with 5."""

import re
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.support.kubernetes.groups import document
from tests.unit.cli.test_wrong_arguments import COMMANDS, WITHOUT_GROUP, positionals

CLOSED = "127.0.0.1:9"
"""Nothing listens on the port of the discard service."""
URL = "s3://logs/parsed"
WORDS = {
    "TOPIC": "clicks",
    "TOPIC/PARTITION": "clicks/0",
    "PARTITION|FILE[:ROW]": "0",
    "OFFSET": "7",
    "KAFKA_GROUP": "old",
    "SLOT": "3",
    "LEASE": "3",
    "NAME": "fix",
    "OBJECT": "clicks/a.json.gz",
    "FEED": "hits",
}
OPTIONS = {
    "reset": ("--to", "latest"),
    "manifest": ("--topic", "clicks"),
    "scan": ("--topic", "clicks"),
    "top": ("--once",),
    "run": ("--until-caught-up", "--max-wait", "1s"),
    "migrate check": ("--from", "s3://logs/old"),
    "backfill plan": ("--topic", "clicks"),
}
NEEDS_WHY = re.compile(r"skip|unblock|drop|reset|replay|promote|undo|files (ignore|failed)")
NEEDED = re.compile(r"GROUP\.yaml|PARTITION|OFFSET")
"""Optional arguments that are given all the same."""
OF_FEEDS = {"files ls", "files retry", "files ignore", "files take"}

STORELESS = {
    "explain": "reads nothing but the file",
    "try": "reads Kafka",
    "init": "reads Kafka",
    "contract check": "takes a schema, too: unit/cli/contract/test_contract_check.py",
    "check": "all faults are its result: test_check.py",
    "retry": "asks a driver only",
    "publish": "needs publishers: test_publish.py",
    "table": "needs publishers: unit/cli/look/test_table.py",
    "run": "waits for servers, with an end for --max-wait: unit/driver/test_patience.py",
    "backfill run": "as run",
    "ls": "has no group that names the store's endpoint: test_ls.py",
    "top": "as ls",
}
"""Commands that ask no store, or that have tests of their own, and why."""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def group(folder: Path, *, of_files: bool, store: bool) -> str:
    """A group whose store, or whose Kafka, does not answer."""
    made = document(source__kafka__bootstrapServers=CLOSED, output__url=f"file://{folder}/out")
    if of_files:
        feed = {"topic": "hits", "url": f"file://{folder}/in", "process": "External"}
        made["spec"]["source"] = {"files": [feed]}
    if store:
        s3 = {"endpoint": f"http://{CLOSED}", "pathStyle": True}
        made["spec"]["output"] = {"url": URL, "s3": s3}
    file = folder / "group.yaml"
    file.write_text(yaml.safe_dump(made))
    return str(file)


def typed(command: str, file: str) -> list[str]:
    """A command with right values of all that it needs."""
    words = list[str]()
    for action in positionals(command):
        names = str(action.metavar or "").replace("[GROUP.yaml]", "GROUP.yaml").split()
        if action.nargs in {"*", "?"} and not NEEDED.match(" ".join(names)):
            continue
        words += [
            file
            if name.startswith("GROUP")
            else WORDS.get(name, WORDS.get(name.strip("[]"), "clicks"))
            for name in names
            if name != "…" and not name.startswith("[FILE")
        ]
    why = ("--why", "INC-12") if NEEDS_WHY.search(command) else ()
    return [*command.split(), *words, *OPTIONS.get(command, ()), *why]


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - WITHOUT_GROUP - STORELESS.keys()))
def test_a_store_that_does_not_answer_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = group(tmp_path, of_files=command.startswith("files"), store=True)

    code = main(typed(command, file))

    said = capsys.readouterr().err.splitlines()
    assert (code, said[-1:]) == (ExitCode.UNAVAILABLE, said[-1:]), said
    assert said[-1].startswith("landfall: Unavailable: ")
    assert f"{CLOSED}: connection refused" in said[-1]
    assert not re.search(r"[a-z]Error|Exception|Traceback", said[-1])
    assert all(line.startswith("landfall: waiting for ") for line in said[:-1])


@pytest.mark.parametrize("command", ["status", "try", "init", "import-offsets"])
def test_a_broker_that_does_not_answer_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by ``status`` of a group that has landed nothing yet, which has no offset to ask for."""
    file = group(tmp_path, of_files=False, store=False)
    words = {
        "init": ["init", "-", "--topic", "a", "--url", URL, "--bootstrap-servers", CLOSED],
        "try": ["try", file, "--topic", "clicks"],
    }

    code = main(words.get(command) or typed(command, file))

    said = capsys.readouterr().err.splitlines()
    assert code == ExitCode.UNAVAILABLE, said
    assert f"{CLOSED}: connection refused" in said[-1].lower()
