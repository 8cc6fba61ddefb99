"""Present rates and remaining times, for all long commands.

``landfall run`` and ``backfill run`` measure what the statuses of their driver report. Commands
that check or publish call ``advancing``, which shows their progress on standard error, once they
take longer than a few seconds. Results on standard output are the same with and without it.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

from landfall.api.values import time_text
from landfall.cli.text import console as consoles

Item = TypeVar("Item")

WINDOW_SECONDS = 30.0
"""A rate covers the last so many seconds, or since the change before the last, if earlier."""
FIRST_SECONDS = 5.0
"""A command that is done within this time prints nothing about its progress."""
LINE_SECONDS = 15.0
"""The least time between two lines; on a terminal one line is kept up to date instead."""
LIVE_SECONDS = 0.5
MIN_SECONDS = 1.0
"""A rate over a shorter time would be meaningless."""


@dataclass
class Meter:
    """The present rate of a value that grows or shrinks, from what it was at several times."""

    changes: deque[tuple[float, float]] = field(default_factory=deque)
    """Times in seconds at which the value changed, with the value."""
    now: float = 0.0

    def add(self, now: float, value: float) -> None:
        """Note the value at a time."""
        self.now = now
        if not self.changes or self.changes[-1][1] != value:
            self.changes.append((now, value))
        # The newest one before the window, and never the last change alone.
        while len(self.changes) > 2 and self.changes[1][0] <= now - WINDOW_SECONDS:
            self.changes.popleft()

    @property
    def rate(self) -> float | None:
        """The growth per second; None while unknown."""
        if not self.changes:
            return None
        (first, before), (last, value) = self.changes[0], self.changes[-1]
        lasts, rests = self.now - first, self.now - last
        if lasts < MIN_SECONDS:
            return None
        if rests > max(WINDOW_SECONDS, 2 * (last - first)):
            return 0.0  # it has stopped
        return (value - before) / lasts


def seconds_left(left: float, rate: float | None) -> float | None:
    """The time for the rest; None if it is unknown or infinite."""
    return left / rate if left > 0 and rate is not None and rate > 0 else None


def percent_done(done: float, total: float) -> str:
    """A share of a total as ``42 %``: never ``100 %`` before the end."""
    return f"{min(99 if done < total else 100, int(100 * done / total))} %"


def left_text(done: float, total: float | None, seconds: float | None) -> str:
    """A share and the time left, as ``42 %, ETA 3m``; empty if neither is known."""
    parts = [percent_done(done, total)] if total else []
    parts += [f"ETA {time_text(round(seconds) or 1)}"] if seconds is not None else []
    return ", ".join(parts)


@dataclass
class Progress:
    """The progress of a command: a count, a total, and a unit."""

    command: str
    units: str
    total: int | None
    show: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    every: float = LINE_SECONDS
    meter: Meter = field(default_factory=Meter)
    shown: float = 0.0

    def __post_init__(self) -> None:
        """The command has just begun."""
        now = self.clock()
        self.meter.add(now, 0)
        self.shown = now + FIRST_SECONDS - self.every

    def __call__(self, done: int) -> None:
        """Show how much is done, if it was last shown some time ago."""
        now = self.clock()
        self.meter.add(now, done)
        if now - self.shown >= self.every:
            self.shown = now
            self.show(self.text(done))

    def begin(self, units: str, total: int | None = None) -> None:
        """Begin to count something else."""
        self.units, self.total, self.meter = units, total, Meter()
        self.meter.add(self.clock(), 0)

    def over(self, items: Iterable[Item], position: Callable[[Item], int]) -> Iterator[Item]:
        """Yield the items, and show the position of each."""
        for item in items:
            self(position(item))
            yield item

    def text(self, done: int) -> str:
        """Return text like ``verify: 12,000 of 40,000 slots (30 %, ETA 1m8s), 410 slots/s``."""
        rate, total = self.meter.rate, self.total and max(self.total, done)
        of = f" of {consoles.count(total)}" if total else ""
        left = left_text(done, total, seconds_left(total - done, rate) if total else None)
        each = f", {consoles.count(rate)} {self.units}/s" if rate else ""
        suffix = f" ({left})" if left else ""
        return f"{self.command}: {consoles.count(done)}{of} {self.units}{suffix}{each}"


def silent(command: str, units: str) -> Progress:
    """A progress that is not shown."""
    return Progress(command, units, None, lambda _: None)


@contextmanager
def advancing(
    command: str, units: str, total: int | None = None, console: Console | None = None
) -> Iterator[Progress]:
    """Provide a function that shows how much is done, in the units; see ``Progress``."""
    console = console or consoles.err()
    if not console.is_terminal:
        yield Progress(command, units, total, lambda text: console.print(text, markup=False))
        return
    # Without a thread of its own, and results are printed as without it.
    with Live(
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    ) as live:
        yield Progress(
            command,
            units,
            total,
            lambda text: live.update(Text(text), refresh=True),
            every=LIVE_SECONDS,
        )
