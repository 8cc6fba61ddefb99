"""The picture of how landing scales with task slots, drawn from the table in ``performance.md``."""

import re
from collections.abc import Mapping, Sequence

from dev.docs.drawing import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    HEAD,
    NOTE,
    SMALL,
    Box,
    Drawing,
    Style,
    Tone,
)

MARK = "scaling"
"""The table is between comments that mark its beginning and end."""
PLOT = Box(70, 56, 560, 300)
TONES = (GREEN, AMBER, BLUE)


def table(page: str) -> tuple[list[int], Mapping[str, Sequence[float]]]:
    """The numbers of slots, and for each kind of topic the speed relative to one slot.

    Raises:
        ValueError: the page has no such table.
    """
    found = re.search(f"<!-- {MARK}:begin.*?-->(.*?)<!-- {MARK}:end -->", page, re.DOTALL)
    if found is None:
        raise ValueError(f"no table between comments '{MARK}:begin' and '{MARK}:end'")
    lines = [line for line in found[1].splitlines() if line.startswith("|")]
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    names = heads[1 : 1 + len(TONES)]
    slots = [int(row[0]) for row in rows]
    return slots, {name: [float(row[index]) for row in rows] for index, name in enumerate(names, 1)}


def picture(page: str) -> str:
    """``docs/images/scaling.svg``: speed by task slots, next to the ideal."""
    slots, speeds = table(page)
    drawing = Drawing(860, 410, "Times the speed of one task slot, by the number of slots")
    drawing.words(20, 28, "Times the speed of one slot, 64 GB of 250 B, simulated", HEAD)
    most = slots[-1]

    def place(slot: float, speed: float) -> tuple[float, float]:
        return PLOT.x + slot / most * PLOT.width, PLOT.bottom - speed / most * PLOT.height

    _axes(drawing, slots)
    drawing.path(_line([place(slot, slot) for slot in (0, most)]), GREY, dashed=True, arrow=False)
    ends: list[tuple[float, str, Tone]] = [(most, "every slot busy", GREY)]
    for (name, values), tone in zip(speeds.items(), TONES, strict=True):
        points = [place(slot, speed) for slot, speed in zip(slots, values, strict=True)]
        drawing.path(_line(points), tone, arrow=False)
        for x, y in points:
            drawing.box(Box(x - 3, y - 3, 6, 6), tone, radius=3)
        ends.append((values[-1], f"{name}: {values[-1]:.1f}", tone))
    _name_lines(drawing, ends, most)
    return drawing.svg()


def _axes(drawing: Drawing, slots: Sequence[int]) -> None:
    drawing.path(f"M{PLOT.x:g} {PLOT.y:g}V{PLOT.bottom:g}H{PLOT.right:g}", GREY, arrow=False)
    for slot in slots:
        x = PLOT.x + slot / slots[-1] * PLOT.width
        y = PLOT.bottom - slot / slots[-1] * PLOT.height
        drawing.words(x, PLOT.bottom + 18, str(slot), SMALL)
        drawing.words(PLOT.x - 8, y + 4, str(slot), Style(11.5, "end", SMALL.color))
    drawing.words(PLOT.center[0], PLOT.bottom + 38, "task slots", SMALL)


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _name_lines(drawing: Drawing, ends: Sequence[tuple[float, str, Tone]], most: int) -> None:
    """Name each line at its right end, the highest first, a line's height apart at least."""
    last = 0.0
    for speed, name, tone in sorted(ends, key=lambda end: -end[0]):
        y = max(PLOT.bottom - speed / most * PLOT.height + 4, last + 16)
        drawing.words(PLOT.right + 10, y, name, Style(12, NOTE.anchor, tone.line))
        last = y
