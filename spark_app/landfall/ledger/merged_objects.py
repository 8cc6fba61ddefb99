"""Objects that are merged into one: what is known of each, and what the new one is called. Pure.

A merged object is named after the object with its first rows, and by the slot up to which whoever
planned the merge had read the ledger (``object_names.Origin.plan``). It may be merged again: then
the sections of the result are those of the objects that were landed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from landfall.ledger.object_names import ObjectName, parse_key
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replacement_lists import NewObject, RetiringObject, Section
from landfall.ledger.task_results import LandedObject

_PLAN = re.compile(r"\.r(0|[1-9][0-9]*)(?![^.])")


@dataclass(frozen=True, slots=True)
class Mergeable:
    """A visible object of data that may be merged with others.

    Attributes:
        slot: of the record that decided it.
        landed: the object.
        spec: the stored spec that it was made by; empty if none is stored.
        sections: of an object that was merged before.
        is_mixed: its rows do not follow each other as its sections do.
    """

    slot: int
    landed: LandedObject
    spec: str = ""
    sections: tuple[Section, ...] = ()
    is_mixed: bool = False

    @property
    def key(self) -> str:
        """The object's key."""
        return self.landed.upload.key

    @property
    def name(self) -> ObjectName:
        """The parts of its key."""
        return parse_key(self.key)

    @property
    def folder(self) -> str:
        """The folder in which it is."""
        return self.key.rpartition("/")[0]

    @property
    def plan(self) -> int:
        """The slot in its name if it was put in the place of others; -1 if it was landed."""
        planned = _PLAN.match(self.name.extension)
        return int(planned[1]) if planned else -1

    @property
    def extension(self) -> str:
        """The extension of its format."""
        planned = _PLAN.match(self.name.extension)
        return self.name.extension[planned.end() :] if planned else self.name.extension

    @property
    def retiring(self) -> RetiringObject:
        """What a list names when the object retires."""
        return RetiringObject(self.slot, self.landed)

    @property
    def own_sections(self) -> tuple[Section, ...]:
        """Where its rows come from: one range, if it was landed."""
        landed = self.landed
        one = Section(self.name.partition, landed.rows, landed.first_offset, landed.last_offset)
        return self.sections or (one,)


def merged_key(first: ObjectName, read_through: int) -> str:
    """The key of the object that takes the place of this one and of others.

    Raises:
        ValueError: the key would be too long.
    """
    planned = _PLAN.match(first.extension)
    extension = first.extension[planned.end() :] if planned else first.extension
    return replace(first, extension=f".r{read_through}{extension}").key


def sections_of(sources: Sequence[Mergeable]) -> tuple[Section, ...]:
    """Where the rows of objects come from, one object after the other."""
    return tuple(section for source in sources for section in source.own_sections)


def offsets_of(sections: Sequence[Section]) -> tuple[int, int]:
    """The first and the last offset in sections of the partition that the first one has."""
    own = [section for section in sections if section.partition == sections[0].partition]
    return min(s.first_offset for s in own), max(s.last_offset for s in own)


def slices_of(objects: Sequence[NewObject]) -> tuple[Slice, ...]:
    """Per topic partition, from the first record in these objects to the last; sorted."""
    found = dict[TopicPartition, tuple[int, int]]()
    for new in objects:
        topic = parse_key(new.landed.upload.key).topic
        for section in new.sections:
            tp = TopicPartition(topic, section.partition)
            first, last = found.get(tp, (section.first_offset, section.last_offset))
            found[tp] = min(first, section.first_offset), max(last, section.last_offset)
    return tuple(
        Slice(tp, OffsetRange(first, last + 1)) for tp, (first, last) in sorted(found.items())
    )
