"""Reads from a lane's ledger what is landed now: see ``landfall.driver.decide.landed_now``.

Of ranges that are known, only what has rows of them is held, and segments are read by their index.
So a driver that promotes a backfill needs memory for what it replaces, however much has landed.
"""

from landfall import ledger
from landfall.driver.decide.counting import Ranges
from landfall.driver.decide.landed_now import LandedNow
from landfall.lane import Lane
from landfall.lane.replacements import read_replaced
from landfall.lane.seen import SeenObjects
from landfall.ledger import Record, State
from landfall.ledger.effects import replaces
from landfall.ledger.replace.replacement_lists import Replaced
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
        is_wanted = all(map(found.concerns, replaces([record])))
        found.take(record, _listed(lane, record) if is_wanted else None)
    found.reached(state.seq, state.applied_through)
    return state, found


def _listed(lane: Lane, record: Record) -> Replaced | None:
    for each in replaces([record]):
        return read_replaced(lane.slots, each.header.seq, each.listed)
    return None
