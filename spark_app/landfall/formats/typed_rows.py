"""Reads rows from files of columns, for ``landfall cat`` and ``verify``."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from landfall.formats import Row
from landfall.formats.columns import COORDINATES, ENVELOPE, Convert, storable


def batch_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """Return the rows of an envelope, or typed columns as JSON; binary values are in base64."""
    is_envelope = batch.schema.names == ENVELOPE.names
    prefix = "" if is_envelope else "_"
    offsets, times = (_integers(batch, prefix + name) for name in ("offset", "timestamp"))
    if is_envelope:
        values, keys = batch["value"].to_pylist(), batch["key"].to_pylist()
    else:
        coordinates = [f"_{name}" for name in COORDINATES if f"_{name}" in batch.schema.names]
        rows = plain_rows(batch.drop_columns(coordinates))
        values, keys = [msgspec.json.encode(row) for row in rows], [None] * len(batch)
    for offset, value, key, time in zip(offsets, values, keys, times, strict=True):
        yield Row(offset, value, key, time)


def _integers(batch: pa.RecordBatch, name: str) -> list[int | None]:
    stored = name in batch.schema.names
    if not stored:
        return [None] * len(batch)
    column = batch[name]
    if pa.types.is_timestamp(column.type):  # ORC has nanoseconds, and maybe no zone
        # Kafka's are whole milliseconds; a column of the payload may have this name without them.
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    integers: list[int | None] = column.cast(pa.int64()).to_pylist()
    return integers


def plain_rows(batch: pa.RecordBatch, *, whole_maps: bool = False) -> list[dict[str, Any]]:
    """Return the rows as Python's values that JSON can hold, with maps as dictionaries.

    Keys that are flags become text. Python has no nanoseconds, so they are cut, and only the years
    1 to 9999: in a row with another time, all times are numbers, of their own unit since 1970.
    With ``whole_maps``, maps are lists of pairs: dictionaries lose keys that come twice.
    """
    maps = None if whole_maps else "lossy"
    found: list[dict[str, Any]]
    try:
        found = _converted(batch, _in_microseconds).to_pylist(maps_as_pydicts=maps)
    except (OverflowError, ValueError):
        if len(batch) > 1:
            alone = (batch.slice(row, 1) for row in range(len(batch)))
            return [row for one in alone for row in plain_rows(one, whole_maps=whole_maps)]
        found = _converted(batch, _as_number).to_pylist(maps_as_pydicts=maps)
    has_flags = not whole_maps and any(_has_flag_keys(column.type) for column in batch)
    return _with_text(found) if has_flags else found


def _converted(batch: pa.RecordBatch, convert: Convert) -> pa.RecordBatch:
    columns = [storable(column, convert) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _has_flag_keys(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_) and pa.types.is_boolean(type_.key_type):
        return True
    return any(_has_flag_keys(type_.field(i).type) for i in range(type_.num_fields))


def _with_text(value: Any) -> Any:
    """The same with keys that are flags as ``true`` and ``false``, as in Protobuf's JSON."""
    if isinstance(value, dict):
        flags = {True: "true", False: "false"}
        return {
            flags[key] if isinstance(key, bool) else key: _with_text(inner)
            for key, inner in value.items()
        }
    return [_with_text(item) for item in value] if isinstance(value, list) else value


def _in_microseconds(column: pa.Array) -> pa.Array:
    type_ = column.type
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return column.cast(pa.timestamp("us", type_.tz), safe=False)
    return column


def _as_number(column: pa.Array) -> pa.Array:
    """Return times as the number of their own unit since 1970."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
