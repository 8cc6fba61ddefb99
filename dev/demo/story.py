"""The console output of a demo: numbered phases, each with its duration."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)


@dataclass
class Story:
    """Prints the phases of a demo."""

    console: Console = field(default_factory=lambda: Console(highlight=False))
    started: float = field(default_factory=time.monotonic)
    phases: int = 0

    @contextmanager
    def phase(self, title: str) -> Iterator[None]:
        """Print a heading, and how long the block took when it ends."""
        self.phases += 1
        self.console.print(f"\n[bold cyan]{self.phases}  {title}")
        started = time.monotonic()
        yield
        self.console.print(f"[dim]   {time.monotonic() - started:.1f} s")

    def say(self, text: str) -> None:
        """Print one line, indented."""
        self.console.print(f"   {text}", soft_wrap=True)

    def show(self, output: str) -> None:
        """Print the output of a command unchanged, indented."""
        for line in output.rstrip().splitlines():
            self.console.out(f"   {line}", highlight=False)

    def conclude(self, *, is_exact: bool) -> None:
        """Print whether everything landed exactly once, and how long it took."""
        outcome = "[bold green]exactly once" if is_exact else "[bold red]NOT exactly once"
        self.console.print(f"\n{outcome}[/] · {time.monotonic() - self.started:.0f} s in total")

    def progress(self) -> Progress:
        """Progress bars that count flights."""
        columns = (
            TextColumn("  "),
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
        )
        return Progress(
            *columns, TimeElapsedColumn(), TextColumn("{task.fields[note]}"), console=self.console
        )
