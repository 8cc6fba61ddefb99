"""The slices and the counting objects that are landed now, by a ledger. Pure.

A backfill lands slices again and replaces the objects that count, so it has to know both exactly. A
state of the ledger does not have them: it would grow with every object. So they are gathered record
by record, in the order of the slots; for a backfill that is planned, only of its ranges.

An object counts from the slot that calls it visible, until a LOST gives it up, a REPLAY reads it,
or a REPLACE lets it retire. What was landed before a topic partition left the lane is of a *former
life* of it: its offsets may belong to another topic.

What a backfill landed again counts as landed by it, in its slices, until that is undone. An object
that was brought back is what it is a copy of.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from landfall.driver.decide.counting import (
    CountingObject,
    LandedRange,
    Ranges,
    decided_as,
    overlap,
    unplanned,
)
from landfall.ledger import Entry, Record, Replace, time_of
from landfall.ledger.effects import (
    Effect,
    LettersReplayed,
    LifetimeBegan,
    LifetimeEnded,
    ObjectGivenUp,
    ObjectMissing,
    ObjectRestored,
    ObjectsReplaced,
    RangeLanded,
    RangeSkipped,
    SpecOpened,
    effects,
)
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import (
    LandedAgain,
    NewObject,
    ReplacementList,
    Section,
)
from landfall.ledger.replace.replacing import changes_rows
from landfall.ledger.task_results import DecidedObject, LandedObject

# The backfills that are promoted, by the REPLACEs of a ledger.
#
# A promotion is taken back by an UNDO of its REPLACE, and counts again once that is undone in turn.


@dataclass
class Promotions:
    """The promotions in the REPLACEs read so far, in the order of their slots."""

    _slots: dict[str, int] = field(default_factory=dict)
    _taken_back: dict[int, str] = field(default_factory=dict)
    _pending: dict[int, Replace] = field(default_factory=dict)

    def take(self, record: Replace) -> None:
        """Take the next REPLACE in, which is not applied yet."""
        self._pending.pop(record.instead, None)
        self._pending[record.header.seq] = record

    def apply(self, through: int) -> None:
        """Take note that everything is applied through a slot."""
        for slot in sorted(slot for slot in self._pending if slot <= through):
            self._apply(slot, self._pending.pop(slot))

    def of(self, name: str) -> int:
        """The slot of the REPLACE by which a backfill is promoted, perhaps not yet applied; or -1.

        Once it is undone, and that is applied, there is none.
        """
        begun = (slot for slot, record in self._pending.items() if record.backfill == name)
        return max(begun, default=self._slots.get(name, -1))

    def _apply(self, slot: int, record: Replace) -> None:
        if record.backfill:
            self._slots[record.backfill] = slot
        elif (again := self._taken_back.get(record.undoes)) is not None:
            self._slots[again] = slot
        else:
            for name in [
                name for name, known_slot in self._slots.items() if known_slot == record.undoes
            ]:
                del self._slots[name]
                self._taken_back[slot] = name


@dataclass(frozen=True, slots=True)
class _Replacing:
    """A REPLACE that is not applied, with the lives that its topic partitions had."""

    record: Replace
    listed: ReplacementList
    lives: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _ReplacedRanges:
    """The ranges and objects that a backfill, or its undoing, has replaced."""

    ranges: Sequence[LandedRange]
    objects: Sequence[CountingObject]


@dataclass
class LandedNow:
    """The slices that are landed and the objects that count, through the last record taken in.

    Attributes:
        group: its name.
        within: of rows from these offsets alone, objects and ranges are kept; None for all.
        slot: the last slot.
        applied_through: the slot up to which everything is visible.
        ranges: per topic partition what was landed, in order, in all its lives.
        holes: per topic partition the ranges that HOLEs skipped, with their slots.
        objects: the ones that count, by key.
        missing: the ones that a BLOCK calls missing, by key.
        members: the topic partitions of the lane, as they entered.
        lives: the slots in which they did.
        specs: the stored spec that each generation named last.
        made_by: the stored specs by which COMMITs landed.
        given_up: how many objects LOSTs gave up.
        replays: how many dead-letter objects were replayed.
        promotions: which backfills are promoted.
        next_offsets: of members, if not everything was taken in.
    """

    group: str
    within: Ranges | None = None
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
    replays: int = 0
    promotions: Promotions = field(default_factory=Promotions)
    next_offsets: Mapping[TopicPartition, int] | None = None
    _due: dict[int, dict[str, CountingObject]] = field(default_factory=dict)
    _read: dict[int, list[str]] = field(default_factory=dict)
    _replacing: dict[int, _Replacing] = field(default_factory=dict)
    _before: dict[int, _ReplacedRanges] = field(default_factory=dict)
    _called_applied: int | None = None
    _generation: int = 0

    def take(self, record: Record, listed: ReplacementList | None = None) -> None:
        """Take the next record in; ``listed`` is what the list of a REPLACE holds."""
        for effect in effects(record):
            self._take(effect, listed)
        self.reached(record.header.seq, record.header.applied_through)

    def _take(self, effect: Effect, listed: ReplacementList | None) -> None:  # noqa: C901, PLR0912  # one arm per event
        match effect:
            case SpecOpened():
                self._generation = effect.generation
                self.specs[effect.generation] = effect.spec
            case LifetimeBegan(entry=entry):
                self.members[entry.topic_partition] = entry
                self.lives[entry.topic_partition] = effect.slot
            case LifetimeEnded(topic_partition=tp):
                self._leave(tp)
            case RangeLanded():
                self._land(effect)
            case RangeSkipped(piece=piece) if self._keeps(piece):
                self.holes[piece.topic_partition].append((effect.slot, piece.offsets))
            case LettersReplayed(slot=slot, landed=again):
                self.replays += 1
                if self._keeps(again.piece):
                    self._decide(slot, again.objects)
                    self._read.setdefault(slot, []).append(again.dead_letters)
            case ObjectRestored(slot=slot, due=due, landed=landed):
                self._restore(slot, due, landed)
            case ObjectMissing(due=due, key=key):
                if found := self._due.get(due, {}).pop(key, None):
                    self.missing[key] = found
            case ObjectGivenUp(due=due, key=key):
                self.given_up += 1
                self._due.get(due, {}).pop(key, None)
                self.missing.pop(key, None)
            case ObjectsReplaced(record=record):
                self._replacement(record, listed)
            case _:
                pass

    def concerns(self, record: Replace) -> bool:
        """Return whether a REPLACE concerns what is kept, so that its list is wanted."""
        return record.instead in self._replacing or any(map(self._keeps, record.slices))

    def reached(self, slot: int, applied_through: int) -> None:
        """Take note of a slot, up to which what was left out does not concern what is kept."""
        self.slot = slot
        self._apply(applied_through)

    def _keeps(self, slice_: Slice) -> bool:
        """Return whether rows of a slice may be kept."""
        if self.within is None:
            return True
        own, offsets = self.within.get(slice_.topic_partition), slice_.offsets
        return own is not None and own.start < offsets.end and offsets.start < own.end

    @property
    def waiting(self) -> Iterator[tuple[int, CountingObject]]:
        """Objects that are decided and not known to be visible, with the slot they wait for."""
        for slot, objects in self._due.items():
            for object_ in objects.values():
                yield slot, object_

    def see(self, through: int) -> None:
        """Let count what is visible up to a slot, though no record calls it visible yet.

        Without it, the last COMMIT of a group that has nothing more to land would never count.
        ``landfall.lane.seen`` returns the slot.
        """
        self._called_applied = self.called_applied
        self._apply(through)

    @property
    def called_applied(self) -> int:
        """The slot up to which the ledger itself records that everything is applied."""
        return self.applied_through if self._called_applied is None else self._called_applied

    @property
    def replacing(self) -> Iterator[tuple[int, ReplacementList]]:
        """Yield the decisions of REPLACEs that are not known to be applied, with their slots."""
        for slot, replacement in self._replacing.items():
            yield slot, replacement.listed

    def is_present(self, each: CountingObject) -> bool:
        """Return whether no row of an object is of a former life of its topic partition."""
        return all(self.lives.get(tp) == life for tp, life in each.lives)

    def is_former(self, each: CountingObject) -> bool:
        """Return whether every row of an object is of a former life of its topic partition."""
        return not any(self.lives.get(tp) == life for tp, life in each.lives)

    def present(self, tp: TopicPartition) -> list[LandedRange]:
        """Return the visible ranges of a topic partition in its present life, in order."""
        life = self.lives.get(tp, -1)
        return [
            range_
            for range_ in self.ranges.get(tp, ())
            if range_.life == life and range_.slot <= self.applied_through
        ]

    def checkpoint(self, tp: TopicPartition) -> int:
        """Return the next offset to land of a member, whether or not all before it is visible."""
        if self.next_offsets is not None:
            return self.next_offsets[tp]
        life = self.lives[tp]
        ends = [
            range_.piece.offsets.end for range_ in self.ranges.get(tp, ()) if range_.life == life
        ]
        ends += [hole.end for slot, hole in self.holes.get(tp, ()) if slot > life]
        return max(ends, default=self.members[tp].start)

    def _replacement(self, record: Replace, listed: ReplacementList | None) -> None:
        self.promotions.take(record)
        if listed is None:
            return
        before = self._replacing.pop(record.instead, None)
        slot, known = record.header.seq, self.lives
        lives = {s.topic_partition: known.get(s.topic_partition, -1) for s in record.slices}
        if before and record.again:
            lives = {**before.lives}
        self._replacing[slot] = _Replacing(record, listed, lives)

    def _leave(self, tp: TopicPartition) -> None:
        self.lives.pop(tp, None)
        self.members.pop(tp, None)
        self.missing = {
            key: object_
            for key, object_ in self.missing.items()
            if tp not in {slice_.topic_partition for slice_ in object_.slices}
        }

    def _land(self, effect: RangeLanded) -> None:
        self.made_by.add(self.specs[self._generation])
        if self._keeps(effect.piece):
            tp, time = effect.piece.topic_partition, time_of(effect.slot, effect.time)
            made = LandedAgain.of(effect.landed)
            life = self.lives[tp]
            self.ranges[tp].append(
                LandedRange(
                    slot=effect.slot, landed=made, generation=self._generation, time=time, life=life
                )
            )
            self._decide(effect.slot, effect.landed.objects)

    def _decide(self, slot: int, objects: Iterable[LandedObject]) -> None:
        """Take note of objects that count once they are visible."""
        for landed in objects:
            key = landed.key
            name = object_names.origin(self.group, key)
            tp = TopicPartition(name.topic, name.partition)
            section = Section.of(name.partition, landed)
            decided, lives = DecidedObject(slot, landed), frozenset([(tp, self.lives[tp])])
            counting = CountingObject(
                decided=decided,
                topic=name.topic,
                generation=name.generation,
                sections=(section,),
                lives=lives,
                since=slot,
            )
            if any(map(self._keeps, counting.slices)):
                self._due.setdefault(slot, {})[key] = counting

    def _restore(self, slot: int, due: int, landed: LandedObject) -> None:
        key, objects = landed.key, self._due.get(due, {})
        if key in objects:
            objects[key] = decided_as(objects[key], objects[key].decided.slot, landed)
        elif (gone := self.missing.pop(key, None)) is not None:
            self._due.setdefault(slot, {})[key] = decided_as(gone, slot, landed)

    def _apply(self, through: int) -> None:
        """Let everything count that is visible through a slot."""
        self.applied_through = max(self.applied_through, through)
        known = {*self._due, *self._read, *self._replacing}
        for slot in sorted(slot for slot in known if slot <= self.applied_through):
            for key in self._read.pop(slot, ()):
                self.objects.pop(key, None)
            self.objects |= self._due.pop(slot, {})
            if (replacing := self._replacing.pop(slot, None)) is not None:
                self._replace(slot, replacing)
        self.promotions.apply(self.applied_through)

    def _replace(self, slot: int, replacing: _Replacing) -> None:
        record, listed = replacing.record, replacing.listed
        keys = (object_.key for object_ in listed.retire)
        retired = [found for key in keys if (found := self.objects.pop(key, None))]
        is_given_up = record.instead != -1 and not record.again
        copied: Sequence[CountingObject] = retired if is_given_up else ()
        if changes_rows(record.purpose, record.undoes):
            before = self._before.get(record.undoes)
            ranges = before.ranges if before else self._landed_again(replacing)
            copied = before.objects if before else ()
            self._before[slot] = _ReplacedRanges(self._swapped(replacing, ranges), retired)
        originals = {unplanned(object_.key): object_ for object_ in copied}
        sources = _SourceLives.of(() if listed.made_by else retired)
        for new in listed.objects:
            if not self._is_kept(new):
                continue
            counting = originals.get(unplanned(new.key))
            if counting is None:
                counting = self._counting(replacing, new, sources)
                counting = replace(counting, since=_since(record, counting, retired))
            else:
                counting = decided_as(counting, slot, new.landed)
            self.objects[counting.key] = counting

    def _landed_again(self, replacing: _Replacing) -> list[LandedRange]:
        record, listed = replacing.record, replacing.listed
        slot, time = record.header.seq, time_of(record.header.seq, record.header.time)
        generation = listed.made_by.generation if listed.made_by else -1
        return [
            LandedRange(
                slot=slot,
                landed=range_,
                generation=generation,
                time=time,
                life=replacing.lives[range_.piece.topic_partition],
            )
            for range_ in listed.landed_again
            if self._keeps(range_.piece)
        ]

    def _is_kept(self, new: NewObject) -> bool:
        """Return whether a new object has rows that are kept."""
        if self.within is None:
            return True
        topic = object_names.origin(self.group, new.key).topic
        return any(
            self._keeps(
                Slice(
                    TopicPartition(topic, section.partition),
                    OffsetRange(section.first_offset, section.last_offset + 1),
                )
            )
            for section in new.sections
        )

    def _swapped(self, replacing: _Replacing, ranges: Iterable[LandedRange]) -> list[LandedRange]:
        """Replace the ranges that a REPLACE concerns with these, and return the old ones."""
        gone, lives = list[LandedRange](), replacing.lives
        for slice_ in replacing.record.slices:
            tp, offsets = slice_.topic_partition, slice_.offsets
            kept = list[LandedRange]()
            for range_ in self.ranges.get(tp, ()):
                start = range_.piece.offsets.start
                is_gone = range_.life == lives[tp] and start in offsets
                (gone if is_gone else kept).append(range_)
            kept += (range_ for range_ in ranges if range_.piece.topic_partition == tp)
            self.ranges[tp] = sorted(kept, key=lambda each: (each.life, each.piece))
        return gone

    def _counting(
        self, replacing: _Replacing, new: NewObject, sources: "_SourceLives"
    ) -> CountingObject:
        slot, lives_then = replacing.record.header.seq, replacing.lives
        name = object_names.origin(self.group, new.key)
        made = CountingObject(
            decided=DecidedObject(slot, new.landed),
            topic=name.topic,
            generation=name.generation,
            sections=new.sections,
            lives=frozenset(),
            purpose=replacing.record.purpose,
            is_mixed=new.mixed,
        )
        lives = set[_LifeOf]()
        for section in new.sections:
            tp = TopicPartition(name.topic, section.partition)
            then = (tp, lives_then.get(tp, self.lives.get(tp, -1)))
            lives |= sources.take(made, section) or {then}
        return replace(made, lives=frozenset(lives))


_LifeOf = tuple[TopicPartition, int]
"""A topic partition, and the slot in which it entered."""


@dataclass(frozen=True)
class _SourceLives:
    """The lives that sections of replaced objects are of; each section is found once."""

    _found: Mapping[tuple[str, int, int, int], list[tuple[int, frozenset[_LifeOf]]]]

    @classmethod
    def of(cls, retired: Iterable[CountingObject]) -> "_SourceLives":
        """The lives of the objects that retire by a REPLACE."""
        found = defaultdict[tuple[str, int, int, int], list[tuple[int, frozenset[_LifeOf]]]](list)
        for object_ in retired:
            for section in object_.sections:
                own = frozenset(
                    life for life in object_.lives if life[0].partition == section.partition
                )
                found[_place(object_, section)].append((object_.generation, own))
        return cls(found)

    def take(self, made: CountingObject, section: Section) -> frozenset[_LifeOf]:
        """The lives of a section of a new object; none if no object that retired has it.

        Objects are merged within their generation, which differs between lives; earlier software
        may not have done so.
        """
        waiting = self._found.get(_place(made, section), [])
        generations = [generation for generation, _ in waiting]
        if made.generation in generations:
            return waiting.pop(generations.index(made.generation))[1]
        return waiting.pop(0)[1] if waiting else frozenset()


def _place(each: CountingObject, section: Section) -> tuple[str, int, int, int]:
    return each.folder, section.partition, section.first_offset, section.last_offset


def _since(record: Replace, made: CountingObject, retired: Iterable[CountingObject]) -> int:
    """Return since when the rows of a new object exist, in it or in what it was made of."""
    if changes_rows(record.purpose, record.undoes):
        return record.header.seq
    return max((object_.since for object_ in retired if overlap(made, object_)), default=-1)
