"""Find the records that open transactions hold back, and for how long. Pure.

No consumer may read a record of a transaction that is open, nor any record after it. A producer
that dies without the broker noticing leaves one open for ever: the last stable offset stops, so
there is no lag, while records pile up until retention deletes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from landfall.ledger.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Records that no consumer may read yet.

    Attributes:
        end: the last stable offset, where the oldest open transaction begins.
        records: offsets from there to the high watermark.
        since: when this driver first saw the transaction hold records back.
    """

    end: int
    records: int
    since: datetime


def held_back(
    before: Mapping[TopicPartition, HeldBack],
    high: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    now: datetime,
) -> dict[TopicPartition, HeldBack]:
    """Return topic partitions whose last stable offset is below their high watermark.

    A last stable offset that has moved belongs to another transaction, whose time begins again.

    Args:
        before: what the same function found before.
        high: high watermarks.
        ends: last stable offsets, asked for after the high watermarks.
        now: the time.
    """
    found: dict[TopicPartition, HeldBack] = {}
    for tp, mark in high.items():
        end = ends.get(tp, mark)
        if mark > end:
            known = before.get(tp)
            since = known.since if known and known.end == end else now
            found[tp] = HeldBack(end, mark - end, since)
    return found
