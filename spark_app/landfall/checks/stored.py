"""Collects the schemas and specs that records name, and checks what is stored of them. Pure.

Both are stored next to the ledger before a record names them, under the SHA-256 of their bytes:
invariants I9 and I10.
"""

from collections.abc import Iterable, Iterator, Mapping

from landfall.checks import Finding, Invariant
from landfall.ledger import Commit, Open, PartList, Record, Repair, Replay, digest
from landfall.ledger.feeds.part_lists import decode_list
from landfall.ledger.replace.replacement_lists import ReplacementList

_CONTENTS = {Invariant.I9: "schema", Invariant.I10: "spec"}


def named_schemas(record: Record) -> Iterable[str]:
    """The SHA-256s of the schemas that a record names."""
    match record:
        case Commit() | Replay():
            return {name for s in record.slices for name in s.schemas}
        case Repair():
            return record.schemas
        case _:
            return ()


def named_specs(record: Record) -> Iterable[str]:
    """The SHA-256 of the spec that an OPEN names; none if older software wrote it."""
    return (record.spec,) if isinstance(record, Open) and record.spec else ()


def listed_schemas(listed: ReplacementList) -> Iterable[str]:
    """The SHA-256s of the schemas that the list of a backfill names."""
    return {name for range_ in listed.landed_again for name in range_.schemas}


def listed_specs(listed: ReplacementList) -> Iterable[str]:
    """The SHA-256 of the spec that the list of a backfill names, if it is known."""
    return (listed.made_by.spec,) if listed.made_by and listed.made_by.spec else ()


def check_stored(
    invariant: Invariant, name: str, slot: int, key: str, stored: bytes | None
) -> Finding | None:
    """The finding for a schema or spec that is not stored, or not as it was; None if all is well.

    Args:
        invariant: I9 for a schema, I10 for a spec.
        name: its SHA-256.
        slot: the first slot that names it.
        key: where it is stored.
        stored: the bytes there; None if there are none.
    """
    content = _CONTENTS[invariant]
    if stored is None:
        return Finding(invariant, f"a stored {content}", f"{content} missing", slot, key=key)
    found = digest(stored)
    if found == name:
        return None
    got = f"{content} differs from its hash: {found[:12]}"
    return Finding(invariant, f"SHA-256 {name[:12]}", got, slot, key=key)


def check_ids(ids: Mapping[str, str | None], stored: Iterable[str]) -> Iterator[Finding]:
    """The findings for ids and subjects, by key, whose schemas are not stored."""
    known = {*stored}
    for key, name in sorted(ids.items()):
        if name not in known:
            yield Finding(
                Invariant.I9, "an id or a subject that names a stored schema", f"{name}", key=key
            )


def check_list(topic: str, named: PartList, slot: int, stored: bytes | None) -> Finding | None:
    """The finding for a list that is not stored, or not as it was; None if all is well.

    Args:
        topic: of the feed.
        named: what the DISCOVER records of the list.
        slot: of the DISCOVER.
        stored: the bytes under its key; None if there are none.
    """
    if stored is None:
        return Finding(Invariant.I12, "a stored list", "list missing", slot, key=named.key)
    try:
        decode_list(topic, named, stored)
    except ValueError as error:
        return Finding(Invariant.I12, f"SHA-256 {named.sha256[:12]}", str(error), slot)
    return None
