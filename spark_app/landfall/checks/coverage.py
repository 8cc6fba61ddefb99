"""Whether what was read back of a committed slice is every offset of it, once. Pure.

Some formats store offsets and give an exact answer. Of the others only the rows can be counted,
object by object.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from landfall.ledger.task_results import LandedObject, LandedSlice
from landfall.pipeline.records import Int64s


@dataclass(frozen=True, slots=True)
class ReadBack:
    """One object as it was read: hashes of its rows' payloads, and their offsets where the format stores them."""

    landed: LandedObject
    hashes: Int64s
    offsets: Int64s | None

    @property
    def rows(self) -> int:
        """How many there were."""
        return len(self.hashes)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Records of some slices.

    Attributes:
        expected: committed, as landed or as dead letters.
        found: read back, each counted once.
        missing: expected and not found.
        duplicate: found more than once; without offsets, rows more than recorded.
        foreign: offsets that the slice does not have.
        objects: read.
        exact: whether every offset was seen, not only counted.
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
            self.expected + other.expected,
            self.found + other.found,
            self.missing + other.missing,
            self.duplicate + other.duplicate,
            self.foreign + other.foreign,
            self.objects + other.objects,
            self.exact and other.exact,
        )

    @property
    def is_whole(self) -> bool:
        """Every record once, and nothing else."""
        return not (self.missing or self.duplicate or self.foreign)


def cover(landed: LandedSlice, read: Sequence[ReadBack]) -> Coverage:
    """Hold what was read of a slice's objects, dead letters included, against what was committed."""
    expected = landed.landed + landed.dead_lettered
    known = [r.offsets for r in read if r.offsets is not None]
    if len(known) == len(read):
        return _by_offsets(landed, expected, known)
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
