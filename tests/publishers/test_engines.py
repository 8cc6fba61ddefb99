"""Tables that Landfall publishes, read and changed by engines that did not write them.

One test for each destination runs always, with what most users do. The others are part of ``make
publisher-suite``. The documentation of a publisher names an engine only if it is asked here.
"""

import math
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from moto.glue.responses import GlueResponse

from landfall.errors import Stalled
from landfall.ledger.task_results import DecidedObject
from landfall.publish.building import publisher
from tests.support.publishers.engines import EngineError, Engines
from tests.support.publishers.lake import CLICKS, Landed
from tests.support.publishers.parquet_files import landed_again, with_column
from tests.support.publishers.published import COLUMNS, PublishedOrders, rows_of
from tests.support.publishers.table_places import TablePlaces
from tests.support.stores.aws_server import aws_server
from tests.support.stores.s3 import Bucket
from tests.unit.publish.test_replaced_held import cleaner, iceberg, load, merge
from tests.unit.publish.test_replacing import ParquetMerge, _landed

pytestmark = pytest.mark.xdist_group("engines")
suite = pytest.mark.full

WITH_VECTORS = ("polars", "kernel", "deltalake")
"""Readers of Delta tables, besides Spark and DuckDB, that know deletion vectors."""
DECLARED = "id, customer, amount, ts"
SECOND_DAY = "timestamp '2026-11-21 00:00:00+00'"
EVERYTHING = f"select {DECLARED} from {{t}} order by id"
ON_SECOND_DAY = f"select count(*) n from {{t}} where ts >= {SECOND_DAY}"


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    started = Engines.start()
    yield started
    started.stop()


def ids(table: PublishedOrders) -> list[int]:
    return [row["id"] for row in table.spark("select id from {t} order by id")]


@pytest.fixture
def s3_access(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket that the publisher reaches by the environment, as a driver does."""
    for name, value in bucket.server.env.items():
        monkeypatch.setenv(name, value)
    return bucket


# --------------------------------------------------------------------------------------- Iceberg


def test_iceberg_tables_are_read_and_changed_by_others(engines: Engines, tmp_path: Path) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Iceberg", engines).land(0, 40, 100).publish()

    assert table.spark(EVERYTHING) == rows_of(range(100))
    assert table.spark(ON_SECOND_DAY) == [{"n": 50}]
    assert len(table.spark("select * from {t}")) == 100
    assert table.duckdb(EVERYTHING) == rows_of(range(100))
    assert table.duckdb(ON_SECOND_DAY) == [{"n": 50}]
    assert table.ask("polars", EVERYTHING) == rows_of(range(100))

    table.spark("delete from {t} where id < 5")

    assert ids(table.land(100, 120).publish()) == [*range(5, 120)]


@suite
def test_iceberg_tables_are_updated_merged_and_compacted_by_spark(
    engines: Engines, tmp_path: Path
) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Iceberg", engines).land(0, 40, 100).publish()

    table.spark("update {t} set customer = 'gone' where id = 7")
    table.spark(
        "merge into {t} using (select 8L id union all select 9L) s on {t}.id = s.id "
        "when matched and s.id = 8 then delete when matched then update set amount = -1"
    )
    table.spark("call landfall.system.rewrite_data_files(table => 'lake.orders')")
    table.land(100, 120).publish()

    wanted = rows_of([n for n in range(120) if n != 8])
    wanted[7]["customer"], wanted[8]["amount"] = "gone", -1.0
    assert table.spark(EVERYTHING) == wanted
    assert table.duckdb(EVERYTHING) == wanted
    assert table.ask("pyiceberg", "id = 9")[0]["amount"] == -1.0


@suite
def test_filters_on_times_of_iceberg_tables_skip_files(engines: Engines, tmp_path: Path) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Iceberg", engines).land(0, 40, 100).publish()
    files = f"select distinct input_file_name() f from {{t}} where ts >= {SECOND_DAY}"

    assert len(table.spark(files)) == 2
    assert table.spark("select count(*) n from {t}.files".replace("{t}", "landfall.lake.orders"))[
        0
    ] == {"n": 4}


@suite
def test_earlier_snapshots_of_iceberg_tables_are_read(engines: Engines, tmp_path: Path) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Iceberg", engines).land(0, 40).publish()
    ((first,),) = (
        row.values()
        for row in table.spark("select snapshot_id from landfall.lake.orders.snapshots")
    )

    table.land(40, 100).publish()

    assert table.spark(f"select count(*) n from {{t}} version as of {first}") == [{"n": 40}]
    assert table.spark("select count(*) n from {t}") == [{"n": 100}]


@suite
def test_duckdb_reads_each_kept_snapshot_once_merged_objects_are_deleted(
    engines: Engines, tmp_path: Path
) -> None:
    lake = iceberg(tmp_path)
    load(lake).manage_snapshots().create_tag(
        load(lake).metadata.current_snapshot_id, "audited"
    ).commit()
    merge(lake, 0, 1)
    lake.landed.land(CLICKS).settle().land(CLICKS).settle()
    lake.publish()
    later = merge(lake, 3, 4)
    lake.publish()
    driver = cleaner(lake)
    for _ in range(6):
        driver.advance(timedelta(days=1))
    assert not {each.key for each in later.retire} & {*lake.landed.keys("clicks")}

    table = load(lake)

    def rows(snapshot: int) -> int:
        scan = f"iceberg_scan('{table.metadata_location}', snapshot_from_id => {snapshot})"
        ((found,),) = (
            row.values() for row in engines.ask("duckdb", f"select count(_offset) from {scan}")
        )
        return int(found)

    kept = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number)
    assert [rows(each.snapshot_id) for each in kept] == [10, 20, 30, 30, 50]


@suite
def test_spark_deletes_no_file_of_iceberg_tables(engines: Engines, tmp_path: Path) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Iceberg", engines).land(0, 40, 100).publish()
    named = "table => 'lake.orders'"

    for call in (
        f"expire_snapshots({named}, older_than => timestamp '2100-01-01 00:00:00')",
        f"remove_orphan_files({named}, older_than => timestamp '2020-01-01 00:00:00')",
    ):
        with pytest.raises(EngineError, match=r"gc\.enabled|GC is disabled"):
            table.spark(f"call landfall.system.{call}")
    table.spark(f"call landfall.system.rewrite_manifests({named})")

    table.land(100, 120).publish()
    assert table.spark(EVERYTHING) == rows_of(range(120))


@suite
def test_iceberg_tables_whose_columns_changed_are_read(engines: Engines, tmp_path: Path) -> None:
    narrow = [{**c, "type": "Int32"} if c["name"] == "id" else c for c in COLUMNS[:2]]
    table = (
        PublishedOrders(TablePlaces(tmp_path), "Iceberg", engines, columns=narrow)
        .land(0, 40)
        .publish()
    )

    table.evolve(COLUMNS).land(40, 100).publish()

    old = [row | {"amount": None, "ts": None} for row in rows_of(range(40))]
    assert table.spark(EVERYTHING) == old + rows_of(range(40, 100))
    assert table.duckdb(EVERYTHING) == old + rows_of(range(40, 100))


@suite
def test_iceberg_tables_that_were_rebuilt_are_read(engines: Engines, tmp_path: Path) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Iceberg", engines).land(0, 40, 100).publish()
    table.spark("delete from {t} where id < 5")

    table.rebuild()

    assert table.spark(EVERYTHING) == rows_of(range(100))
    assert table.duckdb(EVERYTHING) == rows_of(range(100))


# ------------------------------------------------------------------------------------------ both

AMOUNTS: Sequence[Sequence[float | None]] = (
    [0.5, -0.0, 7.5],
    [1.0, math.nan, 3.0],
    [math.nan] * 3,
    [None] * 3,
    [2.0, math.inf, 3.0],
)
"""What ten objects have, two each: no NaN, some, nothing else, nothing at all, an infinity."""
CONDITIONS = ("amount > 5", "amount <= 0", "amount = 7.5", "amount is null", "amount is not null")


@suite
@pytest.mark.parametrize(
    ("kind", "engine", "is_nan"),
    [
        ("Iceberg", "spark", "isnan(amount)"),
        ("Iceberg", "duckdb", "isnan(amount)"),
        ("Iceberg", "polars", "amount > 1000"),
        ("Delta", "spark", "isnan(amount)"),
        ("Delta", "duckdb", "isnan(amount)"),
        ("Delta", "polars", "amount > 1000"),
        ("Delta", "kernel", "amount > 1000"),
        ("Delta", "deltalake", "isnan(amount)"),
    ],
)
def test_filters_on_floats_lose_no_row_by_statistics(
    engines: Engines, tmp_path: Path, kind: str, engine: str, is_nan: str
) -> None:
    """A condition finds the rows for which the same engine says that it holds, file by file."""
    table = PublishedOrders(TablePlaces(tmp_path, is_around=kind == "Delta"), kind, engines)
    for n, amounts in enumerate(AMOUNTS):
        before = {*(tmp_path / "landed").rglob("*.parquet")}
        table.land(6 * n, 6 * n + 6)
        for path in {*(tmp_path / "landed").rglob("*.parquet")} - before:
            landed_again(path, with_column("amount", amounts, pa.float64()))
    table.publish()
    ask = {"spark": table.spark, "duckdb": table.duckdb}.get(engine, partial(table.ask, engine))

    for condition in (*CONDITIONS, is_nan):
        said = ask(f"select id, {condition} as holds from {{t}}")
        found = ask(f"select id from {{t}} where {condition}")
        wanted = sorted(row["id"] for row in said if row["holds"])
        assert sorted(row["id"] for row in found) == wanted, condition
        assert wanted, condition


# ----------------------------------------------------------------------------------------- Delta


def test_delta_tables_are_read_and_changed_by_others(engines: Engines, tmp_path: Path) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Delta", engines).land(0, 40, 100).publish()

    assert table.spark(EVERYTHING) == rows_of(range(100))
    assert table.spark(ON_SECOND_DAY) == [{"n": 50}]
    assert len(table.spark("select * from {t}")) == 100
    for engine in ("deltalake", "kernel"):
        assert table.ask(engine, EVERYTHING) == rows_of(range(100)), engine

    table.spark("delete from {t} where id < 5")

    assert ids(table.land(100, 120).publish()) == [*range(5, 120)]


@suite
def test_delta_tables_are_updated_and_merged_by_spark(engines: Engines, tmp_path: Path) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Delta", engines).land(0, 40, 100).publish()

    table.spark("update {t} set customer = 'gone' where id = 7")
    table.spark(
        "merge into {t} t using (select 8L id union all select 9L) s on t.id = s.id "
        "when matched and s.id = 8 then delete when matched then update set amount = -1"
    )
    table.spark("optimize {t}")
    table.land(100, 120).publish()

    wanted = rows_of([n for n in range(120) if n != 8])
    wanted[7]["customer"], wanted[8]["amount"] = "gone", -1.0
    assert table.spark(EVERYTHING) == wanted
    assert table.ask("kernel", EVERYTHING) == wanted


@suite
def test_earlier_versions_of_delta_tables_are_read(engines: Engines, tmp_path: Path) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Delta", engines).land(0, 40).publish()
    first = table.spark("describe history {t} limit 1")[0]["version"]

    table.land(40, 100).publish()

    assert table.spark(f"select count(*) n from {{t}} version as of {first}") == [{"n": 40}]


@suite
def test_delta_tables_whose_columns_changed_are_read(engines: Engines, tmp_path: Path) -> None:
    table = (
        PublishedOrders(TablePlaces(tmp_path), "Delta", engines, columns=COLUMNS[:2])
        .land(0, 40)
        .publish()
    )

    table.evolve(COLUMNS).land(40, 100).publish()

    old = [row | {"amount": None, "ts": None} for row in rows_of(range(40))]
    assert table.spark(EVERYTHING) == old + rows_of(range(40, 100))
    assert table.ask("kernel", EVERYTHING) == old + rows_of(range(40, 100))


@suite
def test_delta_tables_that_were_rebuilt_are_read(engines: Engines, tmp_path: Path) -> None:
    table = PublishedOrders(TablePlaces(tmp_path), "Delta", engines).land(0, 40, 100).publish()
    table.spark("delete from {t} where id < 5")

    table.rebuild()

    assert table.spark(EVERYTHING) == rows_of(range(100))
    assert table.ask("deltalake", EVERYTHING) == rows_of(range(100))


@suite
def test_delta_tables_around_their_objects_are_read_by_all(
    engines: Engines, tmp_path: Path
) -> None:
    places = TablePlaces(tmp_path, is_around=True)
    table = PublishedOrders(places, "Delta", engines).land(0, 40, 100).publish()

    assert table.duckdb(EVERYTHING) == rows_of(range(100))
    assert table.duckdb(ON_SECOND_DAY) == [{"n": 50}]
    for engine in ("polars", "daft", "kernel", "deltalake"):
        assert table.ask(engine, EVERYTHING) == rows_of(range(100)), engine
    assert table.spark(EVERYTHING) == rows_of(range(100))
    assert table.spark(ON_SECOND_DAY) == [{"n": 50}]


KEYED = {"mode": "Keyed", "key": ["customer"]}


def test_keyed_delta_tables_are_read_and_changed_by_others(
    engines: Engines, tmp_path: Path
) -> None:
    """The newest order of each of three customers, as each engine finds it."""
    places = TablePlaces(tmp_path, is_around=True)
    table = PublishedOrders(places, "Delta", engines, options=KEYED)
    table.land(0, 40).publish().land(40, 100).publish()

    for ask in (table.duckdb, table.spark, *(partial(table.ask, n) for n in WITH_VECTORS)):
        assert ask(EVERYTHING) == rows_of([97, 98, 99])
        assert ask("select count(*) n from {t} where amount < 24.5") == [{"n": 1}]
        assert ask("select count(*) n from {t} where id < 97") == [{"n": 0}]
    versions = table.spark("describe history {t}")
    first = next(row["version"] for row in reversed(versions) if row["operation"] == "WRITE")
    assert table.spark(f"select id from {{t}} version as of {first} order by id") == [
        {"id": number} for number in (37, 38, 39)
    ]

    table.spark("delete from {t} where id = 99")
    table.spark("optimize {t}")
    assert ids(table) == [97, 98]
    table.land(100, 101).publish()

    for ask in (table.duckdb, table.spark, *(partial(table.ask, n) for n in WITH_VECTORS)):
        assert ask(EVERYTHING) == rows_of([98, 100])


def test_keyed_iceberg_tables_are_read_and_changed_by_others(
    engines: Engines, tmp_path: Path
) -> None:
    """The newest order of each of three customers, as each engine finds it."""
    table = PublishedOrders(TablePlaces(tmp_path), "Iceberg", engines, options=KEYED)
    table.land(0, 40).publish().land(40, 100).publish()

    for ask in (table.duckdb, table.spark, partial(table.ask, "polars")):
        assert ask(EVERYTHING) == rows_of([97, 98, 99])
        assert ask("select count(*) n from {t} where amount < 24.5") == [{"n": 1}]
        assert ask("select count(*) n from {t} where id < 97") == [{"n": 0}]
    query = "select snapshot_id from {t}.snapshots order by committed_at"
    first = table.spark(query)[0]["snapshot_id"]
    assert table.spark(f"select id from {{t}} version as of {first} order by id") == [
        {"id": number} for number in (37, 38, 39)
    ]

    table.spark("alter table {t} set tblproperties ('write.delete.mode' = 'merge-on-read')")
    table.spark("delete from {t} where id = 99")
    table.spark("call landfall.system.rewrite_data_files(table => 'lake.orders')")
    assert ids(table) == [97, 98]
    table.land(100, 101).publish()

    for ask in (table.duckdb, table.spark, partial(table.ask, "polars")):
        assert ask(EVERYTHING) == rows_of([98, 100])
    options = "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    table.spark(f"call landfall.system.rewrite_data_files(table => 'lake.orders', {options})")
    assert table.spark("select count(*) n from {t}.delete_files") == [{"n": 0}]
    table.land(101, 103).publish()

    for ask in (table.duckdb, table.spark, partial(table.ask, "polars")):
        assert ask(EVERYTHING) == rows_of([100, 101, 102])


@suite
@pytest.mark.parametrize("catalog", ["sql", "rest"])
def test_keyed_iceberg_tables_on_s3_are_read_by_others(
    engines: Engines,
    tmp_path: Path,
    s3_access: Bucket,
    request: pytest.FixtureRequest,
    catalog: str,
) -> None:
    rest = request.getfixturevalue("iceberg_catalog") if catalog == "rest" else ""
    places = TablePlaces(tmp_path, s3_access, rest)
    topic = f"orders_{s3_access.name.replace('-', '_')}"
    table = PublishedOrders(places, "Iceberg", engines, topic=topic, options=KEYED)
    table.land(0, 40).publish().land(40, 100).publish()

    for ask in (table.duckdb, table.spark, partial(table.ask, "polars")):
        assert ask(EVERYTHING) == rows_of([97, 98, 99])
    assert table.ask("pyiceberg", "id < 98")[0]["amount"] == 24.25


@suite
@pytest.mark.parametrize("is_around", [True, False])
def test_keyed_delta_tables_on_s3_are_read_by_others(
    engines: Engines, tmp_path: Path, s3_access: Bucket, is_around: bool
) -> None:
    places = TablePlaces(tmp_path, s3_access, is_around=is_around)
    table = PublishedOrders(places, "Delta", engines, options=KEYED)
    table.land(0, 40).publish().land(40, 100).publish()

    for engine in WITH_VECTORS if is_around else ("kernel", "deltalake"):
        assert table.ask(engine, EVERYTHING) == rows_of([97, 98, 99]), engine
    assert table.spark(EVERYTHING) == rows_of([97, 98, 99])


@suite
def test_partition_columns_of_delta_tables_are_dates_by_choice(
    engines: Engines, tmp_path: Path
) -> None:
    places = TablePlaces(tmp_path, is_around=True)
    types = {"partitionTypes": {"dt": "Date"}}
    table = PublishedOrders(places, "Delta", engines, options=types).land(0, 40, 100).publish()
    on_second_day = "select count(*) n from {t} where dt > date '2026-11-20'"

    assert table.spark(on_second_day) == table.duckdb(on_second_day) == [{"n": 50}]
    assert table.ask("deltalake", on_second_day) == [{"n": 50}]
    assert table.spark("select distinct typeof(dt) t from {t}") == [{"t": "date"}]
    assert table.duckdb("select distinct typeof(dt) t from {t}") == [{"t": "DATE"}]
    files = "select distinct input_file_name() f from {t} where dt = date '2026-11-21'"
    assert len(table.spark(files)) == 2

    table.spark("delete from {t} where dt = date '2026-11-20'")

    assert ids(table.land(100, 120).publish()) == [*range(1, 100, 2), *range(100, 120)]


@suite
def test_delta_tables_whose_rows_have_deletion_vectors_are_followed(
    engines: Engines, tmp_path: Path
) -> None:
    """A vector of Spark's: files are added beside it, a merge says how to go on, and that works."""
    landed = Landed(tmp_path)
    landed.sample.directory = "_landed/dt=2026-11-21"
    context = landed.context(
        "Delta", {"table": landed.url("{topic}")}, route={"pattern": "_landed/dt={date}"}
    )
    location = f"{tmp_path}/landed/clicks"
    built = partial(publisher, context.group, context.entry, context.store)

    def land() -> None:
        landed.land(CLICKS).settle()
        built().publish(context.follower())

    def spark(query: str) -> list[dict[str, object]]:
        return engines.ask("spark", query.format(t=f"delta.`{location}`"), session=str(tmp_path))

    def offsets() -> list[object]:
        query = "select _offset from {t} order by _offset"
        found = [row["_offset"] for row in spark(query)]
        scan = query.format(t=f"delta_scan('{location}')")
        assert [row["_offset"] for row in engines.ask("duckdb", scan)] == found
        for engine in ("polars", "kernel", "deltalake"):
            rows = engines.ask(engine, query.format(t="t"), table=location, format="delta")
            assert [row["_offset"] for row in rows] == found, engine
        return found

    land()
    spark("alter table {t} set tblproperties ('delta.enableDeletionVectors' = 'true')")
    spark("delete from {t} where _offset = 7")
    assert [*Path(location).glob("deletion_vector_*.bin")]
    land()
    land()
    assert offsets() == [n for n in range(30) if n != 7]
    retire = [DecidedObject(o.landed_slot, o.landed) for o in _landed(landed.sample)][:2]
    merge = ParquetMerge(landed.sample, tuple(retire), landed.sample.state.applied_through)
    merge.record().complete().retired()
    versions = sorted(Path(location).glob("_delta_log/*.json"))

    with pytest.raises(Stalled, match=r"has deleted rows. `landfall publish --rebuild`"):
        built().publish(context.follower())

    assert sorted(Path(location).glob("_delta_log/*.json")) == versions
    built().reset(context.follower())
    assert offsets() == [*range(30)]
    spark("delete from {t} where _offset = 7")
    land()
    assert offsets() == [n for n in range(40) if n != 7]


@suite
def test_iceberg_tables_follow_merges_unless_spark_has_deleted_rows(
    engines: Engines, tmp_path: Path
) -> None:
    """Every engine reads each row once after a merge; rows that Spark deletes stay deleted."""
    landed, places = Landed(tmp_path), TablePlaces(tmp_path)
    table = PublishedOrders(TablePlaces(tmp_path / "asked"), "Iceberg", engines, topic="clicks")
    table.places = places
    context = landed.context("Iceberg", places.options("Iceberg"))
    built = partial(publisher, context.group, context.entry, context.store)

    def land() -> None:
        landed.land(CLICKS).settle()
        built().publish(context.follower())

    def merge(*numbers: int) -> None:
        found = [*_landed(landed.sample)]
        retire = [DecidedObject(found[n].landed_slot, found[n].landed) for n in numbers]
        made = ParquetMerge(landed.sample, tuple(retire), landed.sample.state.applied_through)
        made.record().complete().retired()

    def offsets() -> list[object]:
        query = "select _offset from {t} order by _offset"
        found = [row["_offset"] for row in table.spark(query)]
        assert [row["_offset"] for row in table.duckdb(query)] == found
        assert [row["_offset"] for row in table.ask("polars", query)] == found
        return found

    for _ in range(4):
        land()
    merge(0, 1)
    built().publish(context.follower())
    assert offsets() == [*range(40)]
    assert len(table.spark("select file_path from {t}.files")) == 3
    assert [row["operation"] for row in table.spark("select operation from {t}.snapshots")][-1] == (
        "replace"
    )
    table.spark("alter table {t} set tblproperties ('write.delete.mode' = 'merge-on-read')")
    table.spark("delete from {t} where _offset = 27")
    assert offsets() == [n for n in range(40) if n != 27]
    merge(2, 3)

    with pytest.raises(Stalled, match=r"has deleted rows. `landfall publish --rebuild`"):
        built().publish(context.follower())

    built().reset(context.follower())
    assert offsets() == [*range(40)]


@suite
def test_iceberg_tables_are_partitioned_by_a_date(engines: Engines, tmp_path: Path) -> None:
    columns = [*COLUMNS, {"name": "day", "type": "Date"}]
    options = {"partitionBy": ["day"]}
    table = PublishedOrders(
        TablePlaces(tmp_path), "Iceberg", engines, columns, options, route="day={field:day}"
    )
    table.land(0, 40, 100).publish()
    on_second_day = "select count(*) n from {t} where day = date '2026-11-21'"

    assert table.spark(on_second_day) == table.duckdb(on_second_day) == [{"n": 50}]
    partitions = "select partition.day d, record_count n from landfall.lake.orders.partitions"
    assert table.spark(f"select cast(d as string) d, n from ({partitions}) order by d") == [
        {"d": "2026-11-20", "n": 50},
        {"d": "2026-11-21", "n": 50},
    ]


@suite
@pytest.mark.parametrize("is_around", [True, False])
def test_vacuum_by_spark_deletes_no_landed_object(
    engines: Engines, tmp_path: Path, is_around: bool
) -> None:
    """A minute's retention is as good as over; only LITE with the check off deletes: ADR 0049."""
    places = TablePlaces(tmp_path, is_around=is_around)
    table = PublishedOrders(places, "Delta", engines).land(0, 40).publish()
    table.spark("optimize {t}")
    table.spark("delete from {t} where id < 5")
    table.land(40, 60)  # not in the table yet
    landed = sorted((tmp_path / "landed/orders").rglob("[0-9]*_[0-9]*_*.parquet"))
    for path in [*landed, *Path(table.location).glob("_delta_log/*.json")]:
        os.utime(path, (0, 0))

    for kind in ("", " lite"):
        table.spark(f"vacuum {{t}}{kind}")
    table.spark("set spark.databricks.delta.retentionDurationCheck.enabled=false")  # its session's
    table.spark("vacuum {t} retain 0 hours")

    assert sorted((tmp_path / "landed/orders").rglob("[0-9]*_[0-9]*_*.parquet")) == landed
    assert ids(table.publish()) == [*range(5, 60)]


@suite
@pytest.mark.parametrize("engine", ["duckdb", "polars", "daft"])
def test_engines_that_cannot_read_delta_tables_say_so(
    engines: Engines, tmp_path: Path, engine: str
) -> None:
    """They take the absolute paths of landed files for relative ones: docs/publishers/delta.md.

    If one of them learns it, this fails: name it in the page then.
    """
    table = PublishedOrders(TablePlaces(tmp_path), "Delta", engines).land(0, 40).publish()
    ask = table.duckdb if engine == "duckdb" else partial(table.ask, engine)

    with pytest.raises(EngineError):
        ask(EVERYTHING)


# ------------------------------------------------------------------------------------------- S3


def test_tables_on_s3_are_read_and_changed_by_others(
    engines: Engines, tmp_path: Path, s3_access: Bucket
) -> None:
    places = [TablePlaces(tmp_path, each) for each in (s3_access, s3_access.server.create_bucket())]
    iceberg = PublishedOrders(places[0], "Iceberg", engines).land(0, 40, 100).publish()
    delta = PublishedOrders(places[1], "Delta", engines).land(0, 40, 100).publish()

    assert iceberg.duckdb(ON_SECOND_DAY) == [{"n": 50}]
    for table in (iceberg, delta):
        assert table.spark(EVERYTHING) == rows_of(range(100))
        table.spark("delete from {t} where id < 5")
        assert ids(table.land(100, 120).publish()) == [*range(5, 120)]
    assert iceberg.ask("polars", EVERYTHING) == rows_of(range(5, 120))
    assert delta.ask("deltalake", EVERYTHING) == rows_of(range(5, 120))


@suite
@pytest.mark.parametrize("catalog", ["sql", "rest"])
def test_iceberg_tables_on_s3_are_read_by_everybody(
    engines: Engines,
    tmp_path: Path,
    s3_access: Bucket,
    request: pytest.FixtureRequest,
    catalog: str,
) -> None:
    rest = request.getfixturevalue("iceberg_catalog") if catalog == "rest" else ""
    places = TablePlaces(tmp_path, s3_access, rest)
    topic = f"orders_{s3_access.name.replace('-', '_')}"
    table = PublishedOrders(places, "Iceberg", engines, topic=topic).land(0, 40, 100).publish()

    assert table.spark(EVERYTHING) == rows_of(range(100))
    assert table.spark(ON_SECOND_DAY) == [{"n": 50}]
    assert table.duckdb(EVERYTHING) == rows_of(range(100))
    assert table.duckdb(ON_SECOND_DAY) == [{"n": 50}]
    assert table.ask("polars", EVERYTHING) == rows_of(range(100))
    assert table.ask("pyiceberg", "id = 9")[0]["amount"] == 2.25

    table.spark("delete from {t} where id < 5")
    table.spark(
        "call landfall.system.rewrite_data_files(table => 'lake.{topic}', "
        "options => map('rewrite-all', 'true'))".replace("{topic}", topic)
    )

    assert table.ask("daft", EVERYTHING) == rows_of(range(5, 100))
    assert ids(table.land(100, 120).publish()) == [*range(5, 120)]


@suite
def test_iceberg_tables_of_glue_are_read_and_changed_by_spark(
    engines: Engines, tmp_path: Path, s3_access: Bucket
) -> None:
    """The catalog is moto's; Spark asks it by Iceberg's ``GlueCatalog``, Landfall by pyiceberg."""
    with aws_server(GlueResponse) as glue:
        places = TablePlaces(tmp_path, s3_access, glue=glue)
        table = PublishedOrders(places, "Iceberg", engines).land(0, 40, 100).publish()

        assert table.spark(EVERYTHING) == rows_of(range(100))
        assert table.spark(ON_SECOND_DAY) == [{"n": 50}]
        table.spark("delete from {t} where id < 5")
        table.spark("alter table {t} add column note string")
        table.land(100, 120).publish()

        assert ids(table) == [*range(5, 120)]
        assert table.duckdb(EVERYTHING) == rows_of(range(5, 120))


@suite
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_delta_tables_on_s3_are_read_by_who_knows_the_scheme(
    engines: Engines, tmp_path: Path, s3_access: Bucket, scheme: str
) -> None:
    """What docs/publishers/delta.md says of each engine and scheme."""
    places, options = TablePlaces(tmp_path, s3_access), {"scheme": scheme}
    table = PublishedOrders(places, "Delta", engines, options=options).land(0, 40, 100).publish()

    assert table.spark(EVERYTHING) == rows_of(range(100))
    assert table.ask("kernel", EVERYTHING) == rows_of(range(100))
    if scheme == "s3":
        assert table.ask("deltalake", EVERYTHING) == rows_of(range(100))
    else:
        with pytest.raises(EngineError, match="No suitable object store found for s3a"):
            table.ask("deltalake", EVERYTHING)


def test_delta_tables_around_their_objects_on_s3_are_read_by_others(
    engines: Engines, tmp_path: Path, s3_access: Bucket
) -> None:
    places = TablePlaces(tmp_path, s3_access, is_around=True)
    table = PublishedOrders(places, "Delta", engines).land(0, 40, 100).publish()

    assert table.duckdb(ON_SECOND_DAY) == [{"n": 50}]
    for engine in ("polars", "deltalake"):
        assert table.ask(engine, EVERYTHING) == rows_of(range(100)), engine


@suite
@pytest.mark.parametrize("is_plain_spark", [False, True])
def test_delta_tables_around_their_objects_on_s3_are_read_and_changed_by_all(
    engines: Engines, tmp_path: Path, s3_access: Bucket, is_plain_spark: bool
) -> None:
    """Their files have the scheme by which a reader names the table."""
    places = TablePlaces(tmp_path, s3_access, is_around=True)
    table = PublishedOrders(places, "Delta", engines, is_plain_spark=is_plain_spark)
    table.land(0, 40, 100).publish()

    assert table.spark(EVERYTHING) == rows_of(range(100))
    assert table.spark(ON_SECOND_DAY) == [{"n": 50}]
    table.is_plain_spark = False
    assert table.duckdb(EVERYTHING) == rows_of(range(100))
    for engine in ("polars", "daft", "kernel", "deltalake"):
        assert table.ask(engine, EVERYTHING) == rows_of(range(100)), engine

    table.is_plain_spark = is_plain_spark
    table.spark("delete from {t} where id < 5")
    table.spark("optimize {t}")
    table.land(100, 120).publish()

    assert ids(table) == [*range(5, 120)]
    table.is_plain_spark = False
    assert table.duckdb(EVERYTHING) == rows_of(range(5, 120))


@suite
def test_spark_without_a_setting_reads_delta_tables_by_s3a_alone(
    engines: Engines, tmp_path: Path, s3_access: Bucket
) -> None:
    places = [TablePlaces(tmp_path, each) for each in (s3_access, s3_access.server.create_bucket())]
    schemes = [{"scheme": scheme} for scheme in ("s3", "s3a")]
    tables = [
        PublishedOrders(place, "Delta", engines, options=options, is_plain_spark=True)
        for place, options in zip(places, schemes, strict=True)
    ]

    with pytest.raises(EngineError, match=r"FAILED_READ_FILE.*s3://"):
        tables[0].land(0, 40).publish().spark(EVERYTHING)

    assert tables[1].land(0, 40).publish().spark(EVERYTHING) == rows_of(range(40))


@suite
@pytest.mark.parametrize("engine", ["duckdb", "polars", "daft"])
def test_engines_that_cannot_read_delta_tables_on_s3_say_so(
    engines: Engines, tmp_path: Path, s3_access: Bucket, engine: str
) -> None:
    table = PublishedOrders(TablePlaces(tmp_path, s3_access), "Delta", engines)
    table.land(0, 40).publish()
    ask = table.duckdb if engine == "duckdb" else partial(table.ask, engine)

    with pytest.raises(EngineError):
        ask(EVERYTHING)
