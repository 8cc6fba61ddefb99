"""Objects that earlier versions landed, with times in milliseconds, in Iceberg tables."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

from landfall.errors import Reason, Stalled
from landfall.formats.parquet import ParquetFormat
from landfall.publish.iceberg.tables import IcebergTables
from tests.support.publishers.lake import CLICKS, DAY, Landed
from tests.support.publishers.parquet_files import rewritten
from tests.unit.publish.iceberg.test_iceberg import built, catalog_of, stalled

MILLIS = pa.timestamp("ms", "UTC")


def of_then(table: pa.Table) -> pa.Table:
    """A file as it was written before ADR 0038."""
    at = table.schema.get_field_index("_timestamp")
    return table.set_column(at, "_timestamp", table["_timestamp"].cast(MILLIS))


def landed_then(root: Path, objects: int) -> Landed:
    landed = Landed(root)
    for _ in range(objects):
        landed.land(CLICKS)
    for key in landed.keys("clicks"):
        rewritten(landed, key, of_then)
    return landed.settle()


def table_of(root: Path) -> Any:
    return load_catalog("landfall", **catalog_of(root)).load_table("lake.clicks")


def files_of(root: Path) -> list[str]:
    return sorted(task.file.file_path for task in table_of(root).scan().plan_files())


def units(paths: list[str]) -> set[str]:
    schemas = (pq.read_schema(path.removeprefix("file://")) for path in paths)
    return {str(schema.field("_timestamp").type) for schema in schemas}


def test_a_file_with_milliseconds_is_published_as_a_copy(tmp_path: Path) -> None:
    landed = landed_then(tmp_path, 2)
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})
    bodies = [Path(landed.url(k).removeprefix("file://")).read_bytes() for k in landed.keys("c")]

    built(context).publish(context.follower())
    landed.land(CLICKS).settle()
    built(context).publish(context.follower())

    files = files_of(tmp_path)
    own = [path for path in files if path.startswith(f"{table_of(tmp_path).location()}/data/")]
    assert (len(files), len(own), units(files)) == (3, 2, {"timestamp[us, tz=UTC]"})
    assert [path for path in files if path not in own] == [landed.url(landed.keys("clicks")[2])]
    rows = table_of(tmp_path).scan().to_arrow().sort_by("_offset")
    assert rows["_offset"].to_pylist() == [*range(30)]
    assert {each.date() for each in rows["_timestamp"].to_pylist()} == {DAY.date()}
    after = table_of(tmp_path).scan(row_filter="_timestamp >= '2026-11-21T00:25:00+00:00'")
    assert after.to_arrow().num_rows == 5
    assert (
        bodies
        == [Path(landed.url(k).removeprefix("file://")).read_bytes() for k in landed.keys("c")][:2]
    )


def test_a_commit_that_fails_makes_no_second_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = landed_then(tmp_path, 1)
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})
    add, failures = IcebergTables._add, [CommitFailedException("somebody else")] * 2

    def failing(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        add(*arguments)

    monkeypatch.setattr(IcebergTables, "_add", failing)
    built(context).publish(context.follower())

    folder = Path(table_of(tmp_path).location().removeprefix("file://"))
    assert not failures
    assert [f"file://{path}" for path in folder.glob("data/**/*.parquet")] == files_of(tmp_path)


def as_earlier(root: Path, landed: Landed) -> None:
    """Make the table one of an earlier version: it has the landed files, and no mark."""
    table = table_of(root)
    with table.transaction() as transaction:
        transaction.remove_properties("landfall.timestamps")
    with table.transaction() as transaction:
        transaction.delete("_offset >= 0")
        with transaction.update_snapshot().fast_append() as append:
            for each in table.scan().plan_files():
                (url,) = [
                    u
                    for u in map(landed.url, landed.keys("clicks"))
                    if _name(u) in _name(each.file.file_path)
                ]
                each.file._data[1] = url
                append.append_data_file(each.file)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def test_a_table_that_an_earlier_version_filled_says_how_it_becomes_right(tmp_path: Path) -> None:
    landed = landed_then(tmp_path, 1)
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})
    built(context).publish(context.follower())
    as_earlier(tmp_path, landed)
    url = landed.url(landed.keys("clicks")[0])
    assert files_of(tmp_path) == [url]
    landed.land(CLICKS).settle()

    error = stalled(context)

    assert error.reason is Reason.DESTINATION_CONFLICT
    assert str(error) == (
        f"table lake.clicks has times in milliseconds, as in {url}: Spark reads them as 1970; "
        "publish it again with --rebuild, or set table property landfall.timestamps = milliseconds "
        "if Spark does not read it"
    )


def test_a_rebuild_makes_it_right(tmp_path: Path) -> None:
    landed = landed_then(tmp_path, 1)
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})
    built(context).publish(context.follower())
    as_earlier(tmp_path, landed)
    landed.land(CLICKS).settle()

    built(context).reset(context.follower())
    built(context).publish(context.follower())

    assert units(files_of(tmp_path)) == {"timestamp[us, tz=UTC]"}
    assert table_of(tmp_path).scan().to_arrow().num_rows == 20
    assert table_of(tmp_path).properties["landfall.timestamps"] == "microseconds"


def test_a_table_whose_owner_wants_milliseconds_is_published_on(tmp_path: Path) -> None:
    landed = landed_then(tmp_path, 1)
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})
    built(context).publish(context.follower())
    as_earlier(tmp_path, landed)
    with table_of(tmp_path).transaction() as transaction:
        transaction.set_properties({"landfall.timestamps": "milliseconds"})
    landed.land(CLICKS).settle()

    built(context).publish(context.follower())

    assert table_of(tmp_path).scan().to_arrow().num_rows == 20
    assert table_of(tmp_path).properties["landfall.timestamps"] == "milliseconds"


def test_a_table_of_microseconds_is_looked_through_and_marked(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})
    built(context).publish(context.follower())
    with table_of(tmp_path).transaction() as transaction:
        transaction.remove_properties("landfall.timestamps")
    landed.land(CLICKS).settle()

    built(context).publish(context.follower())

    assert table_of(tmp_path).properties["landfall.timestamps"] == "microseconds"


def test_a_time_that_has_no_microseconds_is_refused(tmp_path: Path) -> None:
    landed = landed_then(tmp_path, 1)
    key = landed.keys("clicks")[0]

    def wild(table: pa.Table) -> pa.Table:
        values = pa.array([*range(9), 2**62], pa.int64()).cast(MILLIS)
        return table.set_column(table.schema.get_field_index("_timestamp"), "_timestamp", values)

    rewritten(landed, key, wild)
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})

    with pytest.raises(Stalled, match="has no copy in microseconds: column _timestamp: a time"):
        built(context).publish(context.follower())


def test_files_of_both_units_are_merged_to_microseconds() -> None:
    parquet = ParquetFormat.of({}).typed()
    now = pa.table({"n": [1], "_timestamp": pa.array([DAY], pa.timestamp("us", "UTC"))})
    bodies = []
    for table in (now, of_then(now)):
        body = io.BytesIO()
        pq.write_table(table, body, store_schema=False)
        bodies.append(body.getvalue())

    def schema_of(body: bytes) -> str:
        return parquet.schema_of(lambda at, n: body[at:][:n], len(body))

    merger = parquet.merger()
    merged = b"".join(part for body in bodies for part in merger.add(io.BytesIO(body)))
    merged += merger.finish()

    assert schema_of(bodies[0]) == schema_of(bodies[1])
    assert pq.read_table(io.BytesIO(merged)).equals(pa.concat_tables([now, now]))
