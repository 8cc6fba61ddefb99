"""What applied REPLACEs have changed: which objects retired, and which are there instead."""

from collections.abc import Iterator
from dataclasses import dataclass

from landfall.checks.landed_again import LandedAgainNow
from landfall.cli.group_store import GroupStore
from landfall.lane.replacements import has_replaced, read_replaced
from landfall.ledger import Add, Replace, State
from landfall.ledger.effects import applied, replaces
from landfall.ledger.replacement_lists import NewObject, Replaced


@dataclass(frozen=True)
class Changed:
    """What has changed by all REPLACEs together.

    Attributes:
        retired: by the key of an object that has retired, the slot of the REPLACE.
        new: objects that are there instead, by key.
        again: the slices of backfills that count instead of those of COMMITs.
        expired: the keys of dead letters that have expired, if that was asked for.
    """

    retired: dict[str, int]
    new: dict[str, NewObject]
    again: LandedAgainNow
    expired: frozenset[str] = frozenset()


def changed(opened: GroupStore, state: State) -> Changed:
    """Read the lists of all REPLACEs that are applied in a state.

    Raises:
        Stalled: LEDGER_BROKEN, a list is gone or damaged.
        Retry: the store does not answer.
    """
    found = Changed({}, {}, LandedAgainNow(opened.name))
    # Most ledgers replace nothing, and need not be read for it.
    for record, listed in _lists(opened, state) if has_replaced(state) else ():
        found.again.take(record, listed)
        if listed is None or isinstance(record, Add):
            continue
        slot = record.header.seq
        found.retired.update((each.landed.upload.key, slot) for each in listed.retire)
        found.new.update((new.landed.upload.key, new) for new in listed.objects)
        for each in listed.retire:
            found.new.pop(each.landed.upload.key, None)
    return found


def _lists(opened: GroupStore, state: State) -> Iterator[tuple[Add | Replace, Replaced | None]]:
    """The ADDs, and the REPLACEs that are applied with their lists, in order."""
    records = [record for record in opened.records() if isinstance(record, Add | Replace)]
    counting = {each.header.seq for each in applied(records, state.applied_through)}
    for record in records:
        slot = record.header.seq
        if isinstance(record, Add):
            yield record, None
        elif slot in counting:
            yield record, read_replaced(opened.store, slot, record.listed)


def find_retired(opened: GroupStore, key: str) -> int | None:
    """The slot of the REPLACE by which an object has retired, or is to; None for none.

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
            if any(each.landed.upload.key == key for each in listed.retire):
                found = record.header.seq  # the last one: one before it was given up
    return found
