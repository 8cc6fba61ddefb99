"""The page of a driver with statuses that show all it can show, and a browser that renders it.

``python -m tests.support.driver.console_pages FILE.png`` makes the picture of the documentation.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from landfall.api.compaction_status import CompactionStatus, ReplacingStatus
from landfall.api.contract import (
    VERSION,
    CommitStatus,
    DriverPhase,
    ExecutorProblem,
    Failure,
    PartitionStatus,
    PublisherStatus,
    Rates,
    Status,
    TopicCompleteness,
    Workers,
)
from landfall.api.feed_status import FeedStatus
from landfall.api.spec import parse_group
from landfall.driver.core.counters import DriverCounters
from landfall.driver.http.history import Point
from landfall.driver.http.record_finder import RecordFinder
from landfall.driver.http.server import StatusBoard, serve
from landfall.driver.http.status import StatusReport
from landfall.store import Store
from tests.support.ledger.sample_ledger import GROUP, SampleLedger

NOW = datetime(2026, 11, 21, 6, tzinfo=UTC)
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
"""What a producer may write into a payload, which an error then quotes."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
RENDER_MS = 4000
"""Milliseconds of the page's own time until it is looked at: it has asked twice by then."""


def healthy(partitions: int = 3) -> Status:
    """A driver that runs and lands."""
    return Status(
        contract=VERSION,
        version="0.2.0",
        group="clicks",
        namespace="web",
        generation=4,
        epoch=7,
        lane="main",
        phase=DriverPhase.RUNNING,
        time=NOW.isoformat(),
        started=(NOW - timedelta(hours=3)).isoformat(),
        lag_records=1200 * partitions,
        lag_seconds=42.0,
        overdue_seconds=0.0,
        rounds=1,
        commits=CommitStatus(
            total=812,
            failures=0,
            consecutive_failures=0,
            last_time=(NOW - timedelta(seconds=20)).isoformat(),
            last_failure=None,
            unapplied=0,
        ),
        rates=Rates(
            landed_records=12_345_678,
            landed_bytes=9 << 30,
            input_bytes=31 << 30,
            dead_lettered=17,
            records_per_second=4000.0,
            input_bytes_per_second=1e7,
        ),
        partitions=tuple(
            PartitionStatus(
                topic="clicks",
                partition=number,
                checkpoint=1000 * number,
                end_offset=1000 * number + 1200,
                lag_records=1200,
                lag_seconds=42.0 - number % 40,
                overdue_seconds=0.0,
                in_round=number % 2 == 0,
                blocked=None,
                message="",
            )
            for number in range(partitions)
        ),
        workers=Workers(wanted=3, registered=3, slots=6),
        publishers=(publisher("lake"),),
    )


def publisher(name: str, blocked: str = "", message: str = "") -> PublisherStatus:
    """A publisher with a lag of two slots."""
    return PublisherStatus(
        name=name,
        type="Iceberg",
        slot=810,
        lag_slots=2,
        lag_seconds=31.0,
        published_objects=4000,
        failures=0,
        consecutive_failures=0,
        last_time=(NOW - timedelta(seconds=31)).isoformat(),
        blocked=blocked or None,
        message=message,
    )


def troubled() -> Status:
    """A driver with something wrong in each part of it."""
    status = healthy()
    late = replace(status.partitions[0], overdue_seconds=90.0)
    stopped = replace(
        status.partitions[1],
        blocked="BadRecords",
        message=f"offset 1000: {HOSTILE}",
        next_step="landfall unblock GROUP.yaml clicks/1 --why '…'",
    )
    return replace(
        status,
        partitions=(late, stopped, status.partitions[2]),
        commits=replace(
            status.commits,
            consecutive_failures=3,
            last_failure=Failure(NOW.isoformat(), "StoreUnavailable", "connection refused"),
        ),
        workers=Workers(2, 1, 2, ExecutorProblem("OutOfMemory", "killed at 1 GiB")),
        publishers=(publisher("lake", "SchemaIncompatible", "column id is an int there"),),
        feeds=(
            FeedStatus(
                topic="bills",
                pending_files=2,
                pending_bytes=2048,
                landed_parts=40,
                parked_parts=1,
                undecided_parts=1,
                ignored_parts=0,
                waiting_files=0,
                looked=NOW.isoformat(),
                error="b.json.gz: damaged",
                next_step="landfall files retry GROUP.yaml bills --why '…'",
            ),
        ),
        completeness=(TopicCompleteness("clicks", None, "clicks/1", "it is stopped"),),
        compaction=CompactionStatus(
            merged_objects=12, new_objects=1, problem="dt=2026-11-20: full"
        ),
        replacing=ReplacingStatus(
            problem="AccessDenied", next_step="landfall undo GROUP.yaml 9 --why '…'"
        ),
    )


def post(board: StatusBoard, status: Status) -> None:
    """Show a status."""
    board.post(StatusReport(status), DriverCounters(started=NOW))


def add_hours(board: StatusBoard, status: Status, hours: float = 2) -> None:
    """Let the history have points of these hours, with a lag that grew and went."""
    count = int(hours * 240)
    for number in range(count):
        share = number / count
        landed = int(1_000_000 * share)
        point = Point.of(status, NOW - timedelta(hours=hours * (1 - share)))
        peak = max(0.0, 1 - abs(share - 0.4) * 5)
        board.history.add(
            replace(
                point,
                lag_seconds=60 + 600 * peak,
                lag_records=int(1200 + 90_000 * peak),
                overdue_seconds=300 * peak,
                landed_records=landed,
                input_bytes=250 * landed,
                dead_lettered=landed // 500,
            )
        )


def finder_of(
    sample: SampleLedger, store: Store | None = None, clock: Callable[[], float] = time.monotonic
) -> RecordFinder:
    """Return the finder of a ledger's records; ``store`` replaces the ledger's own."""
    group = parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": GROUP, "namespace": "tests"},
            "spec": {
                "source": {"kafka": {"bootstrapServers": "localhost:1", "topics": ["clicks"]}},
                "output": {"url": "s3://logs/root", "format": "Json", "codec": "None"},
            },
        }
    )
    found = RecordFinder(group, store or sample.store, clock)
    found.observe(sample.state)
    return found


def browser() -> str | None:
    """The program that renders pages; None if this machine has none."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def rendered(program: str, url: str, profile: Path, *more: str) -> tuple[str, str]:
    """The document of a page after its scripts ran, and what they and the browser reported."""
    flags = (
        "--headless",
        "--no-sandbox",  # root, as in CI, has none
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        f"--user-data-dir={profile}",
        f"--virtual-time-budget={RENDER_MS}",
    )
    done = subprocess.run(
        [program, *flags, *more, "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


def picture(program: str, file: Path) -> None:
    """Write the page of a troubled driver to a file, as a PNG."""
    board = StatusBoard(lambda: NOW)
    post(board, troubled())
    add_hours(board, troubled())
    server = serve(board, "127.0.0.1", 0)
    with tempfile.TemporaryDirectory() as profile:
        rendered(
            program,
            f"http://127.0.0.1:{server.server_port}/",
            Path(profile),
            "--hide-scrollbars",
            "--window-size=1200,2260",
            f"--screenshot={file.absolute()}",
        )
    server.shutdown()


if __name__ == "__main__":
    picture(browser() or sys.exit("no browser is installed"), Path(sys.argv[1]))
