"""Costs of landing, learned from what was landed. Pure.

A wrong estimate changes only how work is divided, never what is landed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedSlice

SLICE_SECONDS = 0.02
"""Fixed cost of a slice: the first fetch, and beginning and completing uploads."""
ESTIMATE_WINDOW_OFFSETS = 20_000
"""Weight of past offsets at most, so that a full slice soon corrects an estimate, and a few records
hardly change it.
"""
PRIOR_OFFSETS = 1_000
"""Weight, in offsets, of the initial estimate when the first slice of a topic partition lands."""


class Estimate(Struct, frozen=True, gc=False):
    """Average cost of one offset, counting invisible and filtered offsets, which cost little.

    Attributes:
        landed_bytes: bytes in objects.
        input_bytes: payload bytes.
        seconds: CPU seconds of a task.
        offsets: number of offsets the averages were learned from.
    """

    landed_bytes: float
    input_bytes: float
    seconds: float
    offsets: int = 0

    def learn(self, seen: "Estimate") -> "Estimate":
        """The weighted mean of both. The past weighs at most ``ESTIMATE_WINDOW_OFFSETS``."""
        past = min(max(self.offsets, PRIOR_OFFSETS), ESTIMATE_WINDOW_OFFSETS)
        gain = seen.offsets / (past + seen.offsets)
        return Estimate(
            self.landed_bytes + gain * (seen.landed_bytes - self.landed_bytes),
            self.input_bytes + gain * (seen.input_bytes - self.input_bytes),
            self.seconds + gain * (seen.seconds - self.seconds),
            self.offsets + seen.offsets,
        )


def _typical_seconds(records: int, input_bytes: int) -> float:
    """CPU seconds to assume if not measured: 1 µs a record and 10 ns a byte.

    Date-partitioned JSON with gzip costs about that.
    """
    return 1e-6 * records + 1e-8 * input_bytes


UNKNOWN = Estimate(landed_bytes=1_000, input_bytes=1_000, seconds=_typical_seconds(1, 1_000))
"""Initial estimate, high on purpose: a topic partition of unknown cost is due early and cut small.
"""


@dataclass(frozen=True, slots=True)
class SizeEstimates:
    """Estimates learned from landed slices, by topic partition and by topic."""

    by_topic_partition: Mapping[TopicPartition, Estimate] = field(default_factory=dict)
    by_topic: Mapping[str, Estimate] = field(default_factory=dict)

    def of(self, tp: TopicPartition) -> Estimate:
        """The estimate for a topic partition: its own, else its topic's, else ``UNKNOWN``.

        An estimate that is not its own counts as learned from no offsets, so that ``plan`` trusts
        it for ``FIRST_OFFSETS`` only.
        """
        known = self.by_topic_partition.get(tp)
        if known:
            return known
        topic = self.by_topic.get(tp.topic, UNKNOWN)
        return Estimate(topic.landed_bytes, topic.input_bytes, topic.seconds)

    def learn(self, slices: Iterable[LandedSlice]) -> "SizeEstimates":
        """The estimates after these slices have landed."""
        by_topic_partition, by_topic = dict(self.by_topic_partition), dict(self.by_topic)
        for landed in slices:
            tp = landed.piece.topic_partition
            if len(landed.piece.offsets):
                seen = _measured(landed)
                by_topic_partition[tp] = (
                    SizeEstimates(by_topic_partition, by_topic).of(tp).learn(seen)
                )
                by_topic[tp.topic] = by_topic.get(tp.topic, UNKNOWN).learn(seen)
        return SizeEstimates(by_topic_partition, by_topic)


def _measured(landed: LandedSlice) -> Estimate:
    offsets = len(landed.piece.offsets)
    typical = _typical_seconds(offsets - landed.invisible, landed.input_bytes)
    # The fixed cost is left out: many short slices would make each of their offsets seem expensive.
    seconds = max(landed.cpu_seconds - SLICE_SECONDS, 0.0) if landed.cpu_seconds else typical
    landed_bytes = sum(o.upload.size for o in landed.objects)
    return Estimate(
        landed_bytes / offsets, landed.input_bytes / offsets, seconds / offsets, offsets
    )
