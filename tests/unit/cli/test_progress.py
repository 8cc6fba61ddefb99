import io
import logging
from dataclasses import replace

import pytest
from rich.console import Console

from landfall.api.contract import CommitStatus, PartitionStatus, Phase, Rates, Status
from landfall.cli.log_lines import EventFormatter
from landfall.cli.progress import progress, status_line, status_table
from landfall.driver.status import StatusReport

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
            show(StatusReport(status))
    return out.getvalue()


def test_a_line_says_how_far_the_group_is() -> None:
    assert (
        status_line(STATUS)
        == "05:12:09 shop Running: 30 records landed, 70 to go, 2.0 MB/s in, 4 commits"
    )


def test_a_line_counts_dead_letters() -> None:
    rates = Rates(0, 0, 6_000, 10, 0.0, 2_000.0)

    line = status_line(replace(STATUS, rates=rates, lag_records=0, phase=Phase.STOPPED))

    assert line.startswith("05:12:09 shop Stopped: 0 records landed, 10 dead letters, 0 to go, ")


def test_without_a_terminal_only_a_new_phase_prints_a_line() -> None:
    lines = printed(
        STATUS, STATUS, replace(STATUS, phase=Phase.STOPPED), terminal=False
    ).splitlines()

    assert [text.split()[2] for text in lines] == ["Running:", "Stopped:"]


def test_a_terminal_shows_a_table_by_topic_and_what_is_blocked() -> None:
    text = printed(STATUS, terminal=True)

    assert "clicks/1 DataLoss: offsets [0, 9) expired" in text
    assert "landing 1" in text


def test_offsets_done_are_counted_from_the_first_status() -> None:
    console = Console(file=io.StringIO(), width=120)

    console.print(status_table(STATUS, {("clicks", 0): 10, ("clicks", 1): 0}))

    row = next(text for text in console.file.getvalue().splitlines() if text.startswith("clicks "))  # type: ignore[attr-defined]
    assert row.split()[:6] == ["clicks", "2", "70", "3", "s", "20"]


@pytest.mark.parametrize(
    ("level", "expected"), [(logging.INFO, "batch"), (logging.WARNING, "warning: batch")]
)
def test_events_are_printed_with_their_fields(level: int, expected: str) -> None:
    record = logging.makeLogRecord(
        {
            "msg": "batch %s",
            "args": ("done",),
            "levelno": level,
            "levelname": logging.getLevelName(level),
        }
    )
    record.slot = 12

    assert EventFormatter().format(record)[9:] == f"{expected} done  slot=12"
