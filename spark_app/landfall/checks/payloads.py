"""Whether the payloads read back of a slice are those that Kafka holds, by their hashes. Pure.

Where the format stores offsets, each payload is compared with the one at its offset. Where it does
not, every record of Kafka must be the next row of one of the slice's objects: then all are there,
once, and in order. Hashes are Python's own, 64 bits, comparable within one process only.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from landfall.checks.coverage import ReadBack
from landfall.pipeline.records import Int64s


@dataclass(frozen=True, slots=True)
class Logged:
    """The visible records of a slice as Kafka holds them: offsets and payload hashes, in order."""

    offsets: Int64s
    hashes: Int64s


@dataclass(frozen=True, slots=True)
class Compared:
    """How payloads of some slices compare.

    Attributes:
        records: in Kafka, of the slices that it still holds.
        missing: in Kafka, but in no object.
        foreign: in an object, but not in Kafka; a changed payload is one missing and one foreign.
        slices_out_of_order: with all payloads, but not in the order of their offsets.
        slices_gone: that Kafka does not hold any more.
    """

    records: int = 0
    missing: int = 0
    foreign: int = 0
    slices_out_of_order: int = 0
    slices_gone: int = 0

    def __add__(self, other: "Compared") -> "Compared":
        return Compared(
            self.records + other.records,
            self.missing + other.missing,
            self.foreign + other.foreign,
            self.slices_out_of_order + other.slices_out_of_order,
            self.slices_gone + other.slices_gone,
        )

    @property
    def is_same(self) -> bool:
        """Nothing differs in what could be compared."""
        return not (self.missing or self.foreign or self.slices_out_of_order)


def hashes(payloads: Iterable[bytes]) -> Int64s:
    """A hash for each."""
    return np.fromiter(map(hash, payloads), np.int64)


def compare(logged: Logged, read: Sequence[ReadBack]) -> Compared:
    """Hold everything read back of a slice, dead letters included, against Kafka."""
    known = [(r.offsets, r.hashes) for r in read if r.offsets is not None]
    if len(known) < len(read):
        return _by_order(logged.hashes.tolist(), [r.hashes.tolist() for r in read])
    in_kafka = set(zip(logged.offsets.tolist(), logged.hashes.tolist(), strict=True))
    landed = {
        pair
        for offsets, found in known
        for pair in zip(offsets.tolist(), found.tolist(), strict=True)
    }
    return Compared(len(logged.offsets), len(in_kafka - landed), len(landed - in_kafka))


def _by_order(logged: list[int], objects: list[list[int]]) -> Compared:
    in_kafka, landed = Counter(logged), Counter(h for rows in objects for h in rows)
    missing, foreign = (in_kafka - landed).total(), (landed - in_kafka).total()
    disordered = not missing and not foreign and not _in_order(logged, objects)
    return Compared(len(logged), missing, foreign, int(disordered))


def _in_order(logged: list[int], objects: list[list[int]]) -> bool:
    """Whether each record in turn is the next row of some object."""
    next_row: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
    for number, rows in enumerate(objects):
        if rows:
            next_row[rows[0]].append((number, 0))
    for payload in logged:
        if not next_row[payload]:
            return False
        number, row = next_row[payload].popleft()
        if row + 1 < len(objects[number]):
            next_row[objects[number][row + 1]].append((number, row + 1))
    return True
