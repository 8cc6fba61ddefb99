"""Cursors: one position in each of many records, moved forward for all records at once.

A cursor has a row for each record, with the position that is read next, the position after the
record's last byte, and the first error. A row with an error stays at its end, and what is read for
it afterwards means nothing; the caller drops it. A position is never beyond the end, so that no
length and no count leads out of the record.

Source of the encoding: Apache Avro 1.12 specification, "Binary Encoding". The numbers are the
zigzag varints of Protocol Buffers; eight bytes of each row are looked at as one word.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from landfall.pipeline.records import Int64s

Bools = npt.NDArray[np.bool_]
UInt64s = npt.NDArray[np.uint64]

ENDS = "ends inside a value"
SLACK = 24
"""Zero bytes after the last record, so that every row may look at the longest number."""

_MORE = 0x80
"""The high bit of each byte of a varint but the last."""
_PORTION = 1 << 20
"""Bytes that are searched at once: positions are of 64 bits at first."""
_HIGH, _SEVENS = np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE = np.uint64(1)
_FOLDS = tuple(
    (np.uint64(even), np.uint64(odd), np.uint64(shift))
    for even, odd, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


@dataclass(frozen=True)
class Data:
    """The bytes of all records, seen as bytes and as unaligned little-endian numbers.

    With ``is_strict``, what is skipped is checked like what is read, text to be UTF-8 above all:
    payloads that are copied into files must be such that every reader can read them.
    """

    bytes: npt.NDArray[np.uint8]
    words: UInt64s
    floats: npt.NDArray[np.float32]
    doubles: npt.NDArray[np.float64]
    is_strict: bool = False

    @classmethod
    def of(cls, content: npt.NDArray[np.uint8], *, is_strict: bool = False) -> "Data":
        """Copy the content, which ``SLACK`` zero bytes follow."""
        buffer = np.zeros(len(content) + SLACK, np.uint8)
        buffer[: len(content)] = content
        words, floats, doubles = (
            np.ndarray((len(buffer) - size + 1,), f"<{kind}{size}", buffer, strides=(1,))
            for kind, size in (("u", 8), ("f", 4), ("f", 8))
        )
        return cls(bytes=buffer, words=words, floats=floats, doubles=doubles, is_strict=is_strict)

    @cached_property
    def varint_ends(self) -> npt.NDArray[np.int32]:
        """The positions of all bytes with which a varint may end: their high bits are clear."""
        ends = np.empty(np.count_nonzero(self.bytes < _MORE), np.int32)
        filled = 0
        for start in range(0, len(self.bytes), _PORTION):
            found = np.flatnonzero(self.bytes[start : start + _PORTION] < _MORE) + start
            ends[filled : filled + len(found)] = found
            filled += len(found)
        return ends


@dataclass
class ErrorTexts:
    """The texts of errors; rows hold an index into them."""

    texts: list[str] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)

    def code(self, text: str) -> int:
        """The index of this text."""
        if text not in self._codes:
            self._codes[text] = len(self.texts)
            self.texts.append(text)
        return self._codes[text]


class AvroCursor:
    """Positions in records, shape (rows,).

    Attributes:
        data: the bytes of all records.
        at: the position that is read next; never beyond ``end``.
        end: the position after the last byte of the record.
        errors: index into ``texts`` of what is wrong with the record, -1 if nothing is.
        texts: the texts of errors, shared with all cursors on the same records.
        depth: how many levels deep in recursive types the cursor is.
    """

    __slots__ = ("at", "data", "depth", "end", "errors", "texts")

    def __init__(self, data: Data, at: Int64s, end: Int64s, texts: ErrorTexts) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.texts = texts
        self.errors = np.full(len(at), -1, np.int32)
        self.depth = 0

    def __len__(self) -> int:
        return len(self.at)

    @property
    def good(self) -> Bools:
        """A mask of the rows that have no error."""
        good: Bools = self.errors < 0
        return good

    def fail(self, wrong: Bools, error: str) -> None:
        """Make the rows where ``wrong`` bad; an error that a row has already stays."""
        if wrong.any():
            self.errors[wrong & (self.errors < 0)] = self.texts.code(error)
            self.at = np.where(wrong, self.end, self.at)

    def numbers(self, where: str) -> Int64s:
        """Read a zigzag varint of at most ten bytes that fits in 64 bits."""
        raw = self._varints(where)
        return ((raw >> _ONE) ^ (np.uint64(0) - (raw & _ONE))).view(np.int64)

    def lengths(self, where: str) -> Int64s:
        """Read the length of what follows, which is in the record."""
        lengths = self.numbers(where)
        negative = lengths < 0
        if negative.any():
            self.fail(negative, f"{where}: negative length")
            lengths = np.where(negative, 0, lengths)
        # Subtracting cannot overflow, as adding a length of 2^62 to a position would.
        beyond = lengths > self.end - self.at
        if beyond.any():
            self.fail(beyond, f"{where}: {ENDS}")
            lengths = np.where(beyond, 0, lengths)
        return lengths

    def jump(self, size: int, where: str) -> Int64s:
        """Move by ``size`` bytes, and return where they begin."""
        start = self.at
        short = self.end - start < size
        if short.any():
            self.at = np.where(short, start, start + size)
            self.fail(short, f"{where}: {ENDS}")
        else:
            self.at = start + size
        return start

    def select(self, rows: Int64s) -> "AvroCursor":
        """A cursor on some rows; ``join`` puts it back."""
        part = AvroCursor(self.data, self.at[rows], self.end[rows], self.texts)
        part.errors = self.errors[rows]
        part.depth = self.depth
        return part

    def join(self, part: "AvroCursor", rows: Int64s) -> None:
        """Move the rows to where ``part``, made by ``select(rows)``, is now."""
        self.at, self.errors = self.at.copy(), self.errors.copy()
        self.at[rows], self.errors[rows] = part.at, part.errors

    def items(self, owners: Int64s, starts: Int64s) -> "AvroCursor":
        """A cursor with a row for each value that begins at ``starts`` in the row ``owners``."""
        end = self.end[owners]
        # Where the next one begins, so that an item with an error does not move past it.
        has_next = np.flatnonzero(owners[1:] == owners[:-1])
        end[has_next] = starts[has_next + 1]
        part = AvroCursor(self.data, starts, end, self.texts)
        part.depth = self.depth
        return part

    def absorb(self, items: "AvroCursor", owners: Int64s) -> None:
        """Make the rows bad in which an item is; the first error of a row counts."""
        wrong = np.flatnonzero(items.errors >= 0)[::-1]
        if not len(wrong):
            return
        first = np.full(len(self), -1, np.int32)
        first[owners[wrong]] = items.errors[wrong]
        self.errors = np.where((self.errors < 0) & (first >= 0), first, self.errors)
        self.at = np.where(first >= 0, self.end, self.at)

    def _varints(self, where: str) -> UInt64s:
        first = self.data.bytes[self.at]
        if first.max(initial=0) < 0x80:
            self._move(1, where)
            return first.astype(np.uint64)
        words = self.data.words[self.at]
        stops = ~words & _HIGH
        # The lowest byte whose high bit is clear is the last one. Without any, the lowest set bit
        # is 0, and subtracting one from it keeps all 64 bits: a number of more than eight bytes.
        last = stops & (np.uint64(0) - stops)
        kept = last | (last - _ONE)
        sizes = (np.bitwise_count(kept) >> np.uint8(3)).astype(np.int64)
        words &= kept & _SEVENS
        for even, odd, shift in _FOLDS:
            words = (words & even) | ((words & odd) >> shift)
        is_long = stops == 0
        if is_long.any():
            self._add_high_bits(words, sizes, np.flatnonzero(is_long), where)
        self._move(sizes, where)
        return words

    def _add_high_bits(self, words: UInt64s, sizes: Int64s, rows: Int64s, where: str) -> None:
        ninth = self.data.bytes[self.at[rows] + 8]
        tenth = self.data.bytes[self.at[rows] + 9]
        has_tenth = ninth >= 0x80
        high = (ninth & np.uint8(0x7F)).astype(np.uint64) << np.uint64(56)
        top = np.where(has_tenth, tenth & np.uint8(1), 0).astype(np.uint64) << np.uint64(63)
        words[rows] |= high | top
        sizes[rows] = 9 + has_tenth
        # A tenth byte beyond the end is of the next row, which must not change this one's error.
        is_own = self.at[rows] + 10 <= self.end[rows]
        too_long = rows[has_tenth & (tenth > 1) & is_own]
        if len(too_long):
            wrong = np.zeros(len(self), np.bool_)
            wrong[too_long] = True
            self.fail(wrong, f"{where}: a number of more than 64 bits")

    def _move(self, sizes: Int64s | int, where: str) -> None:
        self.at = self.at + sizes
        beyond = self.at > self.end
        if beyond.any():
            self.fail(beyond, f"{where}: {ENDS}")
