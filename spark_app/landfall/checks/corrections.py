"""Applies later records to what a COMMIT landed: objects given up, dead letters replayed.

What has retired is left out; its replacement is checked by itself.

Pure. The auditor does the same with code of its own (``landfall_audit.ledger.corrections``).
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from msgspec import UNSET
from msgspec.structs import replace

from landfall.ledger import Record
from landfall.ledger.decisions import topic_partition
from landfall.ledger.effects import (
    LettersReplayed,
    LifetimeEnded,
    ObjectGivenUp,
    ObjectMissing,
    ObjectRestored,
    effects,
)
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, ReplayedSlice


@dataclass(frozen=True, slots=True)
class Corrections:
    """Changes to objects by records after the one that named them.

    Attributes:
        lost: keys of objects that a LOST gave up, or that were missing when their topic partition
            left.
        replays: what dead letters became, by the key of their object.
        retired: keys of objects that were replaced.
        expired: keys of dead letters that have expired.
    """

    lost: frozenset[str] = frozenset()
    replays: Mapping[str, ReplayedSlice] = field(default_factory=dict)
    retired: AbstractSet[str] = frozenset()
    expired: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Corrected:
    """A committed slice as it must be found now.

    Attributes:
        landed: with the objects of replays instead of the dead letters that they read, and without
            objects that were given up, have expired or retired; their records count as invisible.
        lost: the objects that were given up or have expired.
        is_replaced: whether objects of it have retired.
    """

    landed: LandedSlice
    lost: tuple[LandedObject, ...] = ()
    is_replaced: bool = False


def corrections(records: Iterable[Record], applied_through: int) -> Corrections:
    """Return corrections by all records, except REPLAYs whose objects may not be visible."""
    lost: set[str] = set()
    missing: set[str] = set()
    replays: dict[str, ReplayedSlice] = {}
    for effect in (effect for record in records for effect in effects(record)):
        match effect:
            case ObjectGivenUp(key=key):
                lost.add(key)
            case ObjectMissing(key=key):
                missing.add(key)
            case ObjectRestored(landed=landed):
                missing.discard(landed.key)
            case LifetimeEnded(topic_partition=tp):
                lost |= {key for key in missing - lost if topic_partition(key) == tp}
            case LettersReplayed(slot=slot, landed=again) if slot <= applied_through:
                replays[again.dead_letters] = again
            case _:
                pass
    return Corrections(frozenset(lost), replays)


def corrected(landed: LandedSlice, by: Corrections) -> Corrected:
    """The slice, corrected by every later record about its objects."""
    waiting = list(landed.objects)
    kept = list[LandedObject]()
    lost = list[LandedObject]()
    filtered, retired = landed.filtered, 0
    while waiting:
        o = waiting.pop()
        if o.upload.key in by.lost:
            lost.append(o)
        elif o.upload.key in by.retired:
            retired += o.rows
        elif replay := by.replays.get(o.upload.key):
            waiting += replay.objects
            filtered += replay.filtered
        elif o.upload.key in by.expired:
            lost.append(o)
        else:
            kept.append(o)
    keys = sorted(o.upload.key for o in landed.objects)
    rows = dict.fromkeys(ObjectKind, 0)
    for o in kept:
        rows[o.kind] += o.rows
    found = replace(
        landed,
        objects=tuple(sorted(kept, key=lambda o: o.upload.key)),
        landed=rows[ObjectKind.DATA],
        filtered=filtered,
        dead_lettered=rows[ObjectKind.DEAD_LETTERS],
        invisible=landed.invisible + sum(o.rows for o in lost) + retired,
        # The counts of landing: no record contains the parts that the rows which left came from.
        parts=landed.parts if sorted(o.upload.key for o in kept) == keys else UNSET,
    )
    return Corrected(found, tuple(lost), is_replaced=retired > 0)
