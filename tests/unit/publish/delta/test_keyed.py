"""Keyed Delta tables: the newest row of each key counts, after merges, backfills and undos."""

import json
import random
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from landfall import ledger
from landfall.errors import Reason, Stalled
from landfall.ledger.entries import Decision
from landfall.ledger.names.object_names import ObjectName, dead_letter_key
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, ReplayedSlice
from landfall.publish.building import publisher
from landfall.publish.delta.unnamed_files import MARKS, delete_unnamed
from landfall.publish.delta.vectors import VectorFile
from landfall.publish.keyed.index import FOLDER
from landfall.publish.keyed.rows import KeySettings
from landfall.publish.tables import TablePublisher
from landfall.store.memory import MemoryStore
from tests.support.ledger.sample_backfill import Again, Backfill
from tests.support.ledger.sample_ledger import GROUP
from tests.support.ledger.sample_replacing import Merge, Undo
from tests.support.publishers.keyed import Change, Changes, KeyedLake, random_changes
from tests.support.publishers.lake import CLICKS, DAY, Killed, LogStore, killed_at

LETTERS = dead_letter_key(GROUP, "clicks", 1, 0, 0)


@pytest.fixture
def lake(tmp_path: Path) -> KeyedLake:
    return KeyedLake(tmp_path, Changes(random_changes(1)))


def listed(*changes: Change) -> Changes:
    return Changes(lambda _, offset: changes[offset])


@pytest.mark.parametrize("seed", range(3))
def test_every_pass_leads_to_the_table_that_a_dict_has(tmp_path: Path, seed: int) -> None:
    chosen, lake = random.Random(seed), KeyedLake(tmp_path, Changes(random_changes(seed)))
    merges = list[Merge]()

    for step in range(14):
        kind = chosen.choice(["land", "land", "merge", "undo", "again"]) if step > 3 else "land"
        if kind == "land":
            for _ in range(chosen.randrange(1, 4)):
                lake.land(chosen.randrange(1, 9))
        elif kind == "merge" and len(live := lake.live()) > 2:
            numbers = chosen.sample(range(len(live)), 2)
            left_out = chosen.choice([(), (live[numbers[0]].landed.first_offset,)])
            merges.append(lake.merge(*sorted(numbers), left_out=left_out))
        elif kind == "again":
            land_again(lake, chosen.randrange(len(lake.live())), seed=step)
        elif kind == "undo" and merges:
            undo_if_possible(lake, merges)
        if chosen.random() < 0.7:
            lake.publish(at_once=chosen.random() < 0.5)
            assert lake.shown() == lake.expected(), f"step {step}, {kind}"
            lake.delete_retired()


def undo_if_possible(lake: KeyedLake, merges: list[Merge]) -> None:
    merge = merges.pop()
    if merge.new.landed.key in {o.key for o in lake.live()}:
        Undo(merge).record().complete().keep_copies().sample.shown()


def land_again(lake: KeyedLake, number: int, seed: int) -> None:
    """Land the range of a live object again, with other changes, if it has all of a range."""
    old, sample = lake.live()[number], lake.landed.sample
    offsets = sorted(sample.rows[old.key])
    if offsets != [*range(offsets[0], offsets[-1] + 1)]:
        return
    changes, lake.changes.at = lake.changes.at, random_changes(1000 + seed)
    again = Again(CLICKS, offsets[0], offsets[-1] + 1)
    Backfill(sample, [(old.slot, old.landed)], again).record().complete()
    sample.shown()
    lake.changes.at = changes


def test_files_stay_and_vectors_leave_the_newest_rows(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path, listed(Change(1), Change(2), Change(1), Change(2, deleted=True)))
    lake.land(2)
    lake.publish()
    before = DeltaTable(str(lake.folder)).file_uris()

    lake.land(2)
    lake.publish()

    assert lake.shown() == {1: (0, 2)}
    assert {*before} < {*DeltaTable(str(lake.folder)).file_uris()}
    adds = [action["add"] for action in lake.commit_of(lake.version()) if "add" in action]
    assert [add["deletionVector"]["cardinality"] for add in adds] == [1, 2]
    assert [json.loads(add["stats"])["tightBounds"] for add in adds] == [False, False]
    protocol = DeltaTable(str(lake.folder)).protocol()
    assert protocol.reader_features == ["deletionVectors"]


def test_a_pass_without_changes_of_old_keys_leaves_old_files_alone(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path, Changes(lambda _, offset: Change(offset)))
    lake.land()
    lake.publish()
    lake.land()

    lake.publish()

    names = [name for action in lake.commit_of(lake.version()) for name in action]
    assert sorted(names) == ["add", "commitInfo", "txn"]


def test_an_older_row_that_comes_late_does_not_count(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path, listed(Change(1), Change(2), Change(1), Change(2, deleted=True)))
    letters = land_with_letters(lake, [2, 3], [0, 1])
    lake.publish()
    assert lake.shown() == {1: (0, 2)}

    replay(lake, letters)
    lake.publish()

    assert lake.shown() == lake.expected() == {1: (0, 2)}


def land_with_letters(lake: KeyedLake, good: list[int], bad: list[int]) -> LandedObject:
    """Land a range of which some records are dead letters; returns the object of these."""
    sample, rows = lake.landed.sample, len(good) + len(bad)
    letters = sample.upload(LETTERS, bad, ObjectKind.DEAD_LETTERS)
    data = sample.upload(ObjectName("clicks", "dt=2026-11-21", 1, 0, 0, ".parquet").key, good)
    piece = Slice(CLICKS, OffsetRange(0, rows))
    counts = len(good), 0, len(bad), 0, 9 * rows
    sample.commit(LandedSlice(piece, (letters, data), *counts))
    lake.landed.settle()
    return letters


def replay(lake: KeyedLake, letters: LandedObject) -> None:
    """Land dead letters again, by a new generation."""
    sample, offsets = lake.landed.sample, lake.landed.sample.rows[letters.key]
    sample.open(2)
    made = sample.upload(ObjectName("clicks", "dt=2026-11-21", 2, 0, 0, ".parquet").key, offsets)
    piece = Slice(CLICKS, OffsetRange(0, offsets[-1] + 1))
    slice_ = ReplayedSlice(letters.key, piece, len(offsets), (made,), len(offsets), 0, 0)
    decision = Decision("replay", "kim", "a test", "t")
    token = made.upload.token
    sample.append(
        lambda h: ledger.Replay(header=h, token=token, slices=(slice_,), decision=decision)
    )
    sample.store.complete(made.upload)
    sample.shown()


def test_rows_without_a_key_stay_and_delete_nothing(tmp_path: Path) -> None:
    changes = [Change(1), Change(None), Change(None), Change(None, deleted=True), Change(1)]
    lake = KeyedLake(tmp_path, listed(*changes))
    lake.land(5)

    lake.publish()

    assert sorted(row["_offset"] for row in lake.rows("_offset")) == [1, 2, 4]


def test_a_landed_file_without_offsets_stops_the_table(lake: KeyedLake) -> None:
    lake.land(6)
    lake.publish()
    lake.land(6)
    lake.land(6)
    lake.merge(1, 2, columns=("id", "_offset"))

    with pytest.raises(Stalled, match="it has rows without _partition and _offset") as e:
        lake.publish()
    assert e.value.reason is Reason.DESTINATION_CONFLICT
    assert lake.shown() == {key: row for key, row in lake.shown().items() if row[1] < 6}


def test_rows_of_a_key_in_two_kafka_partitions_stop_the_table_unless_a_column_orders_them(
    tmp_path: Path,
) -> None:
    def change(partition: int, offset: int) -> Change:
        return Change(1, at=[30, 20][partition] + offset)

    lake = KeyedLake(tmp_path, Changes(change))
    lake.land(2)
    lake.publish()
    lake.landed.sample.add(TopicPartition("clicks", 1))
    lake.land(2, partition=1)

    with pytest.raises(Stalled, match="offset 1 of partition 0 and offset 1 of partition 1") as e:
        lake.publish()
    assert e.value.reason is Reason.DESTINATION_CONFLICT
    assert lake.shown() == {1: (0, 1)}

    lake.keys = KeySettings(("id",), order="at")
    lake.publish()

    assert lake.shown() == {1: (0, 1)}, "which has the later time"


def test_another_key_folds_the_table_again(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path, Changes(lambda _, offset: Change(offset % 3, name=f"n{offset % 2}")))
    lake.land(6)
    lake.publish()
    assert len(lake.rows()) == 3
    lake.keys = KeySettings(("name",))
    lake.land(1)

    lake.publish()

    assert sorted(row["_offset"] for row in lake.rows("_offset")) == [5, 6]


@pytest.mark.parametrize("body", [None, b"other bytes"])
def test_an_index_that_is_lost_is_made_again_of_the_files(
    lake: KeyedLake, body: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    lake.land(20)
    lake.publish()
    for part in (lake.folder / FOLDER).iterdir():
        part.unlink() if body is None else part.write_bytes(body)
    lake.land(20)

    lake.publish()

    assert lake.shown() == lake.expected()
    assert [record.message for record in caplog.records] == ["index lost"]
    lake.land(20)
    lake.publish()
    assert lake.shown() == lake.expected()
    assert len(caplog.records) == 1


def test_a_version_that_is_restored_brings_its_index_along(lake: KeyedLake) -> None:
    for _ in range(3):
        lake.land(8)
        lake.publish()
    before = lake.shown(lake.version() - 1)
    restore_to_the_version_before(lake)
    assert lake.shown() == before

    lake.publish()

    assert lake.shown() == lake.expected()


def restore_to_the_version_before(lake: KeyedLake) -> None:
    """Restore the table as Spark does; delta-rs looks for all files in the table's folder."""
    last, entries = lake.version(), list[dict[str, Any]]()
    for action in lake.commit_of(last):
        if add := action.get("add"):
            entries.append({"remove": {**add, "deletionTimestamp": 0}})
        if removed := action.get("remove"):
            entries.append({"add": {**removed, "modificationTime": 0}})
    restored = {
        "timestamp": 0,
        "operation": "RESTORE",
        "operationParameters": {"version": last - 1},
    }
    lake.write_version({"commitInfo": restored}, *entries)


def test_a_rebuild_finds_again_which_rows_count(lake: KeyedLake) -> None:
    for _ in range(3):
        lake.land(8)
    lake.publish()
    delete_vectors(lake)
    lake.land(8)

    lake.publisher().reset(lake.landed.follower())

    assert lake.shown() == lake.expected()
    lake.land(8)
    lake.publish()
    assert lake.shown() == lake.expected()


def delete_vectors(lake: KeyedLake) -> None:
    for file in lake.folder.glob("deletion_vector_*.bin"):
        file.unlink()


def test_a_vector_that_is_lost_stops_the_table(lake: KeyedLake) -> None:
    lake.land(20)
    lake.publish()
    delete_vectors(lake)
    lake.land(20)

    with pytest.raises(Stalled, match=r"deletion_vector_.* is not there.*--rebuild") as e:
        lake.publish()
    assert e.value.reason is Reason.DESTINATION_CONFLICT


def test_checkpoints_have_the_vectors(lake: KeyedLake) -> None:
    for _ in range(33):
        lake.land(3)
        lake.publish()
    checkpoints = [*(lake.folder / "_delta_log").glob("*.checkpoint.parquet")]
    assert len(checkpoints) == 1
    assert (lake.folder / MARKS).exists(), "files were looked for that no version names"
    for version in range(5):
        (lake.folder / f"_delta_log/{version:020}.json").unlink()

    assert lake.shown() == lake.expected()
    lake.land(8)
    lake.publish()
    assert lake.shown() == lake.expected()


@pytest.mark.parametrize("number", range(26))
def test_whatever_call_it_dies_at_the_table_is_right(lake: KeyedLake, number: int) -> None:
    lake.land(12)
    lake.publish()
    lake.land(12)
    lake.merge(0, 1)
    lake.land(12)

    with killed_at(LogStore, ("create", "overwrite", "read", "list_after", "read_range"), number):
        try:
            lake.publish()
        except Killed:
            assert len({row["id"] for row in lake.rows()}) == len(lake.rows())
        else:
            pytest.skip("it makes fewer calls")
    lake.publish()

    assert lake.shown() == lake.expected()


def test_what_no_version_names_is_deleted_after_a_while(lake: KeyedLake) -> None:
    day, kept, store = timedelta(days=1), timedelta(days=7), MemoryStore()
    for key in (f"{FOLDER}/named", f"{FOLDER}/old", "deletion_vector_a.bin", "part-1.parquet"):
        store.create(key, b"x")

    def look(at: timedelta, *named: str) -> set[str]:
        delete_unnamed(store, {f"{FOLDER}/named", *named}, DAY + at, kept)
        return {stat.key for stat in store.list_after("") if stat.key != MARKS}

    every = look(day * 0)
    assert len(every) == 4
    assert look(day * 6.9) == every
    store.overwrite(MARKS, store.read(MARKS) or b"")
    assert look(day * 7, "deletion_vector_a.bin") == every - {f"{FOLDER}/old"}
    assert look(day * 8) == every - {f"{FOLDER}/old"}, "it was named since"
    store.overwrite(MARKS, b"{[")
    assert look(day * 16) == every - {f"{FOLDER}/old"}, "the time begins again"
    assert look(day * 24) == {f"{FOLDER}/named", "part-1.parquet"}


def test_what_another_program_deletes_stays_deleted_by_a_merge(lake: KeyedLake) -> None:
    lake.changes.at = lambda _, offset: Change(offset % 4)
    lake.land(6)
    lake.land(3)
    lake.publish()
    (add,) = [a["add"] for a in lake.commit_of(lake.version()) if "1_0_" in str(a.get("add"))][1:]
    delete_by_vector(lake, add, [0])
    assert sorted(lake.shown()) == [0, 1, 3]

    lake.merge(0, 1)
    lake.publish()

    assert sorted(lake.shown()) == [0, 1, 3]
    lake.land(3)
    lake.publish()
    assert lake.shown() == lake.expected()


def test_an_older_row_counts_again_once_a_merge_has_left_the_newest_one_out(
    tmp_path: Path,
) -> None:
    lake = KeyedLake(tmp_path, listed(Change(1), Change(1), Change(2), Change(2), Change(3)))
    lake.land(1)
    lake.land(1)
    lake.land(3)
    lake.publish()
    assert lake.shown() == {1: (0, 1), 2: (0, 3), 3: (0, 4)}
    lake.merge(1, 2, left_out=[1, 3])

    lake.publish()

    assert lake.shown() == lake.expected() == {1: (0, 0), 2: (0, 2), 3: (0, 4)}


def test_rows_that_are_moved_and_get_old_in_one_pass_do_not_count(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path, Changes(lambda _, offset: Change(offset % 3)))
    lake.land(2)
    lake.land(2)
    lake.publish()
    lake.merge(0, 1)
    lake.land(2)

    lake.publish(at_once=True)

    assert lake.shown() == lake.expected() == {0: (0, 3), 1: (0, 4), 2: (0, 5)}


def test_a_merge_reads_no_keys_and_changes_no_data(lake: KeyedLake) -> None:
    lake.land(12)
    lake.land(12)
    lake.publish()
    before = sorted(row["_offset"] for row in lake.rows())
    lake.merge(0, 1, columns=("_partition", "_offset"))

    lake.publish()

    assert sorted(row["_offset"] for row in lake.rows("_offset")) == before
    changes = [a.get("add") or a.get("remove", {}) for a in lake.commit_of(lake.version())]
    assert [change["dataChange"] for change in changes if "path" in change] == [False] * 3


def delete_by_vector(lake: KeyedLake, add: dict[str, Any], rows: list[int]) -> None:
    """Delete more rows of a file, as Spark does."""
    vectors = VectorFile()
    vectors.add(np.array(rows))
    (lake.folder / vectors.name).write_bytes(vectors.body)
    removed = {name: add[name] for name in ("path", "deletionVector") if name in add}
    lake.write_version(
        {"commitInfo": {"timestamp": 0, "operation": "DELETE"}},
        {"remove": {**removed, "deletionTimestamp": 0, "dataChange": True}},
        {"add": {**add, "deletionVector": vectors.descriptors[0]}},
    )


def test_a_row_that_another_program_has_moved_is_found_there(lake: KeyedLake) -> None:
    lake.land(12)
    lake.land(12)
    lake.publish()
    table = DeltaTable(str(lake.folder))
    rows = pa.table(QueryBuilder().register("t", table).execute("select * from t").read_all())
    own = lake.folder / "part-0.parquet"
    pq.write_table(rows.drop_columns(["dt"]), own)
    adds = [a["add"] for a in lake.commit_of(lake.version()) if "add" in a]
    removes = [{"remove": {**add, "deletionTimestamp": 0}} for add in adds]
    entry = {"path": own.name, "partitionValues": {"dt": "2026-11-21"}, "size": own.stat().st_size}
    lake.write_version(
        {"commitInfo": {"timestamp": 0, "operation": "OPTIMIZE"}},
        *removes,
        {"add": {**entry, "modificationTime": 0, "dataChange": False}},
    )
    lake.merge(0, 1)
    lake.land(12)

    lake.publish()

    assert lake.shown() == lake.expected()
    assert own.name in {Path(uri).name for uri in DeltaTable(str(lake.folder)).file_uris()}


def test_rows_that_another_program_has_added_stay(lake: KeyedLake) -> None:
    lake.land(12)
    lake.publish()
    own = lake.folder / "part-0.parquet"
    pq.write_table(pa.table({"id": pa.array([1, 100], pa.int64())}), own)
    entry = {"path": own.name, "partitionValues": {"dt": None}, "size": own.stat().st_size}
    lake.write_version({"add": {**entry, "modificationTime": 0, "dataChange": True}})
    for is_rebuilt in (False, True):
        lake.land(12)
        if is_rebuilt:
            lake.publisher().reset(lake.landed.follower())
        else:
            lake.publish()
            assert sorted(r["id"] for r in lake.rows() if r["_offset"] is None) == [1, 100]
        rows = [row for row in lake.rows() if row["_offset"] is not None]
        assert {r["id"]: (0, r["_offset"]) for r in rows} == lake.expected()


def test_a_table_of_all_rows_becomes_a_keyed_one_and_not_back_by_itself(lake: KeyedLake) -> None:
    def all_rows() -> TablePublisher:
        return lake.publisher(lake.tables_of_all_rows())

    lake.land(12)
    all_rows().publish(lake.landed.follower())
    assert len(lake.rows()) == 12
    lake.land(12)

    lake.publish()
    assert lake.shown() == lake.expected()
    lake.land(12)
    with pytest.raises(Stalled, match="is keyed, and option mode is Append"):
        all_rows().publish(lake.landed.follower())
    assert lake.shown() != lake.expected()

    all_rows().reset(lake.landed.follower())
    assert len(lake.rows()) == 36


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "options.key: expected the columns of a key, each once"),
        ({"key": ["id", "id"]}, "options.key: expected the columns of a key, each once"),
        ({"key": ["id"], "mode": "Append"}, "options.key: is of tables with mode: Keyed"),
        ({"key": ["id"], "table": "file:///x/y"}, "a keyed table is of one topic"),
        ({"key": ["id"], "table": "s3://x/{topic}"}, "keyed tables are reached by the access"),
        ({"key": ["id"], "storage": {"a": 1}}, "options.storage: keyed tables are reached"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    lake: KeyedLake, more: dict[str, Any], message: str
) -> None:
    described = {"table": f"file://{lake.root}/tables/{{topic}}", "mode": "Keyed", **more}
    context = lake.landed.context("Delta", described)

    with pytest.raises(Stalled, match=re.escape(message)):
        publisher(context.group, context.entry, context.store)


def test_a_publisher_by_its_options_keys_a_table_around_its_objects(tmp_path: Path) -> None:
    lake = KeyedLake(tmp_path, Changes(random_changes(5)))
    lake.landed.sample.directory = "_landed/dt=2026-11-21"
    described = {"table": f"file://{tmp_path}/landed/{{topic}}", "mode": "Keyed", "key": ["id"]}
    context = lake.landed.context("Delta", described, route={"pattern": "_landed/dt={date}"})
    for _ in range(3):
        lake.land(10)
        publisher(context.group, context.entry, context.store).publish(context.follower())

    found = DeltaTable(f"{tmp_path}/landed/clicks")
    query = QueryBuilder().register("t", found).execute("select id, _partition, _offset from t")
    rows = pa.table(query.read_all()).to_pylist()
    assert {r["id"]: (r["_partition"], r["_offset"]) for r in rows} == lake.expected()
    assert len(rows) == len(lake.expected())
