"""Which ranges a backfill lands again, and which objects it would replace. Pure.

A backfill lands whole slices of COMMITs again: per topic partition one range, from the first slice
that is chosen to the last, with all between. If an object that counts has rows on both sides of an
edge, as a merged one may, the range grows until none does. So the objects that retire have exactly
the rows of the ranges, and others take the place of all of them.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from fractions import Fraction

from landfall.driver.decide.counting import (
    CountingObject,
    LandedRange,
    by_topic_partition,
    output_partition,
)
from landfall.driver.decide.landed_now import LandedNow
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replacement_lists import RetiringObject
from landfall.ledger.replacing import MAX_FOLDERS, MAX_OBJECTS
from landfall.ledger.task_results import ObjectKind

Ranges = Mapping[TopicPartition, OffsetRange]


class NothingChosen(Stalled):
    """No slice is chosen: perhaps nothing was landed in that time."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which slices are landed again: those for which all of this holds; all without anything.

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
    """

    topics: frozenset[str] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    generations: range = range(0)
    output_partitions: tuple[str, ...] = ()
    keys: frozenset[str] = frozenset()
    share: Fraction | None = None

    def takes_range(self, landed: LandedRange) -> bool:
        """Whether a slice was landed in time, of a topic that is chosen."""
        return (
            (not self.topics or landed.piece.topic_partition.topic in self.topics)
            and (self.since is None or landed.time >= self.since)
            and (self.until is None or landed.time < self.until)
        )

    def takes_object(self, each: CountingObject) -> bool:
        """Whether rows of an object are chosen."""
        folder = output_partition(each.key)
        is_data = each.landed.kind is ObjectKind.DATA
        return (
            (not self.generations or each.generation in self.generations)
            and (not self.keys or each.key in self.keys)
            and (
                not self.output_partitions
                or (is_data and any(fnmatchcase(folder, each) for each in self.output_partitions))
            )
        )

    @property
    def needs_objects(self) -> bool:
        """Whether a slice is chosen by its objects."""
        return bool(self.keys or self.output_partitions or self.generations)


@dataclass(frozen=True, slots=True)
class Backfill:
    """What is landed again.

    Attributes:
        slices: the ranges, one per topic partition, sorted.
        retire: the objects that count and have the rows of these ranges, by key.
    """

    slices: tuple[Slice, ...]
    retire: tuple[CountingObject, ...]

    @property
    def retiring(self) -> tuple[RetiringObject, ...]:
        """The objects as the list of a REPLACE names them."""
        return tuple(each.retiring for each in self.retire)

    def of(self, kind: ObjectKind) -> tuple[CountingObject, ...]:
        """The objects that hold data, or dead letters."""
        return tuple(each for each in self.retire if each.landed.kind is kind)


def chosen(landed: LandedNow, choice: Choice) -> Backfill:
    """What a choice lands again.

    Raises:
        NothingChosen: no slice is chosen.
        Stalled: SPEC_INVALID, what is chosen cannot be landed again, or is not there.
        Retry: something of it is not visible yet.
    """
    _check_names(landed, choice)
    counting = [each for each in landed.objects.values() if not landed.is_former(each)]
    by_rows = _RowChoice(choice, counting)
    ranges: dict[TopicPartition, OffsetRange] = {}
    for tp, member in landed.members.items():
        in_time = [each for each in landed.present(tp) if choice.takes_range(each)]
        taken = by_rows.of(tp, in_time) if choice.needs_objects else in_time
        if taken and member.feed:
            raise _refused(f"{tp}: it has files, and only topics of Kafka are landed again")
        if taken:
            first, last = taken[0].piece.offsets, taken[-1].piece.offsets
            ranges[tp] = OffsetRange(first.start, last.end)
    if not ranges:
        raise NothingChosen(
            Reason.SPEC_INVALID, "backfill: no slice is chosen that is landed and visible"
        )
    return covering(landed, _share_of(ranges, choice.share))


def _share_of(ranges: Ranges, share: Fraction | None) -> Ranges:
    """The ranges of a share of the topic partitions, at least one."""
    if share is None:
        return ranges
    count = max(1, round(share * len(ranges)))
    ranked = sorted(ranges, key=lambda tp: hashlib.sha256(str(tp).encode()).digest())
    return {tp: ranges[tp] for tp in ranked[:count]}


def covering(landed: LandedNow, ranges: Ranges) -> Backfill:
    """These ranges, grown until no object that counts has rows inside and outside.

    Raises:
        Stalled, Retry: as ``chosen``.
    """
    grown = _grown(landed, ranges)
    slices = tuple(Slice(tp, grown[tp]) for tp in sorted(grown))
    retire = sorted(_inside(landed, landed.objects.values(), grown), key=lambda each: each.key)
    _check_former(landed, retire)
    for slice_ in slices:
        _check_whole(landed, slice_)
    _check_visible(landed, grown, {each.key for each in retire})
    folders = {each.folder for each in retire}
    if len(retire) > MAX_OBJECTS // 2 or len(folders) > MAX_FOLDERS // 2:
        raise _refused(
            f"{len(retire)} objects in {len(folders)} folders would retire, more than "
            f"{MAX_OBJECTS // 2} in {MAX_FOLDERS // 2}: choose less, and make several backfills"
        )
    return Backfill(slices, tuple(retire))


def _grown(landed: LandedNow, ranges: Ranges) -> Ranges:
    """The ranges, each grown to whole slices and whole objects."""
    grown, before = dict(ranges), dict[TopicPartition, OffsetRange]()
    while grown != before:
        before = dict(grown)
        for each in _inside(landed, landed.objects.values(), before):
            for slice_ in each.slices:
                tp, offsets = slice_.topic_partition, slice_.offsets
                grown[tp] = _hull(grown.get(tp, offsets), offsets)
        for tp, offsets in grown.items():
            for span in _touched(landed.present(tp), [offsets]):
                grown[tp] = _hull(grown[tp], span.piece.offsets)
    return grown


def _inside(
    landed: LandedNow, objects: Iterable[CountingObject], ranges: Ranges
) -> Iterator[CountingObject]:
    """The objects with rows in these ranges, but for those of former lives."""
    for each in objects:
        if not landed.is_former(each) and any(
            slice_.topic_partition in ranges
            and _overlap(slice_.offsets, ranges[slice_.topic_partition])
            for slice_ in each.slices
        ):
            yield each


def _touched(spans: Sequence[LandedRange], hits: Iterable[OffsetRange]) -> Iterator[LandedRange]:
    """The slices of a topic partition, in order, that share offsets with one of these."""
    starts = [span.piece.offsets.start for span in spans]
    for hit in hits:
        first = max(0, bisect_right(starts, hit.start) - 1)
        for span in spans[first : bisect_left(starts, hit.end)]:
            if _overlap(span.piece.offsets, hit):
                yield span


class _RowChoice:
    """Chooses slices by the objects that hold their rows."""

    def __init__(self, choice: Choice, counting: Sequence[CountingObject]) -> None:
        self._choice = choice
        self._hits = by_topic_partition(each for each in counting if choice.takes_object(each))
        # A slice that has no rows has no object that would say of which generation it is.
        takes_bare = choice.generations and not (choice.keys or choice.output_partitions)
        self._held = by_topic_partition(counting) if takes_bare else None

    def of(self, tp: TopicPartition, spans: Sequence[LandedRange]) -> list[LandedRange]:
        """Those of these slices that are chosen, in order."""
        taken = set(_touched(spans, self._hits.get(tp, ())))
        if self._held is not None:
            held = set(_touched(spans, self._held.get(tp, ())))
            generations = self._choice.generations
            taken |= {each for each in spans if each not in held and each.generation in generations}
        return [each for each in spans if each in taken]


def _check_names(landed: LandedNow, choice: Choice) -> None:
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
                "one range: choose what is before it, or what is behind it"
            )
    at = offsets.start
    for span in landed.present(tp):
        if span.piece.offsets.start == at and at < offsets.end:
            at = span.piece.offsets.end
    if at != offsets.end:
        raise _refused(f"{tp}: of {offsets}, what follows {at} is not landed and visible")


def _check_former(landed: LandedNow, retire: Iterable[CountingObject]) -> None:
    for each in retire:
        if not landed.is_present(each):
            raise _refused(
                f"{each.key} has rows of a topic partition that left the lane and entered again: "
                "their offsets may be those of another topic, so they cannot be landed again"
            )


def _check_visible(landed: LandedNow, ranges: Ranges, retire: Collection[str]) -> None:
    """Raise if an object with rows in the ranges is missing, or decided and not yet visible."""
    for each in _inside(landed, landed.missing.values(), ranges):
        raise _refused(
            f"{each.key} is missing: its upload was lost, and somebody has to decide about it "
            "first; see `landfall status`"
        )
    for slot, each in landed.waiting:
        if next(_inside(landed, [each], ranges), None):
            raise Retry(f"{each.key} of slot {slot} is not known to be visible yet")
    for slot, listed in landed.replacing:
        if any(each.landed.upload.key in retire for each in listed.retire):
            raise Retry(f"the REPLACE in slot {slot} is not applied yet")


def _hull(one: OffsetRange, other: OffsetRange) -> OffsetRange:
    return OffsetRange(min(one.start, other.start), max(one.end, other.end))


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    return one.start < other.end and other.start < one.end


def _refused(message: str) -> Stalled:
    return Stalled(Reason.SPEC_INVALID, f"backfill: {message}")
