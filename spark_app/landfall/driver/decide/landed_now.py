"""What a ledger says is landed now: which slices, and the objects that count. Pure.

A backfill lands slices again and replaces the objects that count, so it has to know both exactly. A
state of the ledger does not have them: it would grow with every object. So they are gathered record
by record, in the order of the slots.

An object counts from the slot on that calls it visible, until a LOST gives it up, a REPLAY reads
it, or a REPLACE lets it retire. What was landed before a topic partition left the lane is of a
*former life* of it: its offsets may be those of another topic.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from landfall.ledger import (
    Add,
    Block,
    Commit,
    Drop,
    Entry,
    Hole,
    Lost,
    Open,
    Purpose,
    Record,
    Repair,
    Replace,
    Replay,
    folders,
    object_names,
)
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replacement_lists import NewObject, Replaced, RetiringObject, Section
from landfall.ledger.task_results import LandedObject


@dataclass(frozen=True, slots=True)
class LandedRange:
    """A slice that a COMMIT landed.

    Attributes:
        slot: of the COMMIT.
        piece: the slice.
        generation: that landed it.
        time: when the COMMIT was written.
        life: the slot in which the topic partition entered.
    """

    slot: int
    piece: Slice
    generation: int
    time: datetime
    life: int


@dataclass(frozen=True, slots=True)
class CountingObject:
    """An object that counts, or that will once it is visible.

    Attributes:
        retiring: as what it is named if it retires.
        topic: its topic.
        generation: that its name has.
        sections: where its rows come from.
        lives: of which lives of topic partitions its rows are: the slots in which they entered.
        purpose: of the REPLACE that put it in the place of others; None if it was landed.
    """

    retiring: RetiringObject
    topic: str
    generation: int
    sections: tuple[Section, ...]
    lives: frozenset[tuple[TopicPartition, int]]
    purpose: Purpose | None = None

    @property
    def landed(self) -> LandedObject:
        """The object as it was decided."""
        return self.retiring.landed

    @property
    def key(self) -> str:
        """Its key."""
        return self.landed.upload.key

    @property
    def folder(self) -> str:
        """The folder that it is in."""
        return self.key.rpartition("/")[0]

    @property
    def slices(self) -> Iterator[Slice]:
        """From the first record to the last, per section."""
        for each in self.sections:
            tp = TopicPartition(self.topic, each.partition)
            yield Slice(tp, OffsetRange(each.first_offset, each.last_offset + 1))


@dataclass
class LandedNow:
    """The slices that are landed and the objects that count, through the last record taken in.

    Attributes:
        group: its name.
        slot: the last slot.
        applied_through: the slot up to which everything is visible.
        ranges: per topic partition what COMMITs landed, in order, in all its lives.
        holes: per topic partition the ranges that HOLEs skipped, with their slots.
        objects: those that count, by key.
        missing: those that a BLOCK calls missing, by key.
        members: the topic partitions of the lane, as they entered.
        lives: the slots in which they did.
        specs: the stored spec that each generation named last.
        made_by: the stored specs by which COMMITs landed.
        given_up: how many objects LOSTs gave up.
    """

    group: str
    slot: int = -1
    applied_through: int = -1
    ranges: dict[TopicPartition, list[LandedRange]] = field(
        default_factory=lambda: defaultdict(list)
    )
    holes: dict[TopicPartition, list[tuple[int, OffsetRange]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    objects: dict[str, CountingObject] = field(default_factory=dict)
    missing: dict[str, CountingObject] = field(default_factory=dict)
    members: dict[TopicPartition, Entry] = field(default_factory=dict)
    lives: dict[TopicPartition, int] = field(default_factory=dict)
    specs: dict[int, str] = field(default_factory=dict)
    made_by: set[str] = field(default_factory=set)
    given_up: int = 0
    _due: dict[int, dict[str, CountingObject]] = field(default_factory=dict)
    _read: dict[int, tuple[str, ...]] = field(default_factory=dict)
    _replacing: dict[int, tuple[Replaced, Purpose]] = field(default_factory=dict)
    _generation: int = 0

    def take(self, record: Record, listed: Replaced | None = None) -> None:  # noqa: C901, PLR0912  # one arm per type
        """Take the next record in; ``listed`` is what the list of a REPLACE holds."""
        match record:
            case Open():
                self._generation = record.generation
                self.specs[record.generation] = record.spec
            case Add():
                for entry in record.entries:
                    self.members[entry.topic_partition] = entry
                    self.lives[entry.topic_partition] = record.header.seq
            case Drop():
                self._drop(record)
            case Commit():
                self._commit(record)
            case Replay():
                objects = (o for each in record.slices for o in each.objects)
                self._due[record.header.seq] = self._decided(record.header.seq, objects)
                self._read[record.header.seq] = tuple(s.dead_letters for s in record.slices)
            case Hole():
                self.holes[record.piece.topic_partition].append(
                    (record.header.seq, record.piece.offsets)
                )
            case Repair():
                self._repair(record)
            case Lost():
                self.given_up += len(record.objects)
                for key in (o.upload.key for o in record.objects):
                    self._due.get(record.commit, {}).pop(key, None)
                    self.missing.pop(key, None)
            case Block():
                for named in record.missing:
                    due = self._due.get(named.commit, {})
                    self.missing |= {key: due.pop(key) for key in named.keys if key in due}
            case Replace() if listed is not None:
                self._replacing.pop(record.instead, None)
                self._replacing[record.header.seq] = listed, record.purpose
            case _:
                pass
        self.slot = record.header.seq
        self._apply(record.header.applied_through)

    @property
    def waiting(self) -> Iterator[tuple[int, CountingObject]]:
        """Objects that are decided and not known to be visible, with the slot they wait for."""
        for slot, objects in self._due.items():
            for each in objects.values():
                yield slot, each

    @property
    def replacing(self) -> Iterator[tuple[int, Replaced]]:
        """What REPLACEs decided that are not known to be applied, with their slots."""
        for slot, (listed, _) in self._replacing.items():
            yield slot, listed

    def is_present(self, each: CountingObject) -> bool:
        """Whether no row of an object is of a former life of its topic partition."""
        return all(self.lives.get(tp) == life for tp, life in each.lives)

    def is_former(self, each: CountingObject) -> bool:
        """Whether every row of an object is of a former life of its topic partition."""
        return not any(self.lives.get(tp) == life for tp, life in each.lives)

    def present(self, tp: TopicPartition) -> list[LandedRange]:
        """What is landed and visible of a topic partition in its present life, in order."""
        life = self.lives.get(tp, -1)
        return [
            each
            for each in self.ranges.get(tp, ())
            if each.life == life and each.slot <= self.applied_through
        ]

    def checkpoint(self, tp: TopicPartition) -> int:
        """The next offset to land of a member, whether or not all before it is visible."""
        life = self.lives[tp]
        ends = [each.piece.offsets.end for each in self.ranges.get(tp, ()) if each.life == life]
        ends += [hole.end for slot, hole in self.holes.get(tp, ()) if slot > life]
        return max(ends, default=self.members[tp].start)

    def _drop(self, record: Drop) -> None:
        for tp in record.topic_partitions:
            self.lives.pop(tp, None)
            self.members.pop(tp, None)
        gone = set(record.topic_partitions)
        self.missing = {
            key: each
            for key, each in self.missing.items()
            if not gone & {slice_.topic_partition for slice_ in each.slices}
        }

    def _commit(self, record: Commit) -> None:
        slot, time = record.header.seq, datetime.fromisoformat(record.header.time)
        self.made_by.add(self.specs[self._generation])
        for landed in record.slices:
            tp = landed.piece.topic_partition
            self.ranges[tp].append(
                LandedRange(slot, landed.piece, self._generation, time, self.lives[tp])
            )
        self._due[slot] = self._decided(slot, (o for s in record.slices for o in s.objects))

    def _decided(self, slot: int, objects: Iterable[LandedObject]) -> dict[str, CountingObject]:
        found = {}
        for landed in objects:
            key = landed.upload.key
            name = object_names.origin(self.group, key)
            tp = TopicPartition(name.topic, name.partition)
            section = Section(name.partition, landed.rows, landed.first_offset, landed.last_offset)
            retiring, lives = RetiringObject(slot, landed), frozenset([(tp, self.lives[tp])])
            found[key] = CountingObject(retiring, name.topic, name.generation, (section,), lives)
        return found

    def _repair(self, record: Repair) -> None:
        due = self._due.get(record.commit, {})
        for landed in record.objects:
            key = landed.upload.key
            if key in due:
                due[key] = _decided_as(due[key], due[key].retiring.slot, landed)
            elif (gone := self.missing.pop(key, None)) is not None:
                again = self._due.setdefault(record.header.seq, {})
                again[key] = _decided_as(gone, record.header.seq, landed)

    def _apply(self, through: int) -> None:
        """Let everything count that is visible through a slot."""
        self.applied_through = max(self.applied_through, through)
        for slot in sorted(slot for slot in self._due if slot <= self.applied_through):
            for key in self._read.pop(slot, ()):
                self.objects.pop(key, None)
            self.objects |= self._due.pop(slot)
        for slot in sorted(slot for slot in self._replacing if slot <= self.applied_through):
            self._replace(slot, *self._replacing.pop(slot))

    def _replace(self, slot: int, listed: Replaced, purpose: Purpose) -> None:
        keys = (each.landed.upload.key for each in listed.retire)
        retired = [found for key in keys if (found := self.objects.pop(key, None))]
        former = [each for each in retired if not self.is_present(each)]
        for new in listed.objects:
            counting = self._counting(slot, new, former)
            self.objects[counting.key] = replace(counting, purpose=purpose)

    def _counting(
        self, slot: int, new: NewObject, former: Iterable[CountingObject]
    ) -> CountingObject:
        name = object_names.origin(self.group, new.landed.upload.key)
        tps = {TopicPartition(name.topic, section.partition) for section in new.sections}
        lives = {(tp, self.lives.get(tp, -1)) for tp in tps}
        made = CountingObject(
            RetiringObject(slot, new.landed),
            name.topic,
            name.generation,
            new.sections,
            frozenset(lives),
        )
        before = {life for each in former if _overlap(made, each) for life in each.lives}
        return replace(made, lives=made.lives | before) if before else made


def output_partition(key: str) -> str:
    """The folders of a data object's key that its records choose, with those above its topic's."""
    destination, below = folders.split_destination(key)
    inner = below.partition("/")[2].rpartition("/")[0]
    return f"{destination}/{inner}" if destination else inner


def by_topic_partition(
    objects: Iterable[CountingObject],
) -> Mapping[TopicPartition, list[OffsetRange]]:
    """Where the rows of objects come from."""
    found: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for each in objects:
        for slice_ in each.slices:
            found[slice_.topic_partition].append(slice_.offsets)
    return found


def _decided_as(each: CountingObject, slot: int, landed: LandedObject) -> CountingObject:
    return replace(each, retiring=RetiringObject(slot, landed))


def _overlap(one: CountingObject, other: CountingObject) -> bool:
    return one.topic == other.topic and any(
        a.topic_partition == b.topic_partition
        and a.offsets.start < b.offsets.end
        and b.offsets.start < a.offsets.end
        for a in one.slices
        for b in other.slices
    )
