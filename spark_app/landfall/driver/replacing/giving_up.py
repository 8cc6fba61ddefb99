"""Gives up a REPLACE that is not applied: its old objects count as before (docs/adr/0075).

Nothing is deleted before a record calls a REPLACE applied. So as long as none does, the old objects
are all there, and a REPLACE *instead* of it, with an empty list, records that they stay. What it
has made visible or uploaded is cleaned up afterwards, as what retires is. Nothing is lost by it but
work: a merge is planned again, a promotion or an undoing may be asked for again.
"""

from collections.abc import Callable

from landfall import ledger
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.lane import Lane
from landfall.ledger import Decision, Purpose, Replace, State
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.store import Slots


def given_up(
    slots: Slots, lane: Lane, record: Replace, token: str, decision: Decision | None = None
) -> Callable[..., ledger.Record]:
    """Store the empty list; returns what makes the record, when called with ``header=…``.

    Args:
        slots: where the list is stored.
        lane: the ledger.
        record: the REPLACE that is given up.
        token: a name that was never used before.
        decision: of the requester.

    Raises:
        Retry: the store does not answer; nothing is recorded.
    """
    slot, nothing = record.header.seq, ReplacementList((), ())
    # With its ranges: a reader of the records of a range alone must know that it was given up.
    plan = PlannedReplacement(
        token=token,
        purpose=Purpose.UNDO,
        listed=nothing,
        read_through=slot,
        folders=record.folders,
        slices=record.slices,
    )
    return plan.record(plan.stored(slots, lane), slot, decision)


def why_not_given_up(state: State, slot: int, applied_through: int) -> str:
    """Return why the REPLACE in a slot cannot be given up; empty if it can be.

    Args:
        state: of the lane.
        slot: of the REPLACE.
        applied_through: up to which slot everything is visible, whether a record names it or not.
    """
    pending = state.replacing.get(slot)
    if pending is None or slot <= applied_through:
        return f"the REPLACE in slot {slot} is applied meanwhile"
    if not pending.retires_later:
        return (
            f"the REPLACE in slot {slot} was recorded by former software, which may have deleted "
            "what it replaces: it cannot be given up"
        )
    return ""
