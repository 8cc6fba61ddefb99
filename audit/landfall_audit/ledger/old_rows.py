"""Rows of replaced objects, to look up the source of a merged object's rows."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from landfall_audit import basenames
from landfall_audit.ledger.corrections import CorrectedRows
from landfall_audit.ledger.replaced_lists import RowSection


class RangeName(NamedTuple):
    """A range of the ledger: its topic partition, lifetime and first offset."""

    topic: str
    partition: int
    lifetime: int
    start: int


@dataclass(slots=True)
class OldRows:
    """Rows of a range in an object that retires."""

    name: RangeName
    piece: CorrectedRows
    is_used: bool = False


@dataclass
class SourcesOfRows:
    """Replaced objects of a list, to look up the sources of sections of new objects."""

    all: list[OldRows] = field(default_factory=list)
    exact: defaultdict[tuple[str, int, int, int], list[OldRows]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, old: OldRows) -> None:
        """Add rows that retire."""
        self.all.append(old)
        piece = old.piece
        self.exact[piece.place, old.name.partition, piece.first, piece.last].append(old)

    def find(self, key: str, section: RowSection) -> OldRows | None:
        """The first that matches a section of an object and was not found yet, or else overlaps it.

        One of the object's generation comes first: another one may have landed a former topic.
        """
        place, generation = key.rpartition("/")[0], _generation(key)
        same = self.exact.get((place, section.partition, section.first_offset, section.last_offset))
        overlapping = (
            old
            for old in self.all
            if (old.piece.place, old.name.partition) == (place, section.partition)
            and old.piece.first <= section.last_offset
            and section.first_offset <= old.piece.last
        )
        alike = (old for old in same or () if _generation(old.piece.key) == generation)
        found = next(alike, same[0]) if same else next(overlapping, None)
        if found is not None:
            found.is_used = True
            if same:
                same.remove(found)
        return found


def _generation(key: str) -> int | None:
    """The generation in an object's name; None if that is none, which is a fault by itself."""
    name = basenames.parse(key)
    return name.generation if name else None
