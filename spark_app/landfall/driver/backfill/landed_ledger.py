"""Reads from a lane's ledger what is landed now: see ``landfall.driver.decide.landed_now``.

Of ranges that are known, only what has rows of them is held, and segments are read by their index.
So a driver that promotes a backfill needs memory for what it replaces, however much has landed.
"""

from landfall import ledger
from landfall.driver.decide.counting import Ranges
from landfall.driver.decide.landed_now import LandedNow
from landfall.lane import Lane
from landfall.lane.seen import SeenObjects
from landfall.ledger import Record, Replace, State
from landfall.ledger.replacement_lists import Replaced, decode_list
from landfall.store import Store


def read_landed(lane: Lane, store: Store | None = None, within: Ranges | None = None) -> LandedNow:
    """What is landed through the last slot; two kilobytes of memory for each object.

    Args:
        lane: whose ledger is read.
        store: of its objects, in which is looked for those that the ledger does not call visible
            yet; without it, they do not count.
        within: objects and ranges that have no rows from these offsets are left out.

    Raises:
        Stalled: LEDGER_BROKEN, a slot or a list is missing or violates a rule.
        Retry: the store does not answer.
    """
    state, found = _read_all(lane) if within is None else _read_within(lane, within)
    if store is not None:
        found.see(SeenObjects(store.stat).through(state))
    return found


def _read_all(lane: Lane) -> tuple[State, LandedNow]:
    state, found = State(), LandedNow(lane.group)
    for seq, body in lane.bodies():
        state = ledger.fold(state, body)
        record = ledger.decode(seq, body)
        found.take(record, _listed(lane, record))
    return state, found


def _read_within(lane: Lane, within: Ranges) -> tuple[State, LandedNow]:
    state, found = lane.read(), LandedNow(lane.group, within)
    for seq, body in lane.bodies_about(state, within):
        record = ledger.decode(seq, body)
        is_wanted = not isinstance(record, Replace) or found.concerns(record)
        found.take(record, _listed(lane, record) if is_wanted else None)
    found.reached(state.seq, state.applied_through)
    return state, found


def _listed(lane: Lane, record: Record) -> Replaced | None:
    if not isinstance(record, Replace):
        return None
    body = lane.slots.read(record.listed.key)
    try:
        return decode_list(record.listed, body or b"")
    except ValueError as error:
        raise ledger.ledger_error(record.header.seq, str(error)) from error
