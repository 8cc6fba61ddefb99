"""Which objects a ledger has given up, and what is left of a slice without them. Pure."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from landfall.ledger import Block, Drop, Lost, Record, Repair
from landfall.ledger.decisions import topic_partition
from landfall.ledger.task_results import LandedSlice, ObjectKind


def given_up(records: Iterable[Record]) -> frozenset[str]:
    """Keys of objects that a LOST gave up, or that were missing when their topic partition left."""
    lost: set[str] = set()
    missing: set[str] = set()
    for record in records:
        match record:
            case Lost():
                lost |= {o.upload.key for o in record.objects}
            case Block():
                missing |= {key for gone in record.missing for key in gone.keys}
            case Repair():
                missing -= {o.upload.key for o in record.objects}
            case Drop():
                left = record.topic_partitions
                lost |= {key for key in missing - lost if topic_partition(key) in left}
            case _:
                pass
    return frozenset(lost)


def without(landed: LandedSlice, keys: Collection[str]) -> LandedSlice:
    """The slice without these objects; their records count as invisible."""
    kept = tuple(o for o in landed.objects if o.upload.key not in keys)
    gone = [o for o in landed.objects if o.upload.key in keys]
    data = sum(o.rows for o in gone if o.kind is ObjectKind.DATA)
    letters = sum(o.rows for o in gone if o.kind is ObjectKind.DEAD_LETTERS)
    return replace(
        landed,
        objects=kept,
        landed=landed.landed - data,
        dead_lettered=landed.dead_lettered - letters,
        invisible=landed.invisible + data + letters,
    )
