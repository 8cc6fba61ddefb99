"""Exact arithmetic of Kafka offsets: which are landed, which come next.

All ranges are half-open: ``OffsetRange(0, 10)`` has ten offsets. A ``Checkpoint`` only ever moves
over ranges that start where it stands, so a gap or an overlap cannot be written down. Pure: no I/O,
no clock, no logging.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A topic and one of its Kafka partitions; ``str()`` gives ``clicks/3``."""

    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not self.topic or self.partition < 0:
            raise ValueError(f"not a topic partition: {self.topic!r}/{self.partition}")

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
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

    def cut(self, most: int) -> tuple["OffsetRange", ...]:
        """Split into ranges of nearly equal length, none longer than ``most`` offsets; an empty range gives none."""
        if most < 1:
            raise ValueError(f"cannot cut {self} into ranges of {most} offsets")
        pieces = -(-len(self) // most)
        bounds = [self.start + len(self) * i // pieces for i in range(pieces + 1)] if pieces else []
        return tuple(OffsetRange(a, b) for a, b in pairwise(bounds))


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """The offsets of one topic partition that one task reads in one go: the unit of work of a plan."""

    topic_partition: TopicPartition
    offsets: OffsetRange

    def __str__(self) -> str:
        return f"{self.topic_partition}{self.offsets}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The next offset to land, per topic partition."""

    next_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "next_offsets", MappingProxyType(dict(self.next_offsets)))

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.next_offsets)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self.next_offsets

    def __getitem__(self, tp: TopicPartition) -> int:
        return self.next_offsets[tp]

    def add(self, tp: TopicPartition, start: int) -> "Checkpoint":
        """Let a topic partition enter at ``start``.

        Raises:
            ValueError: it is here already, or ``start`` is negative.
        """
        if tp in self.next_offsets or start < 0:
            raise ValueError(
                f"{tp}: cannot enter at offset {start}, checkpoint has {self.next_offsets.get(tp)}"
            )
        return Checkpoint({**self.next_offsets, tp: start})

    def drop(self, tp: TopicPartition) -> "Checkpoint":
        """Let a topic partition leave.

        Raises:
            ValueError: it is not here.
        """
        if tp not in self.next_offsets:
            raise ValueError(f"{tp}: cannot leave, it never entered")
        return Checkpoint({t: o for t, o in self.next_offsets.items() if t != tp})

    def advance(self, slices: Iterable[Slice]) -> "Checkpoint":
        """Move over ``slices``, which may come in any order but must join without a gap or an overlap.

        Raises:
            ValueError: a slice does not start where its topic partition stands; nothing is moved
                then.
        """
        moved = dict(self.next_offsets)
        for piece in sorted(slices):
            tp, offsets = piece.topic_partition, piece.offsets
            if moved.get(tp) != offsets.start:
                raise ValueError(f"{tp}: expected offset {moved.get(tp)}, got {offsets.start}")
            moved[tp] = offsets.end
        return Checkpoint(moved)
