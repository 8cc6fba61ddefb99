"""Finds what became of one offset, as far as the ledger alone shows it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from landfall.ledger import Add, Commit, Hole, Record
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice


@dataclass(frozen=True, slots=True)
class Unknown:
    """No ADD ever added the topic partition."""


@dataclass(frozen=True, slots=True)
class BeforeStart:
    """Landing began at a later offset, ``start``."""

    start: int


@dataclass(frozen=True, slots=True)
class NotLanded:
    """The offset is not landed yet; ``checkpoint`` is the next offset to land."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """The offset was lost in Kafka and skipped by the HOLE in ``slot``."""

    slot: int
    hole: Hole


@dataclass(frozen=True, slots=True)
class Committed:
    """The COMMIT in ``slot`` covers the offset.

    Its record is in one of the slice's objects, or was filtered, or is invisible.
    """

    slot: int
    landed: LandedSlice

    def candidates(self, offset: int) -> tuple[LandedObject, ...]:
        """The objects, dead letters included, that may hold the offset."""
        return tuple(o for o in self.landed.objects if o.first_offset <= offset <= o.last_offset)


OffsetState = Unknown | BeforeStart | NotLanded | Skipped | Committed


def find_offset(records: Iterable[Record], tp: TopicPartition, offset: int) -> OffsetState:
    """What became of an offset, given the whole ledger; of a recreated topic, in its last life."""
    state: OffsetState = Unknown()
    for record in records:
        match record:
            case Add():
                for start in (e.start for e in record.entries if e.topic_partition == tp):
                    state = NotLanded(start) if offset >= start else BeforeStart(start)
            case Hole() if record.piece.topic_partition == tp:
                state = (
                    Skipped(record.header.seq, record)
                    if offset in record.piece.offsets
                    else _advanced(state, record.piece.offsets.end)
                )
            case Commit():
                for s in (s for s in record.slices if s.piece.topic_partition == tp):
                    state = (
                        Committed(record.header.seq, s)
                        if offset in s.piece.offsets
                        else _advanced(state, s.piece.offsets.end)
                    )
            case _:
                pass
    return state


def _advanced(state: OffsetState, end: int) -> OffsetState:
    if isinstance(state, NotLanded):
        return NotLanded(max(state.checkpoint, end))
    return state


def row_of(landed: LandedObject, offset: int) -> int | None:
    """The row of an offset, counted from 0; None if only reading the object can show it.

    The row follows from the offset if the object holds every offset from its first to its last.
    """
    is_dense = landed.rows == landed.last_offset - landed.first_offset + 1
    return (
        offset - landed.first_offset
        if is_dense and landed.first_offset <= offset <= landed.last_offset
        else None
    )
