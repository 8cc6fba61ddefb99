"""Rows whose columns follow their own schemas, which the data names and the group does not.

A chunk may hold records of several schemas in any order. A decoder returns them apart: for each
schema the positions of its rows, and their columns. The task writes the rows of each schema to
objects of their own, so that every object has one schema.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from landfall.pipeline.records import FieldValues, Int64s

SCHEMA_ID = ("", "schema:id")
"""The path under which a route reads the number that a registry has given to a row's schema. No
field has it, for no step of a field's path is empty."""
SCHEMA_NAME = ("", "schema:name")
"""The path under which a route reads the full name of a row's schema."""


@dataclass(frozen=True)
class RowSchema:
    """The schema of some rows. Two are equal if their contents are.

    Attributes:
        digest: SHA-256 of the contents of the schema, in hexadecimal.
        name: its full name, such as ``shop.Order``; empty if it has none.
        text: the schema itself, complete and in its own language.
    """

    digest: str
    name: str = field(default="", compare=False)
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class SchemaRows:
    """The rows of one schema.

    Attributes:
        schema: the schema.
        rows: their positions in ``Decoded.records``, int64, increasing, shape (rows,).
        columns: the typed columns of exactly these rows; None if the format copies payloads.
    """

    schema: RowSchema
    rows: Int64s
    columns: pa.RecordBatch | None = None

    def take(self, kept: Int64s) -> "SchemaRows":
        """Return what is left if only the positions ``kept``, which increase, remain."""
        places = np.searchsorted(kept, self.rows)
        found = places < len(kept)
        found[found] = kept[places[found]] == self.rows[found]
        here = np.flatnonzero(found)
        if len(here) == len(self.rows):
            return SchemaRows(self.schema, places, self.columns)
        columns = None if self.columns is None else self.columns.take(pa.array(here))
        return SchemaRows(self.schema, places[here], columns)


def same_for_all(value: int | str, rows: int) -> FieldValues:
    """Return a field that has this value in every row, as the id or the name of a schema has."""
    return np.full(rows, value) if isinstance(value, int) else pa.repeat(value, rows)


def columns_digest(name: str, columns: pa.Schema) -> str:
    """Return a digest of columns under a name, in hexadecimal.

    For schemas whose text contains more than their columns show, such as the numbers of fields.
    """
    return hashlib.sha256(f"{name}\n{columns.to_string()}".encode()).hexdigest()


def together(parts: Iterable[SchemaRows]) -> tuple[SchemaRows, ...]:
    """Return one part for each schema that has rows; their rows are put in order."""
    by_digest: dict[str, list[SchemaRows]] = {}
    for part in parts:
        if len(part.rows):
            by_digest.setdefault(part.schema.digest, []).append(part)
    return tuple(_joined(same) for same in by_digest.values())


def _joined(parts: Sequence[SchemaRows]) -> SchemaRows:
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows)
    batches = [part.columns for part in parts if part.columns is not None]
    columns = pa.concat_batches(batches).take(pa.array(order)) if batches else None
    return SchemaRows(parts[0].schema, rows[order], columns)
