"""Checks whether the objects of a committed slice hold every record of it exactly once. Pure.

Formats that store offsets give an exact answer. For other formats only the rows of each object can
be counted.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import UNSET

from landfall.ledger.feeds import SPAN
from landfall.ledger.replace.replacement_lists import NewObject
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.pipeline.records import Int64s


@dataclass(frozen=True, slots=True)
class ReadBack:
    """One object as it was read: payload hashes and, if the format stores them, offsets."""

    landed: LandedObject
    hashes: Int64s
    offsets: Int64s | None

    @property
    def rows(self) -> int:
        """How many rows the object has."""
        return len(self.hashes)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Counts over one or more slices. The attributes are fields of ``verify --json``.

    Attributes:
        expected: records that were committed, as landed or as dead letters.
        found: records that were read back, each counted once.
        missing: records that were expected and not found.
        duplicate: rows beyond the first of a record; without offsets, rows beyond those recorded.
        foreign: rows whose offset the slice does not have.
        objects: how many objects were read.
        exact: whether offsets were compared; otherwise rows were only counted.
    """

    expected: int = 0
    found: int = 0
    missing: int = 0
    duplicate: int = 0
    foreign: int = 0
    objects: int = 0
    exact: bool = True

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(
            expected=self.expected + other.expected,
            found=self.found + other.found,
            missing=self.missing + other.missing,
            duplicate=self.duplicate + other.duplicate,
            foreign=self.foreign + other.foreign,
            objects=self.objects + other.objects,
            exact=self.exact and other.exact,
        )

    @property
    def is_whole(self) -> bool:
        """True if every record was found exactly once, and nothing else."""
        return not (self.missing or self.duplicate or self.foreign)


def cover(landed: LandedSlice, read: Sequence[ReadBack]) -> Coverage:
    """Compare what was read of a slice's objects and dead letters with what was committed."""
    expected = landed.landed + landed.dead_lettered
    offsets = [r.offsets for r in read if r.offsets is not None]
    if len(offsets) == len(read):
        return _by_offsets(landed, expected, offsets)
    surplus = [r.rows - r.landed.rows for r in read]
    missing = expected - sum(min(r.rows, r.landed.rows) for r in read)
    return Coverage(
        expected=expected,
        found=expected - missing,
        missing=missing,
        duplicate=sum(s for s in surplus if s > 0),
        objects=len(read),
        exact=False,
    )


def miscounted_parts(landed: LandedSlice, read: Sequence[ReadBack]) -> Iterator[str]:
    """Describe parts of files whose rows in objects differ from the slice's counts.

    Objects in formats without offsets are left out: they do not show whose rows they have.
    """
    if landed.parts is UNSET:
        return
    for kind in ObjectKind:
        objects = [object_ for object_ in read if object_.landed.kind is kind]
        offsets = [object_.offsets for object_ in objects if object_.offsets is not None]
        if len(offsets) < len(objects):
            continue
        found = Counter((np.concatenate([np.empty(0, np.int64), *offsets]) // SPAN).tolist())
        is_data = kind is ObjectKind.DATA
        counted = {p.number: p.landed if is_data else p.dead_lettered for p in landed.parts}
        for number in sorted(found.keys() | counted.keys()):
            if found[number] != counted.get(number, 0):
                yield (
                    f"{landed.piece}: counts {counted.get(number, 0)} rows of part {number}, "
                    f"{found[number]} are in {kind} objects"
                )


def cover_new(new: NewObject, read: ReadBack) -> Coverage:
    """Compare what was read of an object that replaced other objects with its list.

    Offsets are compared section by section, unless rows of several sections are mixed.
    """
    expected, surplus = new.landed.rows, read.rows - new.landed.rows
    if read.offsets is None or surplus or new.mixed:
        found = min(read.rows, expected)
        return Coverage(
            expected=expected,
            found=found,
            missing=expected - found,
            duplicate=max(surplus, 0),
            foreign=0,
            objects=1,
            exact=False,
        )
    total, start = Coverage(objects=1), 0
    for section in new.sections:
        own = read.offsets[start : start + section.rows]
        start += section.rows
        is_inside = (own >= section.first_offset) & (own <= section.last_offset)
        found, inside = len(np.unique(own[is_inside])), int(is_inside.sum())
        missing, foreign = section.rows - found, section.rows - inside
        total += Coverage(
            expected=section.rows,
            found=found,
            missing=missing,
            duplicate=inside - found,
            foreign=foreign,
        )
    return total


def _by_offsets(landed: LandedSlice, expected: int, read: Sequence[Int64s]) -> Coverage:
    offsets = np.concatenate([np.empty(0, np.int64), *read])
    inside = (offsets >= landed.piece.offsets.start) & (offsets < landed.piece.offsets.end)
    found = len(np.unique(offsets[inside]))
    return Coverage(
        expected=expected,
        found=found,
        missing=max(expected - found, 0),
        duplicate=int(inside.sum()) - found,
        foreign=int((~inside).sum()) + max(found - expected, 0),
        objects=len(read),
    )
