"""Keyed Iceberg tables: what their snapshots have; test_keyed_tables has what they show."""

import re
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, ManifestContent

from landfall.errors import Reason, Stalled
from landfall.publish.building import publisher
from landfall.publish.iceberg import maintenance
from landfall.publish.iceberg.expiry import SnapshotLimits
from landfall.publish.iceberg.keyed_files import SUFFIX
from landfall.publish.iceberg.position import index_key
from landfall.publish.keyed.index import FOLDER, names_in
from landfall.publish.keyed.rows import KeySettings
from landfall.publish.table_position import unpack
from tests.support.publishers.iceberg_deletes import FILE_PATH, add_deletes_file
from tests.support.publishers.keyed import TABLE, Change, Changes, listed, random_changes
from tests.support.publishers.keyed_iceberg import KeyedIcebergLake
from tests.support.publishers.lake import Killed, killed_at

KEY = "landfall.shop.0.through"


@pytest.fixture
def lake(tmp_path: Path) -> KeyedIcebergLake:
    return KeyedIcebergLake(tmp_path, Changes(random_changes(1)))


def grow(lake: KeyedIcebergLake, passes: int, rows: int = 6) -> None:
    for _ in range(passes):
        lake.land(rows)
        lake.publish()


def operations(lake: KeyedIcebergLake) -> list[str]:
    return [each.summary.operation.value for each in lake.loaded.metadata.snapshots]


def manifests_of_deletes(lake: KeyedIcebergLake) -> list[Any]:
    table = lake.loaded
    found = table.current_snapshot().manifests(table.io)
    return [each for each in found if each.content is ManifestContent.DELETES]


def delete_files(lake: KeyedIcebergLake) -> list[Any]:
    """The live entries of files of deletes, dangling ones among them."""
    io = lake.loaded.io
    manifests = manifests_of_deletes(lake)
    return [e.data_file for each in manifests for e in each.fetch_manifest_entry(io)]


def own_files(lake: KeyedIcebergLake) -> set[Path]:
    return {*lake.root.glob(f"warehouse/**/*{SUFFIX}"), *lake.index.iterdir()}


def test_a_data_file_has_one_file_of_deletes_at_most(tmp_path: Path) -> None:
    lake = KeyedIcebergLake(tmp_path, Changes(lambda _, offset: Change(offset % 6)))
    grow(lake, 1)

    grow(lake, 3, rows=2)

    assert lake.shown() == lake.expected()
    assert operations(lake) == ["append", "overwrite", "overwrite", "overwrite"]
    (deletes,) = delete_files(lake)
    assert deletes.lower_bounds == deletes.upper_bounds
    assert deletes.record_count == 6
    of = lake.landed.url(lake.live()[0].key)
    assert deletes.upper_bounds[FILE_PATH].decode() == of
    rows = pq.read_table(deletes.file_path.removeprefix("file://")).to_pydict()
    assert rows == {"file_path": [of] * 6, "pos": [*range(6)]}
    summary = lake.loaded.current_snapshot().summary.additional_properties
    assert (summary["total-position-deletes"], summary["total-delete-files"]) == ("6", "1")


def test_a_pass_without_changes_of_old_keys_only_appends(tmp_path: Path) -> None:
    lake = KeyedIcebergLake(tmp_path, Changes(lambda _, offset: Change(offset)))

    grow(lake, 2)

    assert operations(lake) == ["append", "append"]
    assert delete_files(lake) == []


def test_a_merge_reads_no_keys_and_is_skipped_by_streams(lake: KeyedIcebergLake) -> None:
    grow(lake, 2, rows=12)
    before = lake.shown()
    lake.merge(0, 1)

    lake.publish()

    assert lake.shown() == before
    assert operations(lake)[-1] == "replace"
    assert len(delete_files(lake)) == 1, "those of the merged objects have left with them"


def test_manifests_of_deletes_are_merged(tmp_path: Path) -> None:
    lake = KeyedIcebergLake(tmp_path, Changes(lambda _, offset: Change(offset % 4)))

    counts = list[int]()
    for _ in range(26):
        grow(lake, 1, rows=5)
        counts.append(len(manifests_of_deletes(lake)))

    assert 15 < max(counts) < 21
    assert counts[-1] < 10
    assert lake.shown() == lake.expected()
    assert len(delete_files(lake)) == 26


@pytest.mark.parametrize("is_folded_again", [False, True])
def test_deletes_of_several_data_files_stay_until_none_needs_them(
    tmp_path: Path, is_folded_again: bool
) -> None:
    lake = KeyedIcebergLake(tmp_path, Changes(lambda _, offset: Change(offset)))
    grow(lake, 2)
    lake.delete_as_others(0, 2)
    assert sorted(lake.shown()) == [0, 1, *range(3, 12)]
    if is_folded_again:
        for part in lake.index.iterdir():
            part.unlink()
    lake.changes.at = lambda _, offset: Change(offset - 12)

    grow(lake, 1, rows=2)

    deletes = [*map(Path, (file.file_path for file in delete_files(lake)))]
    assert ("deletes.parquet" in {path.name for path in deletes}) is not is_folded_again
    assert (2 in lake.shown()) is is_folded_again, "folded again, it counts as in the ledger"
    lake.merge(0, 1)
    lake.publish()
    names = {Path(file.file_path).name for file in delete_files(lake)}
    assert "deletes.parquet" not in names
    assert (2 in lake.shown()) is is_folded_again


def test_rows_that_are_deleted_by_their_values_stop_the_table(lake: KeyedIcebergLake) -> None:
    grow(lake, 1)
    table = lake.loaded
    number = table.schema().find_field("_offset").field_id
    field = pa.field("_offset", pa.int64(), False, {"PARQUET:field_id": str(number)})
    rows = pa.table({"_offset": [1]}, schema=pa.schema([field]))
    content = DataFileContent.EQUALITY_DELETES
    add_deletes_file(table, lake.root / "values.parquet", rows, content, equality_ids=[number])
    lake.land(12)

    with pytest.raises(Stalled, match=r"deleted rows by their values.*--rebuild") as e:
        lake.publish()
    assert e.value.reason is Reason.DESTINATION_CONFLICT

    lake.publisher().reset(lake.landed.follower())
    assert lake.shown() == lake.expected()


def test_a_column_that_was_renamed_is_the_same_key(lake: KeyedIcebergLake) -> None:
    grow(lake, 2)
    with lake.loaded.update_schema() as update:
        update.rename_column("id", "customer")
    rows = lake.loaded.scan().to_arrow()
    lake.rewrite_as_others()
    for part in lake.index.iterdir():
        part.unlink()

    grow(lake, 1)

    found = lake.loaded.scan().to_arrow()
    assert found.column_names == rows.column_names
    pairs = zip(found["customer"].to_pylist(), found["_offset"].to_pylist(), strict=True)
    assert {key: (0, offset) for key, offset in pairs} == lake.expected()


def test_a_table_of_format_1_is_refused(lake: KeyedIcebergLake) -> None:
    lake.land(6)
    settings = lake.tables_of_all_rows().settings
    old = lake.tables_of_all_rows()
    object.__setattr__(old, "settings", type(settings)({"format-version": "1"}))
    lake.publisher(old).publish(lake.landed.follower())
    lake.land(6)

    for change in (lake.publish, lambda: lake.publisher().reset(lake.landed.follower())):
        with pytest.raises(Stalled, match="format version 1 of Iceberg, in which no row"):
            change()
        assert len(lake.rows()) == 6


def test_deletes_are_in_the_partition_of_their_data_file(tmp_path: Path) -> None:
    lake = KeyedIcebergLake(tmp_path, Changes(lambda _, offset: Change(offset % 3)))
    context = lake.landed.context("Iceberg", described(lake, partitionBy=["_partition"]))
    for _ in range(3):
        lake.land(5)
        publisher(context.group, context.entry, context.store).publish(context.follower())

    assert lake.shown() == lake.expected()
    table = lake.loaded
    assert [field.name for field in table.spec().fields] == ["_kafka_partition"]
    assert [file.partition[0] for file in delete_files(lake)] == [0, 0, 0]


def test_a_rebuild_as_a_table_of_all_rows_forgets_the_index(lake: KeyedIcebergLake) -> None:
    grow(lake, 2)
    lake.publisher(lake.tables_of_all_rows()).reset(lake.landed.follower())
    assert len(lake.rows()) == 12
    assert lake.loaded.properties[index_key(KEY)] == ""
    assert delete_files(lake) == []

    grow(lake, 1)

    assert lake.shown() == lake.expected()


def described(lake: KeyedIcebergLake, **more: Any) -> dict[str, Any]:
    uri = f"sqlite:///{lake.root}/catalog.db"
    catalog = {"type": "sql", "uri": uri, "warehouse": f"file://{lake.root}/warehouse"}
    return {"catalog": {"name": "lake", **catalog}, "mode": "Keyed", "key": ["id"], **more}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"key": []}, "options.key: expected the columns of a key, each once"),
        ({"mode": "Append"}, "options.key: is of tables with mode: Keyed"),
        ({"table": "lake.all"}, "a keyed table is of one topic"),
        ({"properties": {"format-version": 1}}, "format-version must be 2 where mode is Keyed"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    lake: KeyedIcebergLake, more: dict[str, Any], message: str
) -> None:
    context = lake.landed.context("Iceberg", described(lake, **more))

    with pytest.raises(Stalled, match=re.escape(message)):
        publisher(context.group, context.entry, context.store)


# --------------------------------------------------------------------------- kills and conflicts


@pytest.mark.parametrize("number", range(0, 130, 7))
def test_whatever_call_it_dies_at_the_table_is_right(lake: KeyedIcebergLake, number: int) -> None:
    lake.land(12)
    lake.publish()
    lake.land(12)
    lake.merge(0, 1)
    lake.land(12)

    with killed_at(PyArrowFileIO, ("new_input", "new_output", "delete"), number), suppress(Killed):
        lake.publish()
    assert len({row["id"] for row in lake.rows()}) == len(lake.rows())
    lake.publish()

    assert lake.shown() == lake.expected()


def test_a_table_that_another_client_changes_meanwhile_is_read_again(
    lake: KeyedIcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(lake, 2)
    commit, seen = SqlCatalog.commit_table, list[bool]()

    def late(catalog: SqlCatalog, table: Any, requirements: Any, updates: Any) -> Any:
        if not seen:
            seen.append(True)
            lake.delete_as_others(1, 0)
        return commit(catalog, table, requirements, updates)

    monkeypatch.setattr(SqlCatalog, "commit_table", late)
    before = lake.shown()
    (gone,) = {row for row in before if before[row] == (0, 6)} or {-1}
    grow(lake, 1)

    assert seen
    expected = {key: row for key, row in lake.expected().items() if row != (0, 6)}
    assert lake.shown() == expected
    named = {Path(file.file_path.removeprefix("file://")) for file in delete_files(lake)}
    written = {*lake.root.glob(f"warehouse/**/*{SUFFIX}")}
    assert gone
    assert len(written - named) <= 2, "the ones of earlier snapshots; the refused ones are deleted"


def test_what_cannot_be_deleted_after_a_commit_is_no_failure(
    lake: KeyedIcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: PyArrowFileIO, location: object) -> None:
        raise PermissionError(f"no right to delete {location}")

    monkeypatch.setattr(PyArrowFileIO, "delete", refuse)
    grow(lake, 6)

    assert lake.shown() == lake.expected()
    assert len(operations(lake)) == 6


# ------------------------------------------------------------------------------------ expiry


def test_deletes_and_indexes_that_only_expired_snapshots_name_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "BATCH", 4)
    monkeypatch.setattr("landfall.publish.iceberg.expiry.LEAST_AGE", timedelta(0))
    limits = SnapshotLimits(5, timedelta(0))
    lake = KeyedIcebergLake(tmp_path, Changes(random_changes(2)), limits=limits)

    grow(lake, 40, rows=4)

    table = lake.loaded
    snapshots = table.metadata.snapshots
    assert len(snapshots) < 10
    deletes = set[Path]()
    for snapshot in snapshots:
        rows = lake.rows(snapshot=snapshot.snapshot_id)
        assert len({row["id"] for row in rows}) == len(rows) > 0
        tasks = table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
        deletes |= {Path(d.file_path[7:]) for task in tasks for d in task.delete_files}
    indexes = {
        lake.index / name
        for snapshot in snapshots
        for name in names_in(snapshot.summary.additional_properties[index_key(KEY)])
    }
    left = own_files(lake)
    assert deletes | indexes <= left
    pending = unpack(table.properties[f"{KEY}.expired-files"]) or frozenset()
    garbage = {path.name for path in left - deletes - indexes}
    assert garbage == {name for name in pending if name.endswith(".parquet")}
    assert garbage
    assert lake.shown() == lake.expected()


def test_an_index_that_a_snapshot_names_in_vain_is_no_reason_to_stop(
    lake: KeyedIcebergLake,
) -> None:
    grow(lake, 2)
    table = lake.loaded
    with table.transaction() as transaction:
        transaction.set_properties({index_key(KEY): "no index"})

    grow(lake, 1)

    assert lake.shown() == lake.expected()
    assert {path.parent.name for path in lake.index.iterdir()} == {FOLDER}
    with suppress(KeyError):
        assert lake.loaded.properties[index_key(KEY)] != "no index"


def test_keys_by_a_column_that_orders_them(tmp_path: Path) -> None:
    lake = KeyedIcebergLake(tmp_path, listed(Change(1, at=9), Change(1, at=5), Change(1, at=7)))
    lake.keys = KeySettings(("id",), order="at")

    for _ in range(3):
        lake.land(1)
        lake.publish()

    assert lake.shown() == {1: (0, 0)}
    assert TABLE in ".".join(lake.loaded.name())
