"""Rows between a chunk of a slice and a block of an object, as Arrow record batches.

A ``Records`` builds its columns lazily from the reader's messages, and so keeps the whole chunk in
memory. Buffered rows must not. Here the columns that the format writes, and only those, become
Arrow columns, which can be selected, sliced and concatenated. ``ChosenRows`` are the rows of a
chunk for one output partition. Rows that make a block at once go to the encoder as they are chosen,
so that it copies a payload only once; rows that are buffered are copied, and the chunk is freed.
Only a chunk that goes to one output partition as a whole is buffered without copying.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.formats import Block
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.records import (
    Columns,
    Int64s,
    Records,
    SelectedRecords,
    gathered,
    record_bytes,
)

ROW_BYTES = 16
"""A row's weight in addition to its payload, so that rows with empty payloads fill blocks, too."""
_SIZE = "size"
"""The column with the bytes of each row, where keys or headers count, or ``value`` is missing."""


@dataclass(frozen=True)
class ChosenRows:
    """Some rows of a batch, not copied yet.

    Attributes:
        batch: the batch, as ``RowLayout.rows`` makes it.
        positions: which of its rows; None for all. Increasing, but for ``divided``.
    """

    batch: pa.RecordBatch
    positions: Int64s | None = None

    def __len__(self) -> int:
        return len(self.batch) if self.positions is None else len(self.positions)

    def part(self, start: int, end: int) -> "ChosenRows":
        """Return the rows ``start <= i < end`` of these; nothing is copied."""
        if self.positions is None:
            return ChosenRows(self.batch.slice(start, end - start))
        return ChosenRows(self.batch, self.positions[start:end])

    def divided(self, bounds: Sequence[int]) -> Iterator["ChosenRows"]:
        """Yield the rows between each two neighbours of ``bounds``, for rows with positions.

        Their offsets and weights are computed once for all of them: a chunk may be divided into
        hundreds of parts.
        """
        assert self.positions is not None, "rows are divided in an order"
        for start, end in pairwise(bounds):
            part = ChosenRows(self.batch, self.positions[start:end])
            before = self.weights[start - 1] if start else 0
            # This is how ``cached_property`` stores a value, also of a frozen class.
            part.__dict__["offsets"] = self.offsets[start:end]
            part.__dict__["weights"] = self.weights[start:end] - before
            yield part

    def numbered(self) -> "ChosenRows":
        """Return the same rows by their positions, so that a part that is buffered is a copy."""
        return (
            ChosenRows(self.batch, np.arange(len(self.batch))) if self.positions is None else self
        )

    @cached_property
    def offsets(self) -> Int64s:
        """Their offsets."""
        offsets: Int64s = self.batch.column("offset").to_numpy()
        return offsets if self.positions is None else offsets[self.positions]

    @cached_property
    def weights(self) -> Int64s:
        """The cumulative weight, shape (rows,): ``ROW_BYTES``, the payload, and what else counts.

        Keys and headers count where the format writes them (``RowLayout.weighs_all``).
        """
        if _SIZE in self.batch.schema.names:
            sizes: Int64s = self.batch.column(_SIZE).to_numpy()
            return np.cumsum(
                (sizes if self.positions is None else sizes[self.positions]) + ROW_BYTES
            )
        if self.positions is None:
            return cumulative_weights(self.batch)
        values = self.batch.column("value")
        lengths: Int64s = (
            pc.binary_length(values).fill_null(0).to_numpy()
            if values.null_count
            else np.diff(_bounds(values))
        )
        return np.cumsum(lengths[self.positions].astype(np.int64) + ROW_BYTES)

    def taken(self) -> pa.RecordBatch:
        """Return the rows as a batch; copies them, unless they are all rows."""
        return self.batch if self.positions is None else self.batch.take(pa.array(self.positions))


def together(parts: Sequence[ChosenRows]) -> pa.RecordBatch:
    """Return rows as one batch; copies them, unless they are all rows of one."""
    batches = [part.taken() for part in parts]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def copied(parts: Sequence[ChosenRows]) -> pa.RecordBatch:
    """Return rows as a batch that keeps none of the batches they are of in memory."""
    if len(parts) == 1 and parts[0].positions is None:
        # ``take`` copies, and a slice would not.
        return parts[0].batch.take(pa.array(np.arange(len(parts[0]))))
    return together(parts)


@dataclass(frozen=True)
class RowLayout:
    """The columns of rows: offset and value, then those chosen here, then typed columns.

    Attributes:
        timestamps: whether rows have Kafka's timestamps.
        keys: whether they have keys.
        headers: whether they have headers.
        schema: the payloads' own schema, of the rows of one object.
        payloads: whether rows that have typed columns keep their payload, too, and not its size
            only, which decides where blocks end.
        weighs_all: whether keys and headers that rows have decide where blocks end, too. They do
            not by landing rules before ``WHOLE_ROWS``.
    """

    timestamps: bool
    keys: bool
    headers: bool
    schema: RowSchema | None = None
    payloads: bool = True
    weighs_all: bool = True

    @classmethod
    def of(cls, wanted: Wanted) -> "RowLayout":
        """Return the layout that a format needs."""
        return cls(wanted.timestamps, wanted.keys, wanted.headers, payloads=not wanted.columns)

    def rows(self, records: Records, columns: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the rows of a chunk, with their typed columns if there are any."""
        arrays: dict[str, pa.Array] = {"offset": pa.array(records.offsets)}
        has_payloads = self.payloads or columns is None or not columns.num_columns
        weighs_more = self.weighs_all and (self.keys or self.headers)
        if has_payloads:
            arrays["value"] = records.values
        if weighs_more or not has_payloads:
            arrays[_SIZE] = pa.array(
                record_bytes(
                    records.values,
                    records.keys if self.weighs_all and self.keys else None,
                    records.headers if self.weighs_all and self.headers else None,
                )
            )
        if self.timestamps:
            arrays["timestamp"] = pa.array(records.timestamps)
        if self.keys:
            arrays["key"] = records.keys
        if self.headers:
            arrays["headers"] = records.headers
        # The prefix keeps typed columns apart from the columns above, even with equal names.
        typed = (
            {
                f"_{name}": column
                for name, column in zip(columns.schema.names, columns.columns, strict=True)
            }
            if columns is not None
            else {}
        )
        return pa.RecordBatch.from_arrays([*arrays.values(), *typed.values()], [*arrays, *typed])

    def chosen_block(self, tp: TopicPartition, parts: Sequence[ChosenRows]) -> Block:
        """Return rows of batches that ``rows`` made as the block that a format encodes."""
        is_batch = len(parts) == 1 and parts[0].positions is None
        if is_batch or any(_typed(part.batch) for part in parts):
            return self.block(tp, together(parts))

        def column(name: str) -> Callable[[], pa.Array]:
            return lambda: gathered([(_column(p.batch, name), p.positions) for p in parts])

        timestamps = column("timestamp")
        records = SelectedRecords(
            tp,
            np.concatenate([part.offsets for part in parts]),
            [(part.batch.column("value"), part.positions) for part in parts],
            Columns(lambda: timestamps().to_numpy(), column("key"), column("headers")),
        )
        return Block(records, schema=self.schema)

    def block(self, tp: TopicPartition, rows: pa.RecordBatch) -> Block:
        """Return rows that ``rows`` made as the block that a format encodes."""
        columns = Columns(
            timestamps=lambda: _column(rows, "timestamp").to_numpy(),
            keys=lambda: _column(rows, "key"),
            headers=lambda: _column(rows, "headers"),
        )
        # A format that writes typed columns reads no payloads, so it gets nulls without them.
        has_payloads = "value" in rows.schema.names
        values = rows.column("value") if has_payloads else pa.nulls(len(rows), pa.binary())
        records = Records(tp, rows.column("offset").to_numpy(), values, columns)
        typed = _typed(rows)
        if not typed:
            return Block(records, schema=self.schema)
        columns_of_rows = rows.select(typed).rename_columns([name[1:] for name in typed])
        return Block(records, columns_of_rows, self.schema)


def _typed(rows: pa.RecordBatch) -> list[str]:
    return [name for name in rows.schema.names if name.startswith("_")]


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
