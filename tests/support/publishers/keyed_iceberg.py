"""Keyed Iceberg tables of a catalog in a file of SQLite."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from landfall.publish.iceberg.catalog import Connection
from landfall.publish.iceberg.expiry import SnapshotLimits
from landfall.publish.iceberg.keyed_tables import KeyedIcebergTables
from landfall.publish.iceberg.options import IcebergTableSettings
from landfall.publish.iceberg.tables import IcebergTables
from landfall.publish.keyed.index import FOLDER
from landfall.publish.keyed.rows import KeySettings
from landfall.publish.tables import TablePublisher, Tables
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.publishers.iceberg_deletes import add_position_deletes
from tests.support.publishers.keyed import SHOWN, SMALL, TABLE, Change, Changes, KeyedLake, NewRows
from tests.support.publishers.lake import Lake, iceberg_lake

_LANDED = {"_kafka_partition": "_partition", "_deleted_": "_deleted"}
"""The names that columns have in landed files, where the table has another one."""


def keyed_iceberg_lake(root: Path) -> Lake:
    """Iceberg tables whose keys all differ, so that all rows count."""
    lake = iceberg_lake(root)
    lake.landed.sample.body = Changes(lambda _, offset: Change(offset)).body
    keys = KeySettings(("id",))

    def connect() -> Tables:
        made = cast("IcebergTables", lake.connect())
        return KeyedIcebergTables(made.connection, made.lane, made.url, made.settings, keys=keys)

    return replace(lake, connect=connect)


@dataclass
class KeyedIcebergLake(KeyedLake):
    """A keyed Iceberg table."""

    limits: SnapshotLimits = SnapshotLimits()  # noqa: RUF009  # it is frozen

    @property
    def connection(self) -> Connection:
        uri = f"sqlite:///{self.root}/catalog.db?timeout=60"
        properties = {"type": "sql", "uri": uri, "warehouse": f"file://{self.root}/warehouse"}
        return Connection("lake", lambda: (properties, ()))

    def tables(self) -> KeyedIcebergTables:
        settings = IcebergTableSettings({}, limits=self.limits)
        parts = self.connection, (GROUP, LANE), self.landed.url, settings
        return KeyedIcebergTables(*parts, keys=self.keys, sizes=SMALL)

    def tables_of_all_rows(self) -> IcebergTables:
        keyed = self.tables()
        return IcebergTables(keyed.connection, keyed.lane, keyed.url, keyed.settings)

    def publisher(self, tables: Tables | None = None) -> TablePublisher:
        return self.landed.publisher(tables or self.tables())

    def in_tables_of(self, other: KeyedLake, *, keyed: bool = True) -> TablePublisher:
        assert isinstance(other, KeyedIcebergLake)
        tables = self.tables() if keyed else self.tables_of_all_rows()
        lane = ("other", LANE)
        return self.landed.publisher(replace(tables, connection=other.connection, lane=lane))

    @property
    def loaded(self) -> Any:
        """The table, as pyiceberg loads it."""
        return self.connection.catalog().load_table(TABLE)

    def rows(
        self, select: Sequence[str] = SHOWN, snapshot: int | None = None
    ) -> list[dict[str, Any]]:
        found = self.loaded.scan(snapshot_id=snapshot).to_arrow()
        table = found.rename_columns([_LANDED.get(name, name) for name in found.column_names])
        rows: list[dict[str, Any]] = table.select([*select]).to_pylist()
        return rows

    @property
    def index(self) -> Path:
        return Path(self.loaded.location().removeprefix("file://")) / FOLDER

    def roll_back(self) -> None:
        table = self.loaded
        before = table.current_snapshot().parent_snapshot_id
        table.manage_snapshots().rollback_to_snapshot(before).commit()

    def deletes(self) -> list[Path]:
        """The files of deletes that the table has."""
        tasks = self.loaded.scan().plan_files()
        paths = {file.file_path for task in tasks for file in task.delete_files}
        return [Path(path.removeprefix("file://")) for path in sorted(paths)]

    def lose_deletes(self) -> None:
        for path in self.deletes():
            path.unlink()

    def delete_as_others(self, number: int, row: int) -> None:
        """Delete a row by a file of deletes that may be of any data file of the table."""
        path = self.landed.url(self.live()[number].key)
        add_position_deletes(self.loaded, self.root / "deletes.parquet", {path: [row]})

    def append_as_others(self, row: Mapping[str, Any]) -> None:
        table = self.loaded
        columns = table.schema().as_arrow()
        known = {name: row.get(_LANDED.get(name, name)) for name in columns.names}
        table.append(pa.Table.from_pylist([known], columns))

    def rewrite_as_others(self, change: NewRows = list) -> None:
        table = self.loaded
        rows = table.scan().to_arrow()
        files = [task.file for task in table.scan().plan_files()]
        with table.transaction() as transaction:
            with transaction.update_snapshot().overwrite() as overwrite:
                for each in files:
                    overwrite.delete_data_file(each)
            transaction.append(pa.Table.from_pylist(change(rows.to_pylist()), rows.schema))

    def add_as_others(self, *ids: int) -> None:
        for number in ids:
            self.append_as_others({"id": number})
