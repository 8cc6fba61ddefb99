"""Decide whether a backfill's objects may replace live ones, and by which names. Pure.

The objects that retire are read from the live ledger again: merges since the plan change which
objects have the rows, and not the rows. Merged objects with rows inside and outside of the ranges
are to be cut first. Anything else that replaced objects, or landed ranges again, is not in the
comparison that a user looked at, so the promotion is refused.
"""

from collections.abc import Collection
from dataclasses import dataclass

from msgspec.structs import replace

from landfall.driver.decide.backfill import Backfill, covering, grown, sections_inside
from landfall.driver.decide.counting import CountingObject, Ranges
from landfall.driver.decide.landed_now import LandedNow
from landfall.errors import Reason, Stalled
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import LandedAgain, NewObject
from landfall.ledger.replace.replacing import MAX_FOLDERS, MAX_OBJECTS
from landfall.ledger.task_results import DecidedObject
from landfall.objects import Upload

TopicIds = Collection[tuple[TopicPartition, str]]


@dataclass(frozen=True, slots=True)
class Promoted:
    """An object of a side lane, and the key that it gets in the live root."""

    source: CountingObject
    key: str

    def as_new(self, upload: Upload) -> NewObject:
        """Return the object as a REPLACE lists it, with the upload that has a copy of it."""
        return NewObject(replace(self.source.landed, upload=upload), self.source.sections)


@dataclass(frozen=True, slots=True)
class Promotion:
    """The objects that are replaced, and their replacements.

    Attributes:
        slices: the ranges.
        retire: the live objects that have the rows of the ranges.
        promoted: the objects of the side lane, in the order of their new keys.
        landed_again: the slices of the side lane, in order.
        cut: live objects with rows inside and outside of the ranges.
    """

    slices: tuple[Slice, ...]
    retire: tuple[CountingObject, ...]
    promoted: tuple[Promoted, ...]
    landed_again: tuple[LandedAgain, ...] = ()
    cut: tuple[CountingObject, ...] = ()

    @property
    def replaced(self) -> tuple[tuple[CountingObject, int], ...]:
        """The live objects that have rows of the ranges, and how many."""
        whole = ((object_, object_.landed.rows) for object_ in self.retire)
        some = (
            (object_, sum(section.rows for section in sections_inside(object_, self.slices)))
            for object_ in self.cut
        )
        return (*whole, *some)

    @property
    def cut_retiring(self) -> tuple[DecidedObject, ...]:
        """The objects that are cut, as the list of a REPLACE names them."""
        return tuple(object_.decided for object_ in self.cut)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of all objects, sorted."""
        live = [object_.key for object_ in (*self.retire, *self.cut)]
        keys = [*live, *(object_.key for object_ in self.promoted)]
        return tuple(sorted({key.rpartition("/")[0] for key in keys}))


def check_landed(side: LandedNow, slices: Collection[Slice], topic_ids: TopicIds) -> None:
    """Return if a side lane has landed exactly these ranges, and all of it is visible.

    Raises:
        Stalled: SPEC_INVALID, it has not.
    """
    for tp, topic_id in topic_ids:
        if (member := side.members.get(tp)) is not None and member.topic_id != topic_id:
            raise _refused(
                f"{tp}: the topic was deleted and created again since the plan: its id was "
                f"{topic_id} and is {member.topic_id}"
            )
    for slice_ in slices:
        _check_slice(side, slice_)
    if unplanned := set(side.ranges) - {slice_.topic_partition for slice_ in slices}:
        raise _refused(f"{min(unplanned)}: it is landed, and the plan does not name it")
    if side.replays:
        raise _refused(
            "dead letters of it were replayed, so that its counts differ from its slices: "
            "discard it, and plan another one"
        )
    if side.missing or side.given_up or next(side.waiting, None):
        raise _refused("something that it decided is lost, or not visible yet: run it again")
    if len(side.made_by) > 1:
        raise _refused(
            "it was landed by more than one spec, because GROUP.yaml was changed in between: "
            "discard it, and plan another one"
        )


def _check_slice(side: LandedNow, slice_: Slice) -> None:
    tp, offsets = slice_.topic_partition, slice_.offsets
    landed = side.present(tp)
    if side.holes.get(tp):
        raise _refused(f"{tp}: a HOLE skipped {side.holes[tp][0][1]} of it")
    end = landed[-1].piece.offsets.end if landed else offsets.start
    start = landed[0].piece.offsets.start if landed else offsets.start
    if (start, end) != (offsets.start, offsets.end):
        raise _refused(f"{tp}: of {offsets}, what follows {end} is not landed: run it first")


def promotion(
    live: LandedNow,
    side: LandedNow,
    slices: Collection[Slice],
    topic_ids: TopicIds,
    planned_at: int,
) -> Promotion:
    """Return the old objects and their replacements, by the live ledger as it is now.

    Args:
        live: what the group has landed, of these ranges at least.
        side: what the backfill has landed.
        slices: the planned ranges.
        topic_ids: the ids that their topics had.
        planned_at: the slot up to which the live ledger was read for the plan.

    Raises:
        Stalled: SPEC_INVALID, the backfill is not landed, or what is live has changed.
        Retry: something live is not visible yet.
    """
    check_landed(side, slices, topic_ids)
    for tp, topic_id in topic_ids:
        member = live.members.get(tp)
        if member is None or member.topic_id != topic_id:
            raise _refused(f"{tp}: it has left the group, or its topic was created again")
    ranges = {slice_.topic_partition: slice_.offsets for slice_ in slices}
    # Of ``live``, perhaps only these ranges are known: it cannot be asked about longer ones.
    _check_not_grown(slices, grown(live, ranges))
    now = covering(live, ranges)
    _check_unchanged(live, now, slices, planned_at)
    promoted = (
        Promoted(object_, object_names.renamed(object_.key, live.called_applied))
        for object_ in side.objects.values()
    )
    by_key = tuple(sorted(promoted, key=lambda each: each.key))
    again = (span.landed for slice_ in now.slices for span in side.present(slice_.topic_partition))
    return Promotion(
        slices=now.slices,
        retire=now.retire,
        promoted=by_key,
        landed_again=tuple(again),
        cut=now.cut,
    )


def why_too_large(made: Promotion) -> str:
    """Return why one REPLACE cannot promote it; empty if it can."""
    objects = len(made.retire) + 2 * len(made.cut) + len(made.promoted)
    folders = len(made.folders)
    if not objects:
        return "backfill: neither it nor the live group has any object of its ranges"
    if objects > MAX_OBJECTS or folders > MAX_FOLDERS:
        return (
            f"backfill: {objects} objects in {folders} folders would be replaced, more than "
            f"{MAX_OBJECTS} in {MAX_FOLDERS}: discard it, and make several that choose less"
        )
    return ""


def _check_not_grown(slices: Collection[Slice], ranges: Ranges) -> None:
    now = {Slice(tp, offsets) for tp, offsets in ranges.items()}
    if now != {*slices}:
        other = min(now ^ {*slices})
        raise _refused(
            f"objects were merged since the plan, and sorted or rid of duplicates, so that rows of "
            f"the ranges cannot be distinguished from the ranges of {other}: discard it, and plan "
            "another one"
        )


def _check_unchanged(
    live: LandedNow, now: Backfill, slices: Collection[Slice], planned_at: int
) -> None:
    for object_ in (*now.retire, *now.cut):
        if object_.since > planned_at:
            raise _refused(
                f"{object_.key} has rows that were put there in slot {object_.since}, after the "
                f"plan, which was made of slot {planned_at}: discard it, and plan another one"
            )
    for slice_ in slices:
        for span in live.present(slice_.topic_partition):
            if span.slot > planned_at and span.piece.offsets.start in slice_.offsets:
                raise _refused(
                    f"{span.piece} was landed in slot {span.slot}, after the plan, which was made "
                    f"of slot {planned_at}: discard it, and plan another one"
                )


def _refused(message: str) -> Stalled:
    return Stalled(Reason.SPEC_INVALID, f"backfill: {message}")
