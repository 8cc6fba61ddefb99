"""What applied REPLACEs have changed: which objects retired, and which are there instead."""

from collections.abc import Iterator
from dataclasses import dataclass

from landfall.checks.places import applied
from landfall.cli.group_store import GroupStore
from landfall.lane.replacements import has_replaced, read_replaced
from landfall.ledger import Replace, State
from landfall.ledger.replacement_lists import NewObject, Replaced


@dataclass(frozen=True)
class Changed:
    """What has changed by all REPLACEs together.

    Attributes:
        retired: by the key of an object that has retired, the slot of the REPLACE.
        new: objects that are there instead, by key.
    """

    retired: dict[str, int]
    new: dict[str, NewObject]


def changed(opened: GroupStore, state: State) -> Changed:
    """Read the lists of all REPLACEs that are applied in a state.

    Raises:
        Stalled: LEDGER_BROKEN, a list is gone or damaged.
        Retry: the store does not answer.
    """
    found = Changed({}, {})
    # Most ledgers replace nothing, and need not be read for it.
    for slot, listed in _lists(opened, state) if has_replaced(state) else ():
        found.retired.update((each.landed.upload.key, slot) for each in listed.retire)
        found.new.update((new.landed.upload.key, new) for new in listed.objects)
        for each in listed.retire:
            found.new.pop(each.landed.upload.key, None)
    return found


def _lists(opened: GroupStore, state: State) -> Iterator[tuple[int, Replaced]]:
    records = [record for record in opened.records() if isinstance(record, Replace)]
    for record in applied(records, state.applied_through):
        slot = record.header.seq
        yield slot, read_replaced(opened.store, slot, record.listed)


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
    for record in opened.records():
        if isinstance(record, Replace) and folder in record.folders:
            listed = read_replaced(opened.store, record.header.seq, record.listed)
            if any(each.landed.upload.key == key for each in listed.retire):
                found = record.header.seq  # the last one: one before it was given up
    return found
