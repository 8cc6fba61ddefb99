"""Whether a REPLACE and its list agree with what was recorded before: invariant I13. Pure."""

from collections.abc import Callable, Iterator

from landfall.checks import Finding, Invariant
from landfall.ledger import Replace, Replacement, State, object_names
from landfall.ledger.replacement_lists import NewObject, Replaced, RetiringObject, decode_list
from landfall.ledger.task_results import LandedObject

Find = Callable[[str], LandedObject | None]
"""The object with a key as the ledger names it now; None if there is none, or it has retired."""


def read_list(named: Replacement, slot: int, stored: bytes | None) -> Replaced | Finding:
    """The list that the REPLACE in a slot names, or what is wrong with the bytes under its key."""
    if stored is None:
        return Finding(Invariant.I13, "a stored list", "list missing", slot, key=named.key)
    try:
        return decode_list(named, stored)
    except ValueError as error:
        return Finding(Invariant.I13, f"SHA-256 {named.sha256[:12]}", str(error), slot)


def check_replace(
    group: str, before: State, record: Replace, listed: Replaced, find: Find
) -> Iterator[Finding]:
    """What is wrong with the objects of a list.

    Args:
        group: name of the group.
        before: the state before the REPLACE.
        record: the REPLACE.
        listed: the list that it names.
        find: the objects as they were before it.
    """
    applied = max(before.applied_through, record.header.applied_through)
    for retiring in listed.retire:
        yield from _check_retiring(before, record, retiring, find, applied)
    for new in listed.objects:
        yield from _check_new(group, record, new)
    if listed.folders != {*record.folders}:
        other = min(listed.folders ^ {*record.folders})
        yield Finding(
            Invariant.I13,
            "the folders of the objects",
            f"others, such as {other}",
            record.header.seq,
        )


def _check_retiring(
    before: State, record: Replace, retiring: RetiringObject, find: Find, applied: int
) -> Iterator[Finding]:
    key, slot = retiring.landed.upload.key, record.header.seq
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
