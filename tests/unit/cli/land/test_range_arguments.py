"""Where a run begins and ends, as the command line says it."""

import json
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from landfall.cli.parser import parser
from landfall.cli.values import end, start

FIVE = datetime(2026, 11, 21, 5, tzinfo=UTC)


@pytest.fixture
def offsets(tmp_path: Path) -> Path:
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"clicks": {"0": 1200}}))
    return file


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-21T05:00Z", FIVE),
        ("2026-11-21T05:00", FIVE),
        ("2026-11-21T06:00+01:00", FIVE),
        ("2026-11-21", FIVE - timedelta(hours=5)),
    ],
)
def test_a_range_ends_at_a_time(text: str, time: datetime) -> None:
    assert end(text) == time


def test_a_range_ends_at_the_offsets_in_a_file(offsets: Path) -> None:
    assert end(str(offsets)) == {"clicks": {"0": 1200}}


def test_a_range_begins_where_starting_offsets_can(offsets: Path) -> None:
    assert start("Latest") == "Latest"
    assert start("2026-11-21T05:00Z") == {"timestamp": "2026-11-21T05:00:00+00:00"}
    assert start(str(offsets)) == {"offsets": {"clicks": {"0": 1200}}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is neither a time, such as 2026-11-21T05:00Z, nor a file"),
        ("{", "not JSON"),
        ("[1]", "expected offsets, such as"),
        ('{"clicks": {"first": 1}}', "expected offsets, such as"),
        ('{"clicks": {"0": -1}}', "expected offsets, such as"),
    ],
)
def test_what_says_no_end_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "ends.json"
    if content is not None:
        file.write_text(content)

    with pytest.raises(ArgumentTypeError, match=message):
        end(str(file))


def test_one_end_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "g.yaml", "--until", "2026-11-21", "--until-caught-up"])

    assert "not allowed with argument" in capsys.readouterr().err
