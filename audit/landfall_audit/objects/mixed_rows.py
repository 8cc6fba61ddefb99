"""Compares rows that are mixed with the records that may be in them. Pure: arrays in, counts out.

Where rows of several ranges were sorted, or duplicates were left out, it is unknown which row is in
which range. So all mixed objects of an output partition are compared at once, as multisets, with
all records that may be in them: each row must be one of the records, none more often than it was.
Records in no row must have been left out, as many as the lists record. Only their keys would show
whether these were duplicates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from landfall_audit.checks.judge import Int64s

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class MixedRecords:
    """Records of ranges, as Kafka holds them, that are in no other object; arrays of one length.

    Attributes:
        partitions: the Kafka partition of each.
        offsets: the offset of each.
        hashes: what the hash of each record's row must be.
    """

    partitions: Int64s
    offsets: Int64s
    hashes: Int64s


class MixedSection(NamedTuple):
    """How many rows of an object are of a topic partition's records between two offsets."""

    partition: int
    rows: int
    first: int
    last: int


@dataclass(frozen=True)
class MixedRules:
    """Expectations of mixed objects.

    Attributes:
        payloads: whether rows hold the payloads that Kafka holds.
        left_out: rows that were left out as duplicates.
        filtered: records that may or may not be in these rows.
        unchecked: rows whose records are not compared.
    """

    payloads: bool = True
    left_out: int = 0
    filtered: int = 0
    unchecked: int = 0

    @property
    def is_exact(self) -> bool:
        """Return whether the records are known that must be here."""
        return not self.filtered and not self.unchecked


@dataclass(frozen=True)
class MixedResult:
    """The findings.

    Attributes:
        absent: for each record, whether no row is of it.
        corrupted: for each record, whether its row differs.
        missing: how many of the absent records are missing, as opposed to left out.
        duplicate: rows of a record beyond the rows that it had.
        foreign: rows that are no record.
        too_few: how many records less are absent than were left out.
    """

    absent: _Mask
    corrupted: _Mask
    missing: int
    duplicate: int
    foreign: int
    too_few: int


def compare_mixed(
    records: MixedRecords, offsets: Int64s | None, hashes: Int64s, rules: MixedRules
) -> MixedResult:
    """Compare rows with records; ``offsets`` of the rows are None if the format stores none.

    Rows must have offsets or payloads that can be compared.
    """
    of_records, of_rows = [records.hashes] * rules.payloads, [hashes] * rules.payloads
    if offsets is not None:
        of_records, of_rows = [records.offsets, *of_records], [offsets, *of_rows]
    found, matched = _matches(of_records, of_rows)
    corrupted = np.zeros(len(found), np.bool_)
    absent, rest = np.flatnonzero(~found), np.flatnonzero(~matched)
    if offsets is not None:
        same, changed = _matches([records.offsets[absent]], [offsets[rest]])
        corrupted[absent[same]] = True
        absent, rest = absent[~same], rest[~changed]
    of_known, of_rest = of_records[0], of_rows[0][rest]
    is_known = np.isin(of_rest, of_known)
    duplicate, foreign = int(is_known.sum()), int((~is_known).sum())
    missing = max(len(absent) - rules.left_out - rules.filtered, 0)
    foreign, duplicate = _excused(foreign, duplicate, rules.unchecked)
    if offsets is None and (changed_rows := min(foreign, missing)):
        corrupted[absent[:changed_rows]] = True
        absent, missing, foreign = (
            absent[changed_rows:],
            missing - changed_rows,
            foreign - changed_rows,
        )
    is_absent = np.zeros(len(found), np.bool_)
    is_absent[absent] = True
    too_few = max(rules.left_out - len(absent), 0) if rules.is_exact else 0
    return MixedResult(is_absent, corrupted, missing, duplicate, foreign, too_few)


def find_wrong_section(offsets: Int64s, sections: Sequence[MixedSection]) -> MixedSection | None:
    """A section that has another number of rows than it records; None if there is none.

    Where offsets are of several topic partitions, or sections overlap, rows between the offsets of
    one may be of another.
    """
    ordered = np.sort(offsets)
    by_offset = sorted(sections, key=lambda each: each.first)
    is_exact = len({section.partition for section in sections}) == 1 and all(
        before.last < after.first for before, after in pairwise(by_offset)
    )
    for section in by_offset:
        first, after = np.searchsorted(ordered, [section.first, section.last + 1]).tolist()
        if after - first < section.rows or (is_exact and after - first != section.rows):
            return section
    return None


def _excused(foreign: int, duplicate: int, unchecked: int) -> tuple[int, int]:
    """The numbers without rows that may be of other records: first the ones that are none here."""
    excused = min(foreign, unchecked)
    return foreign - excused, max(duplicate - (unchecked - excused), 0)


def _matches(records: Sequence[Int64s], rows: Sequence[Int64s]) -> tuple[_Mask, _Mask]:
    """Match records to rows one to one by all columns; returns a mask for each side."""
    count = len(records[0])
    columns = np.stack([np.concatenate(pair) for pair in zip(records, rows, strict=True)], axis=1)
    _, numbers = np.unique(columns, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    of_records, of_rows = numbers[:count], numbers[count:]
    kinds = int(numbers.max()) + 1 if len(numbers) else 0
    return (
        _rank(of_records) < np.bincount(of_rows, minlength=kinds)[of_records],
        _rank(of_rows) < np.bincount(of_records, minlength=kinds)[of_rows],
    )


def _rank(numbers: Int64s) -> Int64s:
    """For each number, how many of the same are before it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]
    firsts = np.flatnonzero(is_first)
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.arange(len(numbers)) - firsts[np.cumsum(is_first) - 1]
    return ranks
