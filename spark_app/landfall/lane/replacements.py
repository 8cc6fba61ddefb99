"""Reads which objects replaced other objects, from the list that a REPLACE names.

There is no other way to such a list, so one that is missing or damaged is the same error to all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from landfall.errors import Retry
from landfall.lane.reading import Lane
from landfall.ledger import (
    Record,
    Replace,
    Replacement,
    State,
    decode,
    effects,
    ledger_error,
    time_of,
)
from landfall.ledger.replace.replacement_lists import ReplacementList, decode_list
from landfall.store import Slots


def has_replaced(state: State) -> bool:
    """Return whether objects were ever replaced, or are to be."""
    return bool(state.replaced) or state.replaced_known_from >= 0


def read_replaced(slots: Slots, seq: int, named: Replacement) -> ReplacementList:
    """The objects in the list that the REPLACE of slot ``seq`` names.

    Raises:
        Stalled: LEDGER_BROKEN, the list is gone or damaged.
        Retry: the store does not answer.
    """
    try:
        return decode_list(named, slots.read(named.key))
    except ValueError as error:
        raise ledger_error(seq, str(error)) from error


def read_replace(lane: Lane, state: State, slot: int) -> tuple[Replace, ReplacementList]:
    """The REPLACE in a slot, and its list.

    Raises:
        ValueError: there is no REPLACE in this slot.
        Stalled: LEDGER_BROKEN, its list is missing or damaged.
        Retry: the store does not answer, or the slot was rolled up since the ledger was read.
    """
    is_there = 0 <= slot <= state.seq
    body = lane.find_slot(state, slot) if is_there else None
    if is_there and body is None:
        raise Retry(f"slot {slot} was rolled up since the ledger was read: try again")
    for record in effects.replaces([decode(slot, body)] if body else []):
        return record, read_replaced(lane.slots, slot, record.listed)
    raise ValueError(f"slot {slot} is no REPLACE")


def read_applied(
    slots: Slots, records: Iterable[Record], through: int
) -> Iterator[tuple[Replace, ReplacementList]]:
    """The REPLACEs among records that are applied up to a slot, in order, with their lists.

    Raises:
        Stalled: LEDGER_BROKEN, a list is missing or damaged.
        Retry: the store does not answer.
    """
    for record in effects.applied(records, through):
        yield record, read_replaced(slots, record.header.seq, record.listed)


@dataclass(frozen=True, slots=True)
class AppliedSlot:
    """The record that called a REPLACE applied: its slot, and when it was written."""

    slot: int
    time: datetime


def applied_by(lane: Lane, state: State, slot: int) -> AppliedSlot:
    """Return the record that called the REPLACE in a slot applied.

    Raises:
        Retry: the store does not answer; or no record has done so yet.
        Stalled: LEDGER_BROKEN, a slot is missing.
    """
    for seq in range(slot, state.seq + 1):
        body = lane.find_slot(state, seq)
        if body is None:
            raise ledger_error(seq, f"missing: slot {slot} has kept copies of what retired")
        header = decode(seq, body).header
        if header.applied_through >= slot:
            return AppliedSlot(seq, time_of(seq, header.time))
    raise Retry(f"slot {slot} is not called applied yet")
