"""Reads which objects took the place of others, from the list that a REPLACE names."""

from landfall.ledger import Replacement, State, ledger_error
from landfall.ledger.replacement_lists import Replaced, decode_list
from landfall.store import Slots


def has_replaced(state: State) -> bool:
    """Whether objects were ever replaced, or are to be."""
    return bool(state.replaced) or state.replaced_known_from >= 0


def read_replaced(slots: Slots, seq: int, named: Replacement) -> Replaced:
    """The objects in the list that the REPLACE of slot ``seq`` names.

    Raises:
        Stalled: LEDGER_BROKEN, the list is gone or damaged.
        Retry: the store does not answer.
    """
    body = slots.read(named.key)
    if body is None:
        raise ledger_error(seq, f"names {named.key}, which is not there")
    try:
        return decode_list(named, body)
    except ValueError as error:
        raise ledger_error(seq, str(error)) from error
