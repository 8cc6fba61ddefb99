"""Rows of replaced objects, to look up the source of a merged object's rows."""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

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
    exact: defaultdict[tuple[str, int, int, int], deque[OldRows]] = field(
        default_factory=lambda: defaultdict(deque)
    )

    def add(self, old: OldRows) -> None:
        """Add rows that retire."""
        self.all.append(old)
        piece = old.piece
        self.exact[piece.place, old.name.partition, piece.first, piece.last].append(old)

    def find(self, place: str, section: RowSection) -> OldRows | None:
        """The first that matches the section and was not found yet, or else overlaps it."""
        same = self.exact.get((place, section.partition, section.first_offset, section.last_offset))
        overlapping = (
            old
            for old in self.all
            if (old.piece.place, old.name.partition) == (place, section.partition)
            and old.piece.first <= section.last_offset
            and section.first_offset <= old.piece.last
        )
        found = same.popleft() if same else next(overlapping, None)
        if found is not None:
            found.is_used = True
        return found
