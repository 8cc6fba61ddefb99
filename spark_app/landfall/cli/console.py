"""How things are shown to people: one console for results, one for everything else, and the spelling of numbers."""

import sys
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

WIDE = 160
"""Columns where nobody is watching: a file is not cut at 80."""


def out() -> Console:
    """For results."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)


def err() -> Console:
    """For everything about the run itself."""
    return Console(
        stderr=True, highlight=False, soft_wrap=True, width=None if sys.stderr.isatty() else WIDE
    )


def complain(what: str, message: str) -> None:
    """Say why a command ends; the message may have a line per fault."""
    err().print(f"[red]landfall: {escape(what)}:[/red] {escape(message)}")


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; columns whose name starts with ``>`` hold numbers."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(
            column.lstrip(">"), justify="right" if column.startswith(">") else "left", no_wrap=True
        )
    return made


def count(number: float) -> str:
    """``1,234,567``."""
    return f"{number:,.0f}"


def size(number: float) -> str:
    """Bytes as ``1.5 MB``: powers of ten, as rates are given."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def facts(values: Mapping[str, object]) -> str:
    """A line of names and values."""
    return "  ".join(f"{name} [bold]{escape(str(value))}[/bold]" for name, value in values.items())
