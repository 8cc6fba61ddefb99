import re

import pytest

from landfall.api.contract import ExitCode
from landfall.api.verbs import VERBS
from landfall.cli import main
from landfall.cli.parser import EXIT_CODES, RENAMED, parser

COMMANDS = (
    *("run", "status", "fsck", "locate", "cat", "verify", "audit"),
    *("explain", "try", "import-offsets", "migrate", "files", "log", "ls"),
    *(RENAMED.get(verb, verb) for verb in VERBS if not verb.startswith("files-")),
)


def help_text(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([*argv, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_text(capsys)

    assert all(re.search(rf"\n +{command}\s", text) for command in COMMANDS)
    assert EXIT_CODES in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"examples:\n  landfall {command} " in help_text(capsys, command)


@pytest.mark.parametrize("command", ["secor", "connect", "check"])
def test_every_command_below_migrate_has_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_text(capsys, "migrate", command)

    assert f"examples:\n  landfall migrate {command} " in text


@pytest.mark.parametrize("command", ["ls", "retry", "ignore"])
def test_every_command_below_files_has_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"examples:\n  landfall files {command} " in help_text(capsys, "files", command)


def test_the_help_explains_every_exit_code() -> None:
    explained = [int(line.split()[0]) for line in EXIT_CODES.splitlines()[1:]]

    assert explained == sorted(ExitCode)


@pytest.mark.parametrize(
    "argv", [[], ["land"], ["locate", "g.yaml", "t", "x", "1"], ["cat", "file:///tmp/x"]]
)
def test_a_wrong_command_line_is_a_usage_error(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(argv)
    except SystemExit as ended:
        code = ended.code

    assert code == ExitCode.USAGE
    assert "landfall" in capsys.readouterr().err
