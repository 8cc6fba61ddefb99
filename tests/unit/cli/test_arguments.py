import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.api.verbs import VERBS
from landfall.cli import main
from landfall.cli.decide.verb import EXIT_CODES as EXIT_CODES_OF_VERBS
from landfall.cli.parser import COMMANDS as COMMANDS_BY_PURPOSE
from landfall.cli.parser import EXIT_CODES, RENAMED, code_of, ends, grouped, parser

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


def test_help_of_a_command_explains_only_how_it_can_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    explain, check, undo = (help_text(capsys, word) for word in ("explain", "check", "undo"))

    assert "\n  2  the command line or the group file is invalid" in explain
    assert "fenced" not in explain
    assert "found a fault" not in check
    assert "\n 10  a request, such as undo or skip, was refused" in undo
    assert "audit found no fault" not in undo


OF_READERS = {
    ExitCode.FAULT: r"ExitCode\.FAULT",
    ExitCode.NOTHING: r"ExitCode\.NOTHING|NothingToCheck\(|no_ledger\(|require_topics\(",
}
"""How the code of a command shows that it can end so."""


def source_of(words: str) -> str:
    """The code of a command that is named by these words."""
    module, _, _ = code_of(words).partition(":")
    return Path(str(find_spec(module).origin)).read_text()  # type: ignore[union-attr]


@pytest.mark.parametrize("words", sorted(grouped()))
def test_a_command_ends_as_its_help_says(words: str) -> None:
    source = source_of(words)
    codes = {ExitCode[name] for name in re.findall(r"ExitCode\.([A-Z]+)", source)}
    codes |= {code for code, marker in OF_READERS.items() if re.search(marker, source)}
    codes |= {*EXIT_CODES_OF_VERBS.values()} if "import EXIT_CODES" in source else set()

    assert codes <= ends(words)


@pytest.mark.parametrize(
    "words",
    [*COMMANDS_BY_PURPOSE["look"], "fsck", "verify", "scan", "files ls", "backfill compare"],
)
def test_help_of_a_reader_lists_no_exit_code_of_other_commands(words: str) -> None:
    source = source_of(words)
    codes = {code for code, marker in OF_READERS.items() if re.search(marker, source)}

    assert codes == {code for code in OF_READERS if code in ends(words)}


def test_help_of_a_command_with_others_below_lists_the_codes_of_all() -> None:
    for words in ("backfill", "files"):
        below = [name for name in grouped() if name.startswith(f"{words} ")]
        assert set().union(*map(ends, below)) <= ends(words)


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
