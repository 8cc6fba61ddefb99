"""Where a ledger begins: the first offset of each topic partition, and its first objects. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from landfall.ledger import Record
from landfall.ledger.effects import (
    LifetimeBegan,
    LifetimeEnded,
    RangeLanded,
    SpecOpened,
    effects,
)
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind


@dataclass(frozen=True, slots=True)
class Start:
    """Where a topic partition begins.

    Attributes:
        offset: the first that Landfall lands, or accounts for otherwise.
        objects: data objects of the first COMMIT that has any; empty if nothing is landed yet.
        error: what is wrong with these objects; empty if nothing is.
    """

    offset: int
    objects: tuple[LandedObject, ...] = ()
    error: str = ""

    @property
    def first(self) -> LandedObject | None:
        """The object with the first row."""
        return min(self.objects, key=lambda each: each.first_offset, default=None)


@dataclass(frozen=True)
class Beginning:
    """How a ledger begins.

    Attributes:
        generation: of the first driver; None without a ledger.
        starts: by topic partition.
    """

    generation: int | None = None
    starts: Mapping[TopicPartition, Start] = field(default_factory=dict)


def beginning(records: Iterable[Record]) -> Beginning:
    """How a ledger with these records begins: by the first life of each that landed anything."""
    generation: int | None = None
    starts: dict[TopicPartition, Start] = {}
    for effect in (effect for record in records for effect in effects(record)):
        match effect:
            case SpecOpened() if generation is None:
                generation = effect.generation
            case LifetimeBegan(entry=entry):
                starts.setdefault(entry.topic_partition, Start(entry.start))
            case LifetimeEnded(topic_partition=tp):
                if tp in starts and not starts[tp].objects:
                    del starts[tp]
            case RangeLanded(landed=landed):
                _take(starts, landed)
            case _:
                pass
    return Beginning(generation, starts)


def _take(starts: dict[TopicPartition, Start], landed: LandedSlice) -> None:
    tp = landed.piece.topic_partition
    data = tuple(object_ for object_ in landed.objects if object_.kind is ObjectKind.DATA)
    start = starts.get(tp)
    if data and start and not start.objects:
        starts[tp] = Start(start.offset, data)
