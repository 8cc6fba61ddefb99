"""Rows of Parquet files, as JSON, of the row groups whose middle is in the part."""

import base64
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from landfall_audit import Unchecked
from landfall_audit.buckets import CannotCompare, SourceFolder
from landfall_audit.feeds.lists import FeedFilePart
from landfall_audit.memory_limit import bounded, steps
from landfall_audit.readers import FileRow
from landfall_audit.readers.streams import damage_is_unchecked, raw_stream

_BATCH_ROWS = 4096
_UNITS = {"s": (1, 0), "ms": (10**3, 3), "us": (10**6, 6), "ns": (10**9, 9)}
"""Of a timestamp's unit: how many a second has, and how many digits."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(source: SourceFolder, part: FeedFilePart) -> Iterator[FileRow]:
    """The rows of a part."""
    with damage_is_unchecked():
        with bounded():
            file = pq.ParquetFile(raw_stream(source, part), page_checksum_verification=True)
        for number in range(file.num_row_groups):
            if part.start <= _middle(file.metadata.row_group(number), part.size) < part.end:
                for batch in steps(file.iter_batches(_BATCH_ROWS, [number], use_threads=False)):
                    for text in _objects(batch.schema.names, batch.columns, len(batch)):
                        yield FileRow(text.encode())


def _middle(group: pq.RowGroupMetaData, size: int) -> int:
    spans = [_span(group.column(i)) for i in range(group.num_columns)] or [(0, 0)]
    middle = (min(start for start, _ in spans) + max(end for _, end in spans)) // 2
    return min(middle, size - 1)


def _span(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    dictionary, data = column.dictionary_page_offset, column.data_page_offset
    start = dictionary if dictionary and 0 < dictionary < data else data
    return start, start + column.total_compressed_size


def _objects(names: Sequence[str], columns: Sequence[pa.Array], count: int) -> list[str]:
    """A JSON object for each row."""
    tags = [f"{orjson.dumps(name).decode()}:" for name in names]
    texts = [_texts(column) for column in columns]
    if not texts:
        return ["{}"] * count
    return [
        f"{{{','.join(tag + text for tag, text in zip(tags, row, strict=True))}}}"
        for row in zip(*texts, strict=True)
    ]


def _texts(column: pa.Array) -> list[str]:
    """Each value as JSON."""
    type_ = column.type
    if isinstance(type_, pa.BaseExtensionType):
        return _texts(column.storage)
    if kinds.is_dictionary(type_):
        return _texts(column.dictionary_decode())
    if kinds.is_struct(type_):
        made = _objects([field.name for field in type_], column.flatten(), len(column))
        pairs = zip(column.is_valid().to_pylist(), made, strict=True)
        return [text if is_valid else "null" for is_valid, text in pairs]
    if kinds.is_map(type_):
        return _maps(column)
    if kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_):
        return [
            "null" if not cell.is_valid else f"[{','.join(_texts(cell.values))}]" for cell in column
        ]
    for is_kind, texts_of in _LEAVES:
        if is_kind(type_):
            return texts_of(column)
    raise CannotCompare(Unchecked.FILE)


def _maps(column: pa.MapArray) -> list[str]:
    has_text = kinds.is_string(column.type.key_type) or kinds.is_large_string(column.type.key_type)
    left, middle, right = ("", ":", "") if has_text else ('{"key":', ',"value":', "}")
    found = []
    for cell in column:
        if not cell.is_valid:
            found.append("null")
            continue
        texts = map(_texts, cell.values.flatten())
        items = [f"{left}{key}{middle}{value}{right}" for key, value in zip(*texts, strict=True)]
        found.append(f"{{{','.join(items)}}}" if has_text else f"[{','.join(items)}]")
    return found


def _each(convert: Callable[[Any], str], values: pa.Array) -> list[str]:
    return ["null" if value is None else convert(value) for value in values.to_pylist()]


def _timestamps(column: pa.Array) -> list[str]:
    unit, zone = column.type.unit, "Z" if column.type.tz else ""
    return _each(lambda value: f'"{_moment(value, unit)}{zone}"', column.cast(pa.int64()))


def _times(column: pa.Array) -> list[str]:
    unit, is_short = column.type.unit, kinds.is_time32(column.type)
    whole = column.cast(pa.int32() if is_short else pa.int64())
    return _each(lambda value: f'"{_moment(value, unit)[11:]}"', whole)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _text(value: object) -> str:
    return f'"{value}"'


def _digits(value: object) -> str:
    return f'"{value:f}"'


def _real(value: float) -> str:
    if value != value:  # noqa: PLR0124  # not a number
        return '"NaN"'
    if value in {float("inf"), float("-inf")}:
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return _json(value)


def _moment(value: int, unit: str) -> str:
    """ISO 8601 text of a time since 1970, with all digits of the unit."""
    per_second, digits = _UNITS[unit]
    seconds, rest = divmod(value, per_second)
    whole = (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]
    return f"{whole}.{rest:0{digits}}" if digits else whole


def _base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


_LEAVES: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[str]]]] = (
    (kinds.is_floating, lambda column: _each(_real, column.cast(pa.float64()))),
    (kinds.is_integer, partial(_each, _json)),
    (kinds.is_boolean, partial(_each, _json)),
    (kinds.is_null, partial(_each, _json)),
    (kinds.is_string, partial(_each, _json)),
    (kinds.is_large_string, partial(_each, _json)),
    (kinds.is_string_view, partial(_each, _json)),
    (kinds.is_decimal, partial(_each, _digits)),
    (kinds.is_date, partial(_each, _text)),
    (kinds.is_timestamp, _timestamps),
    (kinds.is_time, _times),
    (kinds.is_duration, lambda column: _each(_json, column.cast(pa.int64()))),
    (kinds.is_binary, partial(_each, _base64)),
    (kinds.is_large_binary, partial(_each, _base64)),
    (kinds.is_binary_view, partial(_each, _base64)),
    (kinds.is_fixed_size_binary, partial(_each, _base64)),
)
"""How the values of a type become JSON."""
