"""The rows of landed SequenceFiles, and of Secor's, as columns: keys are offsets, or maps of them.

Keys may be LongWritable (an offset) or BytesWritable (Secor's MessagePack map); values are
BytesWritable. What a file consists of is read by ``file``, with every codec of Hadoop's. A damaged
file gives a ValueError that says where, after the rows before the damage, and never fewer rows.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from landfall.formats import Row
from landfall.formats.parts import LANDED_LIMITS
from landfall.formats.sequencefile.contents import (
    BYTES_WRITABLE,
    LONG_WRITABLE,
    MalformedWritable,
    content_of,
)
from landfall.formats.sequencefile.file import (
    Block,
    DamagedRecord,
    Header,
    Mark,
    Run,
    items,
    read_header,
)
from landfall.formats.sequencefile.keys import columns_of_keys
from landfall.formats.sequencefile.writables import NO_TIMESTAMP
from landfall.formats.streams import ENDLESS, Source, damage_located, source_of
from landfall.pipeline.records import Int64s

KIND = "SequenceFile"
_KEYS = (LONG_WRITABLE, BYTES_WRITABLE)


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


def rows(stream: BinaryIO) -> Iterator[Row]:
    """Return every row, in order.

    Raises:
        ValueError: as ``columns``.
    """
    for some in columns(stream):
        keys, values = some.keys.to_pylist(), some.values.to_pylist()
        found = zip(some.offsets.tolist(), values, keys, some.timestamps.tolist(), strict=True)
        for offset, value, key, time in found:
            yield Row(offset, value, key, None if time == NO_TIMESTAMP else time)


def columns(stream: BinaryIO, start: int | None = None) -> Iterator[RowColumns]:
    """Return all rows of a file, in order. An error comes after the rows before it.

    Args:
        stream: the file.
        start: values of rows with smaller offsets may be left out; None for all.

    Raises:
        ValueError: this is not a SequenceFile that Landfall or Secor writes, or it is damaged; the
            message says where.
    """
    source = source_of(stream)
    with damage_located(KIND):
        header = read_header(source)
        _check_classes(source, header)
        for item in items(source, header, LANDED_LIMITS, ENDLESS):
            if not isinstance(item, Mark):
                yield from _columns(source, header, item, start)


def _check_classes(source: Source, header: Header) -> None:
    if header.key not in _KEYS or header.value != BYTES_WRITABLE:
        raise source.error(
            f"keys of {header.key} and values of {header.value},"
            f" not {' or '.join(_KEYS)} and BytesWritable",
            0,
        )


def _columns(
    source: Source, header: Header, item: Block | Run, start: int | None
) -> Iterator[RowColumns]:
    """Return the rows of an item; those before damage before the error."""
    try:
        found = _read(header, item, start)
    except (DamagedRecord, MalformedWritable) as error:
        if error.row:
            yield from _columns(source, header, item.first(error.row), start)
        raise source.error(str(error), item.position_of(error.row)) from error
    except ValueError as error:
        raise source.error(str(error), item.position_of(0)) from error
    if len(item):
        yield found


def _read(header: Header, item: Block | Run, start: int | None) -> RowColumns:
    keys = columns_of_keys(header.key, item.keys())
    is_before = start is not None and len(item) > 0 and keys.offsets.max() < start
    if is_before and isinstance(item, Block):
        # Without a look at its values, for which most of the time would be spent.
        return RowColumns(*keys, pa.nulls(len(item), pa.binary()))
    return RowColumns(*keys, content_of(header.value)(item.values()))
