import io
import logging
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from rich.console import Console

from landfall.api.contract import CommitStatus, DriverPhase, Failure, PartitionStatus, Rates, Status
from landfall.cli.text.log_lines import EventFormatter, Printed
from landfall.cli.text.progress import Speed, progress, status_line, status_table
from landfall.driver.http.status import StatusReport

STATUS = Status(
    version="0",
    group="shop",
    namespace="tests",
    generation=1,
    epoch=1,
    lane="0",
    phase=DriverPhase.RUNNING,
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
    assert status_line(STATUS) == "05:12:09 shop Running: 30 records landed, 70 to go, 4 commits"


def later(status: Status, seconds: int, *, landed: int, left: int, size: int) -> Status:
    time = datetime.fromisoformat(status.time) + timedelta(seconds=seconds)
    rates = Rates(landed, 0, size, 0, 1.0, 1.0)
    return replace(status, time=time.isoformat(), rates=rates, lag_records=left)


def test_the_speed_is_the_present_one_and_not_that_since_the_start() -> None:
    start = later(STATUS, 0, landed=0, left=10_000, size=0)
    slow = later(STATUS, 600, landed=100, left=9_900, size=1_000)
    fast = [
        later(STATUS, 600 + 10 * n, landed=100 + n * 1000, left=9_900 - n * 1000, size=n * 10**6)
        for n in range(1, 6)
    ]
    speed = Speed(has_end=True)

    for status in (start, slow, *fast):
        speed.add(status)

    assert status_line(fast[-1], speed) == (
        "05:22:59 shop Running: 5,100 records landed, 4,900 to go (51 %, ETA 49s), "
        "100 records/s, 100.0 kB/s in, 4 commits"
    )


def test_a_run_without_an_end_has_no_share_and_says_when_it_has_caught_up() -> None:
    speed = Speed()
    statuses = [later(STATUS, 10 * n, landed=n * 100, left=1000 - n * 50, size=0) for n in range(4)]

    for status in statuses:
        speed.add(status)

    assert "850 to go (ETA 2m50s), 10 records/s" in status_line(statuses[-1], speed)


@pytest.mark.parametrize(
    "phase", [DriverPhase.DRAINING, DriverPhase.STOPPED, DriverPhase.RECOVERING]
)
def test_what_does_not_land_has_no_speed(phase: DriverPhase) -> None:
    speed = Speed(has_end=True)
    for n in range(4):
        speed.add(later(STATUS, 10 * n, landed=n * 100, left=300 - n * 100, size=0))

    line = status_line(replace(STATUS, phase=phase), speed)

    assert "/s" not in line
    assert "%" not in line


def test_a_line_counts_dead_letters() -> None:
    rates = Rates(0, 0, 6_000, 10, 0.0, 2_000.0)

    line = status_line(replace(STATUS, rates=rates, lag_records=0, phase=DriverPhase.STOPPED))

    assert line.startswith("05:12:09 shop Stopped: 0 records landed, 10 dead letters, 0 to go, ")


def test_without_a_terminal_only_a_new_phase_prints_a_line() -> None:
    lines = printed(
        STATUS, STATUS, replace(STATUS, phase=DriverPhase.STOPPED), terminal=False
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


DAMAGED = "hits/0: part 3: web2/a.gz: at 0: damaged Gzip data here or later, in a long sentence"


def event(text: str, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord("landfall", logging.WARNING, "", 0, text, (), None)
    record.__dict__ |= fields
    return record


def test_a_failure_is_printed_once_by_events_and_statuses_together() -> None:
    """Else the name of a damaged file is in nine lines of nearly five hundred characters."""
    failures, out = Printed(), io.StringIO()
    events = EventFormatter(failures)
    parked = f"FileUnreadable: hits/0: 1 part of files not landed, the first tried once: {DAMAGED}"
    failed = Failure(time=STATUS.time, reason="RoundFailed", message=DAMAGED)
    commits = CommitStatus(4, 1, 1, None, failed, 0)
    statuses = [
        replace(STATUS, message=parked, commits=commits),
        replace(STATUS, message=parked, phase=DriverPhase.DRAINING),
        replace(STATUS, message=f"{parked}\nnot landed: hits", phase=DriverPhase.STOPPED),
    ]

    lines = [
        events.format(event("landing failed", reason="RoundFailed", why=DAMAGED)),
        events.format(event("file parked", why=DAMAGED)),
    ]
    with progress(Console(file=out, force_terminal=False, width=500), failures=failures) as show:
        for status in statuses:
            show(StatusReport(status))
    lines += out.getvalue().splitlines()

    assert sum(line.count(DAMAGED) for line in lines) == 1
    assert lines[1].endswith("file parked  why=as above")
    assert lines[2].endswith(
        "(FileUnreadable: hits/0: 1 part of files not landed, the first tried once: as above) "
        "last failure RoundFailed: as above"
    )
    assert lines[3].endswith("4 commits (FileUnreadable)")
    assert lines[4].endswith("4 commits (FileUnreadable; not landed: hits)")
    assert len(lines) == 5


def test_another_failure_is_printed_in_full() -> None:
    failures = Printed()

    assert failures.once(DAMAGED) == DAMAGED
    assert failures.once(DAMAGED.replace("part 3", "part 4")) == DAMAGED.replace("part 3", "part 4")
    assert failures.once("no such host") == failures.once("no such host") == "no such host"
