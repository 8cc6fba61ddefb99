"""Finds where records begin in blocks of Avro, which have no boundaries between them.

Several blocks are walked through side by side: the first records of all, then the second ones, so
that NumPy sees a row for each block (``decoders.avro.cursor``). When few blocks have records left,
these are walked one by one in plain Python, which is cheaper then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from landfall.pipeline.decoders.avro.cursor import Cursor, Data, ErrorTexts
from landfall.pipeline.decoders.avro.node import Malformed, Node, OneRecord
from landfall.pipeline.records import Int64s

_LEAST_SIDE_BY_SIDE = 12
"""Blocks with records left, below which walking one by one is cheaper: measured."""


@dataclass(frozen=True)
class Block:
    """A block of records, decompressed; ``position`` is where it begins in the file."""

    position: int
    count: int
    content: bytes


class DamagedBlock(Exception):  # noqa: N818  # what the block is
    """A block does not hold as many records as it says; ``position`` says which block."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position


def record_bounds(node: Node, blocks: Sequence[Block]) -> Int64s:
    """Return where each record begins in the joined contents, and at last where these end.

    Raises:
        DamagedBlock: the records of a block do not end where it ends.
    """
    counts = np.array([block.count for block in blocks], np.int64)
    ends = np.cumsum([len(block.content) for block in blocks])
    starts = ends - [len(block.content) for block in blocks]
    content = b"".join(block.content for block in blocks)
    bounds = np.empty(int(counts.sum()) + 1, np.int64)
    bounds[-1] = len(content)
    walk = _Walk(node, blocks, bounds, np.cumsum(counts) - counts, counts)
    rows, done, at = walk.side_by_side(content, starts, ends)
    for row, begin in zip(rows.tolist(), at.tolist(), strict=True):
        walk.one_by_one(row, done, OneRecord(memoryview(content), int(ends[row])), begin)
    return bounds


@dataclass(frozen=True)
class _Walk:
    """Fills ``bounds``, in which the records of block i begin at ``first[i]``."""

    node: Node
    blocks: Sequence[Block]
    bounds: Int64s
    first: Int64s
    counts: Int64s

    def side_by_side(
        self, content: bytes, starts: Int64s, ends: Int64s
    ) -> tuple[Int64s, int, Int64s]:
        """Walk until few blocks have records left.

        Returns:
            These blocks, how many of their records are found, and where the next ones begin.
        """
        rows, done = np.arange(len(self.counts)), 0
        if len(rows) < _LEAST_SIDE_BY_SIDE:
            return rows, done, starts
        cursor = Cursor(Data.of(np.frombuffer(content, np.uint8)), starts, ends, ErrorTexts())
        while True:
            is_finished = self.counts[rows] == done
            if is_finished.any():
                self._check(rows[is_finished], cursor.select(np.flatnonzero(is_finished)))
                left = np.flatnonzero(~is_finished)
                rows, cursor = rows[left], cursor.select(left)
            if len(rows) < _LEAST_SIDE_BY_SIDE:
                return rows, done, cursor.at
            self.bounds[self.first[rows] + done] = cursor.at
            self.node.skip(cursor)
            wrong = np.flatnonzero(cursor.errors >= 0)
            if len(wrong):
                text = cursor.texts.texts[cursor.errors[wrong[0]]]
                raise self._damaged(int(rows[wrong[0]]), done, text)
            done += 1

    def one_by_one(self, row: int, done: int, record: OneRecord, at: int) -> None:
        """Walk over the records that a block has left."""
        found = []
        try:
            for _ in range(done, int(self.counts[row])):
                found.append(at)
                at = self.node.walk(record, at)
        except (Malformed, RecursionError) as error:
            raise self._damaged(row, done + len(found) - 1, str(error)) from error
        begin = int(self.first[row]) + done
        self.bounds[begin : begin + len(found)] = found
        self._check_end(row, record.end - at)

    def _check(self, rows: Int64s, cursor: Cursor) -> None:
        for row, left in zip(rows.tolist(), (cursor.end - cursor.at).tolist(), strict=True):
            self._check_end(row, left)

    def _check_end(self, row: int, left: int) -> None:
        if left:
            reason = f"{left} bytes left over in the block"
            raise DamagedBlock(self.blocks[row].position, reason)

    def _damaged(self, row: int, record: int, reason: str) -> DamagedBlock:
        return DamagedBlock(
            self.blocks[row].position, f"damaged record {record} of the block: {reason}"
        )
