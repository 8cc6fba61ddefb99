"""Control characters from outside are shown on terminals and in text logs, never obeyed."""

import io
import logging
import sys
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.cli.text import console
from landfall.cli.text.log_lines import EventFormatter
from landfall.logs import TextFormatter, visible

HOSTILE = "x\x1b]0;owned\x07\x1b[2J\x1b[31mok\r\x9b2J\x7f"
SHOWN = r"x\x1b]0;owned\x07\x1b[2J\x1b[31mok\r\x9b2J\x7f"


def test_an_error_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_error("BadRecords", HOSTILE)

    assert capsys.readouterr().err == f"landfall: BadRecords: {SHOWN}\n"


def test_results_and_tables_show_them(capsys: pytest.CaptureFixture[str]) -> None:
    table = console.table("file")
    table.add_row(HOSTILE)

    console.out().print(HOSTILE, markup=False)
    console.out().print(table)

    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [SHOWN, "file", SHOWN]


@pytest.mark.parametrize(
    "deceiving",
    ["\u202e", "\u202a", "\u2066", "\u2069", "\u200b", "\u2060", "\ufeff", "\U000e0041"],
)
def test_what_changes_the_order_of_text_or_is_not_seen_is_shown(deceiving: str) -> None:
    assert visible(f"gpj.{deceiving}exe") == f"gpj.{ascii(deceiving)[1:-1]}exe"


def test_what_scripts_join_letters_by_stays() -> None:
    for text in (
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f469\u200d\U0001f680",
        "e\u0301",
    ):
        assert visible(text) == text


@pytest.mark.parametrize("formatter", [TextFormatter(), EventFormatter()], ids=["text", "run"])
def test_a_value_forges_no_line_of_a_log(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord(
        {"msg": "driver ended", "levelname": "INFO", "levelno": logging.INFO}
    )
    record.why = f"{HOSTILE}\n05:12:09 all landed"

    line = formatter.format(record)

    assert "driver ended" in line
    assert line.endswith(rf" why={SHOWN}\n05:12:09 all landed")


def test_a_traceback_has_lines_of_its_own() -> None:
    try:
        int(HOSTILE)
    except ValueError as error:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": (type(error), error, None)})

    lines = TextFormatter().format(record).splitlines()

    assert len(lines) == 2
    assert lines[-1].startswith("ValueError: invalid literal for int")


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("is_terminal", "options", "body"),
    [
        (True, [], rb"a\x1b[2J\xff	b"),
        (True, ["--raw"], b"a\x1b[2J\xff\tb"),
        (False, [], b"a\x1b[2J\xff\tb"),
    ],
)
def test_cat_shows_them_on_terminals_only(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,
    options: list[str],
    body: bytes,
) -> None:
    (tmp_path / "landed.txt").write_bytes(b"a\x1b[2J\xff\tb\n")
    buffer = io.BytesIO()
    stream = (Terminal if is_terminal else io.TextIOWrapper)(buffer, "utf-8")
    monkeypatch.setattr(sys, "stdout", stream)

    code = main(
        ["cat", f"file://{tmp_path}/landed.txt", "--format", "Text", "--codec", "None", *options]
    )

    assert (code, buffer.getvalue()) == (ExitCode.OK, body + b"\n")
