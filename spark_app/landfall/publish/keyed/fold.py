"""Decides which rows of a keyed table do not count. No file of the table is looked at here.

Rows are folded in any order, in as many parts as fit into memory, and the result is the same: of a
key, the row with the greatest order counts, unless it deletes the key. An older row that comes
late, such as a dead letter that is landed again, does not count from the start. Deletions stay in
the index, so that an older row does not bring a key back.
"""

from dataclasses import dataclass, field

import numpy as np

from landfall.publish.keyed.index import KeyIndex, is_last, is_later, sorted_rows
from landfall.publish.keyed.rows import (
    ENTRY,
    NO_ROW,
    KeyedRows,
    RowIds,
    Rows,
    in_two_partitions,
    place_of,
)


class OrderUnknown(Exception):  # noqa: N818  # the name is the state
    """Rows of a key are in two Kafka partitions, whose offsets have no order."""


@dataclass
class Fold:
    """Rows that come in, one part after the other.

    Attributes:
        index: the newest row of each key, of what came in before and until now.
        twice: rows that came in again while they were the newest of their keys, sorted. Another
            program has changed such a row, and what it was before is in its landed file.
    """

    index: KeyIndex
    twice: RowIds = field(default_factory=lambda: np.zeros(0, np.uint64))

    def add(self, part: KeyedRows) -> RowIds:
        """Fold rows that have not come in before; return the rows that do not count now.

        These may be of this part or of any that came in before.

        Raises:
            OrderUnknown: rows of a key are in two Kafka partitions, and are ordered by offsets.
            IndexLost, Retry: see ``KeyIndex.newest``.
        """
        rows = sorted_rows(part.rows[part.has_key])
        last = is_last(rows)
        if not self.index.is_ordered:
            _check_partitions(rows[1:][~last[:-1]], rows[:-1][~last[:-1]])
        newest = rows[last]
        entries = _entries(newest)
        known, theirs = self.index.newest(entries)
        if not self.index.is_ordered:
            _check_partitions(entries[known], theirs[known])
        is_new = ~known | is_later(entries, theirs)
        is_same = known & (entries["row"] == theirs["row"])
        self._add_twice(rows["row"][1:][~last[:-1]], rows["row"][:-1][~last[:-1]])
        self._add_twice(entries["row"][is_same], theirs["row"][is_same])
        self.index = self.index.plus(entries[is_new])
        return np.concatenate(
            [
                part.deletes_nothing,
                rows["row"][~last],
                newest["row"][~(is_new | is_same) | newest["deleted"]],
                theirs["row"][known & is_new],
            ]
        )

    def _add_twice(self, rows: RowIds, others: RowIds) -> None:
        self.twice = np.union1d(self.twice, rows[rows == others])


def counted(part: KeyedRows, index: KeyIndex) -> RowIds:
    """The rows of a part that count, by an index in which all rows are.

    Raises:
        IndexLost, Retry: see ``KeyIndex.newest``.
    """
    rows = sorted_rows(part.rows[part.has_key])
    newest = rows[is_last(rows)]
    _, theirs = index.newest(_entries(newest))
    count = (newest["row"] == theirs["row"]) & ~newest["deleted"]
    keyless = part.ids[~part.has_key & (~part.rows["deleted"] | (part.ids == NO_ROW))]
    return np.concatenate([newest["row"][count], keyless])


def _entries(rows: Rows) -> Rows:
    found = np.zeros(len(rows), ENTRY)
    for name in ENTRY.names or ():
        found[name] = rows[name]
    return found


def _check_partitions(one: Rows, other: Rows) -> None:
    if len(at := np.flatnonzero(in_two_partitions(one, other))):
        first, second = sorted((int(one["row"][at[0]]), int(other["row"][at[0]])))
        raise OrderUnknown(f"{place_of(first)} and {place_of(second)} have the same key")
