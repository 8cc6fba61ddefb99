"""A group that lands by the product's own code, and publishes tables that other engines read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from landfall.ledger.offsets import TopicPartition
from landfall.publish import Publisher
from landfall.publish.building import publisher
from landfall.publish.context import Context
from landfall.publish.following import Follower
from landfall.store.urls import open_store
from tests.support.driver.slice_landing import Rows
from tests.support.ledger.landed_group import Backup, backup_group
from tests.support.publishers.engines import Engines
from tests.support.publishers.engines import Rows as Found
from tests.support.publishers.table_places import TablePlaces

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
    fields: dict[str, Any] = {
        "id": number,
        "customer": f"c{number % 3}",
        "amount": number / 4,
        "ts": at,
    }
    fields["day"] = f"{DAYS[number % 2]:%Y-%m-%d}"
    return number, json.dumps(fields).encode()


@dataclass
class PublishedOrders:
    """A topic that lands as typed Parquet files by date, and a table of it.

    Attributes:
        places: where landed files and tables are.
        kind: the type of the publisher.
        engines: what reads the table.
        columns: ``spec.decode.columns``.
        options: more options of the publisher.
        topic: a topic of its own, where a catalog is shared by tests.
        route: the pattern of the route, unless the table is around its objects.
        is_plain_spark: whether Spark knows S3 as ``s3a`` alone, as Apache's does.
    """

    places: TablePlaces
    kind: str
    engines: Engines
    columns: list[dict[str, Any]] = field(default_factory=lambda: COLUMNS)
    options: dict[str, Any] = field(default_factory=dict)
    topic: str = "orders"
    route: str = "dt={date}"
    is_plain_spark: bool = False

    def __post_init__(self) -> None:
        output = {**self.places.output, "format": "Parquet"}
        options = self.places.options(self.kind) | self.options
        spec = {
            "decode": {
                "format": "Json",
                "timestamp": {"field": "ts"},
                "columns": self.columns,
            },
            "route": {"pattern": "_landed/dt={date}" if self.places.is_around else self.route},
            "publish": [{"name": "lake", "type": self.kind, "options": options}],
        }
        store = open_store(backup_group(output, **spec).spec.output)
        self.tp = TopicPartition(self.topic, 0)
        log: dict[TopicPartition, Rows] = {self.tp: [order(number) for number in range(1000)]}
        self.landed = Backup(log, output, spec, store)

    def land(self, *bounds: int) -> "PublishedOrders":
        """Land ranges of offsets, one COMMIT each, and let the ledger say that all is visible."""
        self.landed.land(*bounds, tp=self.tp)
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
        return self.engines.ask(
            "spark",
            query.format(t=self.spark_table),
            session=f"{self.places.url}{self.places.rest}{self.places.glue}",
            conf=self._conf(),
        )

    @property
    def spark_table(self) -> str:
        """The name of the table in Spark."""
        if self.kind == "Delta":
            return f"delta.`{self.location}`"
        return f"landfall.lake.{self.topic}"

    @property
    def location(self) -> str:
        """The folder of the Delta table, as engines have to name it."""
        url = f"{self.places.delta}/{self.topic}".removeprefix("file://")
        return url.replace("s3://", "s3a://") if self.is_plain_spark else url

    def _conf(self) -> dict[str, str]:
        """The settings of a session of Spark."""
        s3, catalog, name = self.places.s3, self.places.catalog, "spark.sql.catalog.landfall"
        conf = dict[str, str]()
        if s3:
            conf |= {
                "fs.s3a.endpoint": s3["endpoint"],
                "fs.s3a.access.key": s3["key"],
                "fs.s3a.secret.key": s3["secret"],
            }
            if not self.is_plain_spark:
                conf["fs.s3.impl"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
        if self.kind == "Delta":
            return conf
        if self.places.rest:
            conf |= {f"{name}.type": "rest", f"{name}.uri": catalog["uri"]}
        elif self.places.glue:
            conf |= {f"{name}.type": "glue", f"{name}.glue.endpoint": self.places.glue}
        else:
            conf |= {
                f"{name}.type": "jdbc",
                f"{name}.uri": catalog["uri"].replace("sqlite:///", "jdbc:sqlite:"),
                f"{name}.jdbc.schema-version": "V1",
            }
        if s3:
            conf |= {
                f"{name}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                f"{name}.s3.endpoint": s3["endpoint"],
                f"{name}.s3.path-style-access": "true",
                f"{name}.s3.access-key-id": s3["key"],
                f"{name}.s3.secret-access-key": s3["secret"],
                f"{name}.client.region": "us-east-1",
            }
        return {
            **conf,
            f"{name}.warehouse": catalog["warehouse"],
            name: "org.apache.iceberg.spark.SparkCatalog",
            f"{name}.cache-enabled": "false",
        }

    @property
    def metadata(self) -> str:
        """The current metadata of the Iceberg table."""
        found: str = self.places.load(self.topic).metadata_location
        return found

    def duckdb(self, query: str) -> Found:
        """Ask DuckDB; ``{t}`` is the table."""
        scan = (
            f"delta_scan('{self.places.delta}/{self.topic}')"
            if self.kind == "Delta"
            else f"iceberg_scan('{self.metadata}')"
        )
        return self.engines.ask(
            "duckdb",
            query.format(t=scan),
            session=str(self.places.root) if self.places.bucket else "",
            s3=self.places.s3,
        )

    def ask(self, engine: str, query: str) -> Found:
        """Ask another engine; ``{t}`` is the table."""
        place: dict[str, Any] = {"table": self.location, "format": "delta"}
        if self.kind == "Iceberg":
            place = {"table": self.metadata, "format": "iceberg"}
            if self.places.rest:
                catalog = {**self.places.files, **self.places.catalog}
                place |= {"table": f"lake.{self.topic}", "catalog": catalog}
        return self.engines.ask(engine, query.format(t="t"), s3=self.places.s3, **place)


def rows_of(numbers: Sequence[int]) -> Found:
    """The rows that a table has of these orders, in the columns that the group declares."""
    found: Found = []
    for number in numbers:
        fields = json.loads(order(number)[1])
        del fields["day"]  # only tests that declare it have it
        at = datetime.fromtimestamp(fields["ts"] / 1000, UTC).replace(tzinfo=None)
        found.append(fields | {"ts": at.isoformat(timespec="microseconds") + "Z"})
    return found
