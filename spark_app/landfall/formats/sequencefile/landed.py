"""The rows of landed SequenceFiles, and of Secor's, as columns: keys are offsets, or maps of them.

Keys may be LongWritable (an offset) or BytesWritable (Secor's MessagePack map); values are
BytesWritable. MessagePack keys that all are as Secor and Landfall write them, a map of the offset,
then the timestamp if there is one, then the Kafka key if there is one, are read at once; other keys
one by one. What a file consists of is read by ``file``, with every codec of Hadoop's. A damaged
file gives a ValueError with the place, after the rows before the damage, and never fewer rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.formats import Row
from landfall.formats.parts import LANDED_LIMITS
from landfall.formats.sequencefile.contents import (
    BYTES_WRITABLE,
    LONG_WRITABLE,
    MalformedWritable,
    Spans,
    check_bytes_writables,
    content_of,
    numbers_at_each_place,
)
from landfall.formats.sequencefile.file import (
    DamagedRecord,
    Mark,
    RecordRun,
    SequenceFileBlock,
    SequenceFileHeader,
    items,
    read_header,
)
from landfall.formats.sequencefile.writables import (
    FIXMAP,
    KEY,
    NO_TIMESTAMP,
    OFFSET,
    TIMESTAMP,
    UInt8s,
)
from landfall.formats.slices import binary_slices
from landfall.formats.streams import ENDLESS, WindowReader, damage_located, source_of
from landfall.pipeline.records import Int64s

KIND = "SequenceFile"
_KEYS = (LONG_WRITABLE, BYTES_WRITABLE)


class RowColumns(NamedTuple):
    """Columns of consecutive rows.

    Attributes:
        offsets: int64, shape (rows,).
        timestamps: milliseconds, int64, shape (rows,); -1 where there is none.
        keys: Arrow binary, shape (rows,); null where there is none.
        values: Arrow binary, shape (rows,); all null in rows that are not wanted.
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
            message names the place.
    """
    source = source_of(stream)
    with damage_located(KIND):
        header = read_header(source)
        _check_classes(source, header)
        for item in items(source, header, LANDED_LIMITS, ENDLESS):
            if not isinstance(item, Mark):
                yield from _columns(source, header, item, start)


def _check_classes(source: WindowReader, header: SequenceFileHeader) -> None:
    if header.key not in _KEYS or header.value != BYTES_WRITABLE:
        raise source.error(
            f"keys of {header.key} and values of {header.value},"
            f" not {' or '.join(_KEYS)} and BytesWritable",
            0,
        )


def _columns(
    source: WindowReader,
    header: SequenceFileHeader,
    item: SequenceFileBlock | RecordRun,
    start: int | None,
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


def _read(
    header: SequenceFileHeader, item: SequenceFileBlock | RecordRun, start: int | None
) -> RowColumns:
    keys = columns_of_keys(header.key, item.keys())
    is_before = start is not None and len(item) > 0 and keys.offsets.max() < start
    if is_before and isinstance(item, SequenceFileBlock):
        # Without a look at its values, for which most of the time would be spent.
        return RowColumns(*keys, pa.nulls(len(item), pa.binary()))
    return RowColumns(*keys, content_of(header.value)(item.values()))


UInt64s = npt.NDArray[np.uint64]

_LONG_BYTES = 8
_PADDING = bytes(32)
"""More than the fixed parts of a key, so that no look beyond the last key leaves the buffer."""
_IRREGULAR = 255
_UINT64, _FIRST_SIGNED = 0xCF, 0xD0
_TOO_LARGE = 2**63


def _widths() -> UInt8s:
    """How many bytes follow the first byte of a MessagePack integer, by that byte."""
    widths = np.full(256, _IRREGULAR, np.uint8)
    widths[:0x80] = widths[0xE0:] = 0
    widths[0xCC:0xD0] = widths[0xD0:0xD4] = (1, 2, 4, 8)
    return widths


def _length_widths() -> UInt8s:
    """How many bytes have the length of a MessagePack bin value, by its first byte."""
    widths = np.full(256, _IRREGULAR, np.uint8)
    widths[0xC4:0xC7] = (1, 2, 4)
    return widths


_WIDTHS, _LENGTH_WIDTHS = _widths(), _length_widths()


class KeyColumns(NamedTuple):
    """See ``landed.RowColumns``."""

    offsets: Int64s
    timestamps: Int64s
    keys: pa.BinaryArray


def columns_of_keys(class_: str, keys: Spans) -> KeyColumns:
    """Return the columns of serialized keys.

    Args:
        class_: LongWritable or BytesWritable.
        keys: the keys.

    Raises:
        MalformedWritable: one is not of its class, or has no offset.
        ValueError: keys have fields of other types than Kafka's.
    """
    if not len(keys):
        none = np.zeros(0, np.int64)
        return KeyColumns(none, none, pa.nulls(0, pa.binary()))
    return _long_keys(keys) if class_ == LONG_WRITABLE else _messagepack_keys(keys)


def _long_keys(keys: Spans) -> KeyColumns:
    sizes = keys.ends - keys.starts
    if wrong := np.flatnonzero(sizes != _LONG_BYTES).tolist():
        raise MalformedWritable(wrong[0], f"a LongWritable of {sizes[wrong[0]]} bytes")
    numbers = np.ndarray(len(keys.content) - _LONG_BYTES + 1, ">i8", keys.content, strides=(1,))
    offsets = numbers[keys.starts].astype(np.int64)
    rows = len(offsets)
    return KeyColumns(offsets, np.full(rows, NO_TIMESTAMP), pa.nulls(rows, pa.binary()))


def _messagepack_keys(keys: Spans) -> KeyColumns:
    check_bytes_writables(keys)
    try:
        return _regular_keys(keys)
    except _IrregularError:
        return _one_by_one(content_of(BYTES_WRITABLE)(keys).to_pylist())


def _one_by_one(maps: Sequence[bytes]) -> KeyColumns:
    found = [_fields(row, key) for row, key in enumerate(maps)]
    times = [fields.get(TIMESTAMP) for fields in found]
    try:
        return KeyColumns(
            pa.array([fields[OFFSET] for fields in found], pa.int64()).to_numpy(),
            pa.array([NO_TIMESTAMP if t is None else t for t in times], pa.int64()).to_numpy(),
            pa.array([fields.get(KEY) for fields in found], pa.binary()),
        )
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(f"keys with fields of other types than Kafka's: {error}") from error


def _fields(row: int, key: bytes) -> Mapping[object, Any]:
    try:
        fields = msgpack.unpackb(key, strict_map_key=False)
    except (ValueError, TypeError) as error:  # a field is numbered by what Python cannot hash
        raise MalformedWritable(row, f"a key that cannot be read: {error}") from error
    if not isinstance(fields, dict) or not isinstance(fields.get(OFFSET), int):
        raise MalformedWritable(row, f"a key without an offset: {fields!r}")
    return fields


class _IrregularError(Exception):
    """A key is not as Secor and Landfall write it."""


class _Buffer(NamedTuple):
    """The keys of a block, and zeros.

    Attributes:
        octets: the byte at each place.
        numbers: the unsigned number of eight bytes that begins at each place.
    """

    octets: UInt8s
    numbers: UInt64s


def _regular_keys(keys: Spans) -> KeyColumns:
    padded = keys.content + _PADDING
    buffer = _Buffer(np.frombuffer(padded, np.uint8), numbers_at_each_place(padded, ">u8"))
    octets, at = buffer.octets, keys.starts + 4
    # Up to where each key is read, nothing is known of how long it is: that is checked at the end.
    more = octets[at] - np.uint8(FIXMAP + 1)
    _check((more <= 2) & (octets[at + 1] == OFFSET))
    offsets, at = _integers(buffer, at + 2)
    timed = (more > 0) & (octets[at] == TIMESTAMP)
    keyed = more > timed
    _check(more == timed.astype(np.uint8) + keyed)
    timestamps = np.full(len(at), NO_TIMESTAMP)
    if timed.any():
        timestamps[timed], at[timed] = _integers(buffer, at[timed] + 1)
    starts = at.copy()
    if keyed.any():
        starts[keyed], at[keyed] = _strings(buffer, at[keyed])
    _check(at == keys.ends)
    none = pa.nulls(len(at), pa.binary())
    kafka_keys = binary_slices(keys.content, starts, at, keyed) if keyed.any() else none
    return KeyColumns(offsets, timestamps, kafka_keys)


def _check(are_regular: npt.NDArray[np.bool_]) -> None:
    if not are_regular.all():
        raise _IrregularError


def _integers(buffer: _Buffer, at: Int64s) -> tuple[Int64s, Int64s]:
    """The MessagePack integers that begin at these places, and where they end."""
    firsts = buffer.octets[at]
    widths = _WIDTHS[firsts]
    _check(widths != _IRREGULAR)
    eight = buffer.numbers[at + 1].astype(np.uint64)
    shifts = (64 - 8 * np.maximum(widths, 1)).astype(np.uint64)
    unsigned = eight >> shifts
    _check((unsigned < _TOO_LARGE) | (firsts != _UINT64))
    signed = eight.view(np.int64) >> shifts.view(np.int64)
    wide = np.where(firsts < _FIRST_SIGNED, unsigned.view(np.int64), signed)
    return np.where(widths == 0, firsts.view(np.int8), wide), at + 1 + widths


def _strings(buffer: _Buffer, at: Int64s) -> tuple[Int64s, Int64s]:
    """Where the MessagePack bin values of Kafka keys begin and end, after the number of a field."""
    widths = _LENGTH_WIDTHS[buffer.octets[at + 1]]
    _check((buffer.octets[at] == KEY) & (widths != _IRREGULAR))
    lengths = buffer.numbers[at + 2].astype(np.uint64) >> (64 - 8 * widths).astype(np.uint64)
    starts = at + 2 + widths
    return starts, starts + lengths.view(np.int64)
