"""Rows read back from files of columns, as ``landfall cat`` and ``verify`` want them."""

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from landfall.formats import Row
from landfall.formats.columns import COORDINATES, ENVELOPE, storable


def batch_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """Return the rows of an envelope, or typed columns as JSON; binary values are in base64."""
    is_envelope = batch.schema.names == ENVELOPE.names
    prefix = "" if is_envelope else "_"
    offsets, times = (_integers(batch, prefix + name) for name in ("offset", "timestamp"))
    if is_envelope:
        values, keys = batch["value"].to_pylist(), batch["key"].to_pylist()
    else:
        coordinates = [f"_{name}" for name in COORDINATES if f"_{name}" in batch.schema.names]
        rows = readable(batch.drop_columns(coordinates)).to_pylist(maps_as_pydicts="lossy")
        values, keys = [msgspec.json.encode(row) for row in rows], [None] * len(batch)
    for offset, value, key, time in zip(offsets, values, keys, times, strict=True):
        yield Row(offset, value, key, time)


def _integers(batch: pa.RecordBatch, name: str) -> list[int | None]:
    stored = name in batch.schema.names
    if not stored:
        return [None] * len(batch)
    column = batch[name]
    if pa.types.is_timestamp(column.type):  # ORC has nanoseconds, and maybe no zone
        column = column.cast(pa.timestamp("ms", column.type.tz))
    integers: list[int | None] = column.cast(pa.int64()).to_pylist()
    return integers


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns as Python can hold them: it knows no nanoseconds."""
    return pa.RecordBatch.from_arrays(
        [storable(column, _in_microseconds) for column in batch.columns], batch.schema.names
    )


def _in_microseconds(column: pa.Array) -> pa.Array:
    type_ = column.type
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return column.cast(pa.timestamp("us", type_.tz), safe=False)
    return column
