"""The changes by applied REPLACEs: the replaced objects, and the new ones."""

from collections.abc import Iterator
from dataclasses import dataclass

from landfall.checks.landed_again import LandedAgainNow
from landfall.cli.group_store import GroupStore
from landfall.lane.replacements import has_replaced, read_replaced
from landfall.ledger import State
from landfall.ledger.effects import (
    Effect,
    LifetimeBegan,
    ObjectsReplaced,
    applied,
    effects,
    replaces,
)
from landfall.ledger.replace.replacement_lists import NewObject, ReplacementList


@dataclass(frozen=True)
class ReplaceChanges:
    """The changes by all REPLACEs together.

    Attributes:
        retired: by the key of a replaced object, the slot of the REPLACE.
        new: the new objects, by key.
        again: the slices of backfills that supersede slices of COMMITs.
        expired: the keys of expired dead letters, if requested.
    """

    retired: dict[str, int]
    new: dict[str, NewObject]
    again: LandedAgainNow
    expired: frozenset[str] = frozenset()


def changed(opened: GroupStore, state: State) -> ReplaceChanges:
    """Read the lists of all REPLACEs that are applied in a state.

    Raises:
        Stalled: LEDGER_BROKEN, a list is gone or damaged.
        Retry: the store does not answer.
    """
    found = ReplaceChanges({}, {}, LandedAgainNow(opened.name))
    # Most ledgers replace nothing, and need not be read.
    for effect, listed in _read(opened, state) if has_replaced(state) else ():
        found.again.take(effect, listed)
        if listed is None:
            continue
        found.retired.update((object_.key, effect.slot) for object_ in listed.retire)
        found.new.update((new.key, new) for new in listed.objects)
        for object_ in listed.retire:
            found.new.pop(object_.key, None)
    return found


def _read(opened: GroupStore, state: State) -> Iterator[tuple[Effect, ReplacementList | None]]:
    """The entry slots of topic partitions, and the applied REPLACEs with their lists."""
    kinds = LifetimeBegan | ObjectsReplaced
    said = [e for record in opened.records() for e in effects(record) if isinstance(e, kinds)]
    records = [effect.record for effect in said if isinstance(effect, ObjectsReplaced)]
    counting = {record.header.seq for record in applied(records, state.applied_through)}
    for effect in said:
        if isinstance(effect, LifetimeBegan):
            yield effect, None
        elif effect.slot in counting:
            yield effect, read_replaced(opened.store, effect.slot, effect.record.listed)


def find_retired(opened: GroupStore, key: str) -> int | None:
    """The slot of the REPLACE, applied or not, that replaces an object; None for none.

    Raises:
        Stalled: LEDGER_BROKEN, a list is gone or damaged.
        Retry: the store does not answer.
    """
    state, folder = opened.lane.read(), key.rpartition("/")[0]
    if not has_replaced(state):
        return None
    found = None
    for record in replaces(opened.records()):
        if folder in record.folders:
            listed = read_replaced(opened.store, record.header.seq, record.listed)
            if any(object_.key == key for object_ in listed.retire):
                found = record.header.seq  # the last one: one before it was given up
    return found
