"""Finds rows whose key another row has, within a bound of memory.

Of each key only a fingerprint of 16 bytes is kept, by BLAKE2b: that any two of 50 million different
keys have the same one is less likely than 1 in 10^23. With their order a row takes about 50 bytes
(``landfall.driver.decide.compaction.BYTES_PER_KEY``; tests/bench/bench_merging.py measures it).
"""

import hashlib

import numpy as np
import numpy.typing as npt

from landfall.api.spec import Keep
from landfall.formats.merging import Keys, Mask

Positions = npt.NDArray[np.int64]
_BYTES = 16


class Fingerprints:
    """The keys of rows, in their order."""

    def __init__(self) -> None:
        """There are none yet."""
        self._digests = bytearray()
        self._keyed: list[Mask] = []

    def add(self, keys: Keys) -> None:
        """Add the keys of the next rows; None for a row without one."""
        found = b"".join(_digest(key) for key in keys if key is not None)
        self._digests += found
        keyed = np.ones(len(keys), np.bool_)
        if len(found) < _BYTES * len(keys):
            keyed[:] = [key is not None for key in keys]
        self._keyed.append(keyed)

    def kept(self, keep: Keep) -> Mask:
        """Return the rows to keep: one for each key, and all without a key."""
        keyed = np.concatenate([*self._keyed, np.empty(0, np.bool_)])
        kept = np.ones(len(keyed), np.bool_)
        kept[np.flatnonzero(keyed)[self._duplicates(keep)]] = False
        return kept

    def _duplicates(self, keep: Keep) -> Positions:
        """Positions among the rows with a key of those that are left out."""
        halves = np.frombuffer(self._digests, np.uint64).reshape(-1, 2)
        # Stable, so that rows with the same key stay in their order.
        order = np.argsort(halves[:, 0], kind="stable")
        ordered = halves[order, 0]
        same = np.flatnonzero(ordered[1:] == ordered[:-1])
        del ordered
        earlier, later = order[same], order[same + 1]
        # Different keys with the same first half may come between: what that leaves in is a row
        # too many, never one too few.
        equal = halves[earlier, 1] == halves[later, 1]
        left_out: Positions = (later if keep is Keep.FIRST else earlier)[equal]
        return left_out


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_BYTES).digest()
