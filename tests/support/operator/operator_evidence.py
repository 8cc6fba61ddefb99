"""What ``kubectl`` printed in the scenes of ``make operator-evidence``, for ``docs/evidence``.

A scene is written when its test has passed, and replaces what the page had of it; those of other
tests stay.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

from tests.support.pages.sections import replace

FILE = "LANDFALL_OPERATOR_EVIDENCE"
"""Environment variable: the page that gets the scenes."""
MADE = "<!-- What follows is written by `make operator-evidence`. -->"
"""The line of the page after which they begin."""
PROSE = 120
"""Columns of a line of text."""
WIDTH = 118
"""Columns of a line that a program printed."""
_BLOCK = "<!-- made by: make operator-evidence -->"

Kubectl = Callable[..., str]
"""Runs ``kubectl`` in the namespace of the scene."""


@dataclass
class Scene:
    """The text of one scene."""

    title: str
    parts: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Add a paragraph."""
        self.parts.append(fill(text, PROSE, break_long_words=False, break_on_hyphens=False))

    def show(self, command: str, printed: str) -> None:
        """Add what a command printed; lines that are too long are cut at ``…``."""
        lines = map(_cut, [f"$ {command}", *printed.rstrip().splitlines()])
        self.parts.append("\n".join([_BLOCK, "```console", *lines, "```"]))

    def get(self, kubectl: Kubectl, *arguments: str) -> str:
        """Show and return ``kubectl get consumergroups``, with further arguments."""
        printed = kubectl("get", "consumergroups", *arguments)
        self.show(" ".join(("kubectl get consumergroups", *arguments)), printed)
        return printed

    def describe(self, kubectl: Kubectl, name: str, *conditions: str) -> str:
        """Show and return the named conditions and the Events of ``kubectl describe``."""
        printed = kubectl("describe", "consumergroup", name)
        chosen = "\n".join([*_conditions(printed, conditions), *_events(printed)])
        self.show(f"kubectl describe consumergroup {name}", chosen)
        return printed


@contextmanager
def scene(title: str) -> Iterator[Scene]:
    """A scene, which is written if nothing fails in the block and somebody asks for it."""
    made = Scene(title)
    yield made
    if file := os.environ.get(FILE):
        replace(Path(file), MADE, {title: "\n\n".join(made.parts)})


def _cut(line: str) -> str:
    line = line.rstrip()
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1].rstrip()}…"


def _conditions(printed: str, wanted: Iterable[str]) -> Iterator[str]:
    """Type, status, reason and message of the conditions, as they are printed."""
    block = _block(printed, "  Conditions:")
    yield "Status:"
    yield "  Conditions:"
    shown: list[str] = []
    for line in block:
        shown.append(line)
        if line.strip().startswith("Type:"):  # fields are sorted, so it is the last one
            if line.split()[-1] in wanted:
                fields = ("Message:", "Reason:", "Status:", "Type:")
                yield from (of for of in shown if of.strip().startswith(fields))
            shown = []


def _events(printed: str) -> Iterator[str]:
    """The Events without the column of who wrote them."""
    lines = _block(printed, "Events:")
    if not lines:
        yield "Events:  <none>"
        return
    yield "Events:"
    first, width = lines[0].find("From"), lines[0].find("Message") - lines[0].find("From")
    for line in lines:
        if not line.lstrip().startswith("----"):
            yield line if first < 0 else line[:first] + line[first + width :]


def _block(printed: str, head: str) -> list[str]:
    """The lines below a heading that are indented further than it."""
    lines = printed.splitlines()
    starts = [index for index, line in enumerate(lines) if line.rstrip() == head]
    if not starts:
        return []
    depth = len(head) - len(head.lstrip())
    found: list[str] = []
    for line in lines[starts[0] + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        found.append(line)
    return found
