"""Step ``Sql``: one SELECT over the typed columns, by DuckDB in the process of the task.

| option | meaning |
|---|---|
| ``query`` | ``SELECT … FROM records WHERE …``; its columns replace the typed columns |
| ``engine`` | ``DuckDB``; ``Spark`` is refused: docs/adr/0016-sql-runs-in-the-task.md |

A row for which WHERE is not true is left out on purpose. One for which an expression fails (text
that is no number, an overflow) is rejected with DuckDB's message; TRY_CAST gives null instead. All
parts of WHERE are asked for every row: ``WHERE a <> 'x' AND a::INT > 1`` fails for ``x``.

DuckDB runs with one thread, sees neither files nor the network, loads no extensions and takes no
settings any more. A hidden number of the row shows that the result has every row, in order. Times
that the query makes are in microseconds, UTC; columns that pass keep their types.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.errors import how_to_install
from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.transforms import Context
from landfall.pipeline.transforms.sql_query import ROW, TABLE, Query, parse

try:
    import duckdb
except ImportError:  # the extra "sql" of this package
    duckdb = None  # type: ignore[assignment]  # mypy has it

Connection: TypeAlias = Any
SLICE_ROWS = 10_240
"""Rows that DuckDB is given at a time. It learns after 25 vectors of 2,048 rows which part of an
AND is cheaper, and asks that first; within five the order is that of the plan.
"""
_SETTINGS = {
    "threads": 1,
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "TimeZone": "UTC",
}
_MAX_MESSAGE = 200
_NO_SPARK = (
    "Spark's SQL has no errors by record: one record that fails would stop its topic partition, "
    "or become null unseen; use DuckDB, or a function of your own, package.module:name"
)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Sql``."""

    query: str
    engine: Literal["DuckDB", "Spark"] = "DuckDB"


@lru_cache(1)
def _connection() -> Connection:
    """The database of this process; it holds nothing."""
    connection = duckdb.connect(":memory:")
    for name, value in _SETTINGS.items():
        connection.execute(f"SET {name} = '{value}'")
    connection.execute("SET lock_configuration = true")
    return connection


@dataclass(frozen=True)
class Sql:
    """Runs a query over the typed columns.

    Attributes:
        query: the query, checked.
        writes: the columns that it makes.
    """

    query: Query
    writes: tuple[Path, ...]
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: Context) -> "Sql":
        """Build the step.

        Raises:
            ValueError: the query is refused, the group has no typed columns, or DuckDB is not
                installed.
        """
        wanted = read_options(options, Options)
        if wanted.engine == "Spark":
            raise ValueError(f"option engine: {_NO_SPARK}")
        text = wanted.query
        if duckdb is None:
            raise ValueError(f"Sql needs DuckDB: {how_to_install('sql')}")
        if context.schema is None:
            raise ValueError("Sql reads typed columns; declare spec.decode.columns")
        if ROW in context.schema.names:
            raise ValueError(f"no column can be called {ROW} here")
        try:
            query = parse(text, context.schema.names, _serialized, _deserialized)
            step = cls(query, ())
            made = step.result(_no_rows(context.schema))
            if query.where:
                _kept(_run(query.where, _no_rows(context.schema)))
        except (ValueError, duckdb.Error) as error:
            raise ValueError(f"option query: {_message(error)}") from error
        written = (name for name in made.schema.names if name not in query.passed)
        return cls(query, tuple((name,) for name in written))

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows of the query, with its columns; reject those for which it fails."""
        assert decoded.columns is not None, "built for typed columns"
        if self.query.where is not None:
            parts, errors = _by_slices(self.query.where, decoded.columns)
            kept = [_kept(part) for part in parts]
            decoded = decoded.reject(errors)
            decoded = decoded.keep(np.concatenate(kept) if kept else np.empty(0, np.bool_))
        assert decoded.columns is not None, "rejecting and keeping rows keeps the form"
        parts, errors = _by_slices(self.query.select, decoded.columns)
        schema = decoded.columns.schema
        parts = parts or [_run(self.query.select, _no_rows(schema))]
        whole = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        return replace(decoded.reject(errors), columns=self._typed(whole, schema))

    def result(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the query's result; raises duckdb.Error if it fails."""
        return self._typed(_run(self.query.select, columns), columns.schema)

    def _typed(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        columns: dict[str, pa.Array] = {}
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name in columns:
                raise ValueError(f"two columns are called {name!r}")
            columns[name] = array
            if name in self.query.passed:
                columns[name] = array.cast(schema.field(name).type)
            elif pa.types.is_timestamp(array.type):
                columns[name] = array.cast(pa.timestamp("us", "UTC"))
            elif not _can_be_written(array.type):
                raise ValueError(f"column {name} would be {array.type}; cast it to another type")
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _can_be_written(type_: pa.DataType) -> bool:
    types = pa.types
    if types.is_nested(type_):
        return all(_can_be_written(type_.field(i).type) for i in range(type_.num_fields))
    return not (types.is_null(type_) or types.is_interval(type_) or types.is_duration(type_))


def _serialized(text: str) -> str:
    return _only_text("SELECT json_serialize_sql(?)", text)


def _deserialized(text: str) -> str:
    return _only_text("SELECT json_deserialize_sql(?)", text)


def _only_text(query: str, text: str) -> str:
    # All rows are fetched: a result that has more holds up the connection.
    ((only,),) = _connection().execute(query, [text]).fetchall()
    return str(only)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _run(query: str, columns: pa.RecordBatch) -> pa.RecordBatch:
    """Run a query whose last column is ``ROW``; raises duckdb.Error if it fails."""
    rows = pa.array(np.arange(len(columns)))
    table = pa.table([*columns.columns, rows], [*columns.schema.names, ROW])
    connection = _connection()
    connection.register(TABLE, table)
    made = connection.sql(query).to_arrow_table().combine_chunks()
    *names, _ = made.schema.names
    if not made.column(made.num_columns - 1).equals(pa.chunked_array([rows])):
        raise RuntimeError(f"DuckDB lost or moved rows: {query}")
    arrays = [_whole(made.column(i)) for i in range(len(names))]
    return pa.RecordBatch.from_arrays(arrays, names)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _by_slices(query: str, columns: pa.RecordBatch) -> tuple[list[pa.RecordBatch], dict[int, str]]:
    """Return what the query gives for the rows for which it does not fail, and errors by row."""
    parts: list[pa.RecordBatch] = []
    errors: dict[int, str] = {}
    for start in range(0, len(columns), SLICE_ROWS):
        _halved(query, columns.slice(start, SLICE_ROWS), start, parts, errors)
    return parts, errors


def _halved(
    query: str,
    columns: pa.RecordBatch,
    start: int,
    parts: list[pa.RecordBatch],
    errors: dict[int, str],
) -> None:
    """Run the query; if it fails, run it on each half, down to the rows for which it fails."""
    try:
        parts.append(_run(query, columns))
    except (duckdb.DataError, duckdb.ProgrammingError) as error:
        half = len(columns) // 2
        if not half:
            errors[start] = f"sql: {_message(error)}"
            return
        _halved(query, columns.slice(0, half), start, parts, errors)
        _halved(query, columns.slice(half), start + half, parts, errors)


def _kept(part: pa.RecordBatch) -> Any:
    condition = part.column(0)
    if not pa.types.is_boolean(condition.type):
        raise ValueError(f"WHERE is {condition.type}, and not true or false")
    return pc.fill_null(condition, fill_value=False).to_numpy(zero_copy_only=False)


def _message(error: Exception) -> str:
    """The first line, which does not quote the query."""
    return str(error).split("\n")[0][:_MAX_MESSAGE]
