"""How large batches may be: small after a start, then larger with every COMMIT. Pure.

A driver does not know what its first batch costs: records may be large, or belong to a thousand
output partitions. If it dies before its first COMMIT, again and again, nothing is ever landed. So
the first batch has few offsets, and the limit grows with every COMMIT, the faster the less time its
batch took, until it limits nothing any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from landfall.ledger.offsets import Slice
from landfall.plan import Sizes

FIRST_BATCH_OFFSETS = 500
"""Offsets of the first batch: each may become an object of its own, of a few requests."""
UNLIMITED_OFFSETS = 10**6
"""A limit that has grown to this is none any more."""
QUICK, MODERATE = timedelta(seconds=2), timedelta(seconds=10)
QUICK_GROWTH, MODERATE_GROWTH = 8, 2
"""How much larger the next batch may be than one that took at most ``QUICK`` or ``MODERATE``."""
LEAST_SLICE_BYTES = 64 * 2**20
"""A task reads at least this much of a slice before it may end it early."""
SLICE_BYTES_TOLERANCE = 4
"""A slice may have this many times the bytes that were estimated before it is ended early."""


@dataclass(frozen=True, slots=True)
class BatchSizeLimit:
    """The most offsets that the next batch may have; None for any number."""

    offsets: int | None = FIRST_BATCH_OFFSETS

    def committed(self, took: timedelta) -> "BatchSizeLimit":
        """The limit after a COMMIT whose batch took this long."""
        if self.offsets is None or took > MODERATE:
            return self
        offsets = self.offsets * (QUICK_GROWTH if took <= QUICK else MODERATE_GROWTH)
        return BatchSizeLimit(offsets if offsets < UNLIMITED_OFFSETS else None)


def slice_bytes(slices: Iterable[Slice], sizes: Sizes) -> int:
    """The payload bytes after which a task ends any of these slices early."""
    expected = max(
        (len(s.offsets) * sizes.of(s.topic_partition).input_bytes for s in slices), default=0.0
    )
    return max(LEAST_SLICE_BYTES, int(SLICE_BYTES_TOLERANCE * expected))
