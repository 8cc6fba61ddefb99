"""Rows of objects and of a table as hashes in files, a part of the keys at a time.

A row is a few numbers: hashes of its key and of its values, its place, and what decides which row
of a key is the newest. Both sides are parted by the key, and each part is compared in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from landfall_audit.objects.row_file import RowFile, Stored

ROW = np.dtype(
    [
        *((name, "<u8") for name in ("key_high", "key_low", "high", "low")),
        *((name, "<i8") for name in ("order", "partition", "lifetime", "offset", "flags")),
    ]
)
"""Hashes of key and values, what orders the rows of a key, the place, and ``DELETES`` and so on."""
DELETES, IS_KEYLESS = 1, 2
"""Flags of a row: it deletes its key; it has none, so that it is as it is."""
_PARTS = 256
_NUMBERS = ROW.itemsize // 8
_PLACE = ["partition", "offset"]
_IDENTITY = ["key_high", "key_low", "high", "low", *_PLACE]
_KEPT = 20
"""The number of examples of each kind that are kept."""

Rows = npt.NDArray[np.void]
"""Of ``ROW``."""


class RowParts:
    """Rows in a temporary file, parted by their keys."""

    def __init__(self) -> None:
        """Begin with no rows."""
        self._file = RowFile()
        self._parts: list[list[Stored]] = [[] for _ in range(_PARTS)]
        self.count = 0

    def add(self, rows: Rows) -> None:
        """Store rows."""
        self.count += len(rows)
        parts = (rows["key_high"] % np.uint64(_PARTS)).astype(np.int64)
        order = np.argsort(parts, kind="stable")
        ends = np.searchsorted(parts[order], np.arange(_PARTS + 1))
        for part in np.flatnonzero(np.diff(ends)):
            found = rows[order[ends[part] : ends[part + 1]]]
            self._parts[part].append(self._file.add(found.view(np.int64)))

    def of_part(self, part: int) -> Rows:
        """The rows of a part."""
        found = [self._file.read(stored) for stored in self._parts[part]]
        return np.concatenate([np.zeros(0, np.int64), *found]).view(ROW)

    def close(self) -> None:
        """Delete the file."""
        self._file.close()


@dataclass
class Differences:
    """The differences between the rows of a table and the expected ones.

    Attributes:
        expected: how many rows are.
        counts: of each kind; see ``TableResult``.
        places: examples of each kind: Kafka partition and offset.
    """

    expected: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, kind: str, rows: Rows, count: int | None = None) -> None:
        """Add rows of a kind, or more of them than are examples."""
        number = len(rows) if count is None else count
        if number:
            self.counts[kind] = self.counts.get(kind, 0) + number
            kept = self.places.setdefault(kind, [])
            more = rows[: _KEPT - len(kept)]
            kept += [(int(row["partition"]), int(row["offset"])) for row in more]


def compare(landed: RowParts, shown: RowParts, counting: Callable[[Rows], Rows]) -> Differences:
    """Compare the rows of a table with landed ones.

    Args:
        landed: of all objects that count.
        shown: by the table.
        counting: returns which landed rows the table is to have, of all rows with some keys.
    """
    found = Differences()
    for part in range(_PARTS):
        rows = landed.of_part(part)
        _compare(found, rows, counting(rows), shown.of_part(part))
    return found


def newest(rows: Rows, *, is_ordered: bool) -> Rows:
    """The newest row of each key, unless it deletes the key, and rows that have no key.

    Rows without a key that delete one delete nothing, and are none themselves.

    Args:
        rows: all rows with some keys.
        is_ordered: whether ``order`` decides first, and the Kafka partition then; otherwise all
            rows of a key are in one.
    """
    keyless = rows["flags"] & IS_KEYLESS != 0
    keyed = rows[~keyless]
    first = ("partition", "order") if is_ordered else ()
    columns = ("offset", "lifetime", *first, "key_low", "key_high")
    keyed = keyed[np.lexsort([keyed[name] for name in columns])]
    is_last = np.ones(len(keyed), bool)
    is_last[:-1] = (keyed["key_high"][1:] != keyed["key_high"][:-1]) | (
        keyed["key_low"][1:] != keyed["key_low"][:-1]
    )
    both = np.concatenate([keyed[is_last], rows[keyless]])
    found: Rows = both[both["flags"] & DELETES == 0]
    return found


def _compare(found: Differences, landed: Rows, wanted: Rows, shown: Rows) -> None:
    found.expected += len(wanted)
    every = np.concatenate([wanted, shown])
    _, first, inverse = np.unique(_identities(every), return_index=True, return_inverse=True)
    of_wanted = np.bincount(inverse[: len(wanted)], minlength=len(first))
    of_shown = np.bincount(inverse[len(wanted) :], minlength=len(first))
    again = (of_shown > of_wanted) & (of_wanted > 0)
    found.add("duplicate", every[first[again]], int((of_shown - of_wanted)[again].sum()))
    lacking = of_wanted > of_shown
    missing, extra = every[first[lacking]], every[first[(of_shown > 0) & (of_wanted == 0)]]
    is_other = np.isin(_places(extra), _places(missing)) & (extra["offset"] >= 0)
    found.add("corrupted", extra[is_other])
    count = int((of_wanted - of_shown)[lacking].sum()) - int(is_other.sum())
    found.add("missing", missing[~np.isin(_places(missing), _places(extra))], max(count, 0))
    rest = extra[~is_other]
    was_landed = np.isin(_identities(rest), _identities(landed))
    found.add("outdated", rest[was_landed])
    found.add("foreign", rest[~was_landed])


def _identities(rows: Rows) -> npt.NDArray[np.void]:
    return _as_bytes(rows, _IDENTITY)


def _places(rows: Rows) -> npt.NDArray[np.void]:
    return _as_bytes(rows, _PLACE)


def _as_bytes(rows: Rows, names: list[str]) -> npt.NDArray[np.void]:
    """Some numbers of each row as one value that can be sorted."""
    joined = np.stack([rows[name].astype("<u8") for name in names], axis=1)
    found: npt.NDArray[np.void] = np.ascontiguousarray(joined).view(f"V{8 * len(names)}").ravel()
    return found
