"""REPLACEs in Delta tables whose files another engine has rewritten, or deleted rows of."""

import json
import logging
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import Purpose
from landfall.ledger.task_results import DecidedObject
from landfall.publish.building import publisher
from landfall.publish.following import Follower
from landfall.publish.tables import TablePublisher
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge, Undo
from tests.support.publishers.lake import (
    CLICKS,
    ORDERS,
    Killed,
    Lake,
    Landed,
    MemoryTables,
    copied_delta_lake,
    delta_lake,
    delta_rows,
    killed_at,
)
from tests.unit.publish.test_replacing import ParquetMerge, _landed

TABLE = "lake.clicks"


def folder(lake: Lake) -> Path:
    return lake.landed.root / "tables" / TABLE


def path_of(lake: Lake, number: int) -> str:
    return lake.landed.url(lake.landed.keys("clicks")[number])


def write_version(lake: Lake, *actions: dict[str, Any]) -> None:
    """Write the next version of the table's log, as another engine does."""
    version = DeltaTable(str(folder(lake))).version() + 1
    lines = [{"commitInfo": {"timestamp": 0, "operation": "OPTIMIZE"}}, *actions]
    path = folder(lake) / f"_delta_log/{version:020}.json"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def removed(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 0, "dataChange": True}}


def added(path: str, size: int, **more: Any) -> dict[str, Any]:
    values = {"dt": "2026-11-21"}
    each = {"path": path, "partitionValues": values, "size": size, "modificationTime": 0}
    return {"add": {**each, "dataChange": True, **more}}


def rewrite(lake: Lake, *numbers: int, without: Sequence[int] = ()) -> None:
    """Rewrite landed files of the table into one of its own, as OPTIMIZE and DELETE do."""
    old = [path_of(lake, number) for number in numbers]
    table = pa.concat_tables(pq.read_table(path.removeprefix("file://")) for path in old)
    kept = [row["_offset"] not in without for row in table.select(["_offset"]).to_pylist()]
    own = folder(lake) / f"part-{'-'.join(map(str, numbers))}.parquet"
    pq.write_table(table.filter(kept), own)
    write_version(lake, *map(removed, old), added(own.name, own.stat().st_size))


def delete_row_by_vector(lake: Lake, number: int, row: int) -> None:
    """Delete a row of a landed file by a deletion vector, as Spark and Databricks do."""
    path, features = path_of(lake, number), ["deletionVectors"]
    bitmap = struct.pack("<QIIIHHIH", 1, 0, 12346, 1, 0, 0, 16, row)  # portable roaring, one row
    payload = struct.pack("<I", 1681511377) + bitmap
    framed = struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    vector = folder(lake) / "deletions.bin"
    vector.write_bytes(b"\x01" + framed)
    stored = {"storageType": "p", "pathOrInlineDv": f"file://{vector}", "offset": 1}
    described = {**stored, "sizeInBytes": len(payload), "cardinality": 1}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    size, rows = Path(path.removeprefix("file://")).stat().st_size, {"numRecords": 10}
    write_version(
        lake,
        {"protocol": {**protocol, "readerFeatures": features, "writerFeatures": features}},
        removed(path),
        added(path, size, deletionVector=described, stats=json.dumps(rows)),
    )


def replace(lake: Lake, *numbers: int, **fields: Any) -> ParquetMerge:
    """Put one object in the place of some of clicks, by their numbers among all that landed."""
    found = [each for number, each in enumerate(_landed(lake.landed.sample)) if number in numbers]
    return merge(lake, [DecidedObject(each.landed_slot, each.landed) for each in found], **fields)


def merge(lake: Lake, retire: Sequence[DecidedObject], **fields: Any) -> ParquetMerge:
    sample = lake.landed.sample
    made = ParquetMerge(sample, (*retire,), sample.state.applied_through)
    return made.record(**fields).complete().retired()  # type: ignore[return-value]  # of its class


def undo(merge: Merge) -> list[DecidedObject]:
    """Undo a merge; returns what has come back, as what may retire."""
    back = Undo(merge).record().complete().keep_copies()
    back.sample.store.delete_slots([each.landed.upload.key for each in back.retire])
    back.sample.shown()
    return [DecidedObject(back.slot, each.landed) for each in back.listed.objects]


def passed_over(lake: Lake) -> list[str]:
    history = DeltaTable(str(folder(lake))).history()
    return [each["landfall.passedOver"] for each in history if "landfall.passedOver" in each]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table of two files, ten rows each."""
    made = delta_lake(tmp_path)
    made.landed.land(CLICKS).land(CLICKS).settle()
    made.publish()
    return made


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


def test_what_was_passed_over_is_passed_over_when_it_is_undone_or_merged_again(lake: Lake) -> None:
    rewrite(lake, 0, 1)
    first = replace(lake, 0, 1)
    lake.publish()
    back = undo(first)
    lake.publish()
    assert lake.is_whole()
    merge(lake, back)

    lake.publish()

    assert lake.is_whole()
    assert len(passed_over(lake)) == 3


def test_a_merge_and_its_undoing_in_one_pass_are_followed_and_passed_over(lake: Lake) -> None:
    back = undo(replace(lake, 0, 1))
    lake.publish()
    assert lake.is_whole()
    rewrite(lake, 0, 1)
    undo(merge(lake, back))

    lake.publish()

    assert lake.is_whole()
    assert len(passed_over(lake)) == 2  # a stretch each


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lake: rewrite(lake, 0, without=[7]), "has removed from the table, but not clicks/"),
        (lambda lake: delete_row_by_vector(lake, 0, 7), "another program has deleted rows"),
    ],
)
def test_a_row_that_another_engine_deleted_does_not_come_back(
    lake: Lake, change: Callable[[Lake], None], why: str
) -> None:
    change(lake)
    left = [offset for offset in range(20) if offset != 7]
    assert sorted(lake.offsets(TABLE)) == left
    version = DeltaTable(str(folder(lake))).version()
    made = replace(lake, 0, 1)

    with pytest.raises(Stalled, match=why) as caught:
        lake.publish()

    assert caught.value.reason is Reason.DESTINATION_CONFLICT
    assert f"the REPLACE in slot {made.slot} replaces " in str(caught.value)
    assert DeltaTable(str(folder(lake))).version() == version


def test_what_is_added_to_rewritten_rows_is_refused(lake: Lake) -> None:
    rewrite(lake, 0, 1)
    lake.landed.land(CLICKS).settle()  # not in the table when it is merged
    replace(lake, 0, 1, 2)

    with pytest.raises(Stalled, match=r"together with clicks/.*whose rows the table does not have"):
        lake.publish()

    assert sorted(lake.offsets(TABLE)) == [*range(20)]


def test_a_correction_of_rewritten_rows_is_refused(lake: Lake) -> None:
    rewrite(lake, 0, 1)
    replace(lake, 0, 1, purpose=Purpose.BACKFILL)

    with pytest.raises(Stalled, match="by objects with other rows, and another program has"):
        lake.publish()

    assert sorted(lake.offsets(TABLE)) == [*range(20)]


def test_a_folder_that_was_rewritten_keeps_no_other_from_being_followed(lake: Lake) -> None:
    lake.landed.land(CLICKS, ORDERS).land(CLICKS).settle()
    lake.publish()
    rewrite(lake, 0, 1)
    first = replace(lake, 0, 1)
    replace(lake, 2, 3)

    lake.publish()

    assert lake.is_whole()
    assert passed_over(lake) == [str(first.slot)]


def test_what_was_left_out_is_not_taken_for_rewritten(tmp_path: Path) -> None:
    """A pass that is killed between two stretches leaves out what retires in the second one."""
    number = 0
    while True:
        lake = delta_lake(tmp_path / str(number))
        for _ in range(4):
            lake.landed.land(CLICKS).land(CLICKS, ORDERS).settle()
        replace(lake, 2, 3, 4)
        lake.landed.land(CLICKS, ORDERS).settle()
        with killed_at(DeltaTable, ("create_write_transaction",), number) as made:
            try:
                publish_in_steps(lake)
            except Killed:
                rewrite_one(lake)
        if made[0] <= number:
            break
        publish_in_steps(lake)
        assert lake.is_whole(), f"killed at {number}"
        number += 1
    assert number >= 6


def rewrite_one(lake: Lake) -> None:
    """Another engine rewrites a file of the table that does not retire."""
    if (folder(lake) / "_delta_log").exists() and lake.offsets(TABLE):
        rewrite(lake, 0)


def publish_in_steps(lake: Lake) -> None:
    publisher: TablePublisher = lake.landed.publisher(lake.connect())
    publisher.publish(Follower(Lane(lake.landed.store, GROUP, LANE), 2))


def test_a_file_whose_uri_another_engine_spells_differently_is_replaced(lake: Lake) -> None:
    old = path_of(lake, 0)
    size = Path(old.removeprefix("file://")).stat().st_size
    write_version(lake, removed(old), added(old.replace("file:///", "file:/"), size))
    replace(lake, 0, 1)

    lake.publish()

    assert lake.is_whole()


def test_objects_in_a_folder_with_escapes_are_replaced(tmp_path: Path) -> None:
    lake = delta_lake(tmp_path)
    lake.landed.sample.directory = "dt=S%C3%A3o%20%25=+"
    lake.landed.land(CLICKS).land(CLICKS).settle()
    lake.publish()

    replace(lake, 0, 1)
    lake.publish()

    assert lake.is_whole()
    assert not passed_over(lake)


def test_objects_in_the_folder_of_their_table_are_replaced(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    landed.sample.directory = "_landed/dt=2026-11-21"
    landed.land(CLICKS).land(CLICKS).settle()
    url = landed.url("{topic}")
    context = landed.context("Delta", {"table": url}, route={"pattern": "_landed/dt={date}"})

    def publish() -> None:
        publisher(context.group, context.entry, context.store).publish(context.follower())

    publish()
    lake = Lake(landed, lambda: MemoryTables(landed.store.read), offsets=lambda _: [], drop=print)
    replace(lake, 0, 1)
    publish()

    (path,) = pa.table(DeltaTable(f"{tmp_path}/landed/clicks").get_add_actions())["path"]
    assert str(path).startswith("_landed/dt=2026-11-21/")
    assert sorted(delta_rows(f"{tmp_path}/landed/clicks", "_offset")) == [*range(20)]


def test_a_rebuild_is_the_way_out_of_rows_that_others_have_deleted(lake: Lake) -> None:
    delete_row_by_vector(lake, 0, 7)
    replace(lake, 0, 1)
    with pytest.raises(Stalled, match="another program has deleted rows"):
        lake.publish()
    version = DeltaTable(str(folder(lake))).version()

    lake.landed.publisher(lake.connect()).reset(lake.landed.follower())

    assert lake.is_whole()
    assert DeltaTable(str(folder(lake))).version() == version + 1
    lake.landed.land(CLICKS).settle()
    lake.publish()
    assert lake.is_whole()


def test_a_rebuild_is_the_way_out_of_a_restore_to_a_version_that_left_the_log(lake: Lake) -> None:
    for _ in range(3):
        lake.landed.land(CLICKS).settle()
        lake.publish()
    DeltaTable(str(folder(lake))).create_checkpoint()
    version = DeltaTable(str(folder(lake))).version() + 1
    restore = {"operation": "RESTORE", "operationParameters": {"version": 1}}
    log = folder(lake) / "_delta_log"
    (log / f"{version:020}.json").write_text(json.dumps({"commitInfo": restore}) + "\n")
    for number in range(3):
        (log / f"{number:020}.json").unlink()
    with pytest.raises(Stalled, match="publish it again with landfall publish --rebuild"):
        lake.publish()

    lake.landed.publisher(lake.connect()).reset(lake.landed.follower())

    lake.publish()
    assert lake.is_whole()


def respell(lake: Lake) -> None:
    """Name a landed file by another spelling of its URI."""
    old = path_of(lake, 0)
    size = Path(old.removeprefix("file://")).stat().st_size
    write_version(lake, removed(old), added(old.replace("file:///", "file:/"), size))


CHANGES: dict[str, Callable[[Lake], object]] = {
    "nothing": lambda _: None,
    "one file is rewritten": lambda lake: rewrite(lake, 0, without=[3]),
    "all files are rewritten": lambda lake: rewrite(lake, 0, 1),
    "one file is spelled differently": respell,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_rebuild_names_no_file_twice(lake: Lake, change: str) -> None:
    """Of a path that a version removes and adds, Spark takes the last action: rows were missing."""
    CHANGES[change](lake)
    before = DeltaTable(str(folder(lake))).version()

    lake.landed.publisher(lake.connect()).reset(lake.landed.follower())

    assert lake.is_whole()
    table = DeltaTable(str(folder(lake)))
    assert len(table.file_uris()) == 2
    assert table.version() == before + 1
    log = (folder(lake) / f"_delta_log/{before + 1:020}.json").read_text().splitlines()
    actions = [json.loads(line) for line in log]
    paths = [each[kind]["path"] for each in actions for kind in ("add", "remove") if kind in each]
    named = [unquote(path).replace("file:///", "file:/") for path in paths]
    assert len(named) == len({*named})
    lake.landed.land(CLICKS).settle()
    lake.publish()
    assert lake.is_whole()


def test_a_rebuild_mends_what_earlier_rebuilds_did(lake: Lake) -> None:
    paths = [path_of(lake, number) for number in (0, 1)]
    size = Path(paths[0].removeprefix("file://")).stat().st_size
    write_version(lake, *(added(path, size) for path in paths), *map(removed, paths))
    version = DeltaTable(str(folder(lake))).version() + 1

    lake.landed.publisher(lake.connect()).reset(lake.landed.follower())

    log = (folder(lake) / f"_delta_log/{version:020}.json").read_text()
    actions = [json.loads(line) for line in log.splitlines()]
    assert sorted(each["add"]["path"] for each in actions if "add" in each) == sorted(paths)
    assert not [each for each in actions if "remove" in each]
    assert lake.is_whole()


def actions_of(lake: Lake, version: int, kind: str) -> list[dict[str, Any]]:
    lines = (folder(lake) / f"_delta_log/{version:020}.json").read_text().splitlines()
    return [each[kind] for each in map(json.loads, lines) if kind in each]


@pytest.mark.parametrize("is_merged", [False, True])
def test_a_rebuild_takes_deletion_vectors_away_beside_files_that_stay(
    lake: Lake, *, is_merged: bool
) -> None:
    """delta-rs names a vector only where all files leave, so that is a version of its own."""
    lake.landed.land(CLICKS).settle()
    lake.publish()
    delete_row_by_vector(lake, 0, 7)
    path = path_of(lake, 0)
    if is_merged:
        replace(lake, 0, 1)
        with pytest.raises(Stalled, match="another program has deleted rows"):
            lake.publish()
    before = DeltaTable(str(folder(lake))).version()

    lake.landed.publisher(lake.connect()).reset(lake.landed.follower())

    assert lake.is_whole()
    assert DeltaTable(str(folder(lake))).version() == before + 2
    leaving = actions_of(lake, before + 1, "remove")
    assert [each["path"] for each in leaving if "deletionVector" in each] == [path]
    assert (len(leaving), actions_of(lake, before + 1, "add")) == (3, [])
    assert actions_of(lake, before + 2, "remove") == []
    lake.landed.land(CLICKS).settle()
    lake.publish()
    assert lake.is_whole()


def test_rows_of_others_with_deletion_vectors_leave_by_a_rebuild(lake: Lake) -> None:
    """A table that has nothing of the ledger yet, but files of somebody else."""
    delete_row_by_vector(lake, 0, 7)
    loaded = DeltaTable(str(folder(lake)))
    log = folder(lake) / "_delta_log"
    for version in range(loaded.version()):
        path = log / f"{version:020}.json"
        kept = [line for line in path.read_text().splitlines() if "shop" not in line]
        path.write_text("".join(f"{line}\n" for line in kept))
    before = loaded.version()

    lake.landed.publisher(lake.connect()).reset(lake.landed.follower())

    assert lake.is_whole()
    assert [each for each in actions_of(lake, before + 1, "remove") if "deletionVector" in each]


def test_a_rebuild_that_is_killed_between_its_versions_is_finished_by_the_next_pass(
    tmp_path: Path,
) -> None:
    number, empty = 0, 0
    while True:
        lake = delta_lake(tmp_path / str(number))
        lake.landed.land(CLICKS).land(CLICKS).settle()
        lake.publish()
        delete_row_by_vector(lake, 0, 7)
        publisher = lake.landed.publisher(lake.connect())
        with (
            killed_at(DeltaTable, ("create_write_transaction",), number) as made,
            suppress(Killed),
        ):
            publisher.reset(lake.landed.follower())
        if made[0] <= number:
            break
        found = sorted(lake.offsets(TABLE))
        assert found in ([], [n for n in range(20) if n != 7], [*range(20)]), number
        if not found:
            empty += 1
            lake.publish()
            assert lake.is_whole(), f"killed at {number}"
        number += 1
    assert (number, empty) == (4, 2)


def test_a_rebuild_that_cannot_fill_a_table_takes_no_deletion_vector_away(lake: Lake) -> None:
    delete_row_by_vector(lake, 0, 7)
    (key,) = lake.landed.land(CLICKS).settle().keys("clicks")[2:]
    path = Path(lake.landed.url(key).removeprefix("file://"))
    table = pq.read_table(path)
    names = table.column_names
    pq.write_table(table.set_column(names.index("name"), "name", pa.array([1.5] * 10)), path)
    before = DeltaTable(str(folder(lake))).version()

    with pytest.raises(Stalled, match="column name is double in the file and string in the table"):
        lake.landed.publisher(lake.connect()).reset(lake.landed.follower())

    assert DeltaTable(str(folder(lake))).version() == before
    assert sorted(lake.offsets(TABLE)) == [n for n in range(20) if n != 7]


def test_rows_that_others_delete_by_vectors_below_the_table_stay_deleted(tmp_path: Path) -> None:
    """Vectors are files that no copy of a log has."""
    lake = copied_delta_lake(tmp_path)
    lake.landed.land(CLICKS).land(CLICKS).settle()
    lake.publish()
    delete_row_by_vector(lake, 0, 3)
    log = max((tmp_path / "tables/lake.clicks/_delta_log").glob("*.json"))
    (tmp_path / "tables/lake.clicks/deletions.bin").rename(
        tmp_path / f"tables/lake.clicks/deletion_vector_{UUID(int=0)}.bin"
    )
    absolute = re.search(r'"storageType": "p", "pathOrInlineDv": "[^"]*"', log.read_text())
    assert absolute
    relative = f'"storageType": "u", "pathOrInlineDv": "{"0" * 20}"'
    log.write_text(log.read_text().replace(absolute[0], relative))

    lake.landed.land(CLICKS).settle()
    lake.publish()

    assert sorted(lake.offsets("lake.clicks")) == [o for o in range(30) if o != 3]
    replace(lake, 0, 1)
    with pytest.raises(Stalled, match="another program has deleted rows"):
        lake.publish()
