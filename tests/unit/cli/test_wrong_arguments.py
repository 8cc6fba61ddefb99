"""Every command with every wrong argument, made from the parser: exit code 2, no traceback."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.parser import parser
from tests.support.kubernetes.groups import Json, changed, document

NUMBERS = ("", "x", "-1", "1.5", "9" * 30)
WRONG_VALUES = {
    "port": (*NUMBERS, "99999"),
    "natural": NUMBERS,
    "position": (*NUMBERS, "latst"),
    "spark_master": ("", "nonsense", "local[0]", "local[x]", "spark://nohost", "localhost:7077"),
}
"""By the name of an argument's type."""
GROUP = document(
    source__kafka__bootstrapServers="127.0.0.1:1", output__url="file:///nowhere/at/all"
)
WRONG_GROUPS = {
    "absent": None,
    "empty": b"",
    "binary": b"\xff\x00\x80",
    "no-yaml": b"a: [b",
    "list": b"- a",
    "unknown-field": yaml.safe_dump(changed(GROUP, "spec.replica", 3)).encode(),
    "wrong-route": yaml.safe_dump(changed(GROUP, "spec.route.pattern", "{dt}")).encode(),
    "unset-variable": yaml.safe_dump(changed(GROUP, "spec.output.url", "${NOWHERE}")).encode(),
    "no-secret": yaml.safe_dump(
        {
            **GROUP,
            "spec": {
                **GROUP["spec"],
                "output": {"url": "s3://b", "s3": {"credentialsSecretRef": {"name": "absent"}}},
            },
        }
    ).encode(),
}


def below(made: argparse.ArgumentParser, path: str = "") -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser, those below a command by both names."""
    inner = [a for a in made._actions if isinstance(a, argparse._SubParsersAction)]
    found: dict[str, argparse.ArgumentParser] = {}
    for name, command in inner[0].choices.items() if inner else ():
        own = f"{path} {name}".strip()
        found |= below(command, own) or {own: command}
    return found


COMMANDS = below(parser())
WITHOUT_GROUP = {"migrate secor", "migrate connect", "completion", "schema"}
"""Commands that take another file, or none."""


def positionals(command: str) -> list[argparse.Action]:
    return [a for a in COMMANDS[command]._actions if not a.option_strings]


def right(command: str, group: str) -> list[str]:
    """A right value of each argument that must be given."""
    values = []
    for action in positionals(command):
        if action.nargs == "*":
            continue
        of_type = {"Path": group, "natural": "1"}.get(_type(action), "clicks")
        values += [group, "clicks"] if action.nargs == "+" else [of_type]
    required = [a for a in COMMANDS[command]._actions if a.option_strings and a.required]
    words = {"--to": "100"}
    options = (a.option_strings[0] for a in required)
    return [*values, *(word for o in options for word in (o, words.get(o, "because")))]


def _type(action: argparse.Action) -> str:
    return str(getattr(action.type, "__name__", ""))


def wrong_arguments(command: str) -> Iterator[tuple[str, ...]]:
    yield tuple(command.split())
    yield (*command.split(), *right(command, "GROUP"), "--nonsense")
    for i, action in enumerate(positionals(command)):
        for value in WRONG_VALUES.get(_type(action), ()):
            values = right(command, "GROUP")
            yield (*command.split(), *values[:i], value, *values[i + 1 :])
    for action in COMMANDS[command]._actions:
        for option in action.option_strings[:1] if action.dest != "help" else ():
            takes_none = action.nargs == 0
            yield (
                *command.split(),
                *right(command, "GROUP"),
                f"{option}=x" if takes_none else option,
            )
            for value in WRONG_VALUES.get(_type(action), ()):
                yield (*command.split(), *right(command, "GROUP"), f"{option}={value}")


def outcome(argv: list[str]) -> object:
    try:
        return main(argv)
    except SystemExit as ended:
        return ended.code


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_argument_is_a_usage_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = written(tmp_path, yaml.safe_dump(GROUP).encode())
    arguments = list(wrong_arguments(command))
    accepted = {}

    for argv in arguments:
        code = outcome([group if word == "GROUP" else word for word in argv])
        said = capsys.readouterr().err
        last = said.splitlines()[-1:] or [""]
        if code != ExitCode.USAGE or "Traceback" in said or not last[0].startswith("landfall"):
            accepted[" ".join(argv)] = (code, said)

    assert accepted == {}
    assert len(arguments) >= 2


# These need no Secret of the store.
STORELESS = {"explain", "try"}


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        (kind, command)
        for kind in [*WRONG_GROUPS, "folder"]
        for command in COMMANDS
        if command not in WITHOUT_GROUP
        if command != "check"  # whose result they are: test_check.py
        if kind != "no-secret" or command not in STORELESS
    ],
)
def test_a_wrong_group_file_is_a_usage_error_of_one_line(
    command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = str(tmp_path) if kind == "folder" else written(tmp_path, WRONG_GROUPS[kind])

    code = outcome([*command.split(), *right(command, group)])

    said = capsys.readouterr().err.splitlines()
    assert (code, len(said)) == (ExitCode.USAGE, 1), said
    assert said[0].startswith("landfall: SpecInvalid: ")


def written(folder: Path, content: bytes | None) -> str:
    path = folder / "group.yaml"
    if content is not None:
        path.write_bytes(content)
    return str(path)


# ---------------------------------------------------------------------------------------------- cat


OBJECT = "clicks/1_0_00000000000000000000.seq"


def landed(folder: Path, output: Json) -> str:
    """A group whose output root is the folder: it holds a slot, and an object of no format."""
    (folder / "_landfall/clicks/0").mkdir(parents=True)
    (folder / "_landfall/clicks/0/00000000000000000000.json").write_text('{"kind":"OPEN"}')
    (folder / "clicks").mkdir()
    (folder / OBJECT).write_bytes(b"not a SequenceFile")
    spec = {**GROUP["spec"], "output": {"url": folder.as_uri(), **output}}
    return written(folder, yaml.safe_dump({**GROUP, "spec": spec}).encode())


def test_a_slot_of_the_ledger_is_printed_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = landed(tmp_path, {})

    code = outcome(["cat", group, "_landfall/clicks/0/00000000000000000000.json"])

    assert (code, capsys.readouterr().out) == (ExitCode.OK, '{"kind":"OPEN"}\n')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("GROUP", "clicks/nothing.seq"), "no object clicks/nothing.seq"),
        (
            ("GROUP", OBJECT),
            f"{OBJECT}: cannot be read as SequenceFile: ",
        ),
        (("--format", "seq", "file:///x/y"), "format: must be Text, Json, SequenceFile, Parquet"),
        (("--format", "Text", "--codec", "Lz4", "file:///x/y"), "codec: must be 'None', 'Gzip'"),
        (
            ("--format", "Text", "ftp://x/y"),
            "url is none of s3://BUCKET/PREFIX, gs://BUCKET/PREFIX",
        ),
        (("--format", "Text", "y"), "url: must be a URL such as s3://BUCKET/PREFIX"),
        (("--format", "Text", "--codec", "Snappy", "OBJECT"), "codec: must be Gzip"),
        (("--format", "no.module:Name", "OBJECT"), "cannot import format 'no.module:Name'"),
    ],
)
def test_cat_says_what_is_wrong_with_an_object(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = landed(tmp_path, {"format": "SequenceFile"})

    words = {"GROUP": group, "OBJECT": f"{tmp_path.as_uri()}/{OBJECT}"}

    code = outcome(["cat", *(words.get(word, word) for word in arguments)])

    said = capsys.readouterr().err.splitlines()
    assert (code, len(said)) == (ExitCode.USAGE, 1), said
    assert message in said[0]
