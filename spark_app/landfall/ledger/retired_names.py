"""Keys of the copies of objects whose place others took by a REPLACE. Pure.

They are kept for a while, beside the ledger::

    _landfall/<group>/<lane>-retired/<slot:020d>/<key that it had>
"""

import re

from landfall.ledger.object_names import check_length, lane_prefix

ANY_RETIRED = re.compile("_landfall/[^/]+/[^/]+-retired/")
"""Matches what the keys of the copies of any lane begin with."""


def retired_prefix(group: str, lane: str) -> str:
    """The prefix of the copies.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{lane_prefix(group, lane)}-retired/"


def retired_key(group: str, lane: str, slot: int, key: str) -> str:
    """The key of the copy of an object that retires by the REPLACE in a slot.

    Raises:
        ValueError: a name is not legal, or the copy's key would be longer than 1024 bytes.
    """
    kept = f"{retired_prefix(group, lane)}{slot:020d}/{key}"
    check_length(kept)
    return kept


def slot_of(prefix: str, key: str) -> int | None:
    """The slot in the key of a copy that begins with ``prefix``; None if somebody else's."""
    slot = key.removeprefix(prefix).partition("/")[0]
    return int(slot) if slot.isdecimal() else None
