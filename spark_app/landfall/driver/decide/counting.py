"""Slices that are landed and objects that count, as ``landfall.driver.decide.landed_now`` has them.

Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from landfall.ledger import Purpose
from landfall.ledger.names import folders, object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import LandedAgain, Section
from landfall.ledger.task_results import DecidedObject, LandedObject

Ranges = Mapping[TopicPartition, OffsetRange]


@dataclass(frozen=True, slots=True)
class LandedRange:
    """A slice that a COMMIT landed, or a backfill by its REPLACE.

    Attributes:
        slot: of the COMMIT or REPLACE.
        landed: the slice with its counters.
        generation: that landed it.
        time: when the record was written.
        life: the slot in which the topic partition entered.
    """

    slot: int
    landed: LandedAgain
    generation: int
    time: datetime
    life: int

    @property
    def piece(self) -> Slice:
        """The slice."""
        return self.landed.piece


@dataclass(frozen=True, slots=True)
class CountingObject:
    """An object that counts, or that will once it is visible.

    Attributes:
        decided: the object, and the record that decided it, as the list of a REPLACE names it.
        topic: its topic.
        generation: that its name has.
        sections: where its rows come from.
        lives: the lives of topic partitions that its rows come from: the slots in which they
            entered.
        purpose: of the REPLACE that made it replace other objects; None if it was landed.
        since: the slot since which these rows exist, in this object or another one.
        is_mixed: its rows do not follow each other as its sections do.
    """

    decided: DecidedObject
    topic: str
    generation: int
    sections: tuple[Section, ...]
    lives: frozenset[tuple[TopicPartition, int]]
    purpose: Purpose | None = None
    since: int = -1
    is_mixed: bool = False

    @property
    def landed(self) -> LandedObject:
        """The object as it was decided."""
        return self.decided.landed

    @property
    def key(self) -> str:
        """Its key."""
        return self.landed.key

    @property
    def folder(self) -> str:
        """The folder that it is in."""
        return self.decided.folder

    @property
    def slices(self) -> Iterator[Slice]:
        """From the first record to the last, per section."""
        return map(self.slice_of, self.sections)

    def slice_of(self, section: Section) -> Slice:
        """From the first record of one of its sections to the last."""
        tp = TopicPartition(self.topic, section.partition)
        return Slice(tp, OffsetRange(section.first_offset, section.last_offset + 1))


def output_partition(key: str) -> str:
    """The folders of a data object's key that its records choose, with those above its topic's."""
    destination, below = folders.split_destination(key)
    inner = below.partition("/")[2].rpartition("/")[0]
    return f"{destination}/{inner}" if destination else inner


def by_topic_partition(
    objects: Iterable[CountingObject],
) -> Mapping[TopicPartition, list[OffsetRange]]:
    """Return where the rows of objects come from."""
    found: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for object_ in objects:
        for slice_ in object_.slices:
            found[slice_.topic_partition].append(slice_.offsets)
    return found


def unplanned(key: str) -> str:
    """Return the object's original key, without the slot of the REPLACE that made it."""
    return object_names.renamed(key, 0)


def decided_as(each: CountingObject, slot: int, landed: LandedObject) -> CountingObject:
    """Return the object as another record decides it, with the same rows."""
    return replace(each, decided=DecidedObject(slot, landed))


def overlap(one: CountingObject, other: CountingObject) -> bool:
    """Return whether both may have rows of the same records."""
    return one.topic == other.topic and any(
        a.topic_partition == b.topic_partition
        and a.offsets.start < b.offsets.end
        and b.offsets.start < a.offsets.end
        for a in one.slices
        for b in other.slices
    )
