"""Rows between a chunk of a slice and a block of an object, as Arrow record batches.

A ``Records`` builds its columns lazily from the reader's messages, and so keeps the whole chunk in
memory. Buffered rows must not. Here the columns that the format writes, and only those, become
Arrow columns, which can be selected, sliced and concatenated. A selected row is a copy; only a
chunk that goes to one output partition as a whole is passed on without copying.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.records import Columns, Int64s, Records

ROW_BYTES = 16
"""A row's weight in addition to its payload, so that rows with empty payloads fill blocks, too."""


@dataclass(frozen=True)
class Layout:
    """The columns of rows: offset and value, then those chosen here, then typed columns.

    ``schema`` is the payloads' own schema, of the rows of one object.
    """

    timestamps: bool
    keys: bool
    headers: bool
    schema: RowSchema | None = None

    @classmethod
    def of(cls, wanted: Wanted) -> "Layout":
        """Return the layout that a format needs."""
        return cls(wanted.timestamps, wanted.keys, wanted.headers)

    def rows(self, records: Records, columns: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the rows of a chunk, with their typed columns if there are any."""
        arrays: dict[str, pa.Array] = {"offset": pa.array(records.offsets), "value": records.values}
        if self.timestamps:
            arrays["timestamp"] = pa.array(records.timestamps)
        if self.keys:
            arrays["key"] = records.keys
        if self.headers:
            arrays["headers"] = records.headers
        # The prefix keeps typed columns apart from the columns above, whatever their names are.
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
        """Return rows that ``rows`` made as the block that a format encodes."""
        columns = Columns(
            timestamps=lambda: _column(rows, "timestamp").to_numpy(),
            keys=lambda: _column(rows, "key"),
            headers=lambda: _column(rows, "headers"),
        )
        records = Records(tp, rows.column("offset").to_numpy(), rows.column("value"), columns)
        typed = [name for name in rows.schema.names if name.startswith("_")]
        if not typed:
            return Block(records, schema=self.schema)
        return Block(
            records,
            pa.RecordBatch.from_arrays([rows.column(n) for n in typed], [n[1:] for n in typed]),
            self.schema,
        )


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    if name not in rows.schema.names:
        raise LookupError(f"the format reads the column {name}, which its Wanted does not ask for")
    return rows.column(name)


def cumulative_weights(rows: pa.RecordBatch) -> Int64s:
    """Return the cumulative weight of rows, shape (rows,): payload and ``ROW_BYTES`` each."""
    bounds = _bounds(rows.column("value")).astype(np.int64)
    weights: Int64s = bounds[1:] - bounds[0] + ROW_BYTES * np.arange(1, len(rows) + 1)
    return weights


def payload_bytes(values: pa.BinaryArray) -> int:
    """Return the sum of the lengths of these payloads, in bytes."""
    bounds = _bounds(values)
    return int(bounds[-1]) - int(bounds[0])


def _bounds(values: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Return where the values begin and end in Arrow's data buffer, shape (rows + 1,)."""
    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
