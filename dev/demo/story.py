"""The console of a demo: numbered phases, each with its time."""

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
    """The console, and how long each phase took."""

    console: Console = field(default_factory=lambda: Console(highlight=False))
    begun: float = field(default_factory=time.monotonic)
    phases: int = 0

    @contextmanager
    def phase(self, title: str) -> Iterator[None]:
        """Announce what happens, and say afterwards how long it took."""
        self.phases += 1
        self.console.print(f"\n[bold cyan]{self.phases}  {title}")
        begun = time.monotonic()
        yield
        self.console.print(f"[dim]   {time.monotonic() - begun:.1f} s")

    def say(self, text: str) -> None:
        """One line, indented."""
        self.console.print(f"   {text}", soft_wrap=True)

    def show(self, output: str) -> None:
        """What a command printed, as it is."""
        for line in output.rstrip().splitlines():
            self.console.out(f"   {line}", highlight=False)

    def progress(self) -> Progress:
        """Bars of flights."""
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
