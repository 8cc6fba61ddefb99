"""A group that lands by the product's own code, and publishes tables in folders of this machine."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from landfall.ledger.offsets import TopicPartition
from landfall.publish import Publisher
from landfall.publish.building import publisher
from landfall.publish.context import Context
from landfall.publish.following import Follower
from landfall.store.urls import open_store
from tests.support.engines import Engines
from tests.support.engines import Rows as Found
from tests.support.landed_group import Backup, backup_group
from tests.support.slice_landing import Rows

ORDERS = TopicPartition("orders", 0)
DAYS = [datetime(2026, 11, day, 4, tzinfo=UTC) for day in (20, 21)]
COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "type": "Int64", "nullable": False},
    {"name": "customer", "type": "String"},
    {"name": "amount", "type": "Float64"},
    {"name": "ts", "type": "Timestamp"},
]


def order(number: int) -> tuple[int, bytes]:
    """The record at an offset: every second one is of the next day."""
    at = int(DAYS[number % 2].timestamp() * 1000) + number
    fields = {"id": number, "customer": f"c{number % 3}", "amount": number / 4, "ts": at}
    return number, json.dumps(fields).encode()


@dataclass
class PublishedOrders:
    """A topic that lands as typed Parquet files by date, and a table of it.

    Attributes:
        root: a folder: ``landed`` is the output, ``catalog.db`` and ``warehouse`` are Iceberg's.
        kind: the type of the publisher.
        engines: what reads the table.
        columns: ``spec.decode.columns``.
        options: more options of the publisher.
        is_around: whether the folder of a Delta table has the topic's objects in it.
    """

    root: Path
    kind: str
    engines: Engines
    columns: list[dict[str, Any]] = field(default_factory=lambda: COLUMNS)
    options: dict[str, Any] = field(default_factory=dict)
    is_around: bool = False

    def __post_init__(self) -> None:
        output = {"url": f"file://{self.root}/landed", "format": "Parquet"}
        spec = {
            "decode": {
                "format": "Json",
                "timestamp": {"field": "ts"},
                "columns": self.columns,
            },
            "route": {"pattern": "_landed/dt={date}" if self.is_around else "dt={date}"},
            "publish": [{"name": "lake", "type": self.kind, "options": self.places | self.options}],
        }
        store = open_store(backup_group(output, **spec).spec.output)
        log: dict[TopicPartition, Rows] = {ORDERS: [order(number) for number in range(1000)]}
        self.landed = Backup(log, output, spec, store)

    @property
    def places(self) -> dict[str, Any]:
        """The options that say where the table is."""
        if self.kind == "Delta":
            return {"table": f"file://{self.folder.parent}/{{topic}}"}
        return {"table": "lake.{topic}", "catalog": self.catalog}

    @property
    def folder(self) -> Path:
        """The folder of the Delta table."""
        return self.root / ("landed" if self.is_around else "delta") / "orders"

    @property
    def catalog(self) -> dict[str, str]:
        """What connects to the Iceberg catalog."""
        uri = f"sqlite:///{self.root}/catalog.db"
        return {"type": "sql", "uri": uri, "warehouse": f"file://{self.root}/warehouse"}

    def land(self, *bounds: int) -> "PublishedOrders":
        """Land ranges of offsets, one COMMIT each, and let the ledger say that all is visible."""
        self.landed.land(*bounds, tp=ORDERS)
        self.landed.settle()
        return self

    def evolve(self, columns: list[dict[str, Any]]) -> "PublishedOrders":
        """Land with other columns, in the next generation."""
        self.landed.spec["decode"]["columns"] = columns
        self.landed.open(generation=self.landed.group.spec.generation + 1)
        return self

    def publish(self) -> "PublishedOrders":
        """Publish all that is visible, as a process that has just started."""
        built, follower = self._publisher()
        built.publish(follower)
        return self

    def rebuild(self) -> "PublishedOrders":
        """Do what ``landfall publish --rebuild`` does."""
        built, follower = self._publisher()
        built.reset(follower)
        return self.publish()

    def _publisher(self) -> tuple[Publisher, Follower]:
        group = self.landed.group
        context = Context(group, group.spec.publish[0], "0", self.landed.store)
        return publisher(group, context.entry, context.store), context.follower()

    # ------------------------------------------------------------------------------ other engines

    def spark(self, query: str) -> Found:
        """Ask Spark; ``{t}`` is the table."""
        if self.kind == "Delta":
            table = f"delta.`{self.folder}`"
            return self.engines.ask("spark", query.format(t=table))
        name = "spark.sql.catalog.landfall"
        conf = {
            name: "org.apache.iceberg.spark.SparkCatalog",
            f"{name}.type": "jdbc",
            f"{name}.uri": f"jdbc:sqlite:{self.root}/catalog.db",
            f"{name}.warehouse": f"file://{self.root}/warehouse",
            f"{name}.jdbc.schema-version": "V1",
            f"{name}.cache-enabled": "false",
        }
        query = query.format(t="landfall.lake.orders")
        return self.engines.ask("spark", query, session=str(self.root), conf=conf)

    @property
    def metadata(self) -> str:
        """The current metadata of the Iceberg table."""
        from pyiceberg.catalog import load_catalog

        return load_catalog("landfall", **self.catalog).load_table("lake.orders").metadata_location

    def duckdb(self, query: str) -> Found:
        """Ask DuckDB; ``{t}`` is the table."""
        scan = (
            f"delta_scan('file://{self.folder}')"
            if self.kind == "Delta"
            else f"iceberg_scan('{self.metadata}')"
        )
        return self.engines.ask("duckdb", query.format(t=scan))

    def ask(self, engine: str, query: str) -> Found:
        """Ask another engine; ``{t}`` is the table."""
        place = (
            {"table": str(self.folder), "format": "delta"}
            if self.kind == "Delta"
            else {"table": self.metadata, "format": "iceberg"}
        )
        return self.engines.ask(engine, query.format(t="t"), **place)


def rows_of(numbers: Sequence[int]) -> Found:
    """The rows that a table has of these orders, in the columns that the group declares."""
    found: Found = []
    for number in numbers:
        fields = json.loads(order(number)[1])
        at = datetime.fromtimestamp(fields["ts"] / 1000, UTC).replace(tzinfo=None)
        found.append(fields | {"ts": at.isoformat(timespec="microseconds") + "Z"})
    return found
