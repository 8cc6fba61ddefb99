"""Finds an Iceberg table's position in the ledger, even if other engines change the table. Pure.

A commit that appends files sets the position as a property of the table, and in the summary of its
snapshot. The snapshot decides: if a table is rolled back to an earlier one, it has the rows of the
newest ancestor with a position, while the property stays. What other engines commit on top, such as
compacted files, has no position of ours in its summary, but has ours among its ancestors.

=======================================================  ====================================
the ancestors of the current snapshot                    the position
=======================================================  ====================================
one has a position                                       the position of the newest such
none has, and the property is not set                    none: -1
none has: older ones have expired, and so has the        the property's
snapshot that set the property, which is no newer
none has, and the first of them is the table's first     none: -1
none has, and the snapshot that set the property is      unknown: the table was rolled back
known, or newer than the current one                     beyond it, or replaced
=======================================================  ====================================

Whether an ancestor has expired cannot always be seen: pyiceberg removes the parent of the oldest
snapshot that it keeps.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from landfall.errors import Reason, Stalled
from landfall.publish.keyed.index import IndexLost, names_in
from landfall.publish.table_position import (
    NONE,
    NamedIndex,
    OtherLanes,
    TablePosition,
    pack,
    slot_of,
    unpack,
)

_THROUGH = ".through"


def position_key(group: str, lane: str) -> str:
    """The name of the position, in properties and in summaries."""
    return f"landfall.{group}.{lane}{_THROUGH}"


def positions(key: str, reached: TablePosition) -> Mapping[str, str]:
    """Return the part of a snapshot's summary that is its position."""
    found = {key: str(reached.through), f"{key}.left-out": pack(reached.left_out or ())}
    if (index := reached.index) is not None:
        found |= {index_key(key): index.files, f"{key}.keys": index.keys}
    return found


def index_key(key: str) -> str:
    """The name of the property that names the files of an index."""
    return f"{key}.index"


def other_lanes(table: Any, key: str) -> OtherLanes:
    """Return the other lanes that have published to a table, by its properties.

    Args:
        table: the ``Table``.
        key: the name of this lane's position.
    """
    properties = table.properties
    names = (name for name in properties if name.startswith("landfall.") and name != key)
    keyed = {
        name.removesuffix(_THROUGH): bool(properties.get(index_key(name)))
        for name in names
        if name.endswith(_THROUGH)
    }
    return OtherLanes(".".join(table.name()), keyed)


def index_names(snapshot: Any, key: str) -> frozenset[str]:
    """Return the names of the files of an index that a snapshot names; none if it names none."""
    found = snapshot.summary.additional_properties if snapshot.summary else {}
    with suppress(IndexLost):  # any client may have written it
        return names_in(found[index_key(key)]) if index_key(key) in found else frozenset()
    return frozenset()


def position_properties(key: str, reached: TablePosition, snapshot: Any) -> Mapping[str, str]:
    """Return the properties that are set together with a ``Snapshot``."""
    return {
        **positions(key, reached),
        f"{key}.snapshot": str(snapshot.snapshot_id),
        f"{key}.sequence": str(snapshot.sequence_number),
    }


def position(metadata: Any, key: str) -> TablePosition:
    """Return the position of a table, by its ``TableMetadata``.

    Raises:
        Stalled: DESTINATION_CONFLICT, it is unknown, or no position: any client that may write to
            the table may have written it.
    """
    known = {entry.snapshot_id: entry for entry in metadata.snapshots}
    current = oldest = known.get(metadata.current_snapshot_id)
    at, left = current, dict(known)
    while at is not None and left.pop(at.snapshot_id, None):
        found = at.summary.additional_properties if at.summary else {}
        if key in found:
            return _read(found, key)
        oldest, at = at, known.get(at.parent_snapshot_id)
    if at is not None:
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"snapshot {at.snapshot_id} of the table is its own ancestor: no position is known; "
            "publish it again with landfall publish --rebuild",
        )
    if key not in metadata.properties or current is None or oldest is None:
        return TablePosition()
    if oldest.parent_snapshot_id is None and oldest.sequence_number == 1:
        return TablePosition()
    snapshot = _number(metadata.properties, f"{key}.snapshot")
    sequence = _number(metadata.properties, f"{key}.sequence")
    if snapshot in known or (current.sequence_number or 0) < sequence:
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            "the table was replaced, or rolled back to a snapshot whose position in the ledger has "
            "expired; roll it forward, or publish it again with landfall publish --rebuild",
        )
    return _read(metadata.properties, key)


def _number(texts: Mapping[str, str], key: str) -> int:
    """Return the number of a snapshot, or its sequence number."""
    try:
        return int(texts.get(key, NONE))
    except ValueError as error:
        raise _unknown(key, error) from error


def _read(texts: Mapping[str, str], key: str) -> TablePosition:
    try:
        files, keys = (texts.get(name, "") for name in (index_key(key), f"{key}.keys"))
        index = NamedIndex(files, keys) if files else None
        return TablePosition(slot_of(texts[key]), unpack(texts.get(f"{key}.left-out")), index)
    except ValueError as error:
        raise _unknown(key, error) from error


def _unknown(key: str, error: ValueError) -> Stalled:
    return Stalled(
        Reason.DESTINATION_CONFLICT,
        f"{key} names no position of this publisher: {error}; publish it again with landfall "
        "publish --rebuild",
    )
