"""How large batches may be: small after a start, then larger with every COMMIT. Pure.

A driver does not know what its first batch costs: records may be large, or belong to a thousand
output partitions. If it dies before its first COMMIT, again and again, nothing is ever landed. So
the first batch has few offsets and objects, and the limit grows with every COMMIT, the faster the
less time its batch took, until it hardly limits anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from landfall.estimates import SizeEstimates
from landfall.ledger.offsets import Slice

FIRST_BATCH_OFFSETS = 2_000
"""Offsets of the first batch."""
UNLIMITED_OFFSETS = 10**6
"""A limit that has grown to this is none any more."""
FIRST_SLICE_OBJECTS, MAX_SLICE_OBJECTS = 25, 2_000
"""Objects that a task writes of a slice, first and at most: each costs some requests, and a COMMIT
names them all.
"""
QUICK, MODERATE = timedelta(seconds=2), timedelta(seconds=10)
QUICK_GROWTH, MODERATE_GROWTH = 8, 2
"""How much larger the next batch may be than one that took at most ``QUICK`` or ``MODERATE``."""
MIN_SLICE_BYTES = 64 * 2**20
"""A task reads at least this much of a slice before it may end it early."""
SLICE_BYTES_TOLERANCE = 4
"""A slice may have this many times the bytes that were estimated before it is ended early."""
SLOTS_OF_MAX_BYTES = 4
"""``maxRoundBytes`` is for so many task slots; with more of them, a batch may have more."""
DECOMPRESSED_TOLERANCE = 40
"""A slice of files may have this many times their bytes before it is ended early."""


@dataclass(frozen=True, slots=True)
class BatchSizeLimit:
    """The limits of the next batch.

    Attributes:
        offsets: the most offsets; None for any number.
        slice_objects: the objects after which a task ends a slice early.
    """

    offsets: int | None = FIRST_BATCH_OFFSETS
    slice_objects: int = FIRST_SLICE_OBJECTS

    def committed(self, took: timedelta) -> "BatchSizeLimit":
        """Return the limit after a COMMIT whose batch took this long."""
        if took > MODERATE:
            return self
        growth = QUICK_GROWTH if took <= QUICK else MODERATE_GROWTH
        offsets = None if self.offsets is None else self.offsets * growth
        return BatchSizeLimit(
            offsets if offsets and offsets < UNLIMITED_OFFSETS else None,
            min(self.slice_objects * growth, MAX_SLICE_OBJECTS),
        )


def max_batch_bytes(max_round_bytes: int, slots: int) -> int:
    """The object bytes of a batch at most, so that it takes as long however many slots there are.

    A topic partition is in one batch at a time. If a batch could not have a slice for each slot, a
    few hot topic partitions would leave most slots of a large cluster idle.
    """
    return max(max_round_bytes, max_round_bytes * slots // SLOTS_OF_MAX_BYTES)


def slice_bytes(slices: Iterable[Slice], sizes: SizeEstimates, file_bytes: int = 0) -> int:
    """Return the payload bytes after which a task ends any of these slices early.

    Slices of files, which have up to ``file_bytes`` there, have so many more if they are compressed
    that only an absurd one is ended: a compressed file is read from its start to continue inside.
    """
    if file_bytes:
        return max(MIN_SLICE_BYTES, DECOMPRESSED_TOLERANCE * file_bytes)
    expected = max(
        (len(s.offsets) * sizes.of(s.topic_partition).input_bytes for s in slices), default=0.0
    )
    return max(MIN_SLICE_BYTES, int(SLICE_BYTES_TOLERANCE * expected))
