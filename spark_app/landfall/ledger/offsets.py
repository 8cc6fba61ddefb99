"""Arithmetic of Kafka offsets: which are landed, and which come next.

All ranges are half-open: ``OffsetRange(0, 10)`` has ten offsets. A ``Checkpoint`` advances only
over ranges that start exactly at it, so it cannot represent a gap or an overlap. Pure: no I/O, no
clock, no logging. Ranges and topic partitions are structs for the reason in ``task_results``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import cast

from msgspec import Struct


class TopicPartition(Struct, frozen=True, order=True, gc=False):
    """A topic and one of its Kafka partitions, written as ``clicks/3``."""

    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not self.topic or self.partition < 0:
            raise ValueError(f"not a topic partition: {self.topic!r}/{self.partition}")

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class OffsetRange(Struct, frozen=True, order=True, gc=False):
    """The offsets ``start <= offset < end``."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not an offset range: [{self.start}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.start

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"

    def cut(self, max_length: int) -> tuple["OffsetRange", ...]:
        """Adjacent ranges of nearly equal length, each of at most ``max_length`` offsets.

        An empty range gives none.

        Raises:
            ValueError: ``max_length`` is less than 1.
        """
        if max_length < 1:
            raise ValueError(f"cannot cut {self} into ranges of {max_length} offsets")
        count = -(-len(self) // max_length)  # rounded up
        bounds = [self.start + len(self) * i // count for i in range(count + 1)] if count else []
        return tuple(OffsetRange(a, b) for a, b in pairwise(bounds))


class Slice(Struct, frozen=True, order=True, gc=False):
    """A range of one topic partition that one task reads: the unit of work of a plan."""

    topic_partition: TopicPartition
    offsets: OffsetRange

    def __str__(self) -> str:
        return f"{self.topic_partition}{self.offsets}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The next offset to land, per topic partition."""

    next_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A copy under a proxy: a caller that keeps and changes its dict cannot move the
        # checkpoint.
        object.__setattr__(self, "next_offsets", MappingProxyType(dict(self.next_offsets)))

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.next_offsets)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self.next_offsets

    def __getitem__(self, tp: TopicPartition) -> int:
        return self.next_offsets[tp]

    def add(self, starts: Mapping[TopicPartition, int]) -> "Checkpoint":
        """The checkpoint with more topic partitions, each at its start offset.

        Raises:
            ValueError: a topic partition is in the checkpoint already, or its start is negative.
        """
        for tp, start in starts.items():
            if tp in self.next_offsets or start < 0:
                raise ValueError(
                    f"{tp}: cannot enter at offset {start}, "
                    f"checkpoint has {self.next_offsets.get(tp)}"
                )
        return _owning(self._copied() | dict(starts))

    def drop(self, tps: Iterable[TopicPartition]) -> "Checkpoint":
        """The checkpoint without these topic partitions.

        Raises:
            ValueError: a topic partition is not in the checkpoint.
        """
        kept = self._copied()
        for tp in tps:
            if kept.pop(tp, None) is None:
                raise ValueError(f"{tp}: cannot leave, it is not in the checkpoint")
        return _owning(kept)

    def advance(self, slices: Iterable[Slice]) -> "Checkpoint":
        """The checkpoint after ``slices``, in any order, which must adjoin without gap or overlap.

        Raises:
            ValueError: a slice does not start at its topic partition's next offset.
        """
        advanced = self._copied()
        for slice_ in sorted(slices):
            tp, offsets = slice_.topic_partition, slice_.offsets
            if advanced.get(tp) != offsets.start:
                raise ValueError(f"{tp}: expected offset {advanced.get(tp)}, got {offsets.start}")
            advanced[tp] = offsets.end
        return _owning(advanced)

    def _copied(self) -> dict[TopicPartition, int]:
        # ``copy`` clones the table of the dict under the proxy; ``dict(proxy)`` would hash every
        # key again, which takes twenty times as long.
        return cast("MappingProxyType[TopicPartition, int]", self.next_offsets).copy()


def _owning(next_offsets: dict[TopicPartition, int]) -> Checkpoint:
    """A checkpoint of a dict with no other reference, which is therefore not copied again."""
    checkpoint = object.__new__(Checkpoint)
    object.__setattr__(checkpoint, "next_offsets", MappingProxyType(next_offsets))
    return checkpoint
