import io
import logging
from dataclasses import replace

import pytest
from rich.console import Console

from landfall.api.contract import CommitStatus, PartitionStatus, Phase, Rates, Status
from landfall.cli.log_lines import EventFormatter
from landfall.cli.progress import line, picture, progress

STATUS = Status(
    version="0",
    group="shop",
    namespace="tests",
    generation=1,
    epoch=1,
    lane="0",
    phase=Phase.RUNNING,
    time="2026-11-21T05:12:09+00:00",
    started="2026-11-21T05:12:00+00:00",
    lag_records=70,
    lag_seconds=3.0,
    overdue_seconds=0.0,
    rounds=1,
    commits=CommitStatus(4, 0, 0, None, None, 0),
    rates=Rates(30, 3000, 6_000_000, 0, 10.0, 2_000_000.0),
    partitions=(
        PartitionStatus("clicks", 0, 30, 50, 20, 3.0, 0.0, in_round=True),
        PartitionStatus(
            "clicks", 1, 0, 50, 50, 1.0, 0.0, blocked="DataLoss", message="offsets [0, 9) expired"
        ),
    ),
)


def printed(*statuses: Status, terminal: bool) -> str:
    out = io.StringIO()
    with progress(Console(file=out, force_terminal=terminal, width=120, _environ={})) as show:
        for status in statuses:
            show(status)
    return out.getvalue()


def test_a_line_tells_how_far_it_is() -> None:
    assert (
        line(STATUS) == "05:12:09 shop Running: 30 records landed, 70 to go, 2.0 MB/s in, 4 commits"
    )


def test_nobody_watching_gets_a_line_per_phase_not_per_pass() -> None:
    lines = printed(
        STATUS, STATUS, replace(STATUS, phase=Phase.STOPPED), terminal=False
    ).splitlines()

    assert [text.split()[2] for text in lines] == ["Running:", "Stopped:"]


def test_a_terminal_gets_a_table_by_topic_and_what_is_blocked() -> None:
    text = printed(STATUS, terminal=True)

    assert "clicks/1 DataLoss: offsets [0, 9) expired" in text
    assert "landing 1" in text


def test_what_passed_is_counted_from_the_first_sight() -> None:
    console = Console(file=io.StringIO(), width=120)

    console.print(picture(STATUS, {("clicks", 0): 10, ("clicks", 1): 0}))

    row = next(text for text in console.file.getvalue().splitlines() if text.startswith("clicks "))  # type: ignore[attr-defined]
    assert row.split()[:6] == ["clicks", "2", "70", "3", "s", "20"]


@pytest.mark.parametrize(
    ("level", "told"), [(logging.INFO, "batch"), (logging.WARNING, "warning: batch")]
)
def test_events_show_what_was_given_with_them(level: int, told: str) -> None:
    record = logging.makeLogRecord(
        {
            "msg": "batch %s",
            "args": ("done",),
            "levelno": level,
            "levelname": logging.getLevelName(level),
        }
    )
    record.slot = 12

    assert EventFormatter().format(record)[9:] == f"{told} done  slot=12"
