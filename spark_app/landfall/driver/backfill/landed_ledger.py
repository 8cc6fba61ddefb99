"""Reads from a lane's ledger what is landed now: see ``landfall.driver.decide.landed_now``.

Of ranges that are known, only what has rows of them is held, and segments are read by their index.
So to plan a backfill and to promote it takes memory for what it replaces, however much has landed.
"""

from landfall import ledger
from landfall.driver.decide.backfill import Backfill, SliceChoice
from landfall.driver.decide.choice_reach import ChoiceReach, chosen_within
from landfall.driver.decide.counting import Ranges
from landfall.driver.decide.landed_now import LandedNow
from landfall.lane import Lane
from landfall.lane.replacements import read_replaced
from landfall.lane.seen import SeenObjects
from landfall.ledger import Record, State
from landfall.ledger.effects import replaces
from landfall.ledger.names.object_names import MAX_OFFSET
from landfall.ledger.offsets import OffsetRange
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.store import Store

EVERYTHING = OffsetRange(0, MAX_OFFSET)


def read_landed(lane: Lane, store: Store | None = None, within: Ranges | None = None) -> LandedNow:
    """Return what is landed through the last slot; two kilobytes of memory for each object.

    Args:
        lane: whose ledger is read.
        store: where objects are looked up that the ledger does not call visible yet; without it,
            these do not count.
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
    found.next_offsets = state.checkpoint.next_offsets
    return state, found


def read_chosen(lane: Lane, store: Store, choice: SliceChoice) -> tuple[LandedNow, Backfill]:
    """Return what a choice lands again, and what is landed of it; memory for the choice alone.

    The ledger is read twice: first to know in which offsets there may be something that is chosen.
    An object that cannot be cut may have rows outside of these, which are read then, too.

    Raises:
        Stalled: SPEC_INVALID, what is chosen cannot be landed again, or does not exist; or as
            ``read_landed``.
        Retry: the store does not answer, or something chosen is not visible yet.
    """
    return chosen_within(
        _reach(lane, choice), lambda within: read_landed(lane, store, within), choice
    )


def _reach(lane: Lane, choice: SliceChoice) -> Ranges:
    state, found = lane.read(), ChoiceReach(lane.group, choice)
    topics = choice.topics or {tp.topic for tp in state.members}
    everything = {tp: EVERYTHING for tp in state.members if tp.topic in topics}
    for seq, body in lane.bodies_about(state, everything):
        record = ledger.decode(seq, body)
        is_wanted = any(
            slice_.topic_partition in everything
            for replacement in replaces([record])
            for slice_ in replacement.slices
        )
        found.take(record, _listed(lane, record) if is_wanted else None)
    return found.ranges


def _listed(lane: Lane, record: Record) -> ReplacementList | None:
    for replacement in replaces([record]):
        return read_replaced(lane.slots, replacement.header.seq, replacement.listed)
    return None
