"""The progress of a running driver: a live table on a terminal, occasional lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from landfall.api.contract import DriverPhase, PartitionStatus, Status
from landfall.cli.text.console import count, counted, size, table
from landfall.cli.text.log_lines import Printed
from landfall.cli.text.meter import Meter, left_text, seconds_left
from landfall.driver.http.status import StatusReport

LINE_SECONDS = 5.0
"""The least time between two lines about commits; a new phase or a failure prints at once."""
TABLE_SECONDS = 2.0
"""The least time between two tables if nothing but the lag has changed."""
MAX_TOPICS = 20
"""How many topics the live table lists, those with the most lag."""

_ENDED = {DriverPhase.STOPPED, DriverPhase.FENCED, DriverPhase.STALLED}

ShowStatus = Callable[[StatusReport], None]


@contextmanager
def progress(
    console: Console,
    *,
    has_end: bool = False,
    as_json: bool = False,
    failures: Printed | None = None,
) -> Iterator[ShowStatus]:
    """Provide a function that shows each new status; the last one stays on the screen.

    For a bounded run, the share that is done is shown, too. As JSON, statuses go to standard
    output, in the shape of ``/status``. Lines and log events that share ``failures`` print each
    failure once.
    """
    if as_json:
        yield _Lines(console, Speed(has_end=has_end), lambda status, _: _print_json(status))
        return
    if not console.is_terminal:
        yield _Lines(console, Speed(has_end=has_end), failures=failures or Printed())
        return
    # A drawing thread would keep `landfall run` from forking its workers.
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield _Table(live, Speed(has_end=has_end))


@dataclass
class Speed:
    """The present speed of a driver, from its statuses."""

    has_end: bool = False
    records: Meter = field(default_factory=Meter)
    input_bytes: Meter = field(default_factory=Meter)
    left: Meter = field(default_factory=Meter)
    most: int = 0
    """The most records that were left to land."""

    def add(self, status: Status) -> None:
        """Record the numbers of a status."""
        now, rates = datetime.fromisoformat(status.time).timestamp(), status.rates
        self.records.add(now, rates.landed_records + rates.dead_lettered)
        self.input_bytes.add(now, rates.input_bytes)
        if status.lag_known:
            self.left.add(now, status.lag_records)
            self.most = max(self.most, status.lag_records)

    def of(self, status: Status) -> tuple[str, str]:
        """Return the remark on the records left, and the present speed; empty if unknown."""
        if status.phase is not DriverPhase.RUNNING:
            return "", ""
        left, drop = status.lag_records if status.lag_known else 0, self.left.rate
        seconds = seconds_left(left, -drop if drop else None)
        total = self.most if self.has_end and status.lag_known else None
        records, size_ = self.records.rate, self.input_bytes.rate
        speed = f"{count(records)} records/s, {size(size_ or 0)}/s in," if records else ""
        return left_text(self.most - left, total, seconds) if left else "", speed


@dataclass
class _Table:
    """Shows a status as a table if there is news, but a change of lag only every TABLE_SECONDS."""

    live: Live
    speed: Speed
    shown: Status | None = None
    shown_at: float = 0.0
    first_checkpoints: dict[tuple[str, int], int] = field(default_factory=dict)
    """The checkpoint of each topic partition when it was first reported."""

    def __call__(self, report: StatusReport) -> None:
        self.speed.add(report.status)
        before, now = self.shown, time.monotonic()
        is_news = before is None or (before.phase, before.rounds, before.commits) != (
            report.summary.phase,
            report.summary.rounds,
            report.summary.commits,
        )
        if not is_news and now - self.shown_at < TABLE_SECONDS:
            return
        self.shown = report.summary
        self.shown_at = now
        for p in report.status.partitions:
            self.first_checkpoints.setdefault((p.topic, p.partition), p.checkpoint)
        shown = status_table(report.status, self.first_checkpoints, self.speed)
        self.live.update(shown, refresh=True)


@dataclass
class _Lines:
    """Prints a line for a status when there is news, but commits at most every LINE_SECONDS."""

    console: Console
    speed: Speed
    show: Callable[[Status, Speed], None] | None = None
    printed: Status | None = None
    printed_at: float = 0.0
    failures: Printed = field(default_factory=Printed)

    def __call__(self, report: StatusReport) -> None:
        self.speed.add(report.status)
        before = self.printed
        now = time.monotonic()
        summary = report.summary
        is_news = before is None or (before.phase, _trouble(before)) != (
            summary.phase,
            _trouble(summary),
        )
        has_committed = before is not None and before.commits.total != summary.commits.total
        if is_news or (has_committed and now - self.printed_at >= LINE_SECONDS):
            self.printed = summary
            self.printed_at = now
            if self.show:
                self.show(report.status, self.speed)
            else:
                line = status_line(report.status, self.speed, self.failures)
                self.console.print(line, markup=False)


def _print_json(status: Status) -> None:
    sys.stdout.write(f"{msgspec.json.encode(status).decode()}\n")
    sys.stdout.flush()


def _trouble(status: Status, failures: Printed | None = None) -> str:
    """Return the present failure; empty if there is none, or it was printed before."""
    failed = status.commits.last_failure
    if not failed or not status.commits.consecutive_failures:
        return ""
    message = failures.once(failed.message) if failures else failed.message
    return f"last failure {failed.reason}: {message}"


def status_line(status: Status, speed: Speed | None = None, failures: Printed | None = None) -> str:
    """The status as one line, as a log shows it; of printed failures, only the reason."""
    end, present = speed.of(status) if speed else ("", "")
    # A driver that recovers has not asked the source yet.
    unknown = "" if status.phase is DriverPhase.RECOVERING else "waiting for the source,"
    ahead = f"{count(status.lag_records)} to go{f' ({end})' if end else ''},"
    lag = ahead if status.lag_known else unknown
    dead = status.rates.dead_lettered
    parts = (
        f"{status.time[11:19]} {status.group} {status.phase}:",
        f"{counted(status.rates.landed_records, 'record')} landed,",
        f"{counted(dead, 'dead letter')}," if dead else "",
        lag,
        present,
        counted(status.commits.total, "commit"),
        "no topic matches yet" if status.lag_known and not status.partitions else "",
        f"({failures.message(status.message) if failures else status.message})"
        if status.message
        else "",
        _trouble(status, failures),
    )
    return " ".join(part for part in parts if part)


def status_table(
    status: Status, first_checkpoints: dict[tuple[str, int], int], speed: Speed | None = None
) -> Group:
    """The status as a line about the driver, a line per topic, and the blocked topic partitions."""
    shown = table("topic", ">partitions", ">lag records", ">lag time", ">offsets done", "")
    by_topic: dict[str, list[PartitionStatus]] = {}
    for p in status.partitions:
        by_topic.setdefault(p.topic, []).append(p)
    most_lag_first = sorted(
        by_topic.items(), key=lambda item: (-sum(p.lag_records for p in item[1]), item[0])
    )
    for topic, partitions in most_lag_first[:MAX_TOPICS]:
        shown.add_row(escape(topic), *_cells(partitions, first_checkpoints))
    if len(by_topic) > MAX_TOPICS:
        shown.add_row(f"and {len(by_topic) - MAX_TOPICS} more")
    blocked = [Text(_blocked(p), style="red") for p in status.partitions if p.blocked]
    style = "red" if status.phase in _ENDED - {DriverPhase.STOPPED} else "bold"
    return Group(Text(status_line(status, speed), style=style), shown, *blocked[:MAX_TOPICS])


def _blocked(p: PartitionStatus) -> str:
    step = f"; next: {p.next_step}" if p.next_step else ""
    return f"{p.topic}/{p.partition} {p.blocked}: {p.message}{step}"


def _cells(
    partitions: list[PartitionStatus], first_checkpoints: dict[tuple[str, int], int]
) -> tuple[str, str, str, str, str]:
    offsets_done = sum(p.checkpoint - first_checkpoints[p.topic, p.partition] for p in partitions)
    lag_seconds = max(p.lag_seconds for p in partitions)
    landing = sum(p.in_round for p in partitions)
    return (
        str(len(partitions)),
        count(sum(p.lag_records for p in partitions)),
        f"{lag_seconds:.0f} s" if lag_seconds else "",
        count(offsets_done),
        f"landing {landing}" if landing else "",
    )
