"""A ledger of Parquet objects, and tables that they are published to."""

import io
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError
from examples.plugins.object_index import ObjectIndex
from examples.plugins.object_index import Options as ObjectIndexOptions
from pyarrow.fs import LocalFileSystem

from landfall import ledger
from landfall.api.spec import parse_group
from landfall.errors import Retry
from landfall.lane import Lane
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject
from landfall.publish import Stretch
from landfall.publish.context import Context
from landfall.publish.cursor import PublisherCursor
from landfall.publish.delta.copied_log import StoreLogs
from landfall.publish.delta.files import LandedFiles
from landfall.publish.delta.logs import StorageLogs, TableLogs
from landfall.publish.delta.tables import DeltaSettings, DeltaTables
from landfall.publish.following import Follower
from landfall.publish.iceberg.catalog import Connection
from landfall.publish.iceberg.options import IcebergTableSettings
from landfall.publish.iceberg.tables import IcebergTables
from landfall.publish.s3_access import Recent
from landfall.publish.tables import Next, TablePublisher, Tables
from landfall.store import Store
from landfall.store.file import FileStore
from landfall.store.urls import open_store
from tests.support.kubernetes.groups import document
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger, replace_header

TRIES = 20
NOTHING = Stretch(-1, -1, ())
DAY, TIMESTAMP = datetime(2026, 11, 21, tzinfo=UTC), pa.timestamp("us", "UTC")
CLICKS, ORDERS = TopicPartition("clicks", 0), TopicPartition("orders", 0)


def until_published(publish: Callable[[], object]) -> None:
    """Publish, and try again what is to be tried again, as a driver does.

    Raises:
        Retry: the last try ended so, too.
    """
    for _ in range(TRIES):
        try:
            publish()
        except Retry as error:
            last = error
            time.sleep(0.05)
        else:
            return
    raise last


def publish_at_once(publish: Callable[[], object], count: int) -> None:
    """Publish in so many threads; what is to be tried again is left to the next pass."""

    def run(_: int) -> None:
        with suppress(Retry):
            publish()

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, range(count)))


def parquet(offsets: Sequence[int]) -> bytes:
    """A file with a row for each offset."""
    body = io.BytesIO()
    rows = {
        "_offset": pa.array(offsets, pa.int64()),
        "name": [f"n{o}" for o in offsets],
        "_timestamp": pa.array([DAY + timedelta(minutes=o) for o in offsets], TIMESTAMP),
    }
    pq.write_table(pa.table(rows), body)
    return body.getvalue()


def table_of(landed: LandedObject) -> str | None:
    """The table of an object: its topic, in the namespace lake."""
    return f"lake.{landed.upload.key.partition('/')[0]}"


@dataclass
class Landed:
    """A group's ledger in a folder, whose objects are Parquet files of two topics.

    Attributes:
        root: has the output root in its folder ``landed``, unless ``output`` names another.
        rows: how many rows each table shall have.
        output: fields of ``spec.output`` beside the format, such as ``url`` and ``s3``.
    """

    root: Path
    rows: dict[str, int] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        described = document()
        described["spec"]["output"] = self.described({})
        self.store: Store = open_store(parse_group(described).spec.output)
        self.sample = SampleLedger(store=self.store, body=parquet, extension=".parquet")
        self.sample.open().add(CLICKS, ORDERS)

    def described(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """The output of the group."""
        return {"url": self.url("").rstrip("/"), "format": "Parquet", **self.output, **more}

    def url(self, key: str) -> str:
        """The URL of an object."""
        root = self.output.get("url", f"file://{self.root}/landed")
        return f"{root}/{key}"

    def land(self, *tps: TopicPartition, rows: int = 10) -> "Landed":
        """Land more records of topics; nothing says yet that they are visible."""
        starts = {tp: self.sample.state.checkpoint[tp] for tp in tps}
        self.sample.commit(*(self.sample.land(tp, at, at + rows) for tp, at in starts.items()))
        self.rows |= {f"lake.{tp.topic}": at + rows for tp, at in starts.items()}
        return self

    def keys(self, topic: str) -> list[str]:
        """The keys of a topic's objects."""
        return [stat.key for stat in self.store.list_after(f"{topic}/")]

    def settle(self) -> "Landed":
        """Record that everything so far is applied."""
        applied = self.sample.state.seq
        self.sample.append(
            lambda h: ledger.Snapshot(header=replace_header(h, applied), key="k", sha256="s")
        )
        return self

    def publisher(self, tables: Tables, store: Store | None = None) -> TablePublisher:
        """A publisher with a cursor of its own, as a process has."""
        cursor = PublisherCursor.of(store or self.store, (GROUP, LANE), "lake", "a catalog")
        follows = isinstance(tables, DeltaTables | IcebergTables)
        return TablePublisher(self.follower, cursor, tables, table_of, follows_replacements=follows)

    def context(self, kind: str, options: Mapping[str, object], **spec: Any) -> Context:
        """What a publisher of the group is built from; fields of the spec as of ``document``."""
        entry: dict[str, Any] = {"name": "lake", "type": kind, "options": dict(options)}
        entry |= spec.pop("entry", {})
        described = document(GROUP, publish=[entry], **spec)
        described["spec"]["output"] = self.described(spec.get("output", {}))
        group = parse_group(described)
        return Context(group, group.spec.publish[0], LANE, self.store)

    def follower(self) -> Follower:
        """A reader that has read nothing yet, and reads little at a time."""
        return Follower(Lane(self.store, GROUP, LANE), max_objects=3)


@dataclass
class _Table:
    rows: list[int]
    through: int = -1


@dataclass
class MemoryTables:
    """A destination in memory: offsets as rows, read from the landed files."""

    read: Callable[[str], bytes | None]
    tables: dict[str, _Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def through(self, table: str) -> int:
        return self.tables.get(table, _Table([])).through

    def append(self, table: str, after: Next) -> int:
        while True:
            loaded = self.tables.get(table)
            stretch = after(loaded.through if loaded else -1)
            if not stretch.objects:
                return loaded.through if loaded else -1
            rows = [*(loaded.rows if loaded else ()), *self._rows(stretch)]
            with self._lock:
                if self.tables.get(table) is loaded:
                    self.tables[table] = _Table(rows, stretch.through)
                    return stretch.through

    def refill(self, table: str, stretch: Stretch) -> None:
        rows = self._rows(stretch)
        with self._lock:
            self.tables[table] = _Table(rows, stretch.through)

    def _rows(self, stretch: Stretch) -> list[int]:
        rows = list[int]()
        for each in stretch.objects:
            body = self.read(each.landed.upload.key)
            assert body is not None
            rows += pq.read_table(io.BytesIO(body))["_offset"].to_pylist()
        return rows

    def clear(self, table: str) -> None:
        self.tables.pop(table, None)


@dataclass
class Lake:
    """A destination under test.

    Attributes:
        landed: what is published.
        connect: connects to the destination anew, as another process does.
        offsets: of the rows of a table.
        drop: drops a table.
        is_refilled_by_reset: whether a reset brings the rows at once, not with the next pass.
    """

    landed: Landed
    connect: Callable[[], Tables]
    offsets: Callable[[str], list[int]]
    drop: Callable[[str], object]
    is_refilled_by_reset: bool = True

    def publish(self) -> None:
        """Publish everything that is visible, as a process that has just started."""
        until_published(
            lambda: self.landed.publisher(self.connect()).publish(self.landed.follower())
        )

    def is_whole(self) -> bool:
        """Whether each table has each row once."""
        return all(
            sorted(self.offsets(table)) == list(range(rows))
            for table, rows in self.landed.rows.items()
        )


def memory_lake(root: Path) -> Lake:
    landed = Landed(root)
    tables = MemoryTables(landed.store.read)

    def offsets(table: str) -> list[int]:
        found = tables.tables.get(table)
        return found.rows if found else []

    return Lake(landed, lambda: tables, offsets, tables.tables.pop)


def index_lake(root: Path) -> Lake:
    """The plug-in of the examples: an index of objects in a file of SQLite."""
    landed, file = Landed(root), str(root / "index.db")
    context = landed.context("examples.plugins.object_index:ObjectIndex", {"file": file})

    def offsets(table: str) -> list[int]:
        with closing(sqlite3.connect(file)) as database:
            query = "select url from objects where topic = ? order by slot"
            urls = [url for (url,) in database.execute(query, (table,))]
        tables = (pq.read_table(url.removeprefix("file://")) for url in urls)
        return [offset for each in tables for offset in each["_offset"].to_pylist()]

    index = ObjectIndex(ObjectIndexOptions(file, timeout=60), context)
    return Lake(landed, lambda: index, offsets, lambda table: index.refill(table, NOTHING))


def iceberg_lake(root: Path) -> Lake:
    """Tables of a catalog in a file of SQLite."""
    uri = f"sqlite:///{root}/catalog.db?timeout=60"
    properties = {"type": "sql", "uri": uri, "warehouse": f"file://{root}/warehouse"}

    def connection() -> Connection:
        return Connection("lake", lambda: (properties, ()))

    def catalog() -> Any:
        return connection().catalog()

    landed = Landed(root)

    def offsets(table: str) -> list[int]:
        found = catalog()
        if not found.table_exists(table):
            return []
        rows: list[int] = found.load_table(table).scan().to_arrow()["_offset"].to_pylist()
        return rows

    return Lake(
        landed,
        lambda: IcebergTables(connection(), (GROUP, LANE), landed.url, IcebergTableSettings({})),
        offsets,
        lambda table: catalog().drop_table(table),
    )


class LogStore(FileStore):
    """A store that has only the tables of a Delta publisher."""


def copied_delta_lake(root: Path) -> Lake:
    """The same tables; delta-rs writes to copies of their logs."""
    return delta_lake(root, StoreLogs(f"{root}/tables", lambda: LogStore(root / "tables")))


def delta_lake(root: Path, logs: TableLogs | None = None) -> Lake:
    """Tables in folders beside the landed files, read by a query engine."""
    landed = Landed(root)
    (root / "tables").mkdir()

    def connect() -> Tables:
        files = LandedFiles(LocalFileSystem(), f"{root}/landed", landed.url)
        return DeltaFolders(
            Recent(lambda: files),
            landed.url(""),
            (GROUP, LANE),
            replace(logs) if isinstance(logs, StoreLogs) else StorageLogs(Recent(dict)),
            DeltaSettings(),
            root / "tables",
            check_new=lambda _: None,  # the folder is beside the output root
        )

    def folder(table: str) -> Path:
        return root / "tables" / table

    def offsets(table: str) -> list[int]:
        return delta_rows(str(folder(table)), "_offset")

    return Lake(landed, connect, offsets, lambda table: shutil.rmtree(folder(table)))


@dataclass(frozen=True)
class DeltaFolders(DeltaTables):
    """Delta tables by the names of folders, as the suite calls tables."""

    folder: Path

    def through(self, table: str) -> int:
        return super().through(f"{self.folder}/{table}")

    def append(self, table: str, after: Next) -> int:
        return super().append(f"{self.folder}/{table}", after)

    def refill(self, table: str, stretch: Stretch) -> None:
        super().refill(f"{self.folder}/{table}", stretch)


def delta_rows(table: str, column: str, **storage: str) -> list[Any]:
    """The values of a column, by a reader that is not the writer: DataFusion on delta-kernel."""
    try:
        found = QueryBuilder().register("t", DeltaTable(table, storage_options=storage))
    except TableNotFoundError:
        return []
    rows: list[Any] = pa.table(found.execute(f"select {column} from t").read_all())[0].to_pylist()
    return rows


class Killed(BaseException):
    """Ends a publisher as a kill does: nothing of it goes on."""


@contextmanager
def killed_at(target: type, calls: Sequence[str], number: int) -> Iterator[list[int]]:
    """End whoever makes the ``number``-th of these calls, before or after it had its effect.

    Even numbers end it before, odd ones after. Yields a list with the count of calls.
    """
    before = {name: getattr(target, name) for name in calls}
    made = [0]

    def wrapped(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            made[0] += 2
            if made[0] - 2 == number:
                raise Killed
            result = before[name](*args, **kwargs)
            if made[0] - 1 == number:
                raise Killed
            return result

        return call

    for name in calls:
        setattr(target, name, wrapped(name))
    try:
        yield made
    finally:
        for name, call in before.items():
            setattr(target, name, call)
