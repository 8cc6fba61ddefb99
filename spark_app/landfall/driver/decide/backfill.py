"""Choose the ranges that a backfill lands again, and the objects that it replaces. Pure.

A backfill lands whole slices of COMMITs again: per topic partition one range, from the first slice
that is chosen to the last, with all between. The objects that it replaces have exactly the rows of
the ranges. A merged object may have rows on both sides of an edge. It is cut in two before the
backfill is promoted: its sections show which of its rows are inside. If its rows do not follow its
sections, since they were sorted or duplicates were left out, it cannot be cut, and the ranges grow
to all of its rows. The ranges of a sample, which is compared and replaces nothing, shrink instead.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from fractions import Fraction

from landfall.driver.decide.counting import (
    CountingObject,
    LandedRange,
    Ranges,
    by_topic_partition,
    output_partition,
)
from landfall.driver.decide.landed_now import LandedNow
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import Section
from landfall.ledger.replace.replacing import MAX_FOLDERS, MAX_OBJECTS
from landfall.ledger.task_results import DecidedObject, LandedObject, ObjectKind


class NothingChosen(Stalled):
    """No slice is chosen: perhaps nothing was landed in that time."""


@dataclass(frozen=True, slots=True)
class SliceChoice:
    """The slices to land again: the ones that match every criterion; all if there is none.

    Attributes:
        topics: of these topics.
        since: landed at or after this time, by when the COMMIT was written.
        until: landed before this time.
        generations: of these generations, by the names of the objects that hold its rows, or by the
            COMMIT if there is none.
        output_partitions: with rows in these output partitions; ``*``, ``?`` and ``[…]`` stand for
            text as in a shell.
        keys: with rows in these objects.
        share: of so many of the topic partitions for which that holds, at least one; which ones is
            decided by their names, so that a second plan takes the same. None for all.
        is_sample: nothing is replaced, so any slices that hold serve; a share is a sample.
    """

    topics: frozenset[str] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    generations: range = range(0)
    output_partitions: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()
    share: Fraction | None = None
    is_sample: bool = False

    def takes_range(self, landed: LandedRange) -> bool:
        """Return whether a slice was landed in time, of a topic that is chosen."""
        return self.is_in_time(landed.piece.topic_partition.topic, landed.time)

    def is_in_time(self, topic: str, time: datetime) -> bool:
        """Return whether what was landed of a topic at a time is chosen, by these."""
        return (
            (not self.topics or topic in self.topics)
            and (self.since is None or time >= self.since)
            and (self.until is None or time < self.until)
        )

    def takes_object(self, each: CountingObject) -> bool:
        """Return whether rows of an object are chosen."""
        return self.takes(each.landed, each.generation)

    def takes(self, landed: LandedObject, generation: int) -> bool:
        """Return whether rows of an object whose name has a generation are chosen."""
        key = landed.key
        folder, is_data = output_partition(key), landed.kind is ObjectKind.DATA
        return (
            (not self.generations or generation in self.generations)
            and (not self.keys or key in self.keys)
            and (
                not self.output_partitions
                or (
                    is_data
                    and any(fnmatchcase(folder, pattern) for pattern in self.output_partitions)
                )
            )
        )

    @property
    def needs_objects(self) -> bool:
        """True if slices are chosen by their objects."""
        return bool(self.keys or self.output_partitions or self.generations)


@dataclass(frozen=True, slots=True)
class Growth:
    """A range that is longer than what was asked for.

    Attributes:
        topic_partition: whose range it is.
        asked: what was asked for; None if nothing of this topic partition.
        grown: what is landed again.
        key: the first object that is the reason.
    """

    topic_partition: TopicPartition
    asked: OffsetRange | None
    grown: OffsetRange
    key: str

    def __str__(self) -> str:
        """Return the choice in one line."""
        asked = f"{self.asked} grew to " if self.asked else ""
        return (
            f"{self.topic_partition}: {asked}{self.grown}, since {self.key} has rows of it and of "
            "what was chosen, and was sorted or rid of duplicates when it was merged, so it "
            "cannot be cut"
        )


@dataclass(frozen=True, slots=True)
class Backfill:
    """The ranges to land again and the objects to replace.

    Attributes:
        slices: the ranges, one per topic partition, sorted.
        retire: the objects that count and have only rows of these ranges, by key.
        cut: the objects that have rows inside and outside of them, by key.
        growths: why ranges are longer than what was asked for, one each, sorted.
        between: how many offsets are in no chosen slice, but between two of them.
    """

    slices: tuple[Slice, ...]
    retire: tuple[CountingObject, ...]
    cut: tuple[CountingObject, ...] = ()
    growths: tuple[Growth, ...] = ()
    between: int = 0

    @property
    def retiring(self) -> tuple[DecidedObject, ...]:
        """The objects with only rows of the ranges, as the list of a REPLACE names them."""
        return tuple(object_.decided for object_ in self.retire)

    def of(self, kind: ObjectKind) -> tuple[CountingObject, ...]:
        """Return the objects with rows of the ranges that hold data, or dead letters."""
        return tuple(
            object_ for object_ in (*self.retire, *self.cut) if object_.landed.kind is kind
        )

    def rows_of(self, each: CountingObject) -> int:
        """Return the number of rows of an object in the ranges."""
        return sum(section.rows for section in sections_inside(each, self.slices))


def chosen(landed: LandedNow, choice: SliceChoice) -> Backfill:
    """Return what a choice lands again.

    Raises:
        NothingChosen: no slice is chosen.
        Stalled: SPEC_INVALID, what is chosen cannot be landed again, or is not there.
        Retry: something of it is not visible yet.
    """
    _check_names(landed, choice)
    found, between = _chosen_ranges(landed, choice)
    return replace(covering(landed, found), between=between)


def reached(landed: LandedNow, choice: SliceChoice) -> Ranges:
    """Return the ranges that a choice lands again, whether or not that is possible.

    Raises:
        NothingChosen: no slice is chosen.
        Stalled: SPEC_INVALID, something of a feed is chosen.
    """
    return grown(landed, _chosen_ranges(landed, choice)[0])


def _chosen_ranges(landed: LandedNow, choice: SliceChoice) -> tuple[Ranges, int]:
    """The ranges, and how many of their offsets are in no chosen slice, but between two of them."""
    counting = [object_ for object_ in landed.objects.values() if not landed.is_former(object_)]
    by_rows = _RowChoice(choice, counting)
    ranges, lengths = dict[TopicPartition, OffsetRange](), dict[TopicPartition, int]()
    for tp, member in landed.members.items():
        in_time = [range_ for range_ in landed.present(tp) if choice.takes_range(range_)]
        taken = by_rows.of(tp, in_time) if choice.needs_objects else in_time
        if taken and member.feed:
            raise _refused(f"{tp}: it has files, and only topics of Kafka are landed again")
        if taken:
            first, last = taken[0].piece.offsets, taken[-1].piece.offsets
            ranges[tp] = OffsetRange(first.start, last.end)
            lengths[tp] = sum(len(range_.piece.offsets) for range_ in taken)
    if not ranges:
        raise NothingChosen(
            Reason.SPEC_INVALID, "backfill: no slice is chosen that is landed and visible"
        )
    some = _share_of(ranges, choice.share)
    if choice.is_sample or choice.share is not None:
        return _shrunk(landed, some), 0
    return some, sum(len(offsets) - lengths[tp] for tp, offsets in some.items())


def _shrunk(landed: LandedNow, ranges: Ranges) -> Ranges:
    """Return the ranges without the edge slices that share objects with slices outside.

    Raises:
        NothingChosen: no slice is left.
    """
    left, before = dict(ranges), dict[TopicPartition, OffsetRange]()
    while left != before:
        before = dict(left)
        for object_ in _inside(landed, landed.objects.values(), before):
            if object_.is_mixed and _straddles(object_, left):
                for slice_ in (s for s in object_.slices if _is_inside(s, left)):
                    _leave_out(landed, slice_, left)
    if not left:
        raise NothingChosen(
            Reason.SPEC_INVALID,
            "backfill: each chosen slice shares objects with other slices, which were sorted or "
            "rid of duplicates when they were merged, so there is no sample of these rows alone",
        )
    return left


def _leave_out(landed: LandedNow, slice_: Slice, ranges: dict[TopicPartition, OffsetRange]) -> None:
    """Take the slices out of a range that have some offsets, and what is on the shorter side."""
    tp = slice_.topic_partition
    whole = ranges.pop(tp)
    spans = [range_.piece.offsets for range_ in _touched(landed.present(tp), [slice_.offsets])]
    first, last = (spans[0], spans[-1]) if spans else (slice_.offsets, slice_.offsets)
    sides = (
        OffsetRange(whole.start, max(whole.start, first.start)),
        OffsetRange(min(last.end, whole.end), whole.end),
    )
    longer = max(sides, key=len)
    if len(longer):
        ranges[tp] = longer


def _share_of(ranges: Ranges, share: Fraction | None) -> Ranges:
    """Return the ranges of a share of the topic partitions, at least one."""
    if share is None:
        return ranges
    count = max(1, round(share * len(ranges)))
    ranked = sorted(ranges, key=lambda tp: hashlib.sha256(str(tp).encode()).digest())
    return {tp: ranges[tp] for tp in ranked[:count]}


def grown(landed: LandedNow, ranges: Ranges) -> Ranges:
    """These ranges, grown to whole slices and to all rows of objects that cannot be cut."""
    return _grown(landed, ranges)[0]


def covering(landed: LandedNow, ranges: Ranges) -> Backfill:
    """These ranges, grown to whole slices and to all rows of objects that cannot be cut.

    Raises:
        Stalled, Retry: as ``chosen``.
    """
    whole, reasons = _grown(landed, ranges)
    slices = tuple(Slice(tp, whole[tp]) for tp in sorted(whole))
    concerned = sorted(_inside(landed, landed.objects.values(), whole), key=lambda each: each.key)
    cut = tuple(object_ for object_ in concerned if _straddles(object_, whole))
    retire = tuple(object_ for object_ in concerned if not _straddles(object_, whole))
    _check_former(landed, concerned)
    for slice_ in slices:
        _check_whole(landed, slice_)
    _check_visible(landed, whole, {object_.key for object_ in concerned})
    objects, folders = len(retire) + 2 * len(cut), {object_.folder for object_ in concerned}
    if objects > MAX_OBJECTS // 2 or len(folders) > MAX_FOLDERS // 2:
        raise _refused(
            f"{objects} objects in {len(folders)} folders would retire, more than "
            f"{MAX_OBJECTS // 2} in {MAX_FOLDERS // 2}: choose less, and make several backfills"
        )
    growths = tuple(Growth(tp, ranges.get(tp), whole[tp], reasons[tp]) for tp in sorted(reasons))
    return Backfill(slices, retire, cut, growths)


def sections_inside(each: CountingObject, slices: Iterable[Slice]) -> tuple[Section, ...]:
    """Return the sections of an object whose rows are in these ranges, in order."""
    ranges = {slice_.topic_partition: slice_.offsets for slice_ in slices}
    return tuple(section for section in each.sections if _is_inside(each.slice_of(section), ranges))


def _is_inside(slice_: Slice, ranges: Ranges) -> bool:
    found = ranges.get(slice_.topic_partition)
    return found is not None and _overlap(slice_.offsets, found)


def _straddles(each: CountingObject, ranges: Ranges) -> bool:
    """Return whether an object has rows inside and outside of ranges."""
    return len({_is_inside(slice_, ranges) for slice_ in each.slices}) > 1


def _grown(landed: LandedNow, ranges: Ranges) -> tuple[Ranges, Mapping[TopicPartition, str]]:
    """The ranges, grown to whole slices, and for those that objects let grow the first of these."""
    grown, before = dict(ranges), dict[TopicPartition, OffsetRange]()
    reasons = dict[TopicPartition, str]()
    while grown != before:
        before = dict(grown)
        for object_ in _inside(landed, landed.objects.values(), before):
            is_whole = object_.is_mixed and _straddles(object_, before)
            for slice_ in (s for s in object_.slices if is_whole or _is_inside(s, before)):
                tp, offsets = slice_.topic_partition, slice_.offsets
                hull = _hull(grown.get(tp, offsets), offsets)
                if is_whole and hull != grown.get(tp):
                    reasons.setdefault(tp, object_.key)
                grown[tp] = hull
        for tp, offsets in grown.items():
            for span in _touched(landed.present(tp), [offsets]):
                grown[tp] = _hull(grown[tp], span.piece.offsets)
    return grown, reasons


def _inside(
    landed: LandedNow, objects: Iterable[CountingObject], ranges: Ranges
) -> Iterator[CountingObject]:
    """Return the objects with rows in these ranges, former lives excluded."""
    for object_ in objects:
        if not landed.is_former(object_) and any(_is_inside(s, ranges) for s in object_.slices):
            yield object_


def _touched(spans: Sequence[LandedRange], hits: Iterable[OffsetRange]) -> Iterator[LandedRange]:
    """Yield the slices of a topic partition, in order, that share offsets with one of these."""
    starts = [span.piece.offsets.start for span in spans]
    for hit in hits:
        first = max(0, bisect_right(starts, hit.start) - 1)
        for span in spans[first : bisect_left(starts, hit.end)]:
            if _overlap(span.piece.offsets, hit):
                yield span


class _RowChoice:
    """Chooses slices by the objects that hold their rows."""

    def __init__(self, choice: SliceChoice, counting: Sequence[CountingObject]) -> None:
        self._choice = choice
        self._hits = by_topic_partition(
            object_ for object_ in counting if choice.takes_object(object_)
        )
        # A slice without rows has no object that names its generation.
        takes_bare = choice.generations and not (choice.keys or choice.output_partitions)
        self._held = by_topic_partition(counting) if takes_bare else None

    def of(self, tp: TopicPartition, spans: Sequence[LandedRange]) -> list[LandedRange]:
        """Return the slices that are chosen, in order."""
        taken = set(_touched(spans, self._hits.get(tp, ())))
        if self._held is not None:
            held = set(_touched(spans, self._held.get(tp, ())))
            generations = self._choice.generations
            taken |= {
                range_
                for range_ in spans
                if range_ not in held and range_.generation in generations
            }
        return [range_ for range_ in spans if range_ in taken]


def _check_names(landed: LandedNow, choice: SliceChoice) -> None:
    known = {tp.topic for tp in landed.members}
    if unknown := sorted(choice.topics - known):
        raise _refused(f"{unknown[0]}: the group lands no such topic")
    if unknown := sorted(choice.keys - landed.objects.keys()):
        raise _refused(
            f"{unknown[0]}: no such object counts now; it may have been replaced meanwhile"
        )


def _check_whole(landed: LandedNow, slice_: Slice) -> None:
    """Raise ``Stalled`` if something in the range is not landed in the present life."""
    tp, offsets = slice_.topic_partition, slice_.offsets
    for slot, hole in landed.holes.get(tp, ()):
        if slot > landed.lives.get(tp, -1) and _overlap(hole, offsets):
            raise _refused(
                f"{tp}: the HOLE in slot {slot} skipped {hole}, so {offsets} cannot be landed as "
                "one range: choose what is before it, or what is after it"
            )
    at = offsets.start
    for span in landed.present(tp):
        if span.piece.offsets.start == at and at < offsets.end:
            at = span.piece.offsets.end
    if at != offsets.end:
        raise _refused(f"{tp}: of {offsets}, what follows {at} is not landed and visible")


def _check_former(landed: LandedNow, retire: Iterable[CountingObject]) -> None:
    for object_ in retire:
        if not landed.is_present(object_):
            raise _refused(
                f"{object_.key} has rows of a topic partition that left the lane and entered "
                "again: their offsets may belong to another topic, so they cannot be landed again"
            )


def _check_visible(landed: LandedNow, ranges: Ranges, retire: Collection[str]) -> None:
    """Raise if an object with rows in the ranges is missing, or decided and not yet visible."""
    for object_ in _inside(landed, landed.missing.values(), ranges):
        raise _refused(
            f"{object_.key} is missing: its upload was lost; decide about it "
            "first: see `landfall status`"
        )
    for slot, object_ in landed.waiting:
        if next(_inside(landed, [object_], ranges), None):
            raise Retry(f"{object_.key} of slot {slot} is not known to be visible yet")
    for slot, listed in landed.replacing:
        if any(object_.key in retire for object_ in listed.retire):
            raise Retry(f"the REPLACE in slot {slot} is not applied yet")


def _hull(one: OffsetRange, other: OffsetRange) -> OffsetRange:
    return OffsetRange(min(one.start, other.start), max(one.end, other.end))


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    return one.start < other.end and other.start < one.end


def _refused(message: str) -> Stalled:
    return Stalled(Reason.SPEC_INVALID, f"backfill: {message}")
