"""Objects that are merged into one: what is known of each, and what the new one is called. Pure.

A merged object is named after the object with its first rows, and by the slot that its merge was
planned by (``object_names.Origin.plan``). It may be merged again: then the sections of the result
are those of the objects that were landed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from landfall.ledger.object_names import ObjectName, parse_key, split_plan
from landfall.ledger.replacement_lists import RetiringObject, Section
from landfall.ledger.task_results import LandedObject


@dataclass(frozen=True, slots=True)
class Mergeable:
    """A visible object of data that may be merged with others.

    Attributes:
        slot: of the record that decided it.
        landed: the object.
        spec: the stored spec that it was made by; empty if none is stored.
        sections: of an object that was merged before.
        is_mixed: its rows do not follow each other as its sections do.
        is_sorted: they were sorted.
    """

    slot: int
    landed: LandedObject
    spec: str = ""
    sections: tuple[Section, ...] = ()
    is_mixed: bool = False
    is_sorted: bool = False

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
        return split_plan(self.name.extension)[0]

    @property
    def extension(self) -> str:
        """The extension of its format."""
        return split_plan(self.name.extension)[1]

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


def sections_of(sources: Sequence[Mergeable]) -> tuple[Section, ...]:
    """Where the rows of objects come from, one object after the other."""
    return tuple(section for source in sources for section in source.own_sections)


def offsets_of(sections: Sequence[Section]) -> tuple[int, int]:
    """The first and the last offset in sections of the partition that the first one has."""
    own = [section for section in sections if section.partition == sections[0].partition]
    return min(s.first_offset for s in own), max(s.last_offset for s in own)
