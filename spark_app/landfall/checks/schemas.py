"""Which schemas records name, and whether what is stored under these names is right. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from landfall.checks import Finding, Invariant
from landfall.ledger import Commit, Record, Repair, Replay, digest


def named_schemas(record: Record) -> Iterable[str]:
    """The SHA-256s of the schemas that a record names."""
    match record:
        case Commit() | Replay():
            return {name for s in record.slices for name in s.schemas}
        case Repair():
            return record.schemas
        case _:
            return ()


def check_schema(name: str, slot: int, key: str, stored: bytes | None) -> Finding | None:
    """The finding for a schema that is not stored, or not as it was; None if all is well.

    Args:
        name: its SHA-256.
        slot: the first slot that names it.
        key: where it is stored.
        stored: the bytes there; None if there are none.
    """
    if stored is None:
        return Finding(Invariant.I9, "a stored schema", "schema missing", slot, key=key)
    found = digest(stored)
    if found == name:
        return None
    got = f"schema differs from its hash: {found[:12]}"
    return Finding(Invariant.I9, f"SHA-256 {name[:12]}", got, slot, key=key)


def check_ids(ids: Mapping[str, str | None], stored: Iterable[str]) -> Iterator[Finding]:
    """The findings for ids of registries, by key, that name schemas which are not stored."""
    known = {*stored}
    for key, name in sorted(ids.items()):
        if name not in known:
            yield Finding(Invariant.I9, "an id that names a stored schema", f"{name}", key=key)
