"""Keyed Delta tables: what their logs have; test_keyed_tables has what they show."""

import io
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from landfall.errors import Stalled
from landfall.publish.building import publisher
from landfall.publish.choice import TableChoice
from landfall.publish.delta.unnamed_files import MARKS, delete_unnamed
from landfall.publish.keyed.index import FOLDER
from landfall.store.memory import MemoryStore
from tests.support.publishers.keyed import SCHEMA, Change, Changes, listed, random_changes
from tests.support.publishers.keyed_delta import KeyedDeltaLake
from tests.support.publishers.lake import DAY, Killed, LogStore, killed_at


@pytest.fixture
def lake(tmp_path: Path) -> KeyedDeltaLake:
    return KeyedDeltaLake(tmp_path, Changes(random_changes(1)))


def test_files_stay_and_vectors_leave_the_newest_rows(tmp_path: Path) -> None:
    lake = KeyedDeltaLake(
        tmp_path, listed(Change(1), Change(2), Change(1), Change(2, deleted=True))
    )
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
    lake = KeyedDeltaLake(tmp_path, Changes(lambda _, offset: Change(offset)))
    lake.land()
    lake.publish()
    lake.land()

    lake.publish()

    names = [name for action in lake.commit_of(lake.version()) for name in action]
    assert sorted(names) == ["add", "commitInfo", "txn"]


def test_checkpoints_have_the_vectors(lake: KeyedDeltaLake) -> None:
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
def test_whatever_call_it_dies_at_the_table_is_right(lake: KeyedDeltaLake, number: int) -> None:
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


def test_what_no_version_names_is_deleted_after_a_while(lake: KeyedDeltaLake) -> None:
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


def test_a_rebuild_gives_a_column_the_type_of_the_files_that_are_left(tmp_path: Path) -> None:
    lake = KeyedDeltaLake(tmp_path, Changes(lambda _, offset: Change(offset % 4)))
    lake.land(6)
    lake.publish()
    old = frozenset(o.key for o in lake.live())
    schema = SCHEMA.set(SCHEMA.get_field_index("name"), pa.field("name", pa.int64()))
    rows = [{"_partition": 0, "_offset": n, "id": n % 4, "name": n} for n in range(6, 12)]
    pq.write_table(pa.Table.from_pylist(rows, schema), body := io.BytesIO())
    lake.landed.sample.body = lambda _: body.getvalue()
    lake.land(6)
    with pytest.raises(Stalled, match="column name is long in the file and string in the table"):
        lake.publish()
    left = replace(lake.publisher(), choice=TableChoice(skip=old))

    left.reset(lake.landed.follower())

    found = sorted((row["id"], row["name"]) for row in lake.rows(["id", "name"]))
    assert found == [(0, 8), (1, 9), (2, 10), (3, 11)]
    removes = [a["remove"] for a in lake.commit_of(lake.version()) if "remove" in a]
    assert [remove["deletionVector"]["cardinality"] for remove in removes] == [2]


def test_a_merge_reads_no_keys_and_changes_no_data(lake: KeyedDeltaLake) -> None:
    lake.land(12)
    lake.land(12)
    lake.publish()
    before = sorted(row["_offset"] for row in lake.rows())
    lake.merge(0, 1, columns=("_partition", "_offset"))

    lake.publish()

    assert sorted(row["_offset"] for row in lake.rows(["_offset"])) == before
    changes = [a.get("add") or a.get("remove", {}) for a in lake.commit_of(lake.version())]
    assert [change["dataChange"] for change in changes if "path" in change] == [False] * 3


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
    lake: KeyedDeltaLake, more: dict[str, Any], message: str
) -> None:
    described = {"table": f"file://{lake.root}/tables/{{topic}}", "mode": "Keyed", **more}
    context = lake.landed.context("Delta", described)

    with pytest.raises(Stalled, match=re.escape(message)):
        publisher(context.group, context.entry, context.store)


def test_changes_without_the_column_of_deletions_are_refused(lake: KeyedDeltaLake) -> None:
    described = {"table": f"file://{lake.root}/tables/{{topic}}", "mode": "Keyed", "key": ["id"]}
    columns = [{"name": "id", "type": "Int64"}, {"name": "_op", "type": "String"}]

    def build(*more: dict[str, str], **options: str) -> None:
        decode = {"format": "Json", "envelope": "Debezium", "columns": [*columns, *more]}
        context = lake.landed.context("Delta", {**described, **options}, decode=decode)
        publisher(context.group, context.entry, context.store)

    with pytest.raises(Stalled, match=r"declare \{name: _deleted, type: Boolean"):
        build()
    build({"name": "_deleted", "type": "Boolean"})
    gone = {"name": "gone", "type": "Boolean", "field": "_deleted"}
    build(gone, deleted="gone")
    with pytest.raises(Stalled, match="no column _deleted is declared, so rows that were deleted"):
        build(gone)


def test_a_publisher_by_its_options_keys_a_table_around_its_objects(tmp_path: Path) -> None:
    lake = KeyedDeltaLake(tmp_path, Changes(random_changes(5)))
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
