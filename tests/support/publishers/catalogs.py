"""Catalogs of tables of files under test: a real Hive metastore, and one in memory."""

import io
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from landfall.publish.building import publisher
from landfall.publish.catalog import (
    Catalog,
    Columns,
    Partition,
    Table,
    TableChanged,
    TableName,
    Values,
)
from landfall.publish.catalog.options import TableOptions, step_publisher
from landfall.publish.catalog.step import PartitionStep
from landfall.publish.steps import StepPublisher
from tests.support.publishers.hive import HiveServer
from tests.support.publishers.lake import Landed


@dataclass
class MemoryCatalog:
    """A catalog in memory; ``tables`` and ``parts`` are what is in it."""

    tables: dict[TableName, Table] = field(default_factory=dict)
    parts: dict[TableName, dict[Values, Partition]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def load(self, name: TableName) -> Table | None:
        self.calls.append("load")
        return self.tables.get(name)

    def create(self, table: Table) -> None:
        self.calls.append("create")
        if table.name not in self.tables:
            self.tables[table.name], self.parts[table.name] = table, {}

    def change(self, table: Table, columns: Columns, properties: Mapping[str, str]) -> None:
        self.calls.append("change")
        with self._lock:
            if self.tables.get(table.name) is not table:
                raise TableChanged
            self.tables[table.name] = replace(table, columns=columns, properties=properties)

    def partitions(self, table: Table, values: Sequence[Values]) -> list[Partition]:
        self.calls.append("partitions")
        there = self.parts.get(table.name, {})
        return [there[each] for each in values if each in there]

    def add(self, table: Table, partitions: Sequence[Partition]) -> None:
        self.calls.append("add")
        for each in partitions:
            self.parts[table.name].setdefault(each.values, each)

    def widen(self, table: Table, partitions: Sequence[Partition], columns: Columns) -> None:
        self.calls.append("widen")
        for each in partitions:
            self.parts[table.name][each.values] = replace(each, columns=columns)


@dataclass
class Warehouse:
    """A catalog under test.

    Attributes:
        landed: what is published.
        catalog: connects anew, as another process does.
        database: where tables are.
        publisher: as of a process that has just started; takes options.
    """

    landed: Landed
    catalog: Callable[[], Catalog]
    database: str
    publisher: Callable[..., StepPublisher]

    def publish(self, **options: Any) -> None:
        """Publish everything that is visible, as a process that has just started."""
        self.publisher(**options).publish(self.landed.follower())

    def table(self, name: str) -> Table:
        """A table, which exists."""
        found = self._reader.load(TableName(self.database, name))
        assert found is not None
        return found

    def partition(self, table: str, *values: str) -> Partition:
        """A partition of a table, which exists."""
        (found,) = self._reader.partitions(self.table(table), [values])
        return found

    def has(self, table: str, *values: str) -> bool:
        """Whether a table has a partition."""
        return bool(self._reader.partitions(self.table(table), [values]))

    @cached_property
    def _reader(self) -> Catalog:
        return self.catalog()


def memory_warehouse(landed: Landed) -> Warehouse:
    catalog = MemoryCatalog()

    def make(spec: Mapping[str, Any] | None = None, **options: Any) -> StepPublisher:
        context = landed.context("Hive", {}, **(spec or {}))
        read = TableOptions(**{"database": "lake", **options})
        return step_publisher(read, context, catalog, "s3a", ("memory",))

    return Warehouse(landed, lambda: catalog, "lake", make)


def hive_warehouse(landed: Landed, server: HiveServer) -> Warehouse:
    """Tables of a Hive metastore."""
    return _warehouse(landed, "Hive", metastore=server.uri, database=server.create_database())


def glue_warehouse(landed: Landed) -> Warehouse:
    """Tables of moto's Glue, which must be active."""
    import boto3

    database, region = "lake", "eu-west-1"
    boto3.client("glue", region).create_database(DatabaseInput={"Name": database})
    return _warehouse(landed, "Glue", region=region, database=database)


def _warehouse(landed: Landed, kind: str, *, database: str, **where: str) -> Warehouse:
    def make(spec: Mapping[str, Any] | None = None, **options: Any) -> StepPublisher:
        named = {_camel(name): value for name, value in options.items()}
        context = landed.context(kind, {**where, "database": database, **named}, **(spec or {}))
        made = publisher(context.group, context.entry, landed.store)
        assert isinstance(made, StepPublisher)
        return made

    def catalog() -> Catalog:
        step = make().step
        assert isinstance(step, PartitionStep)
        return step.catalog

    return Warehouse(landed, catalog, database, make)


def parquet_of(**columns: pa.DataType) -> Callable[[Sequence[int]], bytes]:
    """Makes files with these columns, which are null, and the offsets."""

    def body(offsets: Sequence[int]) -> bytes:
        arrays = {"_offset": pa.array(offsets, pa.int64())}
        arrays |= {name: pa.nulls(len(offsets), type_) for name, type_ in columns.items()}
        written = io.BytesIO()
        pq.write_table(pa.table(arrays), written)
        return written.getvalue()

    return body


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
