"""Objects that are merged into one, or cut in two: what is known of each, and the new names. Pure.

A merged object is named after the object with its first rows, and by the slot that its merge was
planned by (``object_names.Origin.plan``). It may be merged again: then the sections of the result
come from the objects that were landed. If it is cut, each half has some of its sections, and is
named after the first of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from landfall.ledger.names.object_names import ObjectName, parse_key, renamed
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import Section
from landfall.ledger.task_results import DecidedObject


@dataclass(frozen=True, slots=True)
class Mergeable(DecidedObject):
    """A visible object of data that may be merged with other objects.

    Attributes:
        spec: the stored spec that it was made by; empty if none is stored.
        sections: of an object that was merged before.
        is_mixed: its rows do not follow each other as its sections do.
        is_sorted: they were sorted.
        left_out_by: the publishers whose tables do not get it.
    """

    spec: str = ""
    sections: tuple[Section, ...] = ()
    is_mixed: bool = False
    is_sorted: bool = False
    left_out_by: tuple[str, ...] = ()

    @property
    def name(self) -> ObjectName:
        """The parts of its key."""
        return parse_key(self.key)

    @property
    def plan(self) -> int:
        """The slot in its name if it replaced other objects; -1 if it was landed."""
        return self.name.planned_by

    @property
    def extension(self) -> str:
        """The extension of its format."""
        return self.name.format_extension

    @property
    def decided(self) -> DecidedObject:
        """The object as the list of a REPLACE names it."""
        return DecidedObject(self.slot, self.landed)

    @property
    def own_sections(self) -> tuple[Section, ...]:
        """Where its rows come from: one range, if it was landed."""
        return self.sections or (Section.of(self.name.partition, self.landed),)


def sections_of(sources: Sequence[Mergeable]) -> tuple[Section, ...]:
    """Where the rows of objects come from, one object after the other."""
    return tuple(section for source in sources for section in source.own_sections)


def offsets_of(sections: Sequence[Section]) -> tuple[int, int]:
    """The first and the last offset in sections of the partition that the first one has."""
    own = [section for section in sections if section.partition == sections[0].partition]
    return min(s.first_offset for s in own), max(s.last_offset for s in own)


@dataclass(frozen=True, slots=True)
class Half:
    """Some sections of an object that is cut in two.

    Attributes:
        key: of the new object, without the slot that the cut is planned by.
        sections: those that it has.
        runs: how many rows of the object follow each other that it has, or has not.
    """

    key: str
    sections: tuple[Section, ...]
    runs: tuple[tuple[bool, int], ...]

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """For each row of the object, whether the half has it."""
        kept, rows = zip(*self.runs, strict=True)
        return np.repeat(np.array(kept), rows)

    def key_by(self, read_through: int) -> str:
        """The key of the new object, by the slot up to which the ledger was read to plan it."""
        return renamed(self.key, read_through)


def halves(source: Mergeable, slices: Sequence[Slice]) -> tuple[Half, ...]:
    """An object cut in two: its rows in these ranges, and the rest; one if there is no rest."""
    sections = source.own_sections
    inside = tuple(_is_inside(source.name.topic, section, slices) for section in sections)
    outside = tuple(not flag for flag in inside)
    return tuple(_half(source.name, sections, kept) for kept in (inside, outside) if any(kept))


def _half(name: ObjectName, sections: Sequence[Section], kept: tuple[bool, ...]) -> Half:
    own = tuple(section for section, is_kept in zip(sections, kept, strict=True) if is_kept)
    start, _ = offsets_of(own)
    runs = tuple((is_kept, section.rows) for is_kept, section in zip(kept, sections, strict=True))
    return Half(replace(name, partition=own[0].partition, start=start).key, own, runs)


def _is_inside(topic: str, section: Section, slices: Sequence[Slice]) -> bool:
    tp = TopicPartition(topic, section.partition)
    return any(
        slice_.topic_partition == tp
        and section.first_offset < slice_.offsets.end
        and slice_.offsets.start <= section.last_offset
        for slice_ in slices
    )
