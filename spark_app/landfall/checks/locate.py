"""What became of one offset, as far as the ledger alone can tell. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from landfall.ledger import Add, Commit, Hole, Record
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice


@dataclass(frozen=True, slots=True)
class Unknown:
    """The topic partition never entered."""


@dataclass(frozen=True, slots=True)
class BeforeStart:
    """Landing began behind it."""

    start: int


@dataclass(frozen=True, slots=True)
class NotYet:
    """It is not landed yet; ``checkpoint`` is the next offset to land."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """It was lost at the source, and skipped by HOLE ``slot``."""

    slot: int
    hole: Hole


@dataclass(frozen=True, slots=True)
class Read:
    """COMMIT ``slot`` read it: it is in one of the slice's objects, or left out, or invisible."""

    slot: int
    landed: LandedSlice

    def candidates(self, offset: int) -> tuple[LandedObject, ...]:
        """The objects, dead letters included, that may hold it."""
        return tuple(o for o in self.landed.objects if o.first_offset <= offset <= o.last_offset)


Place = Unknown | BeforeStart | NotYet | Skipped | Read


def place_of(records: Iterable[Record], tp: TopicPartition, offset: int) -> Place:
    """What became of an offset, given the whole ledger; of a topic that was recreated, the last one's."""
    place: Place = Unknown()
    for record in records:
        match record:
            case Add():
                for start in (e.start for e in record.entries if e.topic_partition == tp):
                    place = NotYet(start) if offset >= start else BeforeStart(start)
            case Hole() if record.piece.topic_partition == tp:
                place = (
                    Skipped(record.header.seq, record)
                    if offset in record.piece.offsets
                    else _moved(place, record.piece.offsets.end)
                )
            case Commit():
                for s in (s for s in record.slices if s.piece.topic_partition == tp):
                    place = (
                        Read(record.header.seq, s)
                        if offset in s.piece.offsets
                        else _moved(place, s.piece.offsets.end)
                    )
            case _:
                pass
    return place


def _moved(place: Place, end: int) -> Place:
    return NotYet(max(place.checkpoint, end)) if isinstance(place, NotYet) else place


def row_of(landed: LandedObject, offset: int) -> int | None:
    """The row, from 0, when the object holds every offset between its first and its last; else only reading it tells."""
    is_dense = landed.rows == landed.last_offset - landed.first_offset + 1
    return (
        offset - landed.first_offset
        if is_dense and landed.first_offset <= offset <= landed.last_offset
        else None
    )
