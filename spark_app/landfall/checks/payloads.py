"""Compares the payloads read back of a slice with those that Kafka holds, by their hashes. Pure.

If the format stores offsets, each payload is compared with the one at its offset. If not, every
record in Kafka must be the next row of one of the slice's objects: then all records are there,
exactly once and in order. Hashes are Python's ``hash``: 64 bits, comparable only within a process.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from landfall.checks.coverage import ReadBack
from landfall.ledger.task_results import LandedObject
from landfall.pipeline.records import Int64s


@dataclass(frozen=True, slots=True)
class KafkaRecords:
    """The visible records of a slice as Kafka holds them: offsets and payload hashes, in order."""

    offsets: Int64s
    hashes: Int64s


@dataclass(frozen=True, slots=True)
class Comparison:
    """Counts over one or more slices. The attributes are fields of ``verify --kafka --json``.

    Attributes:
        records: records in Kafka, of the slices that it still holds.
        missing: payloads in Kafka, but in no object.
        foreign: payloads in an object, but not in Kafka. A changed payload counts as one missing
            and one foreign.
        slices_out_of_order: slices that have all payloads, but not in offset order.
        slices_gone: slices that Kafka no longer holds.
        lost: records in Kafka whose objects the ledger has given up; they are not missing.
        slices_replaced: slices that were not compared, as objects of theirs were replaced.
    """

    records: int = 0
    missing: int = 0
    foreign: int = 0
    slices_out_of_order: int = 0
    slices_gone: int = 0
    lost: int = 0
    slices_replaced: int = 0

    def __add__(self, other: "Comparison") -> "Comparison":
        return Comparison(
            records=self.records + other.records,
            missing=self.missing + other.missing,
            foreign=self.foreign + other.foreign,
            slices_out_of_order=self.slices_out_of_order + other.slices_out_of_order,
            slices_gone=self.slices_gone + other.slices_gone,
            lost=self.lost + other.lost,
            slices_replaced=self.slices_replaced + other.slices_replaced,
        )

    @property
    def is_same(self) -> bool:
        """True if nothing differs in what could be compared."""
        return not (self.missing or self.foreign or self.slices_out_of_order)


def payload_hashes(payloads: Iterable[bytes]) -> Int64s:
    """The hash of each payload."""
    return np.fromiter(map(hash, payloads), np.int64)


def compare(
    records: KafkaRecords, read: Sequence[ReadBack], lost: Collection[LandedObject] = ()
) -> Comparison:
    """Compare everything read back of a slice, dead letters included, with Kafka.

    As many records may be in no object as objects that were given up had, within their offsets.
    """
    known = [(r.offsets, r.hashes) for r in read if r.offsets is not None]
    if len(known) < len(read):
        return _by_order(records, [r.hashes.tolist() for r in read], lost)
    in_kafka = set(zip(records.offsets.tolist(), records.hashes.tolist(), strict=True))
    landed = {
        pair
        for offsets, hashes in known
        for pair in zip(offsets.tolist(), hashes.tolist(), strict=True)
    }
    missing, foreign = in_kafka - landed, len(landed - in_kafka)
    given_up = _given_up([offset for offset, _ in missing], lost)
    return Comparison(len(records.offsets), len(missing) - given_up, foreign, lost=given_up)


def _given_up(missing: Sequence[int], lost: Collection[LandedObject]) -> int:
    """How many of the missing offsets can have been in objects that were given up."""
    may_be = sum(any(o.first_offset <= m <= o.last_offset for o in lost) for m in missing)
    return min(may_be, sum(o.rows for o in lost))


def _by_order(
    records: KafkaRecords, objects: list[list[int]], lost: Collection[LandedObject]
) -> Comparison:
    in_order = records.hashes.tolist()
    in_kafka, landed = Counter(in_order), Counter(h for rows in objects for h in rows)
    missing, foreign = (in_kafka - landed).total(), (landed - in_kafka).total()
    given_up = min(missing, sum(o.rows for o in lost))
    is_whole = missing == given_up and not foreign
    is_disordered = is_whole and not _is_interleaving(in_order, objects, given_up)
    return Comparison(len(in_order), missing - given_up, foreign, int(is_disordered), lost=given_up)


def _is_interleaving(records: list[int], objects: list[list[int]], given_up: int) -> bool:
    """Return whether each record not given up is, in turn, the next unread row of an object."""
    next_row: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
    for number, rows in enumerate(objects):
        if rows:
            next_row[rows[0]].append((number, 0))
    for payload in records:
        if not next_row[payload]:
            given_up -= 1
            if given_up < 0:
                return False
            continue
        number, row = next_row[payload].popleft()
        if row + 1 < len(objects[number]):
            next_row[objects[number][row + 1]].append((number, row + 1))
    return True
