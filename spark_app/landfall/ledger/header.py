"""The header of every record of the ledger. Pure.

The names of the fields are part of the persisted format, as in ``records``.
"""

import msgspec

VERSION = 2
"""Version of the record format. Records of any other version are rejected."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that every record has.

    Attributes:
        seq: number of the slot, counted from 0.
        prev: SHA-256 (hex) of the previous slot's bytes, so that changing or swapping a slot breaks
            the chain.
        epoch: epoch of the OPEN under which the record was written.
        writer: random name of the driver process that wrote it.
        time: when it was written, ISO 8601 in UTC. It decides when dead letters and old objects
            are deleted, and nothing of what is landed.
        applied_through: every COMMIT and REPLAY up to this slot has all its objects visible and
            verified, but for those that a BLOCK names as missing, and so has every REPLACE; -1 for
            none.
        version: version of the record format.
    """

    seq: int
    prev: str
    epoch: int
    writer: str
    time: str
    applied_through: int = -1
    version: int = VERSION


class BaseRecord(
    msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, kw_only=True
):
    """A record; each type has its own tag."""

    header: Header
