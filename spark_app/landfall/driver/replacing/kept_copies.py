"""Copies of replaced objects, which are kept for a while, so that a REPLACE can be undone."""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby

from landfall.driver.replacing.grace_period import applied_by
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.names import object_names

log = logging.getLogger(__name__)

MAX_DELETED = 1000
"""Copies that are deleted by one request."""


def delete_expired(lane: Lane, state: State, retain: timedelta, now: datetime) -> int:
    """Delete copies of what has retired by REPLACEs that were applied longer than ``retain`` ago.

    Those of a REPLACE of whose old objects some are left stay. Returns how many are deleted.

    Raises:
        Retry: the store does not answer.
        Stalled: LEDGER_BROKEN, the REPLACE is missing.
    """
    deleted = 0
    prefix = object_names.retired_prefix(lane.group, lane.name)
    keys = (stat.key for stat in lane.slots.list_after(prefix))
    for slot, kept in groupby(keys, key=lambda key: object_names.slot_of(prefix, key)):
        if slot is None:
            continue
        if not _is_over(lane, state, slot, now - retain):
            break  # copies are listed by slot, and later slots are not over, either
        for some in _chunks(kept):
            lane.slots.delete_slots(some)
            deleted += len(some)
    if deleted:
        log.info("copies of replaced objects have expired", extra={"objects": deleted})
    return deleted


def _is_over(lane: Lane, state: State, slot: int, before: datetime) -> bool:
    if slot > state.applied_through or slot in state.retiring:
        return False
    return applied_by(lane, state, slot).time < before


def _chunks(keys: Iterator[str]) -> Iterator[list[str]]:
    some = list[str]()
    for key in keys:
        some.append(key)
        if len(some) == MAX_DELETED:
            yield some
            some = []
    if some:
        yield some
