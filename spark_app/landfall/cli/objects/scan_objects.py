"""The landed objects of a topic that were committed in a stretch of time, by the ledger alone."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from landfall.checks.corrections import Corrections, corrections
from landfall.checks.topic_ids import TopicIds
from landfall.cli.group_store import GroupStore
from landfall.landed.specs import Lists
from landfall.lane.replacements import read_applied
from landfall.ledger import State
from landfall.ledger.effects import (
    Effect,
    LettersReplayed,
    ObjectsReplaced,
    RangeLanded,
    effects,
)
from landfall.ledger.names import object_names
from landfall.ledger.names.object_names import Origin
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import NewObject
from landfall.ledger.task_results import DecidedObject, LandedObject, ObjectKind


@dataclass(frozen=True, slots=True)
class Window:
    """A selection of objects to scan.

    Attributes:
        topic: their topic.
        start: when the first of them was committed; None for the first that exists.
        until: the time before which the last one was committed; None for no end.
        folders: of the output partition, or above it; ``*`` and other wildcards as in a shell.
    """

    topic: str
    start: datetime | None
    until: datetime | None
    folders: str

    def has_time(self, text: str) -> bool:
        """Return whether a record of this time (ISO 8601) is in the window."""
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        is_late_enough = self.start is None or time >= self.start
        return is_late_enough and (self.until is None or time < self.until)

    def has_key(self, key: str) -> bool:
        """Return whether an object is of the topic, and in one of the output partitions."""
        name = object_names.parse_key(key)
        if name.topic != self.topic:
            return False
        depth = self.folders.count("/") + 1
        above = "/".join(name.output_partition.split("/")[:depth])
        return not self.folders or fnmatchcase(above, self.folders)


@dataclass(frozen=True, slots=True)
class InScope(DecidedObject):
    """An object to scan.

    Attributes:
        time: when the record that decided it was written, ISO 8601.
        ranges: what it was landed with.
        origin: the parts of its name.
        is_whole: its COMMIT names all that was landed of its range, and nothing has changed since:
            no object was given up or replaced, and no dead letters were replayed.
        topic_id: of the topic that it was landed of, which distinguishes it from a later one of the
            same name.
    """

    time: str
    ranges: tuple[Slice, ...]
    origin: Origin
    is_whole: bool = False
    topic_id: str = ""


def objects_in_scope(
    opened: GroupStore, state: State, window: Window, lists: Lists
) -> Iterator[InScope]:
    """Yield the visible data objects in a window, in the order of their records.

    ``lists`` comes from ``replaced_lists``.

    Raises:
        Stalled: LEDGER_BROKEN.
        Retry: the store does not answer.
    """
    through = state.applied_through
    retired = {r.key for _, listed in lists.values() for r in listed.retire}
    is_corrected = state.totals.lost_objects or state.totals.replayed
    by = corrections(opened.records(), through) if is_corrected else Corrections()
    changed = {*retired, *by.lost, *by.replays}
    topic_ids = TopicIds()
    for record in opened.records():
        seq, time = record.header.seq, record.header.time
        if seq > through:
            continue
        found = list[_Named]()
        for effect in effects(record):
            topic_ids.take(effect)
            found += _named(opened, effect, lists)
        if not found or not window.has_time(time):
            continue
        for landed, ranges, of_commit in found:
            key = landed.key
            is_there = key not in changed
            if landed.kind is ObjectKind.DATA and is_there and window.has_key(key):
                origin = object_names.origin(opened.name, key)
                is_whole = bool(of_commit) and _is_whole(of_commit, changed)
                yield InScope(
                    slot=seq,
                    landed=landed,
                    time=time,
                    ranges=ranges,
                    origin=origin,
                    is_whole=is_whole,
                    topic_id=topic_ids.of(TopicPartition(origin.topic, origin.partition), seq),
                )


_Named = tuple[LandedObject, tuple[Slice, ...], Sequence[LandedObject]]
"""An object, what it was landed with, and all objects of its slice; none if no COMMIT names it."""


def _named(opened: GroupStore, effect: Effect, lists: Lists) -> Iterator[_Named]:
    match effect:
        case RangeLanded(landed=landed):
            yield from ((object_, (landed.piece,), landed.objects) for object_ in landed.objects)
        case LettersReplayed(landed=again):
            yield from ((object_, (again.piece,), ()) for object_ in again.objects)
        case ObjectsReplaced(slot=slot) if slot in lists:  # or another one was recorded instead
            _, listed = lists[slot]
            for new in listed.objects:
                yield new.landed, _ranges(opened.name, new), ()
        case _:
            pass


def _is_whole(objects: Iterable[LandedObject], changed: Container[str]) -> bool:
    return not any(object_.upload.key in changed for object_ in objects)


def replaced_lists(opened: GroupStore, state: State) -> Lists:
    """All REPLACEs that are applied, with their lists, by slot.

    Raises:
        Stalled: LEDGER_BROKEN.
        Retry: the store does not answer.
    """
    if not state.replaced:
        return {}
    applied = read_applied(opened.store, opened.records(), state.applied_through)
    return {record.header.seq: (record, listed) for record, listed in applied}


def _ranges(group: str, new: NewObject) -> tuple[Slice, ...]:
    """From the first to the last record of each topic partition in an object."""
    topic = object_names.origin(group, new.key).topic
    bounds: dict[int, tuple[int, int]] = {}
    for section in new.sections:
        first, last = bounds.get(section.partition, (section.first_offset, section.last_offset))
        bounds[section.partition] = min(first, section.first_offset), max(last, section.last_offset)
    return tuple(
        Slice(TopicPartition(topic, partition), OffsetRange(first, last + 1))
        for partition, (first, last) in sorted(bounds.items())
    )
