"""Compressed objects that are named by the hash of their bytes, and checked against it.

Equal values give equal bytes, so that a driver that stores again what another one has stored finds
it stored. What is damaged or gone raises ``Stalled`` with LEDGER_BROKEN and the key.
"""

import zlib

from landfall.errors import Reason, Stalled
from landfall.ledger import digest
from landfall.ledger.gzip_members import unpack
from landfall.store import Created, Slots

_GZIP = 31
"""The ``wbits`` of a gzip member."""


_MAX_BYTES = 512 * 2**20
"""The most that is read of one object."""


def packed(body: bytes) -> bytes:
    """The bytes compressed as one gzip member, without a time."""
    # Not ``gzip.compress``, which may write the time: equal bodies give equal bytes.
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()


def unpacked(key: str, body: bytes) -> bytes:
    """The inverse of ``packed``.

    Raises:
        Stalled: LEDGER_BROKEN, the bytes are damaged.
    """
    try:
        return unpack(body, _MAX_BYTES)
    except ValueError as error:
        raise broken(f"{key}: {error}") from error


def store(slots: Slots, key: str, body: bytes) -> None:
    """Make sure that the key has these bytes.

    Raises:
        Stalled: LEDGER_BROKEN, other bytes have the key.
        Retry: the store failed; calling again is safe.
    """
    if slots.create(key, body) is Created.TAKEN and slots.read(key) != body:
        raise broken(f"{key}: is there with other bytes")


def load(slots: Slots, key: str, sha256: str) -> bytes:
    """The bytes with this SHA-256, as they are stored.

    Raises:
        Stalled: LEDGER_BROKEN, they are gone or different.
        Retry: the store failed.
    """
    body = slots.read(key)
    if body is None:
        raise broken(f"{key}: is named by the ledger, but gone")
    if (found := digest(body)) != sha256:
        raise broken(f"{key}: has SHA-256 {found}, expected {sha256}")
    return body


def broken(problem: str) -> Stalled:
    """The error to raise for an object that differs from the ledger; the text names its key."""
    return Stalled(Reason.LEDGER_BROKEN, problem)
