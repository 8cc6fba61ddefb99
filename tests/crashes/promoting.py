"""Schedules in which backfills are promoted, beside merges, undoings, and replays of dead letters.

What a side lane would have landed is made up here: the rows of ranges that are landed, cut into
other slices, by another generation, which finds other records bad. What retires, what is cut in two
before, and when a plan is too old, real code decides. What retires must have just the rows of the
ranges. In every other schedule dead letters are in a place of their own, and so are copies of those
that retired.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import compress, pairwise

from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.decide.backfill import Backfill, covering
from landfall.driver.decide.landed_now import LandedNow
from landfall.driver.decide.promotion import Promotion
from landfall.errors import LandfallError
from landfall.ledger import Purpose
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.merged_objects import Mergeable, halves
from landfall.ledger.replace.replacement_lists import (
    LandedAgain,
    MadeBy,
    NewObject,
    ReplacementList,
    Section,
)
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload
from tests.crashes.judge import folded_records, lost
from tests.crashes.machine import Schedule
from tests.crashes.merging import Merger, MergeSchedule
from tests.crashes.world import TO_BYTES, is_bad

PROMOTES = 0.6
"""How often something is landed again when something might be merged."""
FOLDERS = 3
"""How many folders there are for what is landed again."""
CUTS = 2
"""Into how many more slices a range is cut at most."""


class PromotionSchedule(MergeSchedule):
    """One run; see the module."""

    has_letters = True

    def __init__(self, seed: int, **options: object) -> None:
        super().__init__(seed, **options)  # type: ignore[arg-type]  # as of the class above
        self.wrong: list[str] = []

    def new_planner(self, *arguments: object) -> Merger:
        """What plans REPLACEs for a driver."""
        return Promoter(self, *arguments)  # type: ignore[arg-type]  # as of the class above

    def findings(self) -> Iterator[str]:
        """What is wrong in the end."""
        yield from super().findings()
        yield from self.wrong


def ranges_of_some(schedule: Schedule, landed: LandedNow) -> Backfill | None:
    """Some slices of a topic partition or two, and what retires for them."""
    dice, ranges = schedule.dice, dict[TopicPartition, OffsetRange]()
    tps = sorted(tp for tp in landed.members if landed.present(tp))
    for tp in dice.sample(tps, min(len(tps), dice.randint(1, 2))):
        spans = landed.present(tp)
        first = dice.randrange(len(spans))
        last = dice.randrange(first, len(spans))
        start, end = spans[first].piece.offsets.start, spans[last].piece.offsets.end
        ranges[tp] = OffsetRange(start, end)
    return covering(landed, ranges) if ranges else None


class Promoter(Merger):
    """Merges objects, or lands ranges again that are landed."""

    _schedule: PromotionSchedule

    def _merge(self) -> PlannedReplacement | None:
        if self._schedule.dice.random() >= PROMOTES:
            return super()._merge()
        try:
            with self._schedule.judging():  # readers of the ledger are not what this is about
                landed = read_landed(self._lane)
            found = ranges_of_some(self._schedule, landed)
            if found and found.cut:
                return self._halves(landed, found)
            return self._promotion(landed, found) if found else None
        except LandfallError as error:
            self._schedule.say(f"no promotion: {error}")
            return None

    def _halves(self, landed: LandedNow, found: Backfill | Promotion) -> PlannedReplacement:
        """What is cut at the edges of the ranges before it can be promoted."""
        schedule, token, new = self._schedule, self._deps.new_name(), list[NewObject]()
        for each in found.cut:
            version = each.key, each.landed.upload.token
            topic_id, offsets = schedule.rows.of[version]
            source = Mergeable(each.decided.slot, each.landed, "", each.sections)
            for half in halves(source, found.slices):
                kept = tuple(compress(offsets, half.mask))
                made = self._upload(
                    half.key_by(landed.called_applied), token, ObjectKind.DATA, kept
                )
                schedule.rows.of[made.upload.key, token] = topic_id, kept
                new.append(NewObject(made, half.sections))
        schedule.say(f"cuts {[each.key for each in found.cut]} for {list(map(str, found.slices))}")
        retire = tuple(each.decided for each in found.cut)
        by_key = tuple(sorted(new, key=lambda each: each.landed.upload.key))
        listed, through = ReplacementList(retire, by_key), landed.called_applied
        return PlannedReplacement.of(self._lane.group, token, Purpose.COMPACT, listed, through)

    def _promotion(self, landed: LandedNow, found: Backfill) -> PlannedReplacement:
        schedule = self._schedule
        self._check(landed, found)
        token = self._deps.new_name()
        generation = schedule.dice.randint(1, schedule.generations)
        # As a plan is refused otherwise: see ``side_lane.plan``.
        generation = max([generation, *(each.generation for each in found.retire)])
        again, objects = list[LandedAgain](), list[NewObject]()
        for piece in (part for slice_ in found.slices for part in self._cut(slice_)):
            made = self._landed(landed, piece, generation, token)
            rows = Counter[ObjectKind]()
            for new in made:
                rows[new.landed.kind] += new.landed.rows
            data, letters = rows[ObjectKind.DATA], rows[ObjectKind.DEAD_LETTERS]
            again.append(LandedAgain(piece, data, 0, letters, 0, 100))
            objects += made
        listed = ReplacementList(
            found.retiring,
            tuple(sorted(objects, key=lambda new: new.landed.upload.key)),
            tuple(again),
            MadeBy(generation, landed.specs.get(generation, "")),
        )
        schedule.say(f"promotes {[str(slice_) for slice_ in found.slices]}")
        folders = tuple(sorted(listed.folders))
        through = landed.applied_through
        return PlannedReplacement(token, Purpose.BACKFILL, listed, through, folders, found.slices)

    def _check(self, landed: LandedNow, found: Backfill | Promotion) -> None:
        """Note if what retires has not just the rows of the ranges."""
        rows = Counter[tuple[str, int, int]]()
        for each in found.retire:
            version = each.key, each.landed.upload.token
            name = object_names.origin(self._lane.group, each.key)
            rows += self._schedule.rows.records(version, name.partition)
        wanted = Counter(
            (landed.members[s.topic_partition].topic_id, s.topic_partition.partition, offset)
            for s in found.slices
            for offset in range(s.offsets.start, s.offsets.end)
        )
        more, fewer = rows - wanted, wanted - rows
        if fewer:  # what was given up is in no object
            fewer -= lost(self._schedule, folded_records(self._schedule))
        if more or fewer:
            self._schedule.wrong.append(f"retires with other rows: {more} more, {fewer} fewer")

    def _cut(self, slice_: Slice) -> Iterator[Slice]:
        dice, (start, end) = self._schedule.dice, (slice_.offsets.start, slice_.offsets.end)
        inside = range(start + 1, end)
        edges = dice.sample(inside, min(len(inside), dice.randint(0, CUTS)))
        for each in pairwise([start, *sorted(edges), end]):
            yield Slice(slice_.topic_partition, OffsetRange(*each))

    def _landed(
        self, landed: LandedNow, piece: Slice, generation: int, token: str
    ) -> list[NewObject]:
        tp, start, plan = piece.topic_partition, piece.offsets.start, landed.applied_through
        number = self._schedule.dice.randrange(FOLDERS)
        data = object_names.ObjectName(
            tp.topic, f"again={number}", generation, tp.partition, start, ".txt"
        ).key
        (*_, place) = ("", *self._schedule.letters)
        letters = object_names.dead_letter_key(
            self._lane.group, tp.topic, generation, tp.partition, start, place=place
        )
        offsets = range(start, piece.offsets.end)
        made = []
        for kind, key, bad in (
            (ObjectKind.DEAD_LETTERS, letters, True),
            (ObjectKind.DATA, data, False),
        ):
            if kept := tuple(o for o in offsets if is_bad(o, generation) is bad):
                new = self._upload(object_names.renamed(key, plan), token, kind, kept)
                section = Section(tp.partition, len(kept), kept[0], kept[-1])
                self._schedule.rows.of[new.upload.key, token] = (
                    landed.members[tp].topic_id,
                    kept,
                )
                made.append(NewObject(new, (section,)))
        return made

    def _upload(
        self, key: str, token: str, kind: ObjectKind, offsets: tuple[int, ...]
    ) -> LandedObject:
        store = self._deps.store
        upload_id = store.begin(key, token)
        part = store.put_part(key, upload_id, 1, TO_BYTES[kind](offsets))
        upload = Upload(key, upload_id, (part,), token)
        return LandedObject(upload, kind, len(offsets), offsets[0], offsets[-1], 0)
