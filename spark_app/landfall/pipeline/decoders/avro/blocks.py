"""Where the items of arrays and maps begin.

They come in blocks: a count, then so many items, until a count of 0; a negative count is followed
by the size of the block in bytes (specification, "Arrays" and "Maps"). Item by item all rows that
have one more are moved on at once, until so few rows are left that it is cheaper to walk over them
one by one. Either way gives the same positions.

A block that is not as long as it says makes its row bad. Sizes are never used to jump: a wrong one
would lead into the middle of a value.
"""

from array import array
from dataclasses import dataclass

import numpy as np

from landfall.pipeline.decoders.avro.cursor import Bools, Cursor
from landfall.pipeline.decoders.avro.node import MAX_EMPTY_ITEMS, Malformed, Node, OneRecord
from landfall.pipeline.records import Int64s

_FEW_ROWS = 48
"""Rows below which walking is cheaper than some twenty NumPy calls for each value."""
_NO_SIZE = -1
_LEAST = -(2**63)


def item_starts(node: Node, path: str, cursor: Cursor) -> tuple[Int64s, Int64s]:
    """Move behind the array in each row, and return its items.

    Returns:
        The row of each item, increasing, and the position where the item begins.
    """
    blocks = _Blocks.of(node, path, cursor)
    while len(blocks.rows):
        blocks.open()
        if len(blocks.rows) < _FEW_ROWS:
            blocks.walk()
            break
        blocks.step()
    if not blocks.owners:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    owners, starts = np.concatenate(blocks.owners), np.concatenate(blocks.starts)
    order = np.argsort(owners, kind="stable")
    return owners[order], starts[order]


def walk_blocks(node: Node, path: str, record: OneRecord, at: int) -> int:
    """Return the position behind the array at ``at``; raises ``Malformed``."""
    return _walk(node, path, record, _Place(at), None).at


@dataclass
class _Place:
    """Where one row is: the items left in its block, and where that ends if it says so."""

    at: int
    left: int = 0
    block_end: int = _NO_SIZE
    count: int = 0


def _walk(
    node: Node, path: str, record: OneRecord, place: _Place, starts: "array[int] | None"
) -> _Place:
    while True:
        while place.left:
            if starts is not None:
                starts.append(place.at)
            place.at = node.walk(record, place.at)
            place.left -= 1
        if place.block_end not in {_NO_SIZE, place.at}:
            raise Malformed(f"{path}: a block that is not as long as it says")
        place.block_end = _NO_SIZE
        count, place.at = record.number(place.at)
        if count == 0:
            return place
        if count < 0:
            size, place.at = record.number(place.at)
            place.block_end, count = record.jump(place.at, size), -count
        place.left = count
        place.count += count
        room = record.end - place.at
        if count > (room // node.least if node.least else MAX_EMPTY_ITEMS - place.count + count):
            raise Malformed(f"{path}: more items than there are bytes for")


@dataclass
class _Blocks:
    """The rows that are still in their array, and the items found so far."""

    node: Node
    path: str
    whole: Cursor
    rows: Int64s
    cursor: Cursor
    left: Int64s
    block_end: Int64s
    counts: Int64s
    owners: list[Int64s]
    starts: list[Int64s]

    @classmethod
    def of(cls, node: Node, path: str, cursor: Cursor) -> "_Blocks":
        rows = np.flatnonzero(cursor.good)
        zeros = np.zeros(len(rows), np.int64)
        ends = np.full(len(rows), _NO_SIZE, np.int64)
        return cls(node, path, cursor, rows, cursor.select(rows), zeros, ends, zeros, [], [])

    def open(self) -> None:
        """Begin the next block where the last one is over; rows at their end leave."""
        # A block of count 0 ends the array, so one pass leaves no row without an item.
        need = np.flatnonzero(self.left == 0)
        if not len(need):
            return
        part = self.cursor.select(need)
        ends = self.block_end[need]
        part.fail(
            (ends != _NO_SIZE) & (ends != part.at),
            f"{self.path}: a block that is not as long as it says",
        )
        counts = part.numbers(self.path)
        sized = np.flatnonzero((counts < 0) & part.good)
        ends = np.full(len(need), _NO_SIZE, np.int64)
        if len(sized):
            of_sized = part.select(sized)
            sizes = of_sized.lengths(self.path)
            ends[sized] = of_sized.at + sizes
            part.join(of_sized, sized)
            part.fail(counts == _LEAST, f"{self.path}: more items than there are bytes for")
            counts = np.abs(counts)
        total = np.minimum(counts, 2**62) + self.counts[need]
        room = (part.end - part.at) // self.node.least if self.node.least else MAX_EMPTY_ITEMS
        too_many = counts > room if self.node.least else total > MAX_EMPTY_ITEMS
        part.fail(too_many, f"{self.path}: more items than there are bytes for")
        self.left, self.block_end, self.counts = (
            self.left.copy(),
            self.block_end.copy(),
            self.counts.copy(),
        )
        self.left[need] = np.where(part.good, counts, 0)
        self.block_end[need], self.counts[need] = ends, total
        self.cursor.join(part, need)
        self._keep(self.left > 0)

    def step(self) -> None:
        """Note where the next item of each row begins, and move behind it."""
        self.owners.append(self.rows)
        self.starts.append(self.cursor.at)
        self.node.skip(self.cursor)
        self.left = self.left - 1
        self._keep(self.cursor.good)

    def walk(self) -> None:
        """Move the rows that are left behind their arrays, one by one."""
        view = self.cursor.data.bytes.data
        ends = self.cursor.end.tolist()
        wrong = np.zeros(len(self.whole), np.bool_)
        # Positions of the caller's are arrays that others may hold.
        self.whole.at = self.whole.at.copy()
        for i, row in enumerate(self.rows.tolist()):
            place = _Place(
                int(self.cursor.at[i]),
                int(self.left[i]),
                int(self.block_end[i]),
                int(self.counts[i]),
            )
            starts = array("q")
            record = OneRecord(view, ends[i], self.cursor.depth)
            try:
                after = _walk(self.node, self.path, record, place, starts).at
            except Malformed as error:
                wrong[:] = False
                wrong[row] = True
                self.whole.fail(wrong, str(error))
                continue
            self.whole.at[row] = after
            self.owners.append(np.full(len(starts), row, np.int64))
            self.starts.append(np.frombuffer(starts, np.int64))
        self.rows = self.rows[:0]

    def _keep(self, mask: Bools) -> None:
        """Leave the rows behind that are over, or bad."""
        if mask.all():
            return
        gone = np.flatnonzero(~mask)
        self.whole.join(self.cursor.select(gone), self.rows[gone])
        kept = np.flatnonzero(mask)
        self.rows, self.cursor = self.rows[kept], self.cursor.select(kept)
        self.left, self.block_end, self.counts = (
            self.left[kept],
            self.block_end[kept],
            self.counts[kept],
        )
