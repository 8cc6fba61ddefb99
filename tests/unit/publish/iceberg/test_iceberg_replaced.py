"""REPLACEs in Iceberg tables, also where another engine has rewritten files or deleted rows."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFileContent

from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import Purpose
from landfall.publish.following import Follower
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.publishers.iceberg_deletes import (
    FILE_PATH,
    add_deletes_file,
    add_position_deletes,
)
from tests.support.publishers.lake import CLICKS, ORDERS, Killed, Lake, iceberg_lake, killed_at
from tests.unit.publish.delta.test_delta_rewritten import merge, replace, undo

TABLE = "lake.clicks"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table of two files, ten rows each."""
    made = iceberg_lake(tmp_path)
    made.landed.land(CLICKS).land(CLICKS).settle()
    made.publish()
    return made


def load(lake: Lake) -> Any:
    return lake.connect()._load(TABLE)  # type: ignore[attr-defined]  # the tables of Iceberg


def paths(lake: Lake) -> set[str]:
    return {*load(lake).inspect.files()["file_path"].to_pylist()}


def operations(lake: Lake) -> list[str]:
    return [each.summary.operation.value for each in load(lake).metadata.snapshots]


def landed_paths(lake: Lake, *numbers: int) -> set[str]:
    keys = lake.landed.keys("clicks")
    return {lake.landed.url(keys[number]) for number in numbers}


def new_path(lake: Lake, made: Any) -> str:
    return lake.landed.url(made.listed.objects[0].landed.upload.key)


def rewrite(lake: Lake, *numbers: int, without: Sequence[int] = ()) -> None:
    """Rewrite landed files of the table into one of its own, as another engine does."""
    old = landed_paths(lake, *numbers)
    whole = pa.concat_tables(pq.read_table(path.removeprefix("file://")) for path in sorted(old))
    kept = [row["_offset"] not in without for row in whole.select(["_offset"]).to_pylist()]
    table = load(lake)
    files = [task.file for task in table.scan().plan_files() if task.file.file_path in old]
    with table.transaction() as transaction:
        with transaction.update_snapshot().overwrite() as overwrite:
            for each in files:
                overwrite.delete_data_file(each)
        transaction.append(whole.filter(kept).cast(table.schema().as_arrow()))


def add_deletes(lake: Lake, rows: pa.Table, content: DataFileContent, **fields: Any) -> None:
    """Add a file with deletes of rows to the table, as Spark does merge-on-read."""
    add_deletes_file(load(lake), lake.landed.root / "deletes.parquet", rows, content, **fields)


def delete_by_position(lake: Lake, number: int, row: int) -> None:
    (path,) = landed_paths(lake, number)
    bounds = {FILE_PATH: path.encode()}
    bounded = {"lower_bounds": bounds, "upper_bounds": bounds}
    add_position_deletes(load(lake), lake.landed.root / "deletes.parquet", {path: [row]}, **bounded)


def delete_by_value(lake: Lake, offset: int) -> None:
    number = load(lake).schema().find_field("_offset").field_id
    field = pa.field("_offset", pa.int64(), False, {"PARQUET:field_id": str(number)})
    rows = pa.table({"_offset": [offset]}, schema=pa.schema([field]))
    add_deletes(lake, rows, DataFileContent.EQUALITY_DELETES, equality_ids=[number])


def publish_at_once(lake: Lake) -> None:
    """Publish all that is visible as one stretch."""
    publisher = lake.landed.publisher(lake.connect())
    publisher.publish(Follower(Lane(lake.landed.store, GROUP, LANE), 100))


def passed_over(lake: Lake) -> list[str]:
    summaries = [each.summary.additional_properties for each in load(lake).metadata.snapshots]
    return [each["landfall.passedOver"] for each in summaries if "landfall.passedOver" in each]


def test_a_merge_is_followed_in_one_snapshot_that_streams_skip(lake: Lake) -> None:
    old = landed_paths(lake, 0, 1)
    made = replace(lake, 0, 1)

    lake.publish()

    assert lake.is_whole()
    assert paths(lake) == {new_path(lake, made)}
    assert operations(lake) == ["append", "replace"]
    summary = load(lake).current_snapshot().summary.additional_properties
    counts = ("total-data-files", "total-records", "deleted-data-files", "added-data-files")
    assert [summary[name] for name in counts] == ["1", "20", "2", "1"]
    before = load(lake).metadata.snapshots[0].snapshot_id
    tasks = load(lake).scan(snapshot_id=before).plan_files()
    assert {task.file.file_path for task in tasks} == old


def test_what_is_new_has_a_snapshot_of_its_own_in_the_same_commit(lake: Lake) -> None:
    made = replace(lake, 0, 1)
    lake.landed.land(CLICKS).settle()
    commits = len(load(lake).metadata.metadata_log)

    publish_at_once(lake)

    assert lake.is_whole()
    assert operations(lake) == ["append", "replace", "append"]
    assert len(load(lake).metadata.metadata_log) == commits + 1
    assert paths(lake) == {new_path(lake, made), *landed_paths(lake, 0)}  # the third one to land


def test_a_table_that_is_rolled_back_between_the_two_has_each_row_once(lake: Lake) -> None:
    replace(lake, 0, 1)
    lake.landed.land(CLICKS).settle()
    publish_at_once(lake)
    table = load(lake)
    with table.manage_snapshots() as changing:
        changing.set_current_snapshot(snapshot_id=table.metadata.snapshots[1].snapshot_id)
    assert sorted(lake.offsets(TABLE)) == [*range(20)]

    lake.publish()

    assert lake.is_whole()


def test_a_correction_is_followed_as_a_change_of_rows(lake: Lake) -> None:
    made = replace(lake, 0, 1, purpose=Purpose.BACKFILL)

    lake.publish()

    assert lake.is_whole()
    assert paths(lake) == {new_path(lake, made)}
    assert operations(lake) == ["append", "overwrite"]


def test_an_undone_merge_brings_the_old_files_back(lake: Lake) -> None:
    made = replace(lake, 0, 1)
    lake.publish()
    back = undo(made)

    lake.publish()

    assert lake.is_whole()
    assert paths(lake) == {lake.landed.url(each.landed.upload.key) for each in back}
    merge(lake, back)
    lake.publish()
    assert lake.is_whole()


def test_files_that_another_engine_has_compacted_are_not_added_again(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    rewrite(lake, 0, 1)

    with caplog.at_level(logging.WARNING):
        made = replace(lake, 0, 1)
        lake.publish()

    assert lake.is_whole()
    assert passed_over(lake) == [str(made.slot)]
    assert "replacement passed over" in caplog.messages
    lake.landed.land(CLICKS).settle()
    lake.publish()
    assert lake.is_whole()


def test_only_what_was_rewritten_is_passed_over(lake: Lake) -> None:
    lake.landed.land(CLICKS, ORDERS).land(CLICKS).settle()
    lake.publish()
    rewrite(lake, 0, 1)
    first = replace(lake, 0, 1)
    second = replace(lake, 2, 3)

    lake.publish()

    assert lake.is_whole()
    assert passed_over(lake) == [str(first.slot)]
    assert new_path(lake, second) in paths(lake)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lake: rewrite(lake, 0, without=[7]), "has removed from the table, but not clicks/"),
        (
            lambda lake: load(lake).delete(EqualTo("_offset", 7)),
            "has removed from the table, but not clicks/",
        ),
        (lambda lake: delete_by_position(lake, 0, 7), "in which another program has deleted rows"),
        (lambda lake: delete_by_value(lake, 7), "another program has deleted rows by their values"),
    ],
    ids=["rewritten", "copy on write", "by position", "by value"],
)
def test_a_row_that_another_engine_deleted_does_not_come_back(
    lake: Lake, change: Callable[[Lake], None], why: str
) -> None:
    change(lake)
    snapshot = load(lake).current_snapshot()
    replace(lake, 0, 1)

    with pytest.raises(Stalled, match=why) as caught:
        lake.publish()

    assert caught.value.reason is Reason.DESTINATION_CONFLICT
    assert "`landfall publish --rebuild` fills the table again" in str(caught.value)
    assert load(lake).current_snapshot() == snapshot


def test_a_correction_of_rewritten_rows_is_refused(lake: Lake) -> None:
    rewrite(lake, 0, 1)
    replace(lake, 0, 1, purpose=Purpose.BACKFILL)

    with pytest.raises(Stalled, match="by objects with other rows, and another program has"):
        lake.publish()

    assert sorted(lake.offsets(TABLE)) == [*range(20)]


def test_a_rebuild_is_the_way_out(lake: Lake) -> None:
    delete_by_position(lake, 0, 7)
    replace(lake, 0, 1)
    with pytest.raises(Stalled):
        lake.publish()

    lake.landed.publisher(lake.connect()).reset(lake.landed.follower())

    assert lake.is_whole()
    lake.landed.land(CLICKS).settle()
    lake.publish()
    assert lake.is_whole()


def test_files_leave_manifests_of_every_partition_spec(lake: Lake) -> None:
    with load(lake).update_spec() as update:
        update.add_identity("name")
    lake.landed.land(CLICKS, rows=1).settle()  # fits both specs
    lake.publish()
    specs = load(lake).inspect.files()["spec_id"].to_pylist()
    assert {*specs} == {0, 1}

    replace(lake, 0, 2)
    lake.publish()

    assert lake.is_whole()


def test_another_client_that_commits_meanwhile_is_looked_at_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(lake, 0, 1)
    commit, calls = SqlCatalog.commit_table, list[int]()

    def late(catalog: SqlCatalog, table: Any, *args: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            columns = load(lake).schema().as_arrow()
            row = {"_offset": [1000], "name": ["x"], "_timestamp": [None]}
            load(lake).append(pa.table(row, schema=columns))
        return commit(catalog, table, *args)

    monkeypatch.setattr(SqlCatalog, "commit_table", late)
    lake.publish()

    assert sorted(lake.offsets(TABLE)) == [*range(20), 1000]
    assert operations(lake) == ["append", "append", "replace"]
    assert new_path(lake, made) in paths(lake)
    assert len(calls) == 3  # that of the other client, one in vain, and one that counts


def test_a_publisher_that_is_killed_at_any_commit_follows_once(tmp_path: Path) -> None:
    number = 0
    while True:
        lake = iceberg_lake(tmp_path / str(number))
        for _ in range(3):
            lake.landed.land(CLICKS).land(CLICKS, ORDERS).settle()
        lake.publish()
        replace(lake, 1, 2, 3)
        lake.landed.land(CLICKS, ORDERS).settle()
        with killed_at(SqlCatalog, ("commit_table",), number) as made, suppress(Killed):
            lake.publish()
        if made[0] <= number:
            break
        lake.publish()
        assert lake.is_whole(), f"killed at {number}"
        number += 1
    assert number >= 2
