"""Rows that were decoded apart, because their schemas differ, put together in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from landfall.pipeline.decoders import Path, Wanted
from landfall.pipeline.decoders.row_schemas import SchemaRows, together
from landfall.pipeline.records import FieldValues, Int64s


@dataclass(frozen=True)
class AvroPart:
    """Some rows, and what the later stages want of them.

    Attributes:
        rows: their positions in the whole, increasing.
        fields: the values of each wanted path, one per row.
        columns: the declared columns, if any.
        payloads: the rows as JSON, if wanted.
        errors: what is wrong, by position in the part.
        by_schema: the rows by their schemas, those with errors included if they have one.
    """

    rows: Int64s
    fields: Mapping[Path, FieldValues] = field(default_factory=dict)
    columns: pa.RecordBatch | None = None
    payloads: pa.BinaryArray | None = None
    errors: Mapping[int, str] = field(default_factory=dict)
    by_schema: tuple[SchemaRows, ...] = ()


def empty_part(rows: Int64s, wanted: Wanted, error: str | None = None) -> AvroPart:
    """Rows with everything absent: tombstones, or with an error rows without a schema."""
    none: FieldValues = pa.nulls(len(rows), pa.string())
    columns = None
    if wanted.schema is not None:
        fields = [pa.field(column.name, column.type) for column in wanted.schema]
        nulls = [pa.nulls(len(rows), column.type) for column in fields]
        columns = pa.record_batch(nulls, schema=pa.schema(fields))
    errors = {} if error is None else dict.fromkeys(range(len(rows)), error)
    payloads = pa.nulls(len(rows), pa.binary()) if wanted.json else None
    return AvroPart(
        rows=rows,
        fields=dict.fromkeys(wanted.fields, none),
        columns=columns,
        payloads=payloads,
        errors=errors,
    )


def merge(parts: Sequence[AvroPart], wanted: Wanted) -> AvroPart:
    """Return all rows as one part; every row must be in exactly one."""
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows)
    positions = pa.array(order)
    columns = payloads = None
    if wanted.schema is not None:
        batches = [part.columns for part in parts if part.columns is not None]
        columns = pa.concat_batches(batches).take(positions)
    if wanted.json:
        payloads = pa.concat_arrays([part.payloads for part in parts]).take(positions)
    return AvroPart(
        rows=rows[order],
        fields={
            path: _merge_values([part.fields[path] for part in parts], order)
            for path in wanted.fields
        },
        columns=columns,
        payloads=payloads,
        errors={int(part.rows[row]): error for part in parts for row, error in part.errors.items()},
        by_schema=together(entry for part in parts for entry in part.by_schema),
    )


def _merge_values(values: Sequence[FieldValues], order: Int64s) -> FieldValues:
    if all(isinstance(part, np.ndarray) for part in values):
        return np.concatenate(values)[order]
    if all(isinstance(part, pa.Array) for part in values):
        return pa.concat_arrays(values).take(pa.array(order))
    lists = [part if isinstance(part, list) else part.tolist() for part in values]
    together = [value for part in lists for value in part]
    return [together[position] for position in order.tolist()]
