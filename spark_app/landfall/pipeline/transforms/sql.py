"""Step ``Sql``: one SELECT over the typed columns, by DuckDB in the process of the task.

| option | meaning |
|---|---|
| ``query`` | ``SELECT … FROM records WHERE …``; its columns replace the typed columns |
| ``engine`` | ``DuckDB``; ``Spark`` is refused: docs/adr/0016-sql-runs-in-the-task.md |

A row for which WHERE is not true is left out on purpose. One for which an expression fails (text
that is no number, an overflow) is rejected with DuckDB's message; TRY_CAST gives null instead. All
parts of WHERE are asked for every row: ``WHERE a <> 'x' AND a::INT > 1`` fails for ``x``. Rows that
fail are found together, as docs/adr/0060-failing-rows-of-sql-are-found-by-a-probe.md describes.

DuckDB runs with one thread, sees neither files nor the network, loads no extensions and takes no
settings any more. A hidden number of the row shows that the result has every row, in order. Times
that the query makes are in microseconds, UTC; columns that pass keep their types.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from landfall.pipeline.records import Int64s
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.sql_query import ROW, TABLE, Query, Statement, parse

try:
    import duckdb
except ImportError:  # the extra "sql" of this package
    duckdb = None  # type: ignore[assignment]  # mypy has it

Connection: TypeAlias = Any
SLICE_ROWS = 10_240
"""Rows that DuckDB is given at a time. It learns after 25 vectors of 2,048 rows which part of an
AND is cheaper, and asks that first; within five the order is as planned.
"""
_SETTINGS = {
    "threads": 1,
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "TimeZone": "UTC",
    # It would compute what two expressions share for every row, also where COALESCE, or the TRY of
    # a probe, does not ask for it or takes its failure.
    "disabled_optimizers": "common_subexpressions",
}
_MAX_MESSAGE = 200
_TEXT = (pa.string(), pa.large_string())
_KNOWN_ERRORS = 20_480
"""Errors that are remembered; one batch has half of them at most."""
_FAILED: tuple[type[Exception], ...] = (UnicodeDecodeError,)
"""What DuckDB raises if an expression fails for a row; the first, if the error has half a character
in its text.
"""
if duckdb is not None:
    _FAILED += (duckdb.DataError, duckdb.ProgrammingError, duckdb.NotSupportedError)
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
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Sql":
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
                _kept(_run(query.where.text, _no_rows(context.schema)))
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
        parts = parts or [_run(self.query.select.text, _no_rows(schema))]
        whole = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        return replace(decoded.reject(errors), columns=self._typed(whole, schema))

    def result(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the query's result; raises duckdb.Error if it fails."""
        return self._typed(_run(self.query.select.text, columns), columns.schema)

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
    return _run_over(query, _register(columns))


def _run_over(query: str, rows: pa.Array) -> pa.RecordBatch:
    """Do what ``_run`` does with the rows that ``_register`` was given last."""
    made = _connection().sql(query).to_arrow_table().combine_chunks()
    *names, _ = made.schema.names
    if not made.column(made.num_columns - 1).equals(pa.chunked_array([rows])):
        raise RuntimeError(f"DuckDB lost or moved rows: {query}")
    arrays = [_whole(made.column(i)) for i in range(len(names))]
    return pa.RecordBatch.from_arrays(arrays, names)


def _register(columns: pa.RecordBatch) -> pa.Array:
    """Make rows what queries read, with their numbers as ``ROW``; returns these."""
    rows = pa.array(np.arange(len(columns)))
    table = pa.table([*columns.columns, rows], [*columns.schema.names, ROW])
    _connection().register(TABLE, table)
    return rows


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _by_slices(
    statement: Statement, columns: pa.RecordBatch
) -> tuple[list[pa.RecordBatch], dict[int, str]]:
    """Return what the query gives for the rows for which it does not fail, and errors by row."""
    parts: list[pa.RecordBatch] = []
    errors: dict[int, str] = {}
    for start in range(0, len(columns), SLICE_ROWS):
        rows = np.arange(start, min(start + SLICE_ROWS, len(columns)))
        _evaluate(
            statement=statement,
            columns=columns.slice(start, SLICE_ROWS),
            rows=rows,
            parts=parts,
            errors=errors,
        )
    return parts, errors


def _evaluate(
    statement: Statement,
    columns: pa.RecordBatch,
    rows: Int64s,
    parts: list[pa.RecordBatch],
    errors: dict[int, str],
) -> None:
    """Run the query; if it fails, run it without the rows for which it fails.

    A row is bad only if the query fails for it alone. Should rows be left that fail together and
    that the probe does not find, each half is evaluated by itself.

    Args:
        statement: the query.
        columns: the rows that it reads.
        rows: their numbers in ``errors``, increasing.
        parts: gets the results of rows for which it does not fail, in order.
        errors: gets the errors of the remaining rows.
    """
    registered = _register(columns)
    try:
        parts.append(_run_over(statement.text, registered))
    except _FAILED as error:
        if len(columns) == 1:
            errors[int(rows[0])] = f"sql: {_message(error)}"
            return
    else:
        return
    guarded = _guarded(statement, columns.schema, registered)
    failing = _failing(statement, columns, guarded.probes) if guarded else {}
    errors.update({int(rows[row]): error for row, error in failing.items()})
    left = np.delete(np.arange(len(columns)), [*failing])
    if guarded and failing and not guarded.probes[: len(statement.fallible), left].any():
        parts.append(guarded.part.take(pa.array(left)))
        return
    for some in [left] if failing else np.array_split(left, 2):
        if len(some):
            _evaluate(
                statement=statement,
                columns=columns.take(pa.array(some)),
                rows=rows[some],
                parts=parts,
                errors=errors,
            )


@dataclass(frozen=True)
class _Guarded:
    """The result of a query with null for each expression where it fails.

    Attributes:
        part: the columns of the query.
        probes: whether each probe of the statement is null, shape (probes, rows).
    """

    part: pa.RecordBatch
    probes: Any


def _guarded(statement: Statement, schema: pa.Schema, registered: pa.Array) -> _Guarded | None:
    """Run a query with its probes; None if it fails even so."""
    try:
        made = _run_over(statement.guarded, registered)
    except _FAILED:
        return None
    names = _names(statement.text, schema)
    probes = np.array([np.asarray(column.is_null()) for column in made.columns[len(names) :]])
    return _Guarded(pa.RecordBatch.from_arrays(made.columns[: len(names)], names), probes)


@lru_cache(2)
def _names(query: str, _: pa.Schema) -> list[str]:
    """Return the names of a query's columns, without ``ROW``; the table has this schema now."""
    return list(_connection().sql(query).columns[:-1])


def _failing(statement: Statement, columns: pa.RecordBatch, probes: Any) -> dict[int, str]:
    """Return the rows for which the query fails alone, as far as its probes find them.

    Errors of a cast of text differ in the text alone, so two texts give all errors.
    """
    fails = probes[: len(statement.fallible)]
    errors: dict[int, str | None] = {}
    for texts in _cast_texts(statement, columns, probes):
        # A constant that fails, too, may be the text of one of them.
        asked = list({text: row for row, text in texts.items()}.values())[:2]
        errors |= _asked(statement, columns, fails, asked)
        first, *more = {_around(errors[row], texts[row]) for row in asked}
        if first is not None and not more:
            errors |= {row: text.join(first)[:_MAX_MESSAGE] for row, text in texts.items()}
    left = [row for row in np.flatnonzero(fails.any(axis=0)).tolist() if row not in errors]
    errors |= _asked(statement, columns, fails, left)
    return {row: f"sql: {error}" for row, error in errors.items() if error is not None}


def _cast_texts(
    statement: Statement, columns: pa.RecordBatch, probes: Any
) -> Iterator[dict[int, str]]:
    """For each cast of text that fails for rows, and nothing else does, return the text by row.

    Only text that DuckDB quotes as it is: printable ASCII.

    Args:
        statement: the query.
        columns: the rows.
        probes: whether each column of the probe is null, shape (columns of the probe, rows).
    """
    fails_once = probes[: len(statement.fallible)].sum(axis=0) == 1
    for number, expression in enumerate(statement.fallible):
        fails_alone = probes[number] & fails_once
        one_fails = probes[[cast.probe for cast in expression.casts]].sum(axis=0) == 1
        for cast in expression.casts:
            rows = np.flatnonzero(fails_alone & one_fails & probes[cast.probe])
            if len(rows) and columns.schema.field(cast.column).type in _TEXT:
                texts = columns.column(cast.column).take(pa.array(rows)).to_pylist()
                plain = {
                    row: text
                    for row, text in zip(rows.tolist(), texts, strict=True)
                    if text.isascii() and text.isprintable()
                }
                if plain:
                    yield plain


def _around(error: str | None, text: str) -> tuple[str, str] | None:
    """Return what is before and after the text in the error of a cast.

    None if the error is not of the known form, or was cut, so that it has no text for other rows.
    """
    before = "Conversion Error: Could not convert string '"
    if error is None or not error.startswith(f"{before}{text}' to ") or len(error) == _MAX_MESSAGE:
        return None
    return before, error[len(before) + len(text) :]


def _asked(
    statement: Statement, columns: pa.RecordBatch, fails: Any, rows: Sequence[int]
) -> dict[int, str | None]:
    """Return how the query fails for each of these rows alone; None where it does not.

    Rows with the same values, where the same expressions fail, have the same error; it is asked for
    once, and remembered for the next batches.
    """
    alike: dict[tuple[tuple[int, ...], bytes], list[int]] = {}
    for row in rows:
        expressions = tuple(np.flatnonzero(fails[:, row]).tolist())
        read = {name for index in expressions for name in statement.fallible[index].reads}
        # Compared as bytes: -0.0 is not 0.0, and a list is no key. A slice, other than a copy, has
        # bits of its neighbours.
        values = columns.select(sorted(read)).take(pa.array([row])).serialize().to_pybytes()
        alike.setdefault((expressions, values), []).append(row)
    known, of = _known_errors(), (statement.text, str(columns.schema))
    errors = {like: known[*of, *like] for like in alike if (*of, *like) in known}
    unknown = [like for like in alike if like not in errors]
    if unknown:
        if len(known) + len(unknown) > _KNOWN_ERRORS:
            known.clear()
        queries = [statement.failing(expressions) for expressions, _ in unknown]
        firsts = columns.take(pa.array([alike[like][0] for like in unknown]))
        made = dict(zip(unknown, _errors(queries, firsts), strict=True))
        known |= {(*of, *like): error for like, error in made.items()}
        errors |= made
    return {row: errors[like] for like, rows in alike.items() for row in rows}


@lru_cache(1)
def _known_errors() -> dict[tuple[object, ...], str | None]:
    """How queries fail: by query, columns, expressions that fail, and what these read.

    Functions that a query may call give the same for the same arguments, so this changes nothing
    but how often DuckDB is asked.
    """
    return {}


def _errors(queries: Sequence[str], columns: pa.RecordBatch) -> list[str | None]:
    """Return how each query fails for the row of its number alone; None where it does not."""
    _register(columns)
    errors: list[str | None] = []
    for row, query in enumerate(queries):
        try:
            # Nothing is fetched: a value that Python cannot hold is no failure of the query.
            _connection().execute(f"{query} WHERE {ROW} = {row}")
        except _FAILED as error:
            errors.append(_message(error))
        else:
            errors.append(None)
    return errors


def _kept(part: pa.RecordBatch) -> Any:
    condition = part.column(0)
    if not pa.types.is_boolean(condition.type):
        raise ValueError(f"WHERE is {condition.type}, and not true or false")
    return pc.fill_null(condition, fill_value=False).to_numpy(zero_copy_only=False)


def _message(error: Exception) -> str:
    """The first line, which does not quote the query."""
    # One of invalid text has no message in Python 3.11.2.
    return (str(error) or type(error).__name__).split("\n")[0][:_MAX_MESSAGE]
