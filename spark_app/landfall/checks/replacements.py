"""Checks a REPLACE and its list against earlier records: invariant I13. Pure."""

from collections.abc import Callable, Iterator
from itertools import groupby, pairwise

from landfall.checks import Finding, Invariant
from landfall.checks.objects import NamedObject
from landfall.ledger import Purpose, Replace, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import LandedAgain, NewObject, ReplacementList
from landfall.ledger.replace.rewriting import FORGOTTEN
from landfall.ledger.task_results import DecidedObject, LandedObject

Find = Callable[[str], LandedObject | None]
"""The object with a key as the ledger names it now; None if there is none, or it has retired."""


def check_replace(
    group: str, before: State, record: Replace, listed: ReplacementList, find: Find
) -> Iterator[Finding]:
    """Return what is wrong with the objects of a list.

    Args:
        group: name of the group.
        before: the state before the REPLACE.
        record: the REPLACE.
        listed: the list that it names.
        find: the objects as they were before it.
    """
    applied = max(before.applied_through, record.header.applied_through)
    for retiring in listed.retire:
        yield from _check_retiring(
            before=before, record=record, retiring=retiring, find=find, applied=applied
        )
    for new in listed.objects:
        yield from _check_new(group, record, new)
    yield from _check_landed_again(group, record, listed)
    gives_up = record.instead != -1 and not (listed.retire or listed.objects)
    if listed.folders != {*record.folders} and not gives_up:
        other = min(listed.folders ^ {*record.folders})
        yield Finding(
            Invariant.I13,
            "the folders of the objects",
            f"other ones, such as {other}",
            record.header.seq,
        )


def _check_retiring(
    before: State, record: Replace, retiring: DecidedObject, find: Find, applied: int
) -> Iterator[Finding]:
    key, slot = retiring.key, record.header.seq
    named = find(key)
    missing = {o.upload.key for objects in before.missing.values() for o in objects}
    if named is None:
        yield Finding(
            Invariant.I13, "an object that may retire", "none of that name", slot, key=key
        )
    elif named != retiring.landed:
        yield Finding(Invariant.I13, "the object as it was decided", "another", slot, key=key)
    elif retiring.slot > applied or key in missing:
        got = "one that is missing" if key in missing else f"one of slot {retiring.slot}"
        yield Finding(Invariant.I13, f"an object visible by slot {applied}", got, slot, key=key)


def _check_landed_again(group: str, record: Replace, listed: ReplacementList) -> Iterator[Finding]:
    """Check that a backfill landed just the ranges again that its record names, as a whole."""
    slot, is_backfill = record.header.seq, record.purpose is Purpose.BACKFILL
    if is_backfill != bool(listed.landed_again):
        got = f"{len(listed.landed_again)} of them, for {record.purpose}"
        yield Finding(Invariant.I13, "ranges that were landed again, of a backfill", got, slot)
    if not listed.landed_again:
        return
    covered = tuple(_covered(listed.landed_again))
    if covered != record.slices:
        differing = min({*covered} ^ {*record.slices})
        yield Finding(
            Invariant.I13, "the ranges of the record, without a gap", f"{differing}", slot
        )
    inside = {range_.topic_partition: range_.offsets for range_ in record.slices}
    for retiring in listed.retire:
        landed, origin = retiring.landed, object_names.origin(group, retiring.key)
        tp = TopicPartition(origin.topic, origin.partition)
        offsets = inside.get(tp, OffsetRange(0, 0))
        if landed.first_offset not in offsets or landed.last_offset not in offsets:
            got = f"offsets {landed.first_offset} to {landed.last_offset} of {tp}"
            expected = "only rows that were landed again"
            yield Finding(Invariant.I13, expected, got, slot, key=landed.key)


def _covered(landed_again: Iterator[LandedAgain] | tuple[LandedAgain, ...]) -> Iterator[Slice]:
    """The offsets of these ranges: of each topic partition one, or more if there is a gap."""
    for tp, some in groupby(landed_again, key=lambda each: each.piece.topic_partition):
        ranges = [range_.piece.offsets for range_ in some]
        starts = [ranges[0], *(b for a, b in pairwise(ranges) if a.end != b.start)]
        ends = [*(a for a, b in pairwise(ranges) if a.end != b.start), ranges[-1]]
        for first, last in zip(starts, ends, strict=True):
            yield Slice(tp, OffsetRange(first.start, last.end))


def check_stayed(group: str, state: State, named: NamedObject) -> Finding | None:
    """Return the fault of an object whose rows were landed again, but which is not to retire.

    Args:
        group: name of the group.
        state: after the whole ledger.
        named: an object that counts.
    """
    origin = object_names.origin(group, named.key)
    tp, generation = TopicPartition(origin.topic, origin.partition), origin.generation
    if named.retires:
        return None
    if named.key in state.replayed or generation <= state.retired.get(tp, -1):
        return None  # its records are in other objects, or belong to an earlier topic
    for range_ in state.rewritten.get(tp, ()):
        is_known = range_.plan != FORGOTTEN and range_.slot <= state.applied_through
        if is_known and named.landed.first_offset in range_.offsets and named.slot < range_.slot:
            return Finding(
                invariant=Invariant.I13,
                expected=f"an object that retires by slot {range_.slot}, which landed its rows "
                "again",
                got="one that stays",
                slot=named.slot,
                topic_partition=tp,
                offsets=range_.offsets,
                key=named.key,
            )
    return None


def _check_new(group: str, record: Replace, new: NewObject) -> Iterator[Finding]:
    upload, slot = new.landed.upload, record.header.seq
    if upload.token != record.token:
        yield Finding(
            Invariant.I3, f"token {record.token}", upload.token or "none", slot, key=upload.key
        )
    try:
        plan = object_names.origin(group, upload.key).plan
    except ValueError:
        plan = -1
    if plan != record.read_through:
        expected = f"a name with slot {record.read_through}"
        yield Finding(Invariant.I4, expected, upload.key, slot, key=upload.key)
