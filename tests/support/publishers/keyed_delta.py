"""Keyed Delta tables, read by a reader that is not the writer: DataFusion on delta-kernel."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from pyarrow.fs import LocalFileSystem

from landfall.publish.delta.copied_log import StoreLogs
from landfall.publish.delta.files import LandedFiles
from landfall.publish.delta.keyed import KeyedTables
from landfall.publish.delta.logs import StorageLogs
from landfall.publish.delta.tables import DeltaSettings, DeltaTables
from landfall.publish.delta.vectors import VectorFile
from landfall.publish.keyed.index import FOLDER
from landfall.publish.keyed.rows import KeySettings
from landfall.publish.s3_access import Recent
from landfall.publish.tables import TablePublisher, Tables
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.publishers.keyed import (
    SCHEMA,
    SHOWN,
    SMALL,
    TABLE,
    Change,
    Changes,
    KeyedLake,
    NewRows,
)
from tests.support.publishers.lake import DeltaFolders, Lake, LogStore, copied_delta_lake


@dataclass(frozen=True)
class KeyedFolders(DeltaFolders, KeyedTables):
    """Keyed Delta tables by the names of folders."""


def keyed_delta_lake(root: Path) -> Lake:
    """Delta tables whose keys all differ, so that all rows count."""
    lake = copied_delta_lake(root)
    lake.landed.sample.body = Changes(lambda _, offset: Change(offset)).body

    def connect() -> Tables:
        made = cast("DeltaFolders", lake.connect())
        return KeyedFolders(
            made.files,
            made.root,
            made.lane,
            cast("StoreLogs", made.logs),
            made.settings,
            folder=made.folder,
            check_new=made.check_new,
            keys=KeySettings(("id",)),
        )

    return replace(lake, connect=connect)


@dataclass
class KeyedDeltaLake(KeyedLake):
    """A keyed Delta table."""

    store: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        (self.root / "tables").mkdir(exist_ok=True)

    @property
    def folder(self) -> Path:
        return self.root / "tables" / TABLE

    def tables(self) -> KeyedTables:
        files = LandedFiles(LocalFileSystem(), f"{self.root}/landed", self.landed.url)
        store = self.store or LogStore(self.root)
        return KeyedTables(
            Recent(lambda: files),
            self.landed.url(""),
            (GROUP, LANE),
            StoreLogs(f"file://{self.root}", lambda: store),
            DeltaSettings(),
            check_new=lambda _: None,
            keys=self.keys,
            sizes=SMALL,
        )

    def tables_of_all_rows(self) -> DeltaTables:
        keyed = self.tables()
        logs = StorageLogs(Recent(dict))
        parts = keyed.files, keyed.root, keyed.lane, logs, keyed.settings
        return DeltaTables(*parts, check_new=keyed.check_new)

    def publisher(self, tables: Tables | None = None) -> TablePublisher:
        found = self.landed.publisher(tables or self.tables())
        return replace(found, table_of=lambda _: f"file://{self.folder}")

    def in_tables_of(self, other: KeyedLake, *, keyed: bool = True) -> TablePublisher:
        assert isinstance(other, KeyedDeltaLake)
        logs = other.tables().logs if keyed else other.tables_of_all_rows().logs
        tables: Any = self.tables() if keyed else self.tables_of_all_rows()
        found = self.landed.publisher(replace(tables, logs=logs, lane=("other", LANE)))
        return replace(found, table_of=lambda _: f"file://{other.folder}")

    def rows(
        self, select: Sequence[str] = SHOWN, version: int | None = None
    ) -> list[dict[str, Any]]:
        found = QueryBuilder().register("t", DeltaTable(str(self.folder), version=version))
        query = f"select {', '.join(select)} from t"
        rows: list[dict[str, Any]] = pa.table(found.execute(query).read_all()).to_pylist()
        return rows

    @property
    def index(self) -> Path:
        return self.folder / FOLDER

    def roll_back(self) -> None:
        """Restore the table as Spark does; delta-rs looks for all files in the table's folder."""
        last, entries = self.version(), list[dict[str, Any]]()
        for action in self.commit_of(last):
            if add := action.get("add"):
                entries.append({"remove": {**add, "deletionTimestamp": 0}})
            if removed := action.get("remove"):
                entries.append({"add": {**removed, "modificationTime": 0}})
        restored = {
            "timestamp": 0,
            "operation": "RESTORE",
            "operationParameters": {"version": last - 1},
        }
        self.write_version({"commitInfo": restored}, *entries)

    def lose_deletes(self) -> None:
        for file in self.folder.glob("deletion_vector_*.bin"):
            file.unlink()

    def delete_as_others(self, number: int, row: int) -> None:
        name = Path(self.live()[number].key).name
        adds = [a["add"] for a in self.commit_of(self.version()) if name in str(a.get("add"))]
        vectors = VectorFile()
        vectors.add(np.array([row]))
        (self.folder / vectors.name).write_bytes(vectors.body)
        removed = {part: adds[0][part] for part in ("path", "deletionVector") if part in adds[0]}
        self.write_version(
            {"commitInfo": {"timestamp": 0, "operation": "DELETE"}},
            {"remove": {**removed, "deletionTimestamp": 0, "dataChange": True}},
            {"add": {**adds[0], "deletionVector": vectors.descriptors[0]}},
        )

    def append_as_others(self, row: Mapping[str, Any]) -> None:
        self._add_file(pa.Table.from_pylist([row], SCHEMA), "2026-11-21")

    def rewrite_as_others(self, change: NewRows = list) -> None:
        table = DeltaTable(str(self.folder))
        rows = pa.table(QueryBuilder().register("t", table).execute("select * from t").read_all())
        adds = [a["add"] for a in self.commit_of(self.version()) if "add" in a]
        removes = [{"remove": {**add, "deletionTimestamp": 0}} for add in adds]
        info = {"commitInfo": {"timestamp": 0, "operation": "OPTIMIZE"}}
        rows = rows.drop_columns(["dt"])
        made = pa.Table.from_pylist(change(rows.to_pylist()), rows.schema)
        self._add_file(made, "2026-11-21", info, *removes)

    def add_as_others(self, *ids: int) -> None:
        self._add_file(pa.table({"id": pa.array(ids, pa.int64())}), None)

    def _add_file(self, rows: pa.Table, day: str | None, *actions: Mapping[str, Any]) -> None:
        own = self.folder / "part-0.parquet"
        pq.write_table(rows, own)
        entry = {"path": own.name, "partitionValues": {"dt": day}, "size": own.stat().st_size}
        add = {**entry, "modificationTime": 0, "dataChange": not actions}
        self.write_version(*actions, {"add": add})

    def version(self) -> int:
        """The table's version."""
        return DeltaTable(str(self.folder)).version()

    def commit_of(self, version: int) -> list[dict[str, Any]]:
        """The actions of a version."""
        path = self.folder / f"_delta_log/{version:020}.json"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def write_version(self, *actions: Mapping[str, Any]) -> None:
        """Write the next version of the table's log, as another program does."""
        path = self.folder / f"_delta_log/{self.version() + 1:020}.json"
        path.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
