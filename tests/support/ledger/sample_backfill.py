"""Backfills in a sample ledger: what they land again takes the place of what was landed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from landfall.ledger import Purpose
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import (
    LandedAgain,
    MadeBy,
    NewObject,
    ReplacementList,
    Section,
)
from landfall.ledger.task_results import DecidedObject, LandedObject, ObjectKind
from tests.support.ledger.sample_ledger import GROUP, SampleLedger
from tests.support.ledger.sample_replacing import Merge, Undo


@dataclass(frozen=True)
class Again:
    """A slice that a backfill landed: which of its records are bad, and which are filtered."""

    tp: TopicPartition
    start: int
    end: int
    bad: Sequence[int] = ()
    filtered: Sequence[int] = ()
    directory: str = "dt=2026-11-21"

    @property
    def piece(self) -> Slice:
        return Slice(self.tp, OffsetRange(self.start, self.end))

    @property
    def good(self) -> list[int]:
        left_out = {*self.bad, *self.filtered}
        return [offset for offset in range(self.start, self.end) if offset not in left_out]


class Backfill(Merge):
    """Objects retire, and others with the rows of the same ranges take their place."""

    def __init__(
        self,
        sample: SampleLedger,
        objects: Iterable[tuple[int, LandedObject]],
        *again: Again,
        generation: int = 1,
        spec: str = "b" * 64,
    ) -> None:
        """Upload what is landed again, with the slots of the COMMITs of what retires."""
        self.again, self.made_by = again, MadeBy(generation, spec)
        by_key = sorted(objects, key=lambda item: item[1].upload.key)
        retire = tuple(DecidedObject(*item) for item in by_key)
        super().__init__(sample, retire, sample.state.applied_through)

    def __post_init__(self) -> None:
        self.token = f"backfill-{self.read_through}"
        new = [made for each in self.again for made in self._made(each)]
        self.listed = ReplacementList(
            self.retire,
            tuple(sorted(new, key=lambda made: made.landed.upload.key)),
            tuple(self._landed_again(each) for each in self.again),
            self.made_by,
        )
        self.slot = -1

    def _made(self, again: Again) -> Iterable[NewObject]:
        tp, generation = again.tp, self.made_by.generation
        name = object_names.ObjectName(
            tp.topic,
            again.directory,
            generation,
            tp.partition,
            again.start,
            self.sample.extension,
        )
        letters = object_names.dead_letter_key(
            GROUP, tp.topic, generation, tp.partition, again.start
        )
        if again.good:
            yield self._new(name.key, again.good, ObjectKind.DATA)
        if again.bad:
            yield self._new(letters, again.bad, ObjectKind.DEAD_LETTERS)

    def _new(self, key: str, offsets: Sequence[int], kind: ObjectKind) -> NewObject:
        key = object_names.renamed(key, self.read_through)
        landed = self.sample.upload(key, offsets, kind, self.token)
        section = Section(
            object_names.origin(GROUP, key).partition, len(offsets), offsets[0], offsets[-1]
        )
        new = NewObject(landed, (section,))
        self.sample.merged[key] = new
        return new

    def _landed_again(self, again: Again) -> LandedAgain:
        counts = len(again.good), len(again.filtered), len(again.bad)
        return LandedAgain(again.piece, *counts, 0, 9 * len(again.good))

    def _slices(self) -> tuple[Slice, ...]:
        by_tp = groupby(self.again, key=attrgetter("tp"))
        found = []
        for tp, some in by_tp:
            pieces = [*some]
            found.append(Slice(tp, OffsetRange(pieces[0].start, pieces[-1].end)))
        return tuple(found)

    @property
    def duplicates(self) -> int:
        """A backfill leaves out nothing."""
        return 0

    def record(self, **fields: object) -> Merge:
        """Append the REPLACE."""
        return super().record(**{"purpose": Purpose.BACKFILL, **fields})

    @property
    def objects(self) -> list[tuple[int, LandedObject]]:
        """The new objects, with the slot of the REPLACE."""
        return [(self.slot, new.landed) for new in self.listed.objects]


class UndoneBackfill(Undo):
    """What retired by a backfill, or by what undid one, comes back."""

    merge: "Backfill | UndoneBackfill"

    def _slices(self) -> tuple[Slice, ...]:
        return self.merge._slices()

    def record(self, **fields: object) -> Merge:
        """Append the REPLACE."""
        return super().record(undoes=self.merge.slot, **fields)


class GivenUp(Undo):
    """Copies of what was to retire, instead of a REPLACE of which uploads are lost."""

    def __init__(self, merge: Merge) -> None:
        """Upload copies of objects that are all there still."""
        self.merge = merge
        Merge.__init__(self, merge.sample, merge.retire, merge.slot)

    def _where(self, key: str) -> str:
        return key

    def record(self, **fields: object) -> Merge:
        """Append the REPLACE."""
        return super().record(instead=self.merge.slot, **fields)
