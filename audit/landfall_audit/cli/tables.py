"""``landfall audit --tables``: compares tables with the landed objects that they are to have."""

import argparse
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict

import msgspec
from rich.console import Console
from rich.markup import escape

from landfall_audit import Fault, FaultKind
from landfall_audit.buckets import open_buckets
from landfall_audit.cli import console
from landfall_audit.errors import AuditReason, AuditRetry, AuditStalled
from landfall_audit.ledger.inventory import Inventory
from landfall_audit.spec import AuditedGroup
from landfall_audit.tables import TableResult
from landfall_audit.tables.table_check import TABLE_TYPES, TableChecks

_COUNTS = (
    "expected",
    "found",
    "missing",
    "duplicate",
    "corrupted",
    "outdated",
    "foreign",
)
_WRONG = _COUNTS[2:]
_COLUMNS = 1 + len(_COUNTS)
_OF_OBJECTS = (FaultKind.LEDGER, FaultKind.REPLACED)
"""Faults of a ledger by which it is not sure which objects count."""
_OTHER_ARGUMENTS = ("generation", "partitions", "require_all")


class NoTables(Exception):  # noqa: N818  # states a fact, like StopIteration
    """No table could be compared."""


class FaultyTables(Exception):  # noqa: N818
    """Something is wrong, and was printed."""


def compare(arguments: argparse.Namespace, group: AuditedGroup) -> bool:
    """Compare the tables of a group, and print the findings; returns whether all can be compared.

    Raises:
        NoTables: there is nothing to compare.
        FaultyTables: something is wrong.
        AuditRetry: nothing is wrong in what was compared, and some table was not available.
        AuditStalled: SPEC_INVALID, an argument has no meaning for tables, or an option is wrong.
    """
    _check(arguments)
    bucket = open_buckets(group.spec)
    with closing(Inventory(bucket, group.metadata.name)) as inventory:
        faults = [fault for fault in inventory.faults if fault.kind in _OF_OBJECTS]
        with closing(TableChecks(group, bucket, inventory)) as checks:
            _require(group, arguments.topics, checks.topics())
            with console.progress("objects") as progress:
                results = [*checks.results(arguments.topics, progress)]
    if not results:
        raise NoTables("none of its publishers of Delta or Iceberg has a table of these topics")
    if arguments.json:
        console.out().print(_json(results, faults), markup=False)
    else:
        _show(console.out(), results, faults)
    if faults or not all(result.is_whole for result in results):
        raise FaultyTables
    if errors := [result.error for result in results if result.error]:
        raise AuditRetry(errors[0])
    if not any(result.is_compared for result in results):
        raise NoTables("none of the tables can be compared")
    return not any(result.unchecked for result in results)


def _check(arguments: argparse.Namespace) -> None:
    for name in _OTHER_ARGUMENTS:
        if getattr(arguments, name) not in {None, False}:
            option = f"--{name.replace('_', '-')}"
            raise AuditStalled(
                AuditReason.SPEC_INVALID,
                f"{option}: a table is compared as a whole, with objects and not with Kafka",
            )


def _require(group: AuditedGroup, topics: Sequence[str], known: frozenset[str]) -> None:
    if not any(publisher.type in TABLE_TYPES for publisher in group.spec.publish):
        raise NoTables(f"spec.publish of {group.metadata.name} has no Delta or Iceberg tables")
    for topic in topics:
        if topic not in known:
            raise NoTables(f"the group {group.metadata.name} has landed nothing of topic {topic}")


def _show(out: Console, results: Sequence[TableResult], faults: Sequence[Fault]) -> None:
    shown = console.table(">through", *(f">{name}" for name in _COUNTS))
    shown.add_column("table", overflow="fold")
    for result in results:
        counts = [*map(console.count, _counts(result))] if result.is_compared else [""] * _COLUMNS
        style = "" if result.is_whole else "red"
        shown.add_row(*counts, escape(result.table), style=style)
    out.print(shown)
    for result in results:
        _show_rows(out, result)
    for fault in [*faults, *(fault for result in results for fault in result.faults)]:
        out.print(f"[red]{escape(str(fault))}[/red]")
    compared = [result for result in results if result.is_compared]
    tables = console.counted(len(compared), "table")
    if faults or not all(result.is_whole for result in results):
        out.print(f"[red]FAULTS were found[/red] in {tables}")
    elif not compared:
        out.print("[red]nothing was compared[/red]")
    else:
        rows = console.counted(sum(result.expected for result in compared), "row")
        out.print(f"[green]no fault found[/green] in {tables} of {rows}")


def _show_rows(out: Console, result: TableResult) -> None:
    table = escape(result.table)
    for kind in _WRONG:
        if number := getattr(result, kind):
            places = result.rows.get(kind, [])
            more = (
                f" and {console.count(number - len(places))} more" if number > len(places) else ""
            )
            out.print(f"[red]{kind} in {table}: {' '.join(places)}{more}[/red]")
    if result.added:
        rows = console.counted(result.added, "row")
        out.print(
            f"[yellow]{rows} without an offset in {table}: another program added them[/yellow]"
        )
    if result.unchecked:
        out.print(f"[yellow]unchecked: {table}: {escape(result.unchecked)}[/yellow]")


def _counts(result: TableResult) -> list[int]:
    return [result.through, *(getattr(result, name) for name in _COUNTS)]


def _json(results: Sequence[TableResult], faults: Sequence[Fault]) -> str:
    whole = not faults and all(result.is_whole for result in results)
    return msgspec.json.encode(
        {
            "whole": whole and any(result.is_compared for result in results),
            "tables": [asdict(result) for result in results],
            "faults": [asdict(fault) for fault in faults],
        }
    ).decode()
