"""The rows of SequenceFiles as columns, a block at a time, without a Python object for each row.

What a block holds is taken only if it is regular: as Landfall and Secor write it, with all counts
and lengths in agreement. Every other block, and files of single records, are read row by row by
``sequencereader``. So what is accepted, and each error with its text, is the same for both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from landfall.formats import Row
from landfall.formats.sequencefile import keys as sequencekeys
from landfall.formats.sequencefile.joined import Joined
from landfall.formats.sequencefile.rows import (
    Header,
    Source,
    begin_block,
    damage_located,
    read_header,
    read_part,
    read_rows,
    rows_of_block,
)
from landfall.pipeline.records import Int64s

BATCH_ROWS = 4096
"""How many rows are read one by one before they become columns."""


class RowColumns(NamedTuple):
    """Columns of consecutive rows.

    Attributes:
        offsets: int64, shape (rows,).
        timestamps: milliseconds, int64, shape (rows,); -1 where there is none.
        keys: Arrow binary, shape (rows,); null where there is none.
        values: Arrow binary, shape (rows,); all null in rows that nobody wants.
    """

    offsets: Int64s
    timestamps: Int64s
    keys: pa.BinaryArray
    values: pa.BinaryArray


def columns(stream: BinaryIO, start: int = 0) -> Iterator[RowColumns]:
    """Return all rows of a file, in order. An error comes after the rows before it.

    Args:
        stream: the file.
        start: values of rows with smaller offsets may be left out.

    Raises:
        ValueError: as ``sequencereader.rows``; or a key has fields of other types than Kafka's.
    """
    source = Source(stream)
    with damage_located(source):
        header = read_header(source)
    yield from _Reader(source, header, start).read()


@dataclass(frozen=True, slots=True)
class _Reader:
    source: Source
    header: Header
    start: int

    def read(self) -> Iterator[RowColumns]:
        if not self.header.blocks:
            yield from _in_batches(self._records())
            return
        while (length := self._next_length()) is not None:
            yield from self._block(length)

    def _next_length(self) -> int | None:
        with damage_located(self.source):
            return self.source.next_length()

    def _records(self) -> Iterator[Row]:
        with damage_located(self.source):
            while (length := self.source.next_length()) is not None:
                yield from read_rows(self.source, self.header, length)

    def _block(self, escape: int) -> Iterator[RowColumns]:
        source, header = self.source, self.header
        with damage_located(source):
            count = begin_block(source, header, escape)
            key_parts = [read_part(source, header) for _ in range(2)]
            keys = _keys(header, count, key_parts)
            if keys is not None and count and keys.offsets.max() < self.start:
                # Without a look at its values, for which most of the time would be spent.
                for _ in range(2):
                    source.take(source.vint())
                yield RowColumns(*keys, pa.nulls(count, pa.binary()))
                return
            value_parts = [read_part(source, header) for _ in range(2)]
            values = _values(count, value_parts)
        if keys is not None and values is not None:
            if count:
                yield RowColumns(*keys, values)
            return
        yield from _in_batches(self._rows(count, [*key_parts, *value_parts]))

    def _rows(self, count: int, parts: Sequence[bytes]) -> Iterator[Row]:
        with damage_located(self.source):
            yield from rows_of_block(self.header, count, parts)


def _keys(header: Header, count: int, parts: Sequence[bytes]) -> sequencekeys.KeyColumns | None:
    """The columns of the keys of a block; None if they are not regular."""
    joined = Joined.of(count, *parts)
    if joined is None:
        return None
    parse = sequencekeys.messagepack_keys if header.packed else sequencekeys.long_keys
    return parse(joined)


def _values(count: int, parts: Sequence[bytes]) -> pa.BinaryArray | None:
    """The values of a block; None if they are not regular."""
    joined = Joined.of(count, *parts)
    return joined.contents() if joined and joined.are_bytes_writables() else None


def _in_batches(rows: Iterator[Row]) -> Iterator[RowColumns]:
    """The rows as columns; those before an error, too."""
    while True:
        some, error = _next_rows(rows)
        if some:
            yield _of_rows(some)
        if error:
            raise error
        if len(some) < BATCH_ROWS:
            return


def _next_rows(rows: Iterator[Row]) -> tuple[list[Row], ValueError | None]:
    some = list[Row]()
    try:
        for row in islice(rows, BATCH_ROWS):
            some.append(row)  # one by one, for an error must not take those before it away
    except ValueError as error:
        return some, error
    return some, None


def _of_rows(some: Sequence[Row]) -> RowColumns:
    times = [-1 if row.timestamp is None else row.timestamp for row in some]
    try:
        return RowColumns(
            pa.array([row.offset for row in some], pa.int64()).to_numpy(),
            pa.array(times, pa.int64()).to_numpy(),
            pa.array([row.key for row in some], pa.binary()),
            pa.array([row.value for row in some], pa.binary()),
        )
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(f"keys with fields of other types than Kafka's: {error}") from error
