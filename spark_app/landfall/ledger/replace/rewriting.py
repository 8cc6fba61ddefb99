"""Offsets that were landed again: by a backfill, or by what undid it. Pure.

A REPLACE of a backfill puts the rows of whole ranges into other objects. Two of them need not have
a folder in common, if what was live had no row of a range. So a state remembers the ranges, each
with the REPLACE that was the last to do that, and refuses a plan that does not know it as applied.

Dead letters that retired so must not be replayed, and those that replaced them may. Its name shows
which of them an object is: it has the slot that its REPLACE was planned by. A REPLAY since a plan
is an obstacle, too, as its objects are not among those that retire.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from landfall.ledger.names.object_names import Origin
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition

MAX_RANGES = 10_000
"""How many ranges a state distinguishes; old ones are joined if there are more."""
FORGOTTEN = -2
"""Instead of the slot of a plan that is not known any more."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Offsets of a topic partition that were landed again.

    Attributes:
        offsets: which.
        slot: of the last REPLACE that did it, or undid it.
        plan: the slot that it was planned by, which the names of its objects have.
        generation: the highest one that had named objects of the topic partition by then.
    """

    offsets: OffsetRange
    slot: int
    plan: int
    generation: int


ByTopicPartition = Mapping[TopicPartition, tuple[Rewritten, ...]]


def touched(
    rewritten: ByTopicPartition, slices: Iterable[Slice]
) -> Iterator[tuple[Slice, Rewritten]]:
    """The rewritten ranges that share offsets with these slices, with the slice."""
    for slice_ in slices:
        for range_ in rewritten.get(slice_.topic_partition, ()):
            if _overlap(range_.offsets, slice_.offsets):
                yield slice_, range_


def rewrite(
    rewritten: ByTopicPartition, new: Mapping[TopicPartition, Rewritten]
) -> ByTopicPartition:
    """The ranges with these instead of what they share offsets with."""
    after = dict(rewritten)
    for tp, range_ in new.items():
        kept = [rest for old in after.get(tp, ()) for rest in _without(old, range_.offsets)]
        after[tp] = _in_order([*kept, range_])
    return _bounded(after)


def given_up(rewritten: ByTopicPartition, slot: int, by: Rewritten) -> ByTopicPartition:
    """The ranges of a REPLACE that another one was recorded instead of; ``by`` has any offsets."""
    if not any(range_.slot == slot for ranges in rewritten.values() for range_ in ranges):
        return rewritten
    return {
        tp: tuple(replace(by, offsets=r.offsets) if r.slot == slot else r for r in ranges)
        for tp, ranges in rewritten.items()
    }


def known_of(rewritten: ByTopicPartition, slices: Iterable[Slice]) -> ByTopicPartition:
    """Return what is known of these ranges, without what reaches beyond them."""
    found: dict[TopicPartition, list[Rewritten]] = {}
    for slice_, range_ in touched(rewritten, slices):
        start = max(range_.offsets.start, slice_.offsets.start)
        end = min(range_.offsets.end, slice_.offsets.end)
        inside = replace(range_, offsets=OffsetRange(start, end))
        found.setdefault(slice_.topic_partition, []).append(inside)
    return {tp: _in_order(ranges) for tp, ranges in found.items()}


def restored(rewritten: ByTopicPartition, slot: int, before: ByTopicPartition) -> ByTopicPartition:
    """The ranges of a REPLACE that never counted as they were before it.

    Ranges that were joined stay, and a topic partition that has left meanwhile has none.
    """
    after = dict(rewritten)
    for tp, ranges in rewritten.items():
        kept = [range_ for range_ in ranges if range_.slot != slot or range_.plan == FORGOTTEN]
        if len(kept) < len(ranges):
            after[tp] = _mended(_in_order([*kept, *before.get(tp, ())]))
    return {tp: ranges for tp, ranges in after.items() if ranges}


def _mended(ranges: Iterable[Rewritten]) -> tuple[Rewritten, ...]:
    """The ranges, in order, with those that were one before they were taken apart."""
    found: list[Rewritten] = []
    for range_ in ranges:
        last = found[-1] if found else None
        if last and replace(range_, offsets=last.offsets) == last and _adjoin(last, range_):
            found[-1] = replace(last, offsets=OffsetRange(last.offsets.start, range_.offsets.end))
        else:
            found.append(range_)
    return tuple(found)


def _adjoin(one: Rewritten, other: Rewritten) -> bool:
    return one.offsets.end == other.offsets.start


def decided_again(rewritten: ByTopicPartition, slot: int, later: int) -> ByTopicPartition:
    """The ranges of a REPLACE that is decided again in a later slot."""
    if not any(range_.slot == slot for ranges in rewritten.values() for range_ in ranges):
        return rewritten
    return {
        tp: tuple(replace(r, slot=later) if r.slot == slot else r for r in ranges)
        for tp, ranges in rewritten.items()
    }


def why_not_replayed(rewritten: ByTopicPartition, letters: Origin, applied_through: int) -> str:
    """Why a dead-letter object must not be replayed; empty if it may be.

    Whether the generation is above the one that wrote it, is not asked here.

    Args:
        rewritten: the ranges that were landed again.
        letters: the contents of its name.
        applied_through: the slot up to which everything is visible.
    """
    tp = _tp(letters)
    found = _range_of(rewritten, letters)
    if found is None:
        return "" if letters.plan == -1 else "it has retired"
    if letters.plan != found.plan:
        return f"it has retired: {tp} {found.offsets} was landed again in slot {found.slot}"
    if found.slot > applied_through:
        return f"the REPLACE in slot {found.slot} is not applied yet"
    return ""


def least_generation(
    rewritten: ByTopicPartition, letters: Origin, replayed: Iterable[Origin]
) -> int:
    """The least generation that may replay a dead-letter object.

    A replay names its objects by generation and offset, so it must not be done by a generation
    that may have replayed other dead letters of these offsets, before they were landed again.
    """
    least, found = letters.generation + 1, _range_of(rewritten, letters)
    if found and any(_tp(o) == _tp(letters) and o.start in found.offsets for o in replayed):
        least = max(least, found.generation + 1)
    return least


def _range_of(rewritten: ByTopicPartition, letters: Origin) -> Rewritten | None:
    ranges = rewritten.get(_tp(letters), ())
    return next((range_ for range_ in ranges if letters.start in range_.offsets), None)


def _tp(origin: Origin) -> TopicPartition:
    return TopicPartition(origin.topic, origin.partition)


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    return one.start < other.end and other.start < one.end


def _without(old: Rewritten, gone: OffsetRange) -> Iterator[Rewritten]:
    """Return what is left of a range."""
    start, end = old.offsets.start, old.offsets.end
    for left in ((start, min(end, gone.start)), (max(start, gone.end), end)):
        if left[0] < left[1]:
            yield replace(old, offsets=OffsetRange(*left))


def _in_order(ranges: Iterable[Rewritten]) -> tuple[Rewritten, ...]:
    return tuple(sorted(ranges, key=lambda each: each.offsets))


def _bounded(rewritten: Mapping[TopicPartition, tuple[Rewritten, ...]]) -> ByTopicPartition:
    """The ranges; if there are too many, the older half of each topic partition is joined."""
    if sum(map(len, rewritten.values())) <= MAX_RANGES:
        return rewritten
    slots = sorted(range_.slot for ranges in rewritten.values() for range_ in ranges)
    through = slots[len(slots) // 2]
    return {tp: _joined(ranges, through) for tp, ranges in rewritten.items()}


def _joined(ranges: Sequence[Rewritten], through: int) -> tuple[Rewritten, ...]:
    """The ranges, each run of those that are as old as a slot joined into one, with its gaps."""
    found: list[Rewritten] = []
    for range_ in ranges:
        last = found[-1] if found else None
        if last and max(last.slot, range_.slot) <= through:
            offsets = OffsetRange(last.offsets.start, range_.offsets.end)
            generation = max(last.generation, range_.generation)
            slot = max(last.slot, range_.slot)
            found[-1] = Rewritten(offsets, slot, FORGOTTEN, generation)
        else:
            found.append(range_)
    return tuple(found)
