"""How the command prints: results to standard output, all else to standard error."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 160
"""The width in columns when the output is no terminal: rich would cut lines at 80."""
_FIRST_SECONDS, _LINE_SECONDS, _LIVE_SECONDS = 5.0, 15.0, 0.5
"""When progress is shown first, and how often then: in lines, and on a terminal in place."""
_WINDOW_SECONDS = 30.0
_TIMES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def visible(text: str) -> str:
    """Return a text whose control characters are escapes, which no terminal obeys."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


class AuditConsole(Console):
    """A console that shows control characters of texts instead of sending them."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text as rich shows it; rich itself lets ESC pass."""
        return super().render_str(visible(text), **options)


def out() -> Console:
    """The console for results."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return AuditConsole(highlight=False, soft_wrap=True, width=width)


def err() -> Console:
    """The console for everything about the run itself."""
    width = None if sys.stderr.isatty() else PIPE_WIDTH
    return AuditConsole(stderr=True, highlight=False, soft_wrap=True, width=width)


def print_error(what: str, message: str) -> None:
    """Print why the command ends; a message may have several lines, one per fault."""
    err().print(f"[red]landfall: {escape(what)}:[/red] {escape(message)}")


def table(*columns: str) -> Table:
    """A table without borders; a column whose name starts with ``>`` holds numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(
            column.lstrip(">"), justify="right" if column.startswith(">") else "left", no_wrap=True
        )
    return made


def count(number: float) -> str:
    """A number with separators: ``1,234,567``."""
    return f"{number:,.0f}"


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun: ``1 object``, ``1,200 objects``."""
    return f"{count(number)} {singular if number == 1 else plural or f'{singular}s'}"


@dataclass
class AuditProgress:
    """Shows how many of how many units are compared, once that takes longer than seconds."""

    show: Callable[[str], None]
    every: float
    clock: Callable[[], float] = time.monotonic
    unit: str = "offsets"
    seen: deque[tuple[float, int]] = field(default_factory=deque)
    shown: float = 0.0

    def __post_init__(self) -> None:
        """The audit has just begun."""
        self.seen.append((self.clock(), 0))
        self.shown = self.clock() + _FIRST_SECONDS - self.every

    def __call__(self, done: int, total: int) -> None:
        """Show how much is done, if that was last shown some time ago."""
        now = self.clock()
        self.seen.append((now, done))
        while len(self.seen) > 2 and self.seen[1][0] <= now - _WINDOW_SECONDS:
            self.seen.popleft()
        if now - self.shown >= self.every:
            self.shown = now
            self.show(self._text(now, done, max(total, done)))

    def _text(self, now: float, done: int, total: int) -> str:
        """As ``audit: 12,000 of 40,000 offsets (30 %, ETA 1m8s), 410 offsets/s``."""
        began, before = self.seen[0]
        rate = (done - before) / (now - began) if now - began >= 1 else 0.0
        share = f"{min(99 if done < total else 100, 100 * done // total)} %" if total else ""
        eta = (
            f"ETA {_time_text(round((total - done) / rate) or 1)}" if rate and done < total else ""
        )
        left = ", ".join(filter(None, (share, eta)))
        suffix = f" ({left})" if left else ""
        each = f", {count(rate)} {self.unit}/s" if rate else ""
        return f"audit: {count(done)} of {count(total)} {self.unit}{suffix}{each}"


def _time_text(seconds: int) -> str:
    """A duration in its two largest units, such as ``1h30m``."""
    parts: list[str] = []
    for size, unit in _TIMES:
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts[:2]) or "0s"


@contextmanager
def progress(unit: str = "offsets") -> Iterator[AuditProgress]:
    """Provide what shows how far the audit is: in lines, or on a terminal in place."""
    console = err()
    if not console.is_terminal:
        yield AuditProgress(partial(console.print, markup=False), _LINE_SECONDS, unit=unit)
        return
    with Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=sys.stdout.isatty()
    ) as live:

        def update(text: str) -> None:
            live.update(Text(text), refresh=True)

        yield AuditProgress(update, _LIVE_SECONDS, unit=unit)
