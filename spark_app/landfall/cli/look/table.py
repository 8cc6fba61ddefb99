"""``landfall table``: the state of the tables that a group publishes, driver or not."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import msgspec
from rich.markup import escape

from landfall.api.contract import LANE, ExitCode
from landfall.api.spec.compact import Compact
from landfall.api.spec.publish import PublisherEntry
from landfall.api.values import plural, time_text
from landfall.cli.group_store import GroupStore, map_concurrently
from landfall.cli.text import console
from landfall.errors import LandfallError, Stalled
from landfall.lane.replacements import applied_by, read_replaced
from landfall.ledger import State
from landfall.publish import DueObjects
from landfall.publish.building import has_tables, publisher
from landfall.publish.context import Context
from landfall.publish.health import Details, HasTables, Question, TableHealth


@dataclass(frozen=True, slots=True)
class TableReport:
    """A table, as ``table --json`` shows it: the fields of ``TableHealth``, and lags.

    Attributes:
        lag_slots: slots of the ledger after ``slot``.
        lag_seconds: the age of the oldest object that the table does not have; 0 if it has all.
    """

    lag_slots: int
    lag_seconds: float
    health: TableHealth

    def document(self) -> dict[str, object]:
        """Return the fields as one object of JSON."""
        lags = {"lag_slots": self.lag_slots, "lag_seconds": self.lag_seconds}
        return {**asdict(self.health), **lags}


@dataclass(frozen=True, slots=True)
class PublisherReport:
    """A publisher with tables.

    Attributes:
        slot: the last slot of the ledger whose effects are in all tables, as far as is known; -1
            for none.
        lag_slots: slots of the ledger after it.
        tables: None if the type of publisher does not show its tables.
        error: why the publisher is not known; empty if it is.
        needs_action: whether a user has to resolve that.
    """

    name: str
    type: str
    slot: int = -1
    lag_slots: int = 0
    tables: tuple[TableReport, ...] | None = None
    error: str = ""
    needs_action: bool = False


@dataclass(frozen=True, slots=True)
class GroupTables:
    """The tables of a group. It has the fields of ``table --json``.

    Attributes:
        slots: of the ledger.
        time: when the tables were looked at.
        small_bytes: files below this size count as small.
        publishers: the publishers with tables.
    """

    group: str
    slots: int
    time: datetime
    small_bytes: int
    publishers: tuple[PublisherReport, ...]


def table(arguments: argparse.Namespace) -> ExitCode:
    """Print the state of the tables.

    Returns:
        FAULT if a table waits for a user, UNAVAILABLE if the state of one is not known.

    Raises:
        Stalled: SPEC_INVALID, there is no such publisher; LEDGER_BROKEN.
        Retry: the store does not answer.
        NothingToCheck: there is no ledger, or no publisher has tables.
    """
    opened = GroupStore.of(arguments.group)
    found = read_tables(opened, arguments.names, datetime.now(UTC))
    if arguments.json:
        publishers = [
            {
                **asdict(report),
                "tables": report.tables and [one.document() for one in report.tables],
            }
            for report in found.publishers
        ]
        document = {**asdict(found), "publishers": publishers}
        console.out().print(msgspec.json.encode(document).decode(), markup=False)
    else:
        _show(found, str(arguments.group))
    return _code(found)


def read_tables(opened: GroupStore, names: Sequence[str], now: datetime) -> GroupTables:
    """Read the ledger, and the tables of the publishers that are named, or of all.

    Raises:
        Stalled, Retry, NothingToCheck: as ``table``.
    """
    entries = [entry for entry in opened.publishers(names) if names or has_tables(entry.type)]
    if not entries:
        raise console.NothingToCheck(f"the group {opened.name} publishes no tables")
    state = opened.lane.read()
    if state.seq < 0:
        raise console.no_ledger(opened.name, opened.group.spec.ledger_root.url)
    small = (opened.group.spec.compact or Compact()).below
    question = Question(now, small, _retired(opened, state))
    return GroupTables(
        group=opened.name,
        slots=state.seq + 1,
        time=now,
        small_bytes=small,
        publishers=tuple(_publisher(opened, entry, state, question) for entry in entries),
    )


def _retired(opened: GroupStore, state: State) -> tuple[DueObjects, ...]:
    """The replaced objects that are not deleted yet, by REPLACE."""

    def due(slot: int) -> DueObjects:
        applied = applied_by(opened.lane, state, slot)
        listed = read_replaced(opened.store, slot, state.retiring[slot].listed)
        return DueObjects(applied.slot, applied.time, listed.retire)

    return tuple(map_concurrently(due, sorted(state.retiring), opened.new_pool))


def _publisher(
    opened: GroupStore, entry: PublisherEntry, state: State, question: Question
) -> PublisherReport:
    try:
        built = publisher(opened.group, entry, opened.store)
        slot, tables = built.position(), None
        if isinstance(built, HasTables):
            follower = Context(opened.group, entry, LANE, opened.store).follower()
            found = built.health(follower, question)
            tables = tuple(_with_lags(health, state, question.now) for health in found)
    except LandfallError as error:
        return PublisherReport(
            entry.name, entry.type, error=str(error), needs_action=isinstance(error, Stalled)
        )
    return PublisherReport(entry.name, entry.type, slot, max(state.seq - slot, 0), tables)


def _with_lags(health: TableHealth, state: State, now: datetime) -> TableReport:
    since = console.instant(health.waiting_since) if health.waiting_since else None
    seconds = max((now - since).total_seconds(), 0.0) if since else 0.0
    return TableReport(max(state.seq - health.slot, 0), seconds, health)


def _code(found: GroupTables) -> ExitCode:
    tables = [
        table_report.health for report in found.publishers for table_report in report.tables or ()
    ]
    if any(table_report.failed or table_report.needs_action for table_report in tables):
        return ExitCode.FAULT
    if any(report.needs_action for report in found.publishers):
        return ExitCode.FAULT
    if any(table_report.error for table_report in tables) or any(
        report.error for report in found.publishers
    ):
        return ExitCode.UNAVAILABLE
    return ExitCode.OK


# ------------------------------------------------------------------------------------- for people


def _show(found: GroupTables, file: str) -> None:
    out = console.out()
    for report in found.publishers:
        head = escape(f"{report.name} ({report.type})")
        if report.error:
            console.print_error(f"{report.name} ({report.type})", report.error)
            continue
        at = f"through slot {report.slot} of {found.slots - 1}"
        if report.tables is None:
            out.print(f"{head}: {at}; this type does not show its tables")
            continue
        out.print(f"{head}: {console.counted(len(report.tables), 'table')}, {at}")
        if report.tables:
            out.print(_rows(report.tables, found))
        for line in (
            line
            for table_report in report.tables
            for line in _lines(table_report.health, found.time)
        ):
            out.print(f"  {line}", markup=False)
        for table_report in report.tables:
            _show_problem(table_report.health, f"landfall publish {file} {report.name}")


def _rows(tables: Sequence[TableReport], found: GroupTables) -> object:
    small = f">below {console.size(found.small_bytes)}"
    shown = console.table(
        *("table", ">files", ">size", small, ">versions", "oldest", ">metadata"),
        *(">stored twice", "last care", "lacks"),
    )
    for table_report in tables:
        health = table_report.health
        shown.add_row(
            escape(health.table),
            *_columns(health.details, found.time),
            console.size(health.retained.bytes),
            escape(_care(health.details, found.time)),
            _lacks(table_report),
        )
    return shown


def _columns(details: Details | None, now: datetime) -> list[str]:
    if details is None:
        return ["-"] * 6
    oldest = details.versions.oldest
    size = details.metadata.bytes
    return [
        console.count(details.files.count),
        console.size(details.files.bytes),
        console.count(details.files.small),
        console.count(details.versions.count),
        _ago(oldest, now) if oldest else "-",
        console.size(details.metadata.current_bytes if size is None else size),
    ]


def _care(details: Details | None, now: datetime) -> str:
    if details is None:
        return "-"
    if not details.care.maintained:
        return "off"
    return _ago(details.care.last, now) if details.care.last else "none yet"


def _lacks(report: TableReport) -> str:
    health = report.health
    if health.error:
        return "?"
    if not health.lacks_any:
        return "nothing"
    parts = [
        console.counted(health.waiting_objects, "object") if health.waiting_objects else "",
        console.counted(health.waiting_replacements, "REPLACE")
        if health.waiting_replacements
        else "",
        time_text(int(report.lag_seconds)),
    ]
    return ", ".join(part for part in parts if part)


def _lines(health: TableHealth, now: datetime) -> Iterator[str]:
    """Yield a line for each fact of a table that no column shows."""
    retained, details = health.retained, health.details
    if retained.objects:
        why = retained.why or "the grace period, or a publisher that has not followed yet"
        yield f"{health.table}: {plural(retained.objects, 'replaced object')} kept: {why}"
    if details is None:
        if health.exists is False and not health.lacks_any:
            yield f"{health.table}: does not exist"
        return
    if details.files.deletes:
        yield f"{health.table}: {plural(details.files.deletes, 'file')} of deleted rows"
    if details.versions.refs:
        yield f"{health.table}: branches and tags: {', '.join(details.versions.refs)}"
    if care := details.care.outcome:
        yield f"{health.table}: {care}, {_ago(details.care.last, now)}"
    if details.care.garbage:
        files = plural(details.care.garbage, "file")
        yield f"{health.table}: {files} of metadata to be deleted next time"


def _show_problem(health: TableHealth, command: str) -> None:
    if health.error:
        console.print_error(health.table, health.error)
    elif health.failed:
        why = f"the last pass did not bring it up to date; `{command}` shows why"
        console.print_error(health.table, why)


def _ago(time: datetime | None, now: datetime) -> str:
    return f"{time_text(int((now - time).total_seconds()))} ago" if time else "never"
