"""Choose the objects of a complete output partition to merge, and into how many. Pure.

Objects are merged in the order of Kafka partition and offset, and only with objects of their
folder, generation and stored spec, by which they are read. Small ones are packed one after the
other into merges of up to a target. What was merged before takes part once there is half as much
besides, so that rows are not written again for each object that comes late. Where duplicates are to
be left out, all objects are merged into one, what came late after what was merged before: so a late
row is the last one, in any Kafka partition.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from landfall.ledger.names import object_names
from landfall.ledger.replace.merged_objects import Mergeable

MAX_MERGED = 5_000
"""How many objects a merge has at most."""
MAX_DEDUPED = 50_000
"""How many objects a merge has at most that leaves out duplicates."""
SHARE = 0.5
"""A merged object is merged again once smaller ones have this share of its bytes. Each time it gets
one and a half times as large, so a row is written again few times, and few objects stay.
"""
BYTES_PER_KEY = 56
"""The memory of a row whose key is compared, see ``landfall.task.duplicates``."""

Merge = tuple[Mergeable, ...]


@dataclass(frozen=True, slots=True)
class MergeRules:
    """The rules for what is merged.

    Attributes:
        below: only objects smaller than this are.
        target: into objects of at most this size.
        dedupes: whether duplicates are left out, so that all objects are merged into one.
        max_rows: how many rows such a merge has at most.
    """

    below: int
    target: int
    dedupes: bool = False
    max_rows: int = 0


@dataclass(frozen=True, slots=True)
class Merges:
    """The merges to be made in a folder.

    Attributes:
        merges: the objects of each, in order.
        refused: what is not merged, and why.
        uncompared: where duplicates are left out, rows whose keys are not compared with the keys of
            most rows, as another generation or stored spec has made them.
    """

    merges: tuple[Merge, ...]
    refused: tuple[str, ...] = ()
    uncompared: int = 0


def plan_merges(lane: tuple[str, str], objects: Iterable[Mergeable], rules: MergeRules) -> Merges:
    """Return the merges of the visible objects of one folder.

    Objects whose copies would have keys that are too long are left alone. What a publisher leaves
    out of its tables is not merged with what it has in them.

    Args:
        lane: the names of the group and the lane.
        objects: of the folder, in any order.
        rules: what is merged.
    """
    alike = dict[tuple[int, str, tuple[str, ...]], list[Mergeable]]()
    for object_ in sorted(objects, key=_by_arrival if rules.dedupes else _order):
        if _can_retire(lane, object_):
            kind = object_.name.generation, object_.spec, object_.left_out_by
            alike.setdefault(kind, []).append(object_)
    found, refused = list[Merge](), list[str]()
    for _, same in sorted(alike.items()):
        if not rules.dedupes:
            small = [object_ for object_ in same if _size(object_) < rules.below]
            found += _packed(_without_large(small), rules.target)
        elif problem := _too_large(same, rules):
            refused.append(problem)
        elif not _is_done(same):
            found.append(tuple(same))
    rows = [sum(object_.landed.rows for object_ in same) for same in alike.values()]
    uncompared = sum(rows) - max(rows) if rules.dedupes and rows else 0
    return Merges(tuple(found), tuple(refused), uncompared)


def _order(each: Mergeable) -> tuple[int, int, str]:
    name = each.name
    return name.partition, name.start, each.key


def _by_arrival(each: Mergeable) -> tuple[bool, int, tuple[int, int, str]]:
    """Return merged objects by their merges, then the ones that came since."""
    return each.plan < 0, each.plan, _order(each)


def _size(each: Mergeable) -> int:
    return each.landed.upload.size


def _can_retire(lane: tuple[str, str], each: Mergeable) -> bool:
    try:
        object_names.retired_key(*lane, 0, each.key)
    except ValueError:
        return False
    return each.landed.rows > 0


def _without_large(small: Sequence[Mergeable]) -> list[Mergeable]:
    """Small objects without merged ones that would be most of a merge."""
    left = [*small]
    for object_ in sorted((o for o in small if o.plan >= 0), key=_size, reverse=True):
        if sum(map(_size, left)) - _size(object_) >= SHARE * _size(object_):
            break
        left.remove(object_)
    return left


def _packed(small: Iterable[Mergeable], target: int) -> Iterator[Merge]:
    """Objects packed in order; one that fits to no other is left out."""
    pack, size = list[Mergeable](), 0
    for object_ in small:
        if pack and (size + _size(object_) > target or len(pack) == MAX_MERGED):
            if len(pack) > 1:
                yield tuple(pack)
            pack, size = [], 0
        pack.append(object_)
        size += _size(object_)
    if len(pack) > 1:
        yield tuple(pack)


def _too_large(objects: Sequence[Mergeable], rules: MergeRules) -> str:
    rows = sum(object_.landed.rows for object_ in objects)
    if rows <= rules.max_rows and len(objects) <= MAX_DEDUPED:
        return ""
    return (
        f"{objects[0].folder}: {len(objects)} objects of {rows} rows, over {MAX_DEDUPED} objects "
        f"or {rules.max_rows} rows, whose keys cannot be compared within tuning.taskMemory"
    )


def _is_done(objects: Sequence[Mergeable]) -> bool:
    """Return whether one merge has made all of them, as with several schemas it makes several."""
    plans = {object_.plan for object_ in objects}
    return len(plans) == 1 and plans != {-1}
