"""Node of the logical type ``decimal``: an unscaled integer in big-endian two's complement.

Source: specification, "Decimal". A value with more digits than the precision makes its row bad.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from landfall.pipeline.decimal_texts import decimal_texts
from landfall.pipeline.decoders.avro.cursor import AvroCursor, Bools
from landfall.pipeline.decoders.avro.node import OneRecord, quoted
from landfall.pipeline.records import Int64s

_WORD_DIGITS = 18
"""Digits that any signed integer of 64 bits has room for."""


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """The narrowest of Arrow's two common decimal types that has room."""
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


@dataclass(frozen=True)
class DecimalNode:
    """Logical type ``decimal`` on bytes, or on a fixed of ``size`` bytes."""

    path: str
    size: int | None
    arrow: pa.DataType

    @property
    def least(self) -> int:
        return self.size or 1

    def read(self, cursor: AvroCursor) -> pa.Array:
        start, sizes = self._ranges(cursor)
        words = np.zeros((len(cursor), self.arrow.bit_width // 64), np.int64)
        wrong = (sizes == 0) & cursor.good
        is_short = (sizes > 0) & (sizes <= 8)
        # Eight bytes; the number is the first ``sizes``, shifted down with their sign.
        heads = cursor.data.words[start].byteswap().view(np.int64)
        values = np.where(is_short, heads >> (64 - 8 * np.where(is_short, sizes, 8)), 0)
        words[:, 0], words[:, 1:] = values, (values >> 63)[:, np.newaxis]
        if self.arrow.precision <= _WORD_DIGITS:
            # Not ``abs``: the least integer has no positive counterpart.
            limit = 10**self.arrow.precision
            wrong |= is_short & ((values >= limit) | (values <= -limit))
        self._add_long(
            words=words,
            wrong=wrong,
            cursor=cursor,
            rows=np.flatnonzero(sizes > 8),
            ranges=(start, sizes),
        )
        cursor.fail(wrong, f"{self.path}: not a decimal of {self.arrow.precision} digits")
        words[wrong] = 0
        return pa.Array.from_buffers(self.arrow, len(cursor), [None, pa.py_buffer(words)])

    def skip(self, cursor: AvroCursor) -> None:
        if cursor.data.is_strict:
            self.read(cursor)
        else:
            self._ranges(cursor)

    def walk(self, record: OneRecord, at: int) -> int:
        if self.size is not None:
            return record.jump(at, self.size, self.path)
        length, after = record.number(at, self.path)
        return record.jump(after, length, self.path)

    def text(self, column: pa.Array) -> pa.StringArray:
        return quoted(decimal_texts(column))

    def _ranges(self, cursor: AvroCursor) -> tuple[Int64s, Int64s]:
        if self.size is not None:
            start = cursor.jump(self.size, self.path)
            return start, np.where(cursor.good, self.size, 0)
        lengths = cursor.lengths(self.path)
        start = cursor.at
        cursor.at = start + lengths
        return start, lengths

    def _add_long(
        self,
        words: Int64s,
        wrong: Bools,
        cursor: AvroCursor,
        rows: Int64s,
        ranges: tuple[Int64s, Int64s],
    ) -> None:
        """Read the numbers of more than eight bytes, one by one."""
        limit, width = 10**self.arrow.precision, 8 * words.shape[1]
        for row in rows.tolist():
            start, size = int(ranges[0][row]), int(ranges[1][row])
            value = int.from_bytes(cursor.data.bytes[start : start + size].tobytes(), signed=True)
            if abs(value) < limit:
                words[row] = np.frombuffer(value.to_bytes(width, "little", signed=True), np.int64)
            else:
                wrong[row] = True
