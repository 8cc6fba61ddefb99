"""``landfall sql``: answers a query over landed rows, and over what has not landed yet."""

import argparse
import csv
import io
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from rich.markup import escape

from landfall.api.contract import LANE, ExitCode
from landfall.cli.group_store import GroupStore
from landfall.cli.text import console
from landfall.formats.typed_rows import plain_rows
from landfall.reading import LandedGroup
from landfall.reading.files import Choice
from landfall.reading.queries import answer

if TYPE_CHECKING:
    import duckdb

_MOST_ROWS = 1_000
"""How many rows a table shows."""
_AT_ONCE = 1_000
"""How many rows are converted at once."""
_NUMBERS = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "FLOAT", "DOUBLE"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
}
"""DuckDB's types of numbers."""
_JSON = msgspec.json.Encoder(decimal_format="number")
"""Sums of integers are decimals, which a floating-point number would change."""


def sql(arguments: argparse.Namespace) -> ExitCode:
    """Print the rows of the query.

    Raises:
        Stalled: SPEC_INVALID, the spec or the query is not usable; LEDGER_BROKEN; OBJECT_LOST, an
            object is gone or damaged.
        Retry: the store or Kafka does not answer.
        NothingToCheck: there is no ledger.
    """
    opened = GroupStore.of(arguments.group)
    spec, lane = opened.group.spec, (opened.name, LANE)
    group = LandedGroup(opened.store, spec.output, lane, opened.group, arguments.plugin)
    if group.slot < 0 and not arguments.tail:
        raise console.no_ledger(opened.name, spec.ledger_root.url)
    with answer(group, arguments.query, tail=arguments.tail, **_choice(arguments)) as rows:
        if rows is None:
            return ExitCode.OK
        if arguments.json:
            _print_json(rows)
        elif arguments.csv:
            _print_csv(rows)
        else:
            _print_table(rows)
    return ExitCode.OK


def _choice(arguments: argparse.Namespace) -> Choice:
    choice = Choice()
    if arguments.output_partition:
        choice["output_partition"] = arguments.output_partition.strip("/")
    if arguments.where:
        values: dict[str, list[str]] = {}
        for name, value in arguments.where:
            values.setdefault(name, []).append(value)
        choice["where"] = values
    if arguments.start:
        choice["since"] = arguments.start
    if arguments.until:
        choice["until"] = arguments.until
    return choice


def _print_json(rows: "duckdb.DuckDBPyRelation") -> None:
    out = console.out()
    for batch in _renamed(rows).to_arrow_reader(_AT_ONCE):
        for row in plain_rows(batch):
            values = {name: console.printable(value) for name, value in row.items()}
            out.print(_JSON.encode(values).decode(), markup=False)


def _print_csv(rows: "duckdb.DuckDBPyRelation") -> None:
    out = console.out()
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="")
    for row in chain([rows.columns], _fetched(_as_text(rows))):
        writer.writerow(row)
        out.print(line.getvalue(), markup=False)
        line.seek(0)
        line.truncate()


def _print_table(rows: "duckdb.DuckDBPyRelation") -> None:
    shown = console.table(
        *(
            f">{escape(name)}" if _is_number(str(type_)) else escape(name)
            for name, type_ in zip(rows.columns, rows.types, strict=True)
        )
    )
    found = list(_fetched(_as_text(rows.limit(_MOST_ROWS + 1))))
    for row in found[:_MOST_ROWS]:
        shown.add_row(*("NULL" if value is None else escape(value) for value in row))
    console.out().print(shown)
    if len(found) > _MOST_ROWS:
        console.err().print(
            f"landfall: these are the first {console.count(_MOST_ROWS)} rows; "
            "--json and --csv print all"
        )


def _is_number(type_: str) -> bool:
    """Return whether values of one of DuckDB's types are numbers; a list of numbers is none."""
    return type_.rstrip("(),0123456789 ").upper() in _NUMBERS


def _renamed(rows: "duckdb.DuckDBPyRelation") -> "duckdb.DuckDBPyRelation":
    """The same rows; of two columns with one name the second has another one."""
    return _of(rows, "*")


def _as_text(rows: "duckdb.DuckDBPyRelation") -> "duckdb.DuckDBPyRelation":
    """The same rows with each value as DuckDB writes it."""
    return _of(rows, "CAST(COLUMNS(*) AS VARCHAR)")


def _of(rows: "duckdb.DuckDBPyRelation", columns: str) -> "duckdb.DuckDBPyRelation":
    made = rows.query("found", f"SELECT {columns} FROM found")  # noqa: S608  # of this module
    assert made is not None  # it is a query
    return made


def _fetched(rows: "duckdb.DuckDBPyRelation") -> Iterator[tuple[str | None, ...]]:
    """Yield rows of texts; memory holds a part of them."""
    for batch in rows.to_arrow_reader(_AT_ONCE):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
