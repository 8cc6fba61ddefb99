"""The producers' ledger: what the load knows of each number, and how that compares to what landed.

The ledger is a file of JSON lines that is only appended to, such as
``{"topic": …, "fate": …, "ranges": [[0, 10000]]}``, with half-open ranges:

| fate         | written                                            | it must have landed |
|--------------|----------------------------------------------------|---------------------|
| Begun        | before any of these numbers is sent                | at most once        |
| Acknowledged | when the broker has it, or its transaction         | exactly once        |
| Aborted      | when its transaction was aborted, or can only be   | never               |

A number that was begun and has no other fate is in doubt: its delivery failed, or its producer
ended before it knew. So the ledger of a writer that was killed is valid, too. The comparison needs
a byte of memory per number, and the numbers of one object at a time.
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
"""How many ranges of each kind a printed comparison lists."""
_BLOCK = 10_000
"""Numbers that one Begun line covers, so that not every number needs a line of its own."""
_MAX_NUMBER = 100_000_000
"""A row with a larger number is damaged; a byte per number would cost too much memory for it."""


class Fate(StrEnum):
    """What is known of a number; see the module's table."""

    BEGUN = "Begun"
    ACKNOWLEDGED = "Acknowledged"
    ABORTED = "Aborted"


class _Line(msgspec.Struct):
    topic: str
    fate: Fate
    ranges: Ranges


class ProducerLedger:
    """The writing side of the ledger, shared by all threads of the load."""

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            FileExistsError: there is one already, of another run.
        """
        self._file = path.open("xb")
        self._lock = threading.Lock()
        self._next: dict[str, int] = defaultdict(int)
        self._begun: dict[str, int] = defaultdict(int)
        self._unwritten: dict[tuple[str, Fate], list[int]] = defaultdict(list)

    def next_number(self, topic: str) -> int:
        """Return the topic's next number, which the file lists as Begun by then."""
        with self._lock:
            number = self._next[topic]
            self._next[topic] += 1
            if number >= self._begun[topic]:
                self._begun[topic] += _BLOCK
                self._write(_Line(topic, Fate.BEGUN, [(number, number + _BLOCK)]))
                # Before the number is used: a record that landed must never be unknown here.
                self._file.flush()
            return number

    def record_fate(self, topic: str, fate: Fate, numbers: Iterable[int]) -> None:
        """Note the fate of numbers; the next ``flush`` writes it to the file."""
        with self._lock:
            self._unwritten[topic, fate].extend(numbers)

    def flush(self) -> None:
        """Write everything that was noted to the file."""
        with self._lock:
            for (topic, fate), numbers in self._unwritten.items():
                if numbers:
                    self._write(_Line(topic, fate, ranges_of(np.array(numbers, np.int64))))
                    numbers.clear()
            self._file.flush()

    def close(self) -> None:
        """Flush and close the file."""
        self.flush()
        self._file.close()

    def _write(self, line: _Line) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")


def ranges_of(numbers: npt.NDArray[np.int64]) -> Ranges:
    """The same numbers as half-open ranges, in ascending order."""
    if not len(numbers):
        return []
    ordered = np.unique(numbers)
    ends = np.flatnonzero(np.diff(ordered) > 1)
    firsts, lasts = ordered[np.r_[0, ends + 1]], ordered[np.r_[ends, len(ordered) - 1]]
    return [(int(first), int(last) + 1) for first, last in zip(firsts, lasts, strict=True)]


class TopicComparison(msgspec.Struct, kw_only=True):
    """One topic of the producers' ledger, compared with what landed.

    Attributes:
        acknowledged, aborted: how many numbers have this fate.
        landed: rows with a number of this topic.
        in_doubt: numbers in doubt that landed.
        missing: numbers that were acknowledged and did not land.
        repeated: numbers that landed more than once.
        aborted_landed: numbers that were aborted and landed.
        unknown: numbers that landed and were never begun.
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
        """Whether nothing is wrong."""
        return not (
            self.missing or self.repeated or self.aborted_landed or self.unknown or self.misfiled
        )

    def __str__(self) -> str:
        """The counts, then everything that is wrong."""
        counts = (
            f"{self.acknowledged} acknowledged, {self.landed} landed,"
            f" {self.in_doubt} of them in doubt"
        )
        wrong = {
            name: getattr(self, name)
            for name in ("missing", "repeated", "aborted_landed", "unknown", "misfiled")
        }
        return "; ".join(
            [counts, *(f"{name}: {_describe(found)}" for name, found in wrong.items() if found)]
        )


class Comparison(msgspec.Struct):
    """All topics compared; ``unidentified`` counts the rows without a valid number."""

    topics: dict[str, TopicComparison]
    unidentified: int = 0

    @property
    def is_exact(self) -> bool:
        """Every acknowledged number landed once, no aborted one did, and no other one twice.

        An empty ledger proves nothing, so it is not exact.
        """
        return (
            bool(self.topics)
            and not self.unidentified
            and all(topic.is_exact for topic in self.topics.values())
        )

    def __str__(self) -> str:
        """A line for each topic, and one for the rows without a number."""
        lines = [f"{topic}: {compared}" for topic, compared in sorted(self.topics.items())]
        if self.unidentified:
            lines.append(f"rows without a number: {self.unidentified}")
        return "\n".join(lines)


@dataclass(frozen=True)
class LandedObject:
    """The rows of an object, and the topic it landed under.

    A row is None if the load did not produce it.
    """

    topic: str
    rows: Sequence[Identity | None]


@dataclass
class _Seen:
    """How often each number of a topic landed; 255 stands for that many or more."""

    times: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    misfiled: int = 0

    def add(self, numbers: npt.NDArray[np.int64]) -> None:
        if len(numbers) and (size := int(numbers.max()) + 1) > len(self.times):
            self.times = np.pad(self.times, (0, max(size, 2 * len(self.times)) - len(self.times)))
        found, times = np.unique(numbers, return_counts=True)
        self.times[found] = np.minimum(self.times[found] + times, 255)


def compare(producer_ledger: Path, objects: Iterable[LandedObject]) -> Comparison:
    """Compare the ledger in a file with the objects that landed."""
    fates = _read(producer_ledger)
    seen: dict[str, _Seen] = defaultdict(_Seen)
    unidentified = 0
    for landed in objects:
        by_topic: dict[str, list[int]] = defaultdict(list)
        for row in landed.rows:
            if row is None or not 0 <= row.number < _MAX_NUMBER:
                unidentified += 1
            else:
                by_topic[row.topic].append(row.number)
        for topic, numbers in by_topic.items():
            seen[topic].add(np.array(numbers, np.int64))
            seen[topic].misfiled += len(numbers) if topic != landed.topic else 0
    topics = fates.keys() | seen.keys()
    return Comparison(
        {topic: _compare_topic(fates.get(topic, {}), seen[topic]) for topic in topics}, unidentified
    )


def _read(path: Path) -> dict[str, dict[Fate, Ranges]]:
    fates: dict[str, dict[Fate, Ranges]] = defaultdict(lambda: defaultdict(list))
    for line in _lines(path):
        fates[line.topic][line.fate].extend(line.ranges)
    return fates


def _lines(path: Path) -> Iterator[_Line]:
    with path.open("rb") as lines:
        for line in lines:
            # A writer that was killed may leave half a line; nothing depends on what it noted.
            if line.endswith(b"\n"):
                yield msgspec.json.decode(line, type=_Line)


def _compare_topic(fates: Mapping[Fate, Ranges], seen: _Seen) -> TopicComparison:
    size = max([len(seen.times), *(end for ranges in fates.values() for _, end in ranges)])
    times = np.pad(seen.times, (0, size - len(seen.times)))
    begun, acknowledged, aborted = (_mask(fates.get(fate, []), size) for fate in Fate)
    return TopicComparison(
        acknowledged=int(acknowledged.sum()),
        aborted=int(aborted.sum()),
        landed=int(times.sum()),
        in_doubt=int((begun & ~acknowledged & ~aborted & (times > 0)).sum()),
        missing=_numbers_in(acknowledged & (times == 0)),
        repeated=_numbers_in(times > 1),
        aborted_landed=_numbers_in(aborted & (times > 0)),
        unknown=_numbers_in(~begun & (times > 0)),
        misfiled=seen.misfiled,
    )


def _mask(ranges: Ranges, size: int) -> Mask:
    mask = np.zeros(size, np.bool_)
    for start, end in ranges:
        mask[start:end] = True
    return mask


def _numbers_in(mask: Mask) -> Ranges:
    return ranges_of(np.flatnonzero(mask).astype(np.int64))


def _describe(found: Ranges | int) -> str:
    """``3 (5..6, 9)`` for ranges, whose printed ends are inclusive; ``4 rows`` for a count."""
    if isinstance(found, int):
        return f"{found} {'row' if found == 1 else 'rows'}"
    count = sum(end - start for start, end in found)
    shown = ", ".join(
        f"{start}..{end - 1}" if end - start > 1 else f"{start}"
        for start, end in found[:MAX_RANGES_SHOWN]
    )
    return f"{count} ({shown}{', …' if len(found) > MAX_RANGES_SHOWN else ''})"
