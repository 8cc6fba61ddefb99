"""Where the items of arrays and maps begin.

They come in blocks: a count, then so many items, until a count of 0; a negative count is followed
by the size of the block in bytes (specification, "Arrays" and "Maps"). The items of whole blocks
are found at once where each has the same size, or is one varint, which ends with the first byte
whose high bit is clear. Other items are found one after the other, for all rows that have one more
at once, until so few rows are left that it is cheaper to walk over them one by one. Every way gives
the same positions.

The extension reads arrays of whole numbers in one call, all blocks of all rows; arrays that are not
right are left to the code here, whose words count.

A block that is not as long as it declares makes its row bad. Sizes are never used to jump: a wrong
one would lead into the middle of a value.
"""

from array import array
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from landfall.native import hot_path
from landfall.pipeline.decoders.avro.cursor import ENDS, AvroCursor, Bools
from landfall.pipeline.decoders.avro.decimals import DecimalNode
from landfall.pipeline.decoders.avro.node import MAX_EMPTY_ITEMS, Malformed, Node, OneRecord
from landfall.pipeline.decoders.avro.scalars import (
    BooleanNode,
    FixedNode,
    NumberNode,
    RealNode,
    SymbolNode,
)
from landfall.pipeline.records import Int64s

_FEW_ROWS = 48
"""Rows below which walking is cheaper than some twenty NumPy calls for each value."""
_MANY_ITEMS = 256
"""Items from which some fifty NumPy calls for whole blocks are cheaper than walking over them."""
_SPARSE_BYTES = 1024
"""Bytes for each varint above which looking for the ends of all varints costs more than walking."""
_NO_SIZE = -1
_LEAST = -(2**63)


class Numbers(NamedTuple):
    """The numbers of arrays: the row of each, increasing, and the numbers, shape (items,)."""

    owners: Int64s
    numbers: Int64s


def read_numbers(node: NumberNode, path: str, cursor: AvroCursor) -> Numbers:
    """Move past the array in each row, and return its numbers; each must be a value."""
    left, (owners, numbers) = _by_extension(node, cursor, is_skipped=False)
    if not len(left):
        return Numbers(owners, numbers)
    part = cursor.select(left)
    begun = part.at
    of_left, starts = item_starts(node, path, part)
    items = part.items(of_left, starts)
    more = node.numbers(items)
    part.absorb(items, of_left)
    _name_first_errors(node, path, part, begun)
    cursor.join(part, left)
    owners, numbers = np.concatenate([owners, left[of_left]]), np.concatenate([numbers, more])
    order = np.argsort(owners, kind="stable")
    return Numbers(owners[order], numbers[order])


def _skip_numbers(node: NumberNode, path: str, cursor: AvroCursor) -> None:
    left, _ = _by_extension(node, cursor, is_skipped=True)
    if not len(left):
        return
    part = cursor.select(left)
    begun = part.at
    _skip_by_python(node, path, part)
    _name_first_errors(node, path, part, begun)
    cursor.join(part, left)


def _by_extension(
    node: NumberNode, cursor: AvroCursor, *, is_skipped: bool
) -> tuple[Int64s, Numbers]:
    """Move past the arrays that the extension reads.

    Returns:
        The good rows that are left, and the numbers that were read.
    """
    rows = np.flatnonzero(cursor.good)
    none = np.empty(0, np.int64)
    module = hot_path().module
    if module is None:
        return rows, Numbers(none, none)
    part = cursor.select(rows)
    found = module.varint_blocks(cursor.data.bytes, part.at, part.end, node.is_int, is_skipped)
    part.at, counts, numbers = (np.frombuffer(buffer, np.int64) for buffer in found)
    cursor.join(part, rows)
    is_left = counts < 0
    owners = none if is_skipped else np.repeat(rows, np.where(is_left, 0, counts))
    return rows[is_left], Numbers(owners, numbers)


def _name_first_errors(node: NumberNode, path: str, part: AvroCursor, begun: Int64s) -> None:
    """Give rows that have become bad the first error in their array.

    Which one is met first by all rows at once depends on how many they are.
    """
    for row in np.flatnonzero(~part.good).tolist():
        record = OneRecord(part.data.bytes.data, int(part.end[row]), part.depth)
        try:
            walk_blocks(node, path, record, int(begun[row]))
        except Malformed as error:
            part.errors[row] = part.texts.code(str(error))


def item_starts(node: Node, path: str, cursor: AvroCursor) -> tuple[Int64s, Int64s]:
    """Move past the array in each row, and return its items.

    Only where they begin is known afterwards. Whether each is a value, and ends where the next one
    begins, is for the node to decide.

    Returns:
        The row of each item, increasing, and the position where the item begins.
    """
    blocks = _Blocks.of(node, path, cursor)
    blocks.pass_over_all()
    if not blocks.owners:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if len(blocks.owners) == 1:
        return blocks.owners[0], blocks.starts[0]
    owners, starts = np.concatenate(blocks.owners), np.concatenate(blocks.starts)
    order = np.argsort(owners, kind="stable")
    return owners[order], starts[order]


def skip_items(node: Node, path: str, cursor: AvroCursor) -> None:
    """Move past the array in each row; rows with an item that is no value become bad."""
    if isinstance(node, NumberNode) and node.takes_any:
        _skip_numbers(node, path, cursor)
    else:
        _skip_by_python(node, path, cursor)


def _skip_by_python(node: Node, path: str, cursor: AvroCursor) -> None:
    if not cursor.data.is_strict:
        _Blocks.of(node, path, cursor, is_skipped=True).pass_over_all()
        return
    # Where items begin may have been found by walking over them, which checks no text.
    owners, starts = item_starts(node, path, cursor)
    items = cursor.items(owners, starts)
    node.skip(items)
    cursor.absorb(items, owners)


def walk_blocks(node: Node, path: str, record: OneRecord, at: int) -> int:
    """Return the position after the array at ``at``; raises ``Malformed``."""
    return _walk(node=node, path=path, record=record, place=_Place(at), starts=None).at


@dataclass
class _Place:
    """Where one row is: the items left in its block, and where that ends if that is declared."""

    at: int
    left: int = 0
    block_end: int = _NO_SIZE
    count: int = 0


def _walk(  # noqa: C901  # a function less is a level of types less, see MAX_LEVELS
    node: Node, path: str, record: OneRecord, place: _Place, starts: "array[int] | None"
) -> _Place:
    while True:
        if starts is None and _are_any_bytes_good(node):
            # A block is found to be no longer than its record below.
            place.at = place.at + place.left * node.least
            place.left = 0
        while place.left:
            if starts is not None:
                starts.append(place.at)
            place.at = node.walk(record, place.at)
            place.left -= 1
        if place.block_end not in {_NO_SIZE, place.at}:
            raise Malformed(f"{path}: a block of another length than it states")
        place.block_end = _NO_SIZE
        count, place.at = record.number(place.at, path)
        if count == 0:
            return place
        if count < 0:
            size, place.at = record.number(place.at, path)
            place.block_end, count = record.jump(place.at, size, path), -count
        place.left = count
        place.count += count
        room = record.end - place.at
        if count > (room // node.least if node.least else MAX_EMPTY_ITEMS - place.count + count):
            raise Malformed(f"{path}: more items than there are bytes for")


def _width(node: Node) -> int | None:
    """How many bytes every value takes; None if they differ, or if it is none."""
    match node:
        case BooleanNode() | RealNode() | FixedNode():
            least: int = node.least
            return least or None
        case DecimalNode():
            return node.size or None
    return None


def _are_any_bytes_good(node: Node) -> bool:
    """Return whether values have a width, and all bytes of that width are one."""
    return _width(node) is not None and not isinstance(node, BooleanNode)


def _is_varint(node: Node) -> bool:
    return isinstance(node, NumberNode | SymbolNode)


def _numbered(counts: Int64s) -> Int64s:
    """Number the items of each row from 0: ``[2, 3]`` gives ``[0, 1, 0, 1, 2]``."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    numbered: Int64s = np.arange(total) - np.repeat(ends - counts, counts)
    return numbered


@dataclass
class _Blocks:
    """The rows that are still in their array, and the items found so far."""

    node: Node
    path: str
    whole: AvroCursor
    rows: Int64s
    cursor: AvroCursor
    left: Int64s
    block_end: Int64s
    counts: Int64s
    owners: list[Int64s]
    starts: list[Int64s]
    is_skipped: bool
    """Whether the items are skipped, so that they are checked here."""

    @classmethod
    def of(
        cls, node: Node, path: str, cursor: AvroCursor, *, is_skipped: bool = False
    ) -> "_Blocks":
        rows = np.flatnonzero(cursor.good)
        zeros = np.zeros(len(rows), np.int64)
        ends = np.full(len(rows), _NO_SIZE, np.int64)
        part = cursor.select(rows)
        return cls(
            node=node,
            path=path,
            whole=cursor,
            rows=rows,
            cursor=part,
            left=zeros,
            block_end=ends,
            counts=zeros,
            owners=[],
            starts=[],
            is_skipped=is_skipped,
        )

    def pass_over_all(self) -> None:
        """Move past the arrays."""
        while len(self.rows):
            self.open()
            if self.are_large():
                self.pass_over()
            elif len(self.rows) < _FEW_ROWS:
                self.walk()
            else:
                self.step()

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
            f"{self.path}: a block of another length than it states",
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

    def are_large(self) -> bool:
        """Return whether to pass over whole blocks: that is possible, and there is enough in them.

        Blocks of few items each are not: a payload may have millions of these.
        """
        items = int(self.left.sum())
        if items < max(_MANY_ITEMS, len(self.rows)):
            return False
        if _width(self.node) is not None:
            return True
        return _is_varint(self.node) and items * _SPARSE_BYTES > len(self.cursor.data.bytes)

    def pass_over(self) -> None:
        """Note where all items of the open blocks begin, and move past them."""
        width = _width(self.node)
        if width is None:
            starts = self._varints()
        elif self.is_skipped and _are_any_bytes_good(self.node):
            starts = None
            self.cursor.at = self.cursor.at + width * self.left
        else:  # ``open`` has found that there are so many bytes
            starts = np.repeat(self.cursor.at, self.left) + width * _numbered(self.left)
            self.cursor.at = self.cursor.at + width * self.left
        if starts is not None and self.is_skipped:
            owners = np.repeat(np.arange(len(self.rows)), self.left)
            items = self.cursor.items(owners, starts)
            self.node.skip(items)
            self.cursor.absorb(items, owners)
        elif starts is not None:
            self.owners.append(np.repeat(self.rows, self.left))
            self.starts.append(starts)
        self.left = np.zeros(len(self.rows), np.int64)
        self._keep(self.cursor.good)

    def _varints(self) -> Int64s:
        """Return where the varints of the open blocks begin, and move past them."""
        ends = self.cursor.data.varint_ends
        first = np.searchsorted(ends, self.cursor.at)
        last = first + self.left - 1
        after = ends[np.minimum(last, len(ends) - 1)].astype(np.int64) + 1
        short = (last >= len(ends)) | (after > self.cursor.end)
        self.left = np.where(short, 0, self.left)
        # Each but the first begins where the one before it ends.
        places = np.repeat(first, self.left) + _numbered(self.left) - 1
        begin: Int64s = ends[places].astype(np.int64) + 1
        has_items = self.left > 0
        begin[(np.cumsum(self.left) - self.left)[has_items]] = self.cursor.at[has_items]
        self.cursor.at = np.where(short, self.cursor.end, after)
        self.cursor.fail(short, f"{self.path}[]: {ENDS}")
        return begin

    def step(self) -> None:
        """Note where the next item of each row begins, and move past it."""
        if not self.is_skipped:
            self.owners.append(self.rows)
            self.starts.append(self.cursor.at)
        self.node.skip(self.cursor)
        self.left = self.left - 1
        self._keep(self.cursor.good)

    def walk(self) -> None:
        """Move the remaining rows past their arrays, one by one."""
        view = self.cursor.data.bytes.data
        ends = self.cursor.end.tolist()
        wrong = np.zeros(len(self.whole), np.bool_)
        # Positions of the caller's are arrays that other objects may hold.
        self.whole.at = self.whole.at.copy()
        for i, row in enumerate(self.rows.tolist()):
            place = _Place(
                int(self.cursor.at[i]),
                int(self.left[i]),
                int(self.block_end[i]),
                int(self.counts[i]),
            )
            starts = None if self.is_skipped else array("q")
            record = OneRecord(view, ends[i], self.cursor.depth)
            try:
                after = _walk(
                    node=self.node, path=self.path, record=record, place=place, starts=starts
                ).at
            except Malformed as error:
                wrong[:] = False
                wrong[row] = True
                self.whole.fail(wrong, str(error))
                continue
            self.whole.at[row] = after
            if starts is None:
                continue
            self.owners.append(np.full(len(starts), row, np.int64))
            self.starts.append(np.frombuffer(starts, np.int64))
        self.rows = self.rows[:0]

    def _keep(self, mask: Bools) -> None:
        """Drop the rows that have ended or are bad."""
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
