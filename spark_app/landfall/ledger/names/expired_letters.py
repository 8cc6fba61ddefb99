"""Expired dead letters, and the key of the object that records it. Pure.

With ``badRecords.retain``, dead letters are deleted once they are old. Before the first of them is,
an object next to the ledger records up to which slot. Its name has that slot, so the largest name
counts, no matter who wrote it, and a driver that was fenced cannot take it back::

    _landfall/<group>/<lane>-expired/<through:020d>.json
"""

import re

import msgspec

from landfall import untrusted_json
from landfall.ledger.names.object_names import MAX_OFFSET, lane_prefix

_NAME = re.compile(r"([0-9]{20})\.json")


class ExpiredLetters(msgspec.Struct, frozen=True):
    """Dead letters of slots up to ``through`` have expired: they are deleted, or about to be.

    Attributes:
        through: the last of these slots.
        after: letters of slots up to this one were deleted when this was written; -1 for none.
        before: no younger ones have expired, ISO 8601 in UTC.
    """

    through: int
    after: int
    before: str


NONE_EXPIRED = ExpiredLetters(-1, -1, "")


def expired_prefix(group: str, lane: str) -> str:
    """The prefix of the objects that record what has expired, and of no other ones.

    Raises:
        ValueError: the group's or the lane's name is not legal.
    """
    return f"{lane_prefix(group, lane)}-expired/"


def expired_key(group: str, lane: str, through: int) -> str:
    """The key of the object that records that dead letters of slots up to this one have expired.

    Raises:
        ValueError: a name is not legal, or the slot is none.
    """
    if not 0 <= through <= MAX_OFFSET:
        raise ValueError(f"not a slot: {through}")
    return f"{expired_prefix(group, lane)}{through:020d}.json"


def is_expired_key(prefix: str, key: str) -> bool:
    """Return whether a key that begins with ``prefix`` belongs to such an object."""
    return _NAME.fullmatch(key.removeprefix(prefix)) is not None


def encode_expired(expired: ExpiredLetters) -> bytes:
    """The bytes of the object."""
    return msgspec.json.encode(expired)


def decode_expired(body: bytes) -> ExpiredLetters:
    """Decode the contents of the object.

    Raises:
        ValueError: it is damaged.
    """
    return untrusted_json.decode(body, type=ExpiredLetters)
