"""How commands print: one console for results, one for the rest, and the format of numbers."""

import base64
import json
import sys
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from landfall.api import words
from landfall.logs import visible

PIPE_WIDTH = 160
"""The width in columns when the output is no terminal: rich would cut lines at 80."""


at_end: list[Callable[[], None]] = []
"""Callbacks for the end of the command, such as one that clears the waiting message."""


class SafeConsole(Console):
    """A console that shows control characters of texts instead of sending them."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text as rich shows it; rich itself lets ESC pass."""
        return super().render_str(visible(text, lines=True), **options)


class NothingToCheck(Exception):  # noqa: N818  # states a fact, like StopIteration
    """A check had nothing to check, which must never pass for a good result."""


def no_ledger(group: str, url: str) -> NothingToCheck:
    """The error for an output root without a ledger of the group."""
    return NothingToCheck(
        f"there is no ledger of the group {group} in {url}: "
        "it has never run there, or metadata.name or output.url is misspelt"
    )


def require_topics(group: str, wanted: Collection[str], known: Collection[str]) -> None:
    """Raise NothingToCheck for the first wanted topic that the group's ledger does not know."""
    for topic in wanted:
        if topic not in known:
            near = get_close_matches(topic, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise NothingToCheck(f"the ledger of the group {group} has no topic {topic}{hint}")


def out() -> Console:
    """The console for results: standard output."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return SafeConsole(highlight=False, soft_wrap=True, width=width)


def err() -> Console:
    """The console for everything about the run itself: standard error."""
    width = None if sys.stderr.isatty() else PIPE_WIDTH
    return SafeConsole(stderr=True, highlight=False, soft_wrap=True, width=width)


def stop_waiting() -> None:
    """Clear the message about what the command waits for."""
    while at_end:
        at_end.pop()()


def print_error(what: str, message: str) -> None:
    """Print why a command ends; a message may have several lines, one per fault."""
    stop_waiting()
    err().print(f"[red]landfall: {escape(what)}:[/red] {escape(message)}")


def print_json(value: object) -> None:
    """Print a result as one JSON object on a line."""
    out().print(json.dumps(value, ensure_ascii=False), markup=False)


def print_waiting(name: str, why: str) -> None:
    """Print what a command waits for."""
    err().print(f"landfall: waiting for {escape(name)}: {escape(why)}")


def table(*columns: str, title: str | None = None) -> Table:
    """A table without borders; a column whose name starts with ``>`` holds numbers."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(
            column.lstrip(">"), justify="right" if column.startswith(">") else "left", no_wrap=True
        )
    return made


count, counted = words.count, words.counted


def size(number: float) -> str:
    """Bytes as ``1.5 MB``, in powers of ten, which is also how rates are given."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def facts(values: Mapping[str, object]) -> str:
    """Names and values on one line, the values in bold."""
    return "  ".join(f"{name} [bold]{escape(str(value))}[/bold]" for name, value in values.items())


def printable(value: object) -> object:
    """Bytes as text if they are valid UTF-8, else as ``{"base64": …}``; other values unchanged."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def instant(text: str) -> datetime | None:
    """The time in a record's header, in UTC; None if it is none."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


_TIME = 40
"""How many characters of a text that is no time are shown."""


def ago(text: str | None, now: datetime) -> str:
    """How long ago the time in a record's header was: ``41s ago``; ``never`` without one."""
    from landfall.api.values import time_text  # noqa: PLC0415  # it imports pydantic

    time = instant(text) if text else None
    if time is None:
        return escape(text[:_TIME]) if text else "never"
    return f"{time_text(int((now - time).total_seconds()))} ago"
