"""Rows on their way from a chunk of a slice to the block of an object, as Arrow record batches.

A ``Records`` builds its columns lazily from the reader's messages and so keeps the whole chunk
alive. What waits in a buffer must not: here the columns the format writes, and only those, become
Arrow columns that can be picked, cut and joined together. A picked row is a copied row; only a
whole chunk that goes to one output is passed on as it is.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import Columns, Int64s, Records

ROW_BYTES = 16
"""Counted for every row beside its payload, so that rows without one fill a buffer too."""


@dataclass(frozen=True)
class Layout:
    """Which columns rows carry: offset and value always, then these, then the typed columns."""

    timestamps: bool
    keys: bool
    headers: bool

    @classmethod
    def of(cls, wanted: Wanted) -> "Layout":
        """What a format wants."""
        return cls(wanted.timestamps, wanted.keys, wanted.headers)

    def rows(self, records: Records, columns: pa.RecordBatch | None) -> pa.RecordBatch:
        """The rows of a chunk, with their typed columns if there are any."""
        arrays: dict[str, pa.Array] = {"offset": pa.array(records.offsets), "value": records.values}
        if self.timestamps:
            arrays["timestamp"] = pa.array(records.timestamps)
        if self.keys:
            arrays["key"] = records.keys
        if self.headers:
            arrays["headers"] = records.headers
        typed = (
            {
                f"_{name}": column
                for name, column in zip(columns.schema.names, columns.columns, strict=True)
            }
            if columns
            else {}
        )
        return pa.RecordBatch.from_arrays([*arrays.values(), *typed.values()], [*arrays, *typed])

    def block(self, tp: TopicPartition, rows: pa.RecordBatch) -> Block:
        """The same rows as a format takes them."""
        columns = Columns(
            timestamps=lambda: _carried(rows, "timestamp").to_numpy(),
            keys=lambda: _carried(rows, "key"),
            headers=lambda: _carried(rows, "headers"),
        )
        records = Records(tp, rows.column("offset").to_numpy(), rows.column("value"), columns)
        typed = [name for name in rows.schema.names if name.startswith("_")]
        if not typed:
            return Block(records)
        return Block(
            records,
            pa.RecordBatch.from_arrays([rows.column(n) for n in typed], [n[1:] for n in typed]),
        )


def _carried(rows: pa.RecordBatch, name: str) -> pa.Array:
    if name not in rows.schema.names:
        raise LookupError(f"the format writes {name} without saying so in its Wanted")
    return rows.column(name)


def weights(rows: pa.RecordBatch) -> Int64s:
    """Cumulated size of the rows, shape (rows,): payload bytes and ``ROW_BYTES`` each."""
    bounds = _bounds(rows.column("value")).astype(np.int64)
    cumulated: Int64s = bounds[1:] - bounds[0] + ROW_BYTES * np.arange(1, len(rows) + 1)
    return cumulated


def payload_bytes(values: pa.BinaryArray) -> int:
    """How many bytes these payloads have together."""
    bounds = _bounds(values)
    return int(bounds[-1]) - int(bounds[0])


def _bounds(values: pa.BinaryArray) -> npt.NDArray[np.int32]:
    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
