"""Makes the folders of landed objects partitions of tables: one step for each stretch.

Everything is added if it is absent, so a step may be taken any number of times, by any number of
publishers at once. Once the initial backfill of a table is complete, it gets the property
``landfall.<group>.<lane>.whole``. So a table that is new, or was dropped and recreated, first gets
everything from the ledger's start; later objects come with later steps.

Columns are only ever added: to the table first, then to the partitions that have an object with the
column. So a partition has the columns of all its objects, and readers find null in the remaining
ones.

Folders stay when objects in them are replaced, and so do their partitions. A replacement may be the
first object of its folder, which then becomes a partition.

A table that cannot be published does not block the rest: the step continues with the other tables,
and raises the error at its end.

Option ``partitions: WhenFinished`` adds partitions of complete hours and days only. Which objects a
stretch adds is then decided by ``Stretch.finished``: those whose period it completes, which are
listed in the store, and late ones of complete periods. Adding is idempotent, so a listing may
contain objects that a later slot makes visible.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from landfall.errors import DestinationAway, Reason, Stalled
from landfall.ledger.names.object_names import parse_key
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Part, Upload
from landfall.publish import Finished, Stretch, VisibleObject
from landfall.publish.catalog import (
    Catalog,
    Columns,
    Partition,
    Table,
    TableChanged,
    TableName,
    Values,
)
from landfall.publish.catalog.hive_types import missing, together
from landfall.publish.catalog.layout import Placed, TableLayout
from landfall.publish.context import Context
from landfall.publish.finished import Calendars
from landfall.publish.following import Follower

_MAX_LISTED = 100
"""Periods that are listed one by one; for more, the topic is listed as a whole."""
_QUARTER = 90 * 86_400_000


@dataclass
class FinishedOnly:
    """Chooses the objects of complete periods.

    Attributes:
        context: the group and its store.
    """

    context: Context

    def __post_init__(self) -> None:
        self._calendars = Calendars(self.context.group.spec)

    def check(self, topic: str) -> None:
        """Return if each directory of a topic's partitions can become complete.

        Raises:
            ValueError: none is; the message begins with the option.
        """
        calendar = self._calendars.of(topic)
        if calendar.is_empty or not all(p.directory for p in calendar.finished(0, _QUARTER)):
            raise ValueError(
                "option partitions: WhenFinished needs a route.pattern that begins with a date, "
                "such as dt={date}/hr={hour}"
            )

    def of(self, stretch: Stretch) -> Iterator[VisibleObject]:
        """The objects whose partitions are to be added with a stretch."""
        yield from self._calendars.late(stretch)
        for finished in stretch.finished:
            yield from self._made_complete(finished)

    def horizons(self, follower: Follower) -> dict[str, int]:
        """Up to when (ms) each topic is complete at the end of the ledger.

        Raises:
            Retry, Stalled: as ``Follower.stretches``.
        """
        found: dict[str, int] = {}
        for stretch in follower.stretches(-1):
            found |= {horizon.topic: horizon.until for horizon in stretch.finished}
        return found

    def complete(
        self, objects: Iterable[VisibleObject], horizons: dict[str, int]
    ) -> Iterator[VisibleObject]:
        """The objects whose period is over at the horizon of their topic."""
        for object_ in objects:
            name = parse_key(object_.key)
            until = horizons.get(name.topic, -1)
            if self._calendars.of(name.topic).is_over(name.output_partition, until):
                yield object_

    def _made_complete(self, finished: Finished) -> Iterator[VisibleObject]:
        calendar = self._calendars.of(finished.topic)
        prefixes = [f"{finished.topic}/"]
        if finished.before >= 0:
            shortest = calendar.units[-1]
            periods = calendar.finished(finished.before, finished.until)
            each = [f"{finished.topic}/{p.directory}/" for p in periods if p.unit is shortest]
            prefixes = each if len(each) <= _MAX_LISTED else prefixes
        for prefix in prefixes:
            for stat in self.context.store.list_after(prefix):
                try:
                    name = parse_key(stat.key)
                except ValueError:
                    continue  # a marker such as _SUCCESS
                if calendar.is_over(name.output_partition, finished.until):
                    yield _seen(stat.key, stat.size, finished)


def _seen(key: str, size: int, finished: Finished) -> VisibleObject:
    """Return a listed object; only its key and size are used."""
    landed = LandedObject(
        upload=Upload(key, "", (Part("", size),), ""),
        kind=ObjectKind.DATA,
        rows=0,
        first_offset=0,
        last_offset=0,
        crc32=0,
    )
    return VisibleObject(finished.slot, landed, finished.time)


_BATCH = 200
"""Partitions in one request."""
_KNOWN_SECONDS = 300.0
"""How long the state of a table is cached."""
_ATTEMPTS = 20


@dataclass
class _Known:
    """A table as it was found, and the columns of the partitions that were found."""

    table: Table
    until: float
    partitions: dict[Values, frozenset[str]] = field(default_factory=dict)


@dataclass
class PartitionStep:
    """Adds the partitions of landed objects to the tables of a catalog; see ``Step``.

    Attributes:
        catalog: has the tables.
        layout: the desired tables and partitions.
        new_follower: follows the ledger from its start.
        mark: the property of tables whose initial backfill is complete.
        create_tables: whether tables that do not exist are created.
        finished_only: chooses the objects of complete periods, if incomplete ones are to wait.
        now: seconds of a monotonic clock.
    """

    catalog: Catalog
    layout: TableLayout
    new_follower: Callable[[], Follower]
    mark: str
    create_tables: bool = True
    finished_only: FinishedOnly | None = None
    now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._known: dict[TableName, _Known] = {}
        self._through = -1

    def take(self, stretch: Stretch) -> int:
        """See ``Step``."""
        if stretch.after < self._through:
            self._known.clear()  # a publisher starts again, or the last step failed
        self._through = stretch.through
        failed: dict[TableName, Stalled] = {}
        by_table = self._by_table(self._chosen(stretch), failed)
        new: list[TableName] = []
        for name, placed in by_table.items():
            with _collected(name, failed):
                new += [name] if self._is_new(name, placed) else []
        if new:
            self._fill(new, failed)
        for name, placed in by_table.items():
            self._publish(name, placed, failed)
        if failed:
            raise next(iter(failed.values()))
        return len(stretch.objects)

    def preview(self, stretch: Stretch) -> Iterator[str]:
        """See ``Step``."""
        failed: dict[TableName, Stalled] = {}
        for name, placed in self._by_table(self._chosen(stretch), failed).items():
            table = self.catalog.load(name)
            wanted = self.layout.partitions(placed)
            if table is None:
                yield f"table {name}: create at {self.layout.table(name, placed, {}).location}"
            found = self.catalog.partitions(table, list(wanted)) if table else []
            absent = sorted(wanted.keys() - {partition.values for partition in found})
            yield from (f"table {name}: add partition {wanted[v].location}" for v in absent)
        yield from (f"{error}" for error in failed.values())

    def _chosen(self, stretch: Stretch) -> Iterable[VisibleObject]:
        return self.finished_only.of(stretch) if self.finished_only else stretch.objects

    def _by_table(
        self, objects: Iterable[VisibleObject], failed: dict[TableName, Stalled]
    ) -> dict[TableName, list[Placed]]:
        found: dict[TableName, list[Placed]] = {}
        for object_ in objects:
            name = parse_key(object_.key)
            table = self.layout.naming.name_of(name)
            with _collected(table, failed):
                if placed := self.layout.placed(object_, name):
                    found.setdefault(table, []).append(placed)
        return {name: placed for name, placed in found.items() if name not in failed}

    def _is_new(self, name: TableName, placed: list[Placed]) -> bool:
        """Return whether a table has to be filled from the ledger's start; it exists then."""
        known = self._known.get(name)
        if known is not None and self.now() < known.until:
            return False
        return self.mark not in self._found(name, placed).table.properties

    def _found(self, name: TableName, placed: list[Placed]) -> _Known:
        """The table as it is in the catalog, created if it was missing."""
        self._known.pop(name, None)
        table = self.catalog.load(name)
        if table is None:
            if not self.create_tables:
                raise _stalled(name, "does not exist, and option createTable is false")
            columns = self.layout.columns(placed)
            self.catalog.create(self.layout.table(name, placed, together(columns.values())))
            table = self.catalog.load(name)
        if table is None:
            raise DestinationAway(f"table {name} is not there although it was just created")
        self.layout.check(table, placed)
        self._known[name] = _Known(table, self.now() + _KNOWN_SECONDS)
        return self._known[name]

    def _fill(self, new: list[TableName], failed: dict[TableName, Stalled]) -> None:
        """Publish everything that is visible to tables that may not have it."""
        chosen = self.finished_only
        horizons = chosen.horizons(self.new_follower()) if chosen else {}
        for stretch in self.new_follower().remaining(-1):
            objects: Iterable[VisibleObject] = (
                o for o in stretch.objects if self._table_of(o) in new
            )
            by_table = self._by_table(
                chosen.complete(objects, horizons) if chosen else objects, failed
            )
            for name, placed in by_table.items():
                self._publish(name, placed, failed)
        for name in new:
            if name not in failed:
                with _collected(name, failed):
                    self._change(name, {}, {self.mark: "true"})

    def _table_of(self, each: VisibleObject) -> TableName | None:
        key = each.key
        if not self.layout.is_published(key):
            return None
        return self.layout.naming.name_of(parse_key(key))

    def _publish(
        self, name: TableName, placed: list[Placed], failed: dict[TableName, Stalled]
    ) -> None:
        """Add objects to their table."""
        if name in failed:
            return
        with _collected(name, failed):
            columns = self.layout.columns(placed)
            known = self._known.get(name) or self._found(name, placed)
            self._change(name, together(columns.values()), {})
            known = self._known[name]
            wanted = self.layout.partitions(placed)
            self._add(known, [p for v, p in wanted.items() if v not in known.partitions])
            self._widen(known, _needed(placed, columns), wanted)

    def _change(self, name: TableName, columns: Columns, properties: Mapping[str, str]) -> None:
        """Add columns and properties that a table lacks."""
        known = self._known[name]
        for _ in range(_ATTEMPTS):
            if _has(known.table, columns, properties):
                return
            # A metastore takes a table as it was minutes ago, and so undoes what another program
            # has changed since.
            table = known.table = self._loaded(name)
            if _has(table, columns, properties):
                return
            wanted = {**table.columns, **missing(table.columns, columns)}
            with suppress(TableChanged):
                self.catalog.change(table, wanted, {**table.properties, **properties})
            known.table = self._loaded(name)
        raise DestinationAway(f"table {name} is changed by another program again and again")

    def _loaded(self, name: TableName) -> Table:
        found = self.catalog.load(name)
        if found is None:
            raise DestinationAway(f"table {name} was dropped")
        return found

    def _add(self, known: _Known, new: list[Partition]) -> None:
        """Add partitions that are not known to exist."""
        table = known.table
        for start in range(0, len(new), _BATCH):
            batch = [
                _with_columns(partition, table.columns) for partition in new[start : start + _BATCH]
            ]
            found = self.catalog.partitions(table, [partition.values for partition in batch])
            there = {partition.values for partition in found}
            absent = [partition for partition in batch if partition.values not in there]
            if absent:
                self.catalog.add(table, absent)
                # Another client may have been first, with another location or fewer columns.
                found += self.catalog.partitions(table, [partition.values for partition in absent])
            self.layout.check_partitions(table, batch, found)
            known.partitions |= {
                partition.values: frozenset(partition.columns) for partition in found
            }

    def _widen(
        self,
        known: _Known,
        needed: Mapping[Values, set[str]],
        wanted: Mapping[Values, Partition],
    ) -> None:
        """Give partitions the columns of their objects that they lack."""
        lacking = [v for v, names in needed.items() if not names <= known.partitions.get(v, names)]
        for start in range(0, len(lacking), _BATCH):
            self._widen_batch(known, lacking[start : start + _BATCH], wanted)

    def _widen_batch(
        self, known: _Known, lacking: list[Values], wanted: Mapping[Values, Partition]
    ) -> None:
        for _ in range(_ATTEMPTS):
            table = known.table
            found = self.catalog.partitions(table, lacking)
            self.layout.check_partitions(
                table, [wanted[partition.values] for partition in found], found
            )
            self.catalog.widen(table, found, table.columns)
            known.partitions |= {partition.values: frozenset(table.columns) for partition in found}
            loaded = self.catalog.load(table.name)
            # Another client may have widened the partitions meanwhile, to later columns.
            if loaded is None or loaded.columns.keys() == table.columns.keys():
                return
            known.table = loaded


@contextmanager
def _collected(name: TableName, failed: dict[TableName, Stalled]) -> Iterator[None]:
    """Keep the error of a table, so that the step continues with the other tables."""
    try:
        yield
    except Stalled as error:
        failed.setdefault(name, error)
    except ValueError as error:
        failed.setdefault(name, _stalled(name, str(error)))


def _stalled(name: TableName, problem: str) -> Stalled:
    return Stalled(Reason.DESTINATION_CONFLICT, f"table {name}: {problem}")


def _has(table: Table, columns: Columns, properties: Mapping[str, str]) -> bool:
    is_marked = properties.items() <= table.properties.items()
    return is_marked and not missing(table.columns, columns)


def _with_columns(partition: Partition, columns: Columns) -> Partition:
    return Partition(partition.values, partition.location, columns)


def _needed(placed: list[Placed], columns: Mapping[str, Columns]) -> dict[Values, set[str]]:
    found: dict[Values, set[str]] = {}
    for placement in placed:
        found.setdefault(placement.place.values, set()).update(columns[placement.key])
    return found
