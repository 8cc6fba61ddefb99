"""What grows during a long run: memory, ledger, snapshots, open uploads, requests.

A measurement is taken every ``INTERVAL`` seconds. What the groups store may grow along a straight
line, and memory must stay flat; a curve that bends upwards is a leak or work that grows with what
was done before. ``bend`` says by how much the second half of a run grew faster than the first.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from statistics import linear_regression

import msgspec
import psutil

from dev.docs.drawing import BLUE, GREY, HEAD, NOTE, PLAIN, SMALL, Box, Drawing
from tests.chaos import targets
from tests.chaos.environment import Environment
from tests.chaos.schedule import GROUPS
from tests.support.stores.s3 import Bucket

INTERVAL = 30.0
"""Seconds between two measurements."""
MIN_SAMPLES = 8
"""Measurements that a half of a run needs before a slope of it says anything."""
MIB = 2**20


class Sample(msgspec.Struct, frozen=True):
    """One measurement.

    Attributes:
        seconds: since the beginning of the run.
        values: by what was measured; what could not be measured is left out.
    """

    seconds: float
    values: Mapping[str, float]


def measure(environment: Environment, seconds: float) -> Sample:
    """Measure everything now."""
    values: dict[str, float] = {}
    for name in GROUPS:
        group = environment.groups[name]
        sizes = _object_sizes(group.scene.bucket)
        values |= {
            f"{name}: driver's memory, MiB": _memory(group.running("driver")),
            f"{name}: executors' memory, MiB": _memory(group.running("executor")),
            f"{name}: ledger, KiB": _total(sizes, lambda key: "-snapshots/" not in key) / 1024,
            f"{name}: snapshots, KiB": _total(sizes, lambda key: "-snapshots/" in key) / 1024,
            f"{name}: objects of the ledger": float(len(sizes)),
            f"{name}: open uploads": float(len(group.scene.bucket.open_uploads())),
        }
    values["store requests, thousands"] = sum(environment.proxy.counts().requests.values()) / 1000
    # No process: the pod was just killed, which says nothing about its memory.
    return Sample(seconds, {name: value for name, value in values.items() if value >= 0})


def _object_sizes(bucket: Bucket) -> Mapping[str, int]:
    """Sizes of everything under ``_landfall/`` but dead letters, by key."""
    sizes = bucket.sizes("_landfall/")
    return {key: size for key, size in sizes.items() if "/dead-letters/" not in key}


def _total(sizes: Mapping[str, int], counts: Callable[[str], bool]) -> int:
    return sum(size for key, size in sizes.items() if counts(key))


def _memory(uids: set[str]) -> float:
    """Resident memory of the pods' processes in MiB; -1 if there is none."""
    total = 0
    for uid in uids:
        for process in targets.of_pod(uid):
            with suppress(psutil.Error):
                total += process.memory_info().rss
    return total / MIB if total else -1.0


def series(samples: Sequence[Sample]) -> Mapping[str, Sequence[tuple[float, float]]]:
    """The points in time and value of everything that was measured."""
    names = dict.fromkeys(name for sample in samples for name in sample.values)
    return {
        name: [(s.seconds, s.values[name]) for s in samples if name in s.values] for name in names
    }


def per_hour(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line through the points, in units an hour."""
    times, values = zip(*points, strict=True)
    return linear_regression(times, values).slope * 3600


def bend(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Growth an hour in the first and in the second half; None if there are too few points."""
    half = len(points) // 2
    if half < MIN_SAMPLES:
        return None
    return per_hour(points[:half]), per_hour(points[half:])


def rows(samples: Sequence[Sample]) -> list[tuple[str, str]]:
    """A row for each thing measured: first and last value, and the growth of both halves."""
    described = []
    for name, points in series(samples).items():
        halves = bend(points)
        growth = f"; an hour: {halves[0]:+,.1f}, then {halves[1]:+,.1f}" if halves else ""
        described.append((name, f"{points[0][1]:,.1f} to {points[-1][1]:,.1f}{growth}"))
    return described


def picture(samples: Sequence[Sample]) -> str:
    """A small chart for each thing measured, as SVG; each begins at 0."""
    charts = series(samples)
    columns, width, height = 3, 280, 120
    lines = -(-len(charts) // columns)
    drawing = Drawing(
        columns * width + 20, lines * height + 20, "Memory, ledger and requests of a chaos run"
    )
    end = max((sample.seconds for sample in samples), default=0.0) or 1.0
    for number, (name, points) in enumerate(charts.items()):
        left, top = 20 + number % columns * width, 20 + number // columns * height
        _chart(drawing, Box(left, top + 22, width - 70, height - 52), (name, points), end)
    return drawing.svg()


def _chart(
    drawing: Drawing, box: Box, named: tuple[str, Sequence[tuple[float, float]]], end: float
) -> None:
    name, points = named
    highest = max(value for _, value in points) or 1.0
    drawing.words(box.x, box.y - 8, name, HEAD)
    drawing.path(f"M{box.x:g} {box.bottom:g}H{box.right:g}", GREY, arrow=False)
    places = [
        f"{box.x + seconds / end * box.width:.1f} {box.bottom - value / highest * box.height:.1f}"
        for seconds, value in points
    ]
    drawing.path("M" + "L".join(places), BLUE, arrow=False)
    drawing.path(f"M{box.right:g} {box.y:g}V{box.bottom:g}", PLAIN, dashed=True, arrow=False)
    drawing.words(box.right + 4, box.y + 8, f"{highest:,.0f}", NOTE)
    drawing.words(box.right, box.bottom + 14, f"{end / 60:.0f} min", SMALL)
