"""Chooses the snapshots of an Iceberg table that expire. Pure.

Every commit adds a snapshot, and every commit reads and writes the list of all of them: a table
with a commit a minute that keeps them all needs half a second of CPU time for a commit after ten
hours. Snapshots of this publisher expire: each names the position in its summary. It keeps
the newest ones, and of those before them the last one of each hour for a day, then the last one of
each day, until they are old.

==============================================  ==================================================
never expires                                   without that rule
==============================================  ==================================================
a snapshot that this publisher has not made     a user loses a snapshot that another engine keeps
the snapshot of a branch or tag                 catalogs remove the branch or tag with it; without
                                                the branch ``main`` the table is empty
the last own snapshot before one of those       after a rollback, no ancestor names a position, and
                                                the table stops
a snapshot of the last minutes                  a query that was planned by it finds no manifest
==============================================  ==================================================
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from landfall.publish.table_position import NONE, slot_of

LEAST_AGE = timedelta(minutes=10)
"""No snapshot expires before."""
MAX_BATCH = 500
"""How many expire in one commit at most; a table with more is caught up with by later commits."""
_MS = timedelta(milliseconds=1)
_HOUR_MS = timedelta(hours=1) // _MS
_DAY_MS = timedelta(days=1) // _MS
_AGE, _COUNT = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
"""Properties of a table: all snapshots up to an age in milliseconds, and at least so many, stay.

Source: https://iceberg.apache.org/docs/latest/configuration/#table-behavior-properties.
"""


@dataclass(frozen=True)
class SnapshotLimits:
    """The snapshots that a table keeps.

    Attributes:
        count: how many of the newest ones.
        age: of those before them, for how long one an hour is kept, and after a day one a day.
    """

    count: int = 100
    age: timedelta = timedelta(days=5)


def expired(metadata: Any, key: str, limits: SnapshotLimits, now_ms: int) -> list[Any]:
    """Return the snapshots of a table that expire, oldest first.

    Args:
        metadata: ``TableMetadata`` of the table.
        key: the name of the position, which own snapshots have in their summary.
        limits: what is kept. The table's properties ``history.expire.*`` keep more.
        now_ms: the time, in milliseconds since 1970.

    Raises:
        ValueError: a property ``history.expire.*`` is no number.
    """
    own = sorted((snapshot for snapshot in metadata.snapshots if is_own(snapshot, key)), key=_order)
    count = max(limits.count, _number(metadata.properties, _COUNT))
    young = now_ms - max(LEAST_AGE // _MS, _number(metadata.properties, _AGE))
    oldest = now_ms - limits.age // _MS
    kept = {snapshot.snapshot_id for snapshot in own[-count:]} | {*_of_others(metadata, key)}
    for unit, since in ((_HOUR_MS, max(oldest, now_ms - _DAY_MS)), (_DAY_MS, oldest)):
        last = {snapshot.timestamp_ms // unit: snapshot for snapshot in own}
        kept |= {
            snapshot.snapshot_id for snapshot in last.values() if snapshot.timestamp_ms >= since
        }
    return [
        snapshot
        for snapshot in own
        if snapshot.snapshot_id not in kept and snapshot.timestamp_ms < young
    ]


@dataclass(frozen=True)
class NamingSnapshots:
    """The snapshots of a table that name replaced objects, which are to be deleted.

    Attributes:
        refs: names of the branches and tags that are at one of them, sorted.
        until_ms: when the last one of them is old enough to expire, in milliseconds since 1970; 0
            if each is.
        count: how many are not old enough.
        old: own ones that are, and that nothing else keeps but ``SnapshotLimits.count``.
    """

    refs: tuple[str, ...] = ()
    until_ms: int = 0
    count: int = 0
    old: tuple[Any, ...] = ()


def naming(
    metadata: Any, key: str, slots: tuple[int, int], limits: SnapshotLimits, now_ms: int
) -> NamingSnapshots:
    """Return the snapshots that may name objects, by their positions.

    Args:
        metadata: ``TableMetadata`` of the table.
        key: the name of the position.
        slots: the slot in which the first of the objects landed, and the first slot in which all
            of them are replaced.
        limits: what is kept. The property ``history.expire.max-snapshot-age-ms`` keeps more.
        now_ms: the time, in milliseconds since 1970.

    Raises:
        ValueError: a property ``history.expire.*`` is no number.
    """
    landed, replaced = slots
    at = _positions(metadata, key)
    found = [
        snapshot
        for snapshot in metadata.snapshots
        if (position := at[snapshot.snapshot_id]) is None or landed <= position < replaced
    ]
    ids = {snapshot.snapshot_id for snapshot in found}
    age = max(limits.age // _MS, LEAST_AGE // _MS, _number(metadata.properties, _AGE))
    young = [snapshot for snapshot in found if now_ms < snapshot.timestamp_ms + age]
    kept = {snapshot.snapshot_id for snapshot in young} | {*_of_others(metadata, key)}
    return NamingSnapshots(
        tuple(sorted(name for name, ref in metadata.refs.items() if ref.snapshot_id in ids)),
        max((snapshot.timestamp_ms + age for snapshot in young), default=0),
        len(young),
        tuple(snapshot for snapshot in found if snapshot.snapshot_id not in kept),
    )


def _positions(metadata: Any, key: str) -> dict[int, int | None]:
    """The position of each snapshot, by its newest own ancestor; None if that is not known."""
    found = dict[int, int | None]()
    for snapshot in sorted(metadata.snapshots, key=_order):
        parent = snapshot.parent_snapshot_id
        found[snapshot.snapshot_id] = NONE if parent is None else found.get(parent)
        if is_own(snapshot, key):
            try:
                found[snapshot.snapshot_id] = slot_of(snapshot.summary.additional_properties[key])
            except ValueError:  # which another client has written
                found[snapshot.snapshot_id] = None
    return found


def is_own(snapshot: Any, key: str) -> bool:
    """Return whether the publisher with this position has made a snapshot."""
    return bool(snapshot.summary) and key in snapshot.summary.additional_properties


def _of_others(metadata: Any, key: str) -> Iterator[int]:
    """Yield branches, tags, snapshots of other engines, and the last own one before each."""
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    others = (snapshot.snapshot_id for snapshot in metadata.snapshots if not is_own(snapshot, key))
    seen = set[int]()
    for start in (*(ref.snapshot_id for ref in metadata.refs.values()), *others):
        at = known.get(start)
        while at is not None and at.snapshot_id not in seen:
            seen.add(at.snapshot_id)
            yield at.snapshot_id
            at = None if is_own(at, key) else known.get(at.parent_snapshot_id)


def _number(properties: Mapping[str, str], name: str) -> int:
    try:
        return int(properties.get(name, 0))
    except ValueError:
        raise ValueError(f"property {name} is no number: {properties[name]!r}") from None


def _order(snapshot: Any) -> tuple[int, int]:
    return (snapshot.sequence_number or 0, snapshot.timestamp_ms)
