"""The load's book: what its producers know of each number, and what that says of what landed.

A file to which lines of JSON are appended, ``{"topic": …, "fate": …, "ranges": [[0, 10000]]}``,
ranges half-open:

| fate         | written                                            | it must have landed |
|--------------|----------------------------------------------------|---------------------|
| Begun        | before any of these numbers is sent                | at most once        |
| Acknowledged | when the broker has it, or its transaction         | exactly once        |
| Aborted      | when its transaction was aborted, or can only be   | never               |

So a number that was begun and has no other fate is in doubt: its delivery failed, or its producer
did not live to see it. A book whose writer was killed is still a book. The check takes a byte per
number and one object's numbers at a time.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from tests.chaos.records import Identity

Ranges = list[tuple[int, int]]
Mask = npt.NDArray[np.bool_]
MAX_RANGES_SHOWN = 20
"""Of each kind, in a verdict told to a person."""
_BLOCK = 10_000
_MOST = 100_000_000
"""Numbers of a topic: what says more is a damaged row, and not worth the memory."""


class Fate(StrEnum):
    """See the module."""

    BEGUN = "Begun"
    ACKNOWLEDGED = "Acknowledged"
    ABORTED = "Aborted"


class _Line(msgspec.Struct):
    topic: str
    fate: Fate
    ranges: Ranges


class ProducerLedger:
    """Written by many threads; ``flush`` puts down what came since."""

    def __init__(self, path: Path) -> None:
        """A new one."""
        self._file = path.open("xb")
        self._lock = threading.Lock()
        self._next: dict[str, int] = defaultdict(int)
        self._begun: dict[str, int] = defaultdict(int)
        self._describe: dict[tuple[str, Fate], list[int]] = defaultdict(list)

    def number(self, topic: str) -> int:
        """The topic's next number, which is in the book now."""
        with self._lock:
            number = self._next[topic]
            self._next[topic] += 1
            if number >= self._begun[topic]:
                self._begun[topic] += _BLOCK
                self._write(_Line(topic, Fate.BEGUN, [(number, number + _BLOCK)]))
                self._file.flush()
            return number

    def tell(self, topic: str, fate: Fate, numbers: Iterable[int]) -> None:
        """Note what became of these."""
        with self._lock:
            self._describe[topic, fate].extend(numbers)

    def flush(self) -> None:
        """Put down all that was told."""
        with self._lock:
            for (topic, fate), numbers in self._describe.items():
                if numbers:
                    self._write(_Line(topic, fate, ranges_of(np.array(numbers, np.int64))))
                    numbers.clear()
            self._file.flush()

    def close(self) -> None:
        """Put down the rest."""
        self.flush()
        self._file.close()

    def _write(self, line: _Line) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")


def ranges_of(numbers: npt.NDArray[np.int64]) -> Ranges:
    """The same numbers as half-open ranges, in order."""
    if not len(numbers):
        return []
    ordered = np.unique(numbers)
    ends = np.flatnonzero(np.diff(ordered) > 1)
    firsts, lasts = ordered[np.r_[0, ends + 1]], ordered[np.r_[ends, len(ordered) - 1]]
    return [(int(first), int(last) + 1) for first, last in zip(firsts, lasts, strict=True)]


class TopicComparison(msgspec.Struct, kw_only=True):
    """One topic, the book held against what landed.

    Attributes:
        acknowledged, aborted: numbers, by the book.
        landed: rows with a number of this topic.
        in_doubt: numbers that landed, though the book does not say that they must.
        missing: acknowledged, and not landed.
        repeated: landed more than once.
        aborted_landed: what the name says.
        unknown: landed, and never begun.
        misfiled: rows that landed under another topic.
    """

    acknowledged: int
    aborted: int
    landed: int
    in_doubt: int
    missing: Ranges
    repeated: Ranges
    aborted_landed: Ranges
    unknown: Ranges
    misfiled: int = 0

    @property
    def is_exact(self) -> bool:
        """Nothing is wrong."""
        return not (
            self.missing or self.repeated or self.aborted_landed or self.unknown or self.misfiled
        )

    def __str__(self) -> str:
        """For a person."""
        counts = f"{self.acknowledged} acknowledged, {self.landed} landed, {self.in_doubt} of them in doubt"
        wrong = {
            name: getattr(self, name)
            for name in ("missing", "repeated", "aborted_landed", "unknown", "misfiled")
        }
        return "; ".join(
            [counts, *(f"{name}: {_describe(found)}" for name, found in wrong.items() if found)]
        )


class Comparison(msgspec.Struct):
    """All topics; ``nameless`` rows tell no number at all."""

    topics: dict[str, TopicComparison]
    nameless: int = 0

    @property
    def is_exact(self) -> bool:
        """Every acknowledged number landed once, no aborted one did, and no other twice."""
        return (
            bool(self.topics)
            and not self.nameless
            and all(account.is_exact for account in self.topics.values())
        )

    def __str__(self) -> str:
        """For a person."""
        lines = [f"{topic}: {account}" for topic, account in sorted(self.topics.items())]
        return "\n".join(
            [*lines, *([f"{self.nameless} rows without a number"] if self.nameless else [])]
        )


@dataclass(frozen=True)
class Landed:
    """The rows of an object: the topic it is of, and which records they are; None is none of the
    load's.
    """

    topic: str
    rows: Sequence[Identity | None]


@dataclass
class _Seen:
    """How often each number of a topic landed: 255 is many."""

    times: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    misfiled: int = 0

    def add(self, numbers: npt.NDArray[np.int64]) -> None:
        if len(numbers) and (top := int(numbers.max()) + 1) > len(self.times):
            self.times = np.pad(self.times, (0, max(top, 2 * len(self.times)) - len(self.times)))
        found, times = np.unique(numbers, return_counts=True)
        self.times[found] = np.minimum(self.times[found] + times, 255)


def compare(book: Path, landed: Iterable[Landed]) -> Comparison:
    """Hold the book against what landed."""
    fates = _read(book)
    seen: dict[str, _Seen] = defaultdict(_Seen)
    nameless = 0
    for found in landed:
        by_topic: dict[str, list[int]] = defaultdict(list)
        for row in found.rows:
            if row is None or not 0 <= row.number < _MOST:
                nameless += 1
            else:
                by_topic[row.topic].append(row.number)
        for topic, numbers in by_topic.items():
            seen[topic].add(np.array(numbers, np.int64))
            seen[topic].misfiled += len(numbers) if topic != found.topic else 0
    topics = fates.keys() | seen.keys()
    return Comparison(
        {topic: _account(fates.get(topic, {}), seen[topic]) for topic in topics}, nameless
    )


def _read(book: Path) -> dict[str, dict[Fate, Ranges]]:
    fates: dict[str, dict[Fate, Ranges]] = defaultdict(lambda: defaultdict(list))
    for line in _lines(book):
        fates[line.topic][line.fate].extend(line.ranges)
    return fates


def _lines(book: Path) -> Iterator[_Line]:
    with book.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):  # what a killed writer left half-written was told to nobody
                yield msgspec.json.decode(line, type=_Line)


def _account(fates: Mapping[Fate, Ranges], seen: _Seen) -> TopicComparison:
    size = max([len(seen.times), *(end for ranges in fates.values() for _, end in ranges)])
    times = np.pad(seen.times, (0, size - len(seen.times)))
    begun, acknowledged, aborted = (_mask(fates.get(fate, []), size) for fate in Fate)
    return TopicComparison(
        acknowledged=int(acknowledged.sum()),
        aborted=int(aborted.sum()),
        landed=int(times.sum()),
        in_doubt=int((begun & ~acknowledged & ~aborted & (times > 0)).sum()),
        missing=_where(acknowledged & (times == 0)),
        repeated=_where(times > 1),
        aborted_landed=_where(aborted & (times > 0)),
        unknown=_where(~begun & (times > 0)),
        misfiled=seen.misfiled,
    )


def _mask(ranges: Ranges, size: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    for start, end in ranges:
        mask[start:end] = True
    return mask


def _where(mask: Mask) -> Ranges:
    return ranges_of(np.flatnonzero(mask).astype(np.int64))


def _describe(found: Ranges | int) -> str:
    if isinstance(found, int):
        return f"{found} rows"
    count = sum(end - start for start, end in found)
    shown = ", ".join(
        f"{start}..{end - 1}" if end - start > 1 else f"{start}"
        for start, end in found[:MAX_RANGES_SHOWN]
    )
    return f"{count} ({shown}{', …' if len(found) > MAX_RANGES_SHOWN else ''})"
