"""A driver's progress while it runs: a live table on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from landfall.api.contract import PartitionStatus, Phase, Status
from landfall.cli.console import count, size, table

LINE_SECONDS = 5.0
"""Between two lines where nobody watches; a new phase, a commit's failure and the end are told at
once.
"""
MOST_TOPICS = 20
"""In the live table, those with the most lag first."""

_ENDED = {Phase.STOPPED, Phase.FENCED, Phase.STALLED}

Show = Callable[[Status], None]


@contextmanager
def progress(console: Console) -> Iterator[Show]:
    """Show each status as it comes; the last one stays on the screen."""
    start = _Start()
    if not console.is_terminal:
        yield _Lines(console, start)
        return
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        yield lambda status: live.update(picture(status, start.of(status)))


@dataclass
class _Start:
    """Where each topic partition stood when it was first seen."""

    checkpoints: dict[tuple[str, int], int] = field(default_factory=dict)

    def of(self, status: Status) -> dict[tuple[str, int], int]:
        for p in status.partitions:
            self.checkpoints.setdefault((p.topic, p.partition), p.checkpoint)
        return self.checkpoints


@dataclass
class _Lines:
    console: Console
    start: _Start
    told: Status | None = None
    told_at: float = 0.0

    def __call__(self, status: Status) -> None:
        before, self_time = self.told, time.monotonic()
        news = before is None or (before.phase, before.commits.failures) != (
            status.phase,
            status.commits.failures,
        )
        moved = before is not None and before.commits.total != status.commits.total
        if news or (moved and self_time - self.told_at >= LINE_SECONDS):
            self.told, self.told_at = status, self_time
            self.console.print(line(status), markup=False)


def line(status: Status) -> str:
    """One line for a log."""
    failed = status.commits.last_failure
    parts = (
        f"{status.time[11:19]} {status.group} {status.phase}:",
        f"{count(status.rates.landed_records)} records landed,",
        f"{count(status.lag_records)} to go,",
        f"{size(status.rates.input_bytes_per_second)}/s in,",
        f"{count(status.commits.total)} commits",
        "no topic matches yet" if not status.partitions else "",
        f"({status.message})" if status.message else "",
        f"last failure {failed.reason}: {failed.message}"
        if failed and status.commits.consecutive_failures
        else "",
    )
    return " ".join(part for part in parts if part)


def picture(status: Status, start: dict[tuple[str, int], int]) -> Group:
    """The whole of it: a line about the driver, a line per topic, and what is wrong."""
    shown = table("topic", ">partitions", ">to go", ">oldest", ">passed", "")
    by_topic: dict[str, list[PartitionStatus]] = {}
    for p in status.partitions:
        by_topic.setdefault(p.topic, []).append(p)
    most_lag_first = sorted(
        by_topic.items(), key=lambda item: (-sum(p.lag_records for p in item[1]), item[0])
    )
    for topic, partitions in most_lag_first[:MOST_TOPICS]:
        shown.add_row(escape(topic), *_cells(partitions, start))
    if len(by_topic) > MOST_TOPICS:
        shown.add_row(f"and {len(by_topic) - MOST_TOPICS} more")
    troubles = [
        Text(f"{p.topic}/{p.partition} {p.blocked}: {p.message}", style="red")
        for p in status.partitions
        if p.blocked
    ]
    style = "red" if status.phase in _ENDED - {Phase.STOPPED} else "bold"
    return Group(Text(line(status), style=style), shown, *troubles[:MOST_TOPICS])


def _cells(
    partitions: list[PartitionStatus], start: dict[tuple[str, int], int]
) -> tuple[str, str, str, str, str]:
    passed = sum(p.checkpoint - start[p.topic, p.partition] for p in partitions)
    oldest = max(p.lag_seconds for p in partitions)
    busy = sum(p.in_round for p in partitions)
    return (
        str(len(partitions)),
        count(sum(p.lag_records for p in partitions)),
        f"{oldest:.0f} s" if oldest else "",
        count(passed),
        f"landing {busy}" if busy else "",
    )
