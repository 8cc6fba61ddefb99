"""Reads which dead letters of a lane have expired."""

from landfall.errors import Reason, Stalled
from landfall.ledger.names.expired_letters import (
    NONE_EXPIRED,
    ExpiredLetters,
    decode_expired,
    expired_prefix,
    is_expired_key,
)
from landfall.store import Slots


def expired_keys(slots: Slots, group: str, lane: str) -> list[str]:
    """The keys of the objects that record what has expired, in the order of their slots."""
    prefix = expired_prefix(group, lane)
    keys = (stat.key for stat in slots.list_after(prefix))
    return [key for key in keys if is_expired_key(prefix, key)]


def read_expired(slots: Slots, group: str, lane: str) -> ExpiredLetters:
    """The dead letters of the lane that have expired by now.

    Raises:
        Stalled: LEDGER_BROKEN, the object that records it is damaged.
        Retry: the store does not answer.
    """
    while keys := expired_keys(slots, group, lane):
        body = slots.read(keys[-1])
        if body is None:
            continue  # it is deleted once a later one is there
        try:
            return decode_expired(body)
        except ValueError as error:
            raise Stalled(Reason.LEDGER_BROKEN, f"{keys[-1]}: damaged: {error}") from error
    return NONE_EXPIRED
