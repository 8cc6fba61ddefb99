"""The publisher ``Delta``: options, columns, partitions, and what others do to tables."""

import io
import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.schema import PrimitiveType
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from landfall.errors import Reason, Retry, Stalled
from landfall.formats.parquet import ParquetEncoder, ParquetFormat
from landfall.publish.building import publisher
from landfall.publish.context import Context
from landfall.publish.delta.files import partition_folders, partition_value, stats
from landfall.publish.library_errors import REPEATS
from tests.support.ledger.sample_backfill import Again, Backfill
from tests.support.publishers.lake import CLICKS, ORDERS, Landed
from tests.support.publishers.parquet_files import rewritten, with_column
from tests.unit.publish.test_replacing import _landed

Options = dict[str, Any]


def options(root: Path, **more: Any) -> Options:
    (root / "tables").mkdir(exist_ok=True)
    return {"table": f"file://{root}/tables/{{topic}}", **more}


def built(context: Context) -> Any:
    return publisher(context.group, context.entry, context.store)


def publish(context: Context) -> None:
    built(context).publish(context.follower())


def table(root: Path) -> DeltaTable:
    return DeltaTable(f"{root}/tables/clicks")


def rows(root: Path, select: str = "select * from t order by _offset") -> list[Any]:
    found = QueryBuilder().register("t", table(root)).execute(select).read_all()
    return pa.table(found).to_pylist()


def offsets(root: Path) -> list[int]:
    return [row["_offset"] for row in rows(root)]


def test_landed_files_become_the_rows_of_a_table_and_folders_its_partitions(
    tmp_path: Path,
) -> None:
    landed = Landed(tmp_path).land(CLICKS, ORDERS).settle()

    publish(landed.context("Delta", options(tmp_path)))

    assert offsets(tmp_path) == [*range(10)]
    assert {row["dt"] for row in rows(tmp_path)} == {"2026-11-21"}
    assert table(tmp_path).metadata().partition_columns == ["dt"]
    added = table(tmp_path).get_add_actions()
    assert pa.table(added)["path"].to_pylist() == [landed.url(landed.keys("clicks")[0])]
    assert rows(tmp_path, "select count(*) c from t where dt = '2026-11-22'") == [{"c": 0}]
    assert rows(tmp_path, "select count(*) c from t where _offset >= 7") == [{"c": 3}]


def test_columns_that_appear_are_added(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Delta", options(tmp_path))
    publish(context)
    landed.land(CLICKS).settle()
    rewritten(landed, landed.keys("clicks")[1], with_column("place", [{"city": "Oslo"}] * 10))

    publish(context)

    assert [row["place"] for row in rows(tmp_path)] == [*[None] * 10, *[{"city": "Oslo"}] * 10]


@pytest.mark.parametrize(
    ("more", "column", "why"),
    [
        ({}, "name", "column name is long in the file and string in the table"),
        ({"schemaEvolution": "None"}, "new", "it has columns new; add them to the table, or set"),
    ],
)
def test_a_file_that_does_not_fit_its_table_stalls(
    tmp_path: Path, more: Options, column: str, why: str
) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Delta", options(tmp_path, **more))
    publish(context)
    landed.land(CLICKS).settle()
    rewritten(landed, landed.keys("clicks")[1], with_column(column, range(10)))

    with pytest.raises(Stalled, match=why) as caught:
        publish(context)

    assert caught.value.reason is Reason.DESTINATION_CONFLICT
    assert landed.url(landed.keys("clicks")[1]) in str(caught.value)
    assert offsets(tmp_path) == [*range(10)]


def test_an_object_that_is_gone_is_said(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    url = landed.url(landed.keys("clicks")[0])
    Path(url.removeprefix("file://")).unlink()

    with pytest.raises(Stalled, match=f"object {url} is not there") as caught:
        publish(landed.context("Delta", options(tmp_path)))

    assert caught.value.reason is Reason.OBJECT_LOST


def restored(to: int) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / "tables/clicks/_delta_log").mkdir(exist_ok=True)
        _restore(root, {"version": to})

    return change


def _restore(root: Path, parameters: Options) -> None:
    """Restore a table as Spark does: remove what was added later, and say so in the log."""
    now, log = table(root), root / "tables/clicks/_delta_log"
    then = DeltaTable(f"{root}/tables/clicks", version=parameters.get("version", 1))
    kept = set(pa.table(then.get_add_actions())["path"].to_pylist())
    removed = set(pa.table(now.get_add_actions())["path"].to_pylist()) - kept
    written = {
        "operation": "RESTORE",
        "operationParameters": parameters,
        "timestamp": int(time.time() * 1000),
    }
    lines: list[Options] = [{"commitInfo": written}]
    lines += [
        {
            "remove": {
                "path": path,
                "dataChange": True,
                "deletionTimestamp": 0,
                "extendedFileMetadata": True,
                "partitionValues": {"dt": "2026-11-21"},
                "size": 1,
            }
        }
        for path in removed
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (log / f"{now.version() + 1:020}.json").write_text(text)


def restored_by_time(root: Path) -> None:
    when = table(root).history()[-2]["timestamp"]
    _restore(root, {"datetime": datetime.fromtimestamp(when / 1000, UTC).isoformat()})


CHANGES: dict[str, Callable[[Path], Any]] = {
    "restored": restored(2),
    "restored twice": lambda root: (restored(3)(root), restored(1)(root)),
    "restored by delta-rs": lambda root: table(root).restore(2),
    "restored to nothing": restored(0),
    "restored by time": restored_by_time,
    "columns added": lambda root: table(root).alter.set_table_description("x"),
    "checkpointed": lambda root: table(root).create_checkpoint(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_others_change_keeps_every_row_once(tmp_path: Path, change: str) -> None:
    landed = Landed(tmp_path)
    context = landed.context("Delta", options(tmp_path))
    for _ in range(3):
        landed.land(CLICKS).settle()
        publish(context)

    CHANGES[change](tmp_path)

    publish(context)
    assert offsets(tmp_path) == [*range(30)]
    landed.land(CLICKS).settle()
    publish(context)
    assert offsets(tmp_path) == [*range(40)]


def test_vacuum_deletes_no_landed_object(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Delta", options(tmp_path))
    publish(context)
    landed.land(CLICKS).settle()
    built(context).reset(context.follower())

    for full in (True, False):
        table(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False, full=full)

    publish(context)
    assert offsets(tmp_path) == [*range(20)]


def inside(root: Path, *directories: str) -> tuple[Landed, Context]:
    """A topic whose objects land in these folders one after the other, and a table around them."""
    landed = Landed(root)
    for directory in directories:
        landed.sample.directory = directory
        landed.land(CLICKS).settle()
    where = {"table": landed.url("{topic}")}
    return landed, landed.context("Delta", where, route={"pattern": "_landed/dt={date}"})


def table_inside(root: Path) -> DeltaTable:
    return DeltaTable(f"{root}/landed/clicks")


def offsets_inside(root: Path) -> list[int]:
    found = QueryBuilder().register("t", table_inside(root)).execute("select * from t").read_all()
    return sorted(pa.table(found)["_offset"].to_pylist())


def paths_inside(root: Path) -> list[str]:
    escaped = pa.table(table_inside(root).get_add_actions())["path"].to_pylist()
    return sorted(map(unquote, escaped))


def test_a_table_around_its_objects_has_paths_that_every_engine_knows(tmp_path: Path) -> None:
    escaped = "_landed/dt=S%C3%A3o%20%25=+"
    landed, context = inside(tmp_path, "_landed/dt=2026-11-21", escaped)

    publish(context)

    assert offsets_inside(tmp_path) == [*range(20)]
    assert sorted(table_inside(tmp_path).to_pyarrow_table()["_offset"].to_pylist()) == [*range(20)]
    assert [path.rpartition("/")[0] for path in paths_inside(tmp_path)] == [
        "_landed/dt=2026-11-21",
        escaped,
    ]
    landed.land(CLICKS).settle()
    publish(context)
    assert offsets_inside(tmp_path) == [*range(30)]


def test_vacuum_deletes_no_landed_object_in_the_folder_of_its_table(tmp_path: Path) -> None:
    landed, context = inside(tmp_path, *["_landed/dt=2026-11-21"] * 2)
    publish(context)
    table_inside(tmp_path).delete("_offset < 10")  # the first object leaves the table
    landed.land(CLICKS).settle()  # not in the table yet
    keys = [key for key in landed.keys("clicks") if key.startswith("clicks/_landed/dt=")]

    for full in (True, False):
        table_inside(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False, full=full)

    assert [k for k in landed.keys("clicks") if k.startswith("clicks/_landed/dt=")] == keys
    kept = table_inside(tmp_path).metadata().configuration
    assert kept == {
        "delta.checkpointInterval": "30",
        "delta.deletedFileRetentionDuration": "interval 36500 days",
    }
    built(context).reset(context.follower())
    assert offsets_inside(tmp_path) == [*range(30)]


def test_objects_that_vacuum_would_delete_keep_a_table_away(tmp_path: Path) -> None:
    landed, context = inside(tmp_path, "_landed/dt=2026-11-21", "dt=2026-11-21")

    with pytest.raises(Stalled, match=r"VACUUM would delete .*clicks/dt=2026") as caught:
        publish(context)

    assert caught.value.reason is Reason.DESTINATION_CONFLICT
    assert not [key for key in landed.keys("clicks") if "_delta_log" in key]


def test_a_table_around_its_objects_is_dropped_by_its_log(tmp_path: Path) -> None:
    """The page says so; what other engines wrote into it may be theirs, except vectors."""
    _, context = inside(tmp_path, "_landed/dt=2026-11-21")
    publish(context)
    folder = tmp_path / "landed/clicks"
    shutil.rmtree(folder / "_delta_log")
    publish(context)
    assert offsets_inside(tmp_path) == [*range(10)]
    (folder / f"deletion_vector_{UUID(int=7)}.bin").write_bytes(b"x")
    shutil.rmtree(folder / "_delta_log")
    publish(context)
    assert offsets_inside(tmp_path) == [*range(10)]
    (folder / "part-7.parquet").write_bytes(b"x")
    publish(context)
    shutil.rmtree(folder / "_delta_log")

    with pytest.raises(Stalled, match=r"delete .*part-7.parquet, .*another engine wrote it"):
        publish(context)

    (folder / "part-7.parquet").unlink()
    publish(context)
    assert offsets_inside(tmp_path) == [*range(10)]


def test_a_backfill_moves_old_objects_to_where_a_table_may_be_around_them(tmp_path: Path) -> None:
    landed, context = inside(tmp_path, "dt=2026-11-21", "dt=2026-11-21")
    sample, there = landed.sample, "_landed/dt=2026-11-21"
    again = [Again(CLICKS, start, start + 10, directory=there) for start in (0, 10)]
    made = Backfill(sample, [(o.landed_slot, o.landed) for o in _landed(sample)], *again)
    with pytest.raises(Stalled, match="VACUUM would delete"):
        publish(context)

    made.record().complete().keep_copies()
    sample.store.delete_slots([each.landed.upload.key for each in made.retire])
    sample.shown()

    publish(context)
    assert offsets_inside(tmp_path) == [*range(20)]
    assert {path.rpartition("/")[0] for path in paths_inside(tmp_path)} == {there}


def test_an_object_outside_of_the_folder_that_vacuum_passes_over_stalls(tmp_path: Path) -> None:
    landed, context = inside(tmp_path, "_landed/dt=2026-11-21")
    publish(context)
    landed.sample.directory = "dt=2026-11-21"  # by a spec without this publisher, say
    landed.land(CLICKS).settle()

    with pytest.raises(Stalled, match="VACUUM deletes it unless its first folder there begins"):
        publish(context)

    assert offsets_inside(tmp_path) == [*range(10)]


def test_output_may_be_in_a_folder_of_the_table_that_vacuum_passes_over(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/lake/_landed"
    landed = Landed(tmp_path, output={"url": url}).land(CLICKS).settle()

    publish(landed.context("Delta", {"table": f"file://{tmp_path}/lake"}))

    path = landed.keys("clicks")[0]
    found = DeltaTable(f"{tmp_path}/lake")
    assert pa.table(found.get_add_actions())["path"].to_pylist() == [f"_landed/{path}"]
    assert found.to_pyarrow_table().num_rows == 10


def test_a_table_of_another_ledger_is_not_mixed_up(tmp_path: Path) -> None:
    publish(Landed(tmp_path).land(CLICKS).settle().context("Delta", options(tmp_path)))
    other = Landed(tmp_path / "moved").land(CLICKS).settle()

    with pytest.raises(Stalled, match="it follows the ledger in file://"):
        publish(other.context("Delta", options(tmp_path)))


def test_partition_columns_are_dates_and_numbers_by_choice(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()

    publish(landed.context("Delta", options(tmp_path, partitionTypes={"dt": "Date"})))

    assert table(tmp_path).schema().to_arrow().field("dt").type == pa.date32()
    assert {row["dt"] for row in rows(tmp_path)} == {date(2026, 11, 21)}
    found = rows(tmp_path, "select count(*) c from t where dt >= date '2026-11-21'")
    assert found == [{"c": 10}]


def test_a_table_keeps_the_types_that_its_partition_columns_have(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    publish(landed.context("Delta", options(tmp_path)))
    landed.land(CLICKS).settle()

    publish(landed.context("Delta", options(tmp_path, partitionTypes={"dt": "Date"})))

    assert [row["dt"] for row in rows(tmp_path)] == ["2026-11-21"] * 20


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "04", "04"),
        ("date", "2026-11-21", "2026-11-21"),
        ("date", None, None),
        ("integer", "04", "4"),
        ("integer", "-2147483648", "-2147483648"),
        ("long", "9223372036854775807", "9223372036854775807"),
        ("timestamp", "2026-11-21 04:00:00", "2026-11-21 04:00:00"),
    ],
)
def test_a_folder_is_a_value_of_its_column(kind: str, text: str | None, value: str | None) -> None:
    assert partition_value(text, PrimitiveType(kind)) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "20261121"),
        ("date", "2026-02-29"),
        ("date", ""),
        ("integer", "2147483648"),
        ("integer", "4.0"),
        ("long", "9223372036854775808"),
        ("long", "٤"),
    ],
)
def test_a_folder_that_is_no_value_of_its_column_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"folder value '{text}' is no {kind}, as the table's"):
        partition_value(text, PrimitiveType(kind))


def test_a_file_in_a_folder_that_is_no_value_stalls(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()

    with pytest.raises(Stalled, match=r"folder value '2026-11-21' is no integer, as the table's"):
        publish(landed.context("Delta", options(tmp_path, partitionTypes={"dt": "Int32"})))


def test_a_type_of_no_partition_column_stalls(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()

    with pytest.raises(Stalled, match=r"option partitionTypes: table .* has no partition column h"):
        publish(landed.context("Delta", options(tmp_path, partitionTypes={"hr": "Int32"})))
    given = options(tmp_path, partitionBy=["dt"], partitionTypes={"hr": "Int32"})
    with pytest.raises(Stalled, match=r"partitionTypes: hr is not in partitionBy"):
        built(landed.context("Delta", given))


def test_a_rebuild_reads_the_files_of_a_table_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Landed(tmp_path).land(CLICKS).settle().context("Delta", options(tmp_path))
    publish(context)
    read = list[str]()
    real = DeltaTable.get_add_actions

    def counted(self: DeltaTable, *args: Any) -> Any:
        read.append(self.table_uri)
        return real(self, *args)

    monkeypatch.setattr(DeltaTable, "get_add_actions", counted)

    built(context).reset(context.follower())

    assert len(read) == 1


def test_a_file_that_is_in_none_of_the_folders_stalls(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()

    with pytest.raises(Stalled, match=r"is in no folder hr=…, by which its table is partitioned"):
        publish(landed.context("Delta", options(tmp_path, partitionBy=["dt", "hr"])))


@pytest.mark.parametrize(
    ("of", "why"),
    [
        ("lake.{topic}", "expected the URL of a folder, such as s3://lake/tables/{topic}, got"),
        ("landed/tables/{topic}", "a table must not be in output.url"),
        ("landed", "a table must not be in output.url"),
        ("landed/{topic}", "a table in the folder of its topic needs a route without topicPath"),
        ("", "output.url file://.*/landed/ is in the folder of table file://"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(tmp_path: Path, of: str, why: str) -> None:
    landed = Landed(tmp_path)
    url = of if of.startswith("lake") else f"file://{tmp_path}/{of}".rstrip("/")

    with pytest.raises(Stalled, match=rf"spec.publish\[0\]\.options\.table: {why}"):
        built(landed.context("Delta", {"table": url}))


def test_folders_have_values_as_hive_writes_them() -> None:
    key = (
        "t/dt=2026-11-21/place=S%C3%A3o%20%3D/none=__HIVE_DEFAULT_PARTITION__/x/1_0_{:020}.parquet"
    )

    assert partition_folders(key.format(7)) == [
        ("dt", "2026-11-21"),
        ("place", "São ="),
        ("none", None),
    ]


def test_a_file_in_a_folder_with_escapes_is_found(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    source = landed.keys("clicks")[0]
    key = source.replace("dt=2026-11-21", "dt=S%C3%A3o%20%25=+")
    landed.store.create(key, landed.store.read(source) or b"")
    seen = next(iter(landed.follower().stretches(-1)))
    upload = structs.replace(seen.objects[0].landed.upload, key=key)
    moved = replace(
        seen.objects[0],
        landed=structs.replace(seen.objects[0].landed, upload=upload),
        time="2026-11-21T10:00:00Z",
    )
    tables = built(landed.context("Delta", options(tmp_path))).tables

    tables.append(f"{tmp_path}/tables/clicks", lambda _: replace(seen, objects=(moved,)))

    assert offsets(tmp_path) == [*range(10)]
    assert {row["dt"] for row in rows(tmp_path)} == {"São %=+"}
    (written,) = pa.table(table(tmp_path).get_add_actions())["modification_time"].to_pylist()
    assert datetime.fromtimestamp(written / 1000, UTC) == datetime(2026, 11, 21, 10, tzinfo=UTC)


FIRST, LAST = (datetime(year, 1, 1) for year in (1000, 9999))  # noqa: DTZ001  # hypothesis wants it
TIMES = st.datetimes(FIRST, LAST)


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(),
            st.none() | st.text(max_size=70),
            st.none() | TIMES,
        ),
        min_size=1,
    )
)
def test_statistics_hold_for_every_row(given_rows: list[Any]) -> None:
    kinds = [pa.int64(), pa.float64(), pa.string(), pa.timestamp("us", "UTC")]
    names = ["i", "f", "s", "t"]
    columns = [pa.array(c, k) for c, k in zip(zip(*given_rows, strict=True), kinds, strict=True)]
    table, encoder = pa.table(columns, names), ParquetEncoder(ParquetFormat.of({}))
    groups = [encoder.write(table.slice(at, 3), None) for at in range(0, len(table), 3)]

    found = json.loads(stats(pq.read_metadata(io.BytesIO(b"".join([*groups, encoder.finish()])))))

    assert found["numRecords"] == len(given_rows)
    for name, column in zip(names, columns, strict=True):
        assert found["nullCount"][name] == column.null_count
        least, greatest = found["minValues"].get(name), found["maxValues"].get(name)
        for value in column.drop_null().to_pylist() if least is not None else ():
            if isinstance(value, datetime):
                parsed = [datetime.fromisoformat(text) for text in (least, greatest)]
                assert parsed[0] <= value <= parsed[1]
            else:
                assert least <= value <= greatest  # with NaN there are no bounds
    finite = [each for each in columns[1].drop_null().to_pylist() if math.isfinite(each)]
    if finite and len(finite) == len(columns[1].drop_null()):
        assert [found["minValues"]["f"], found["maxValues"]["f"]] == [min(finite), max(finite)]


def test_bounds_of_floats_that_do_not_count_nan_are_not_taken() -> None:
    body = io.BytesIO()
    pq.write_table(pa.table({"f": [1.0, math.nan]}), body)

    found = json.loads(stats(pq.read_metadata(body)))

    assert (found["maxValues"], found["nullCount"]) == ({}, {})


def test_what_no_try_can_mend_is_a_conflict(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Delta", options(tmp_path))
    publish(context)
    features = {"readerFeatures": ["unheardOf"], "writerFeatures": ["unheardOf"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    version = table(tmp_path).version() + 1
    log = tmp_path / f"tables/clicks/_delta_log/{version:020}.json"
    log.write_text(json.dumps({"protocol": protocol}) + "\n")
    landed.land(CLICKS).settle()
    publisher, follower = built(context), context.follower()
    found = list[Any]()

    for _ in range(REPEATS):
        with pytest.raises((Retry, Stalled), match="unheardOf") as caught:
            publisher.publish(follower)
        found.append(caught.value)

    assert [isinstance(each, Retry) for each in found] == [True] * (REPEATS - 1) + [False]
    assert found[-1].reason is Reason.DESTINATION_CONFLICT


@pytest.mark.parametrize("then", [0, 1])
def test_files_of_milliseconds_and_of_microseconds_are_rows_of_one_table(
    tmp_path: Path, then: int
) -> None:
    """Earlier versions landed milliseconds (ADR 0038)."""
    landed = Landed(tmp_path).land(CLICKS).land(CLICKS).settle()
    rewritten(
        landed,
        landed.keys("clicks")[then],
        lambda t: with_column("_timestamp", t["_timestamp"].cast(pa.timestamp("ms", "UTC")))(t),
    )

    publish(landed.context("Delta", options(tmp_path)))

    assert offsets(tmp_path) == [*range(20)]
    late = "select count(*) c from t where _timestamp >= '2026-11-21T00:05:00Z'"
    assert rows(tmp_path, late) == [{"c": 15}]


@pytest.mark.parametrize(
    ("micros", "bounds"),
    [
        ([0, 1500], ["1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.002Z"]),
        ([-1, 1000], ["1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.001Z"]),
        ([0, 253_402_300_799_999_999], None),
    ],
)
def test_bounds_of_microseconds_are_milliseconds_around_them(
    micros: list[int], bounds: list[str] | None
) -> None:
    body = io.BytesIO()
    pq.write_table(pa.table({"at": pa.array(micros, pa.timestamp("us", "UTC"))}), body)

    found = json.loads(stats(pq.read_metadata(body)))

    either = [found[name].get("at") for name in ("minValues", "maxValues")]
    assert either == (bounds or [None, None])
