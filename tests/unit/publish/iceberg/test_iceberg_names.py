"""Columns of landed files under other names in an Iceberg table: reserved ones, renamed ones."""

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.types import LongType

from landfall.api import column_names
from landfall.errors import Reason, Stalled
from landfall.publish.building import publisher
from landfall.publish.context import Context
from tests.support.publishers.lake import CLICKS, Landed
from tests.support.publishers.parquet_files import rewritten, with_column


def catalog_of(root: Path) -> dict[str, Any]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{root}/catalog.db",
        "warehouse": f"file://{root}/warehouse",
    }


class Clicks:
    """The table of one topic, and files of it that land with more columns."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root, self.landed = root, Landed(root)
        self.context: Context = self.landed.context(
            "Iceberg", {"catalog": catalog_of(root), **options}
        )

    def land(self, **columns: Any) -> "Clicks":
        known = {*self.landed.keys("clicks")}
        self.landed.land(CLICKS).settle()
        (key,) = {*self.landed.keys("clicks")} - known
        for name, values in columns.items():
            rewritten(self.landed, key, with_column(name, values))
        return self

    def publish(self) -> "Clicks":
        made = publisher(self.context.group, self.context.entry, self.context.store)
        made.publish(self.context.follower())
        return self

    def conflict(self) -> str:
        with pytest.raises(Stalled) as caught:
            self.publish()
        assert caught.value.reason is Reason.DESTINATION_CONFLICT
        return str(caught.value)

    @property
    def table(self) -> Any:
        return load_catalog("landfall", **catalog_of(self.root)).load_table("lake.clicks")

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.scan().to_arrow().sort_by("_offset").to_pylist()
        return rows


PARTITION = pa.array([3] * 10, pa.int32())


def test_the_kafka_partition_has_a_name_that_iceberg_does_not_reserve(tmp_path: Path) -> None:
    clicks = Clicks(tmp_path).land(_partition=PARTITION).publish()

    clicks.land(_partition=PARTITION).publish()

    assert [field.name for field in clicks.table.schema().fields] == [
        *("_offset", "name", "_timestamp", "_kafka_partition")
    ]
    assert [row["_kafka_partition"] for row in clicks.rows()] == [3] * 20
    assert clicks.table.scan(row_filter="_kafka_partition = 4").to_arrow().num_rows == 0
    bounds = clicks.table.inspect.files()["readable_metrics"].to_pylist()
    assert [each["_kafka_partition"]["upper_bound"] for each in bounds] == [3, 3]


@pytest.fixture
def from_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clicks:
    """A table that was made when no name was known to be reserved."""
    clicks = Clicks(tmp_path).land(_partition=PARTITION)
    with monkeypatch.context() as patched:
        patched.setattr(column_names, "_RESERVED", {"Iceberg": frozenset()})
        clicks.publish()
    assert "_partition" in clicks.table.schema().column_names
    return clicks


def test_a_table_from_before_is_renamed_and_keeps_its_rows(from_before: Clicks) -> None:
    ids = {field.name: field.field_id for field in from_before.table.schema().fields}

    from_before.land(_partition=PARTITION).publish()

    fields = {field.name: field.field_id for field in from_before.table.schema().fields}
    assert "_partition" not in fields
    assert fields["_kafka_partition"] == ids["_partition"]
    assert [row["_kafka_partition"] for row in from_before.rows()] == [3] * 20


def test_a_table_whose_columns_nobody_may_change_keeps_its_names(from_before: Clicks) -> None:
    options = {"catalog": catalog_of(from_before.root), "schemaEvolution": "None"}
    from_before.context = from_before.landed.context("Iceberg", options)

    from_before.land(_partition=PARTITION).publish()

    assert [row["_partition"] for row in from_before.rows()] == [3] * 20


def test_a_table_that_has_the_new_name_already_gets_another_one(from_before: Clicks) -> None:
    with from_before.table.update_schema() as update:
        update.rename_column("name", "_kafka_partition")

    from_before.land(_partition=PARTITION).publish()

    rows = from_before.rows()
    assert [row["_kafka_partition_"] for row in rows] == [3] * 20
    assert {row["_kafka_partition"] for row in rows} == {f"n{o}" for o in range(20)}


def test_a_column_that_somebody_renamed_stays_that_column(tmp_path: Path) -> None:
    clicks = Clicks(tmp_path).land(place=[{"city": "Oslo", "zip": 1}] * 10).publish()
    with clicks.table.update_schema() as update:
        update.rename_column("name", "who")
        update.rename_column("place.city", "town")

    clicks.land(place=[{"city": "Rome", "zip": 2}] * 10).publish()

    assert [field.name for field in clicks.table.schema().fields] == [
        *("_offset", "who", "_timestamp", "place")
    ]
    rows = clicks.rows()
    assert [row["who"] for row in rows] == [f"n{offset}" for offset in range(20)]
    assert [row["place"]["town"] for row in rows] == ["Oslo"] * 10 + ["Rome"] * 10
    assert clicks.table.scan(row_filter="who = 'n15'").to_arrow().num_rows == 1


def test_a_column_that_was_dropped_comes_back_with_new_files(tmp_path: Path) -> None:
    clicks = Clicks(tmp_path).land(n=range(10)).publish()
    with clicks.table.update_schema() as update:
        update.delete_column("n")

    clicks.land(n=range(10)).publish()

    assert [row["n"] for row in clicks.rows()] == [*range(10)] * 2


def test_reserved_names_of_a_schema_get_an_underscore(tmp_path: Path) -> None:
    clicks = Clicks(tmp_path).land(_file=["a"] * 10).publish()

    clicks.land(_file=["a"] * 10, _Pos=["b"] * 10).publish()

    rows = clicks.rows()
    assert {row["_file_"] for row in rows} == {"a"}
    assert [row["_Pos_"] for row in rows] == [None] * 10 + ["b"] * 10


def test_a_table_somebody_made_finds_the_columns_of_files_by_their_names(tmp_path: Path) -> None:
    clicks, catalog = Clicks(tmp_path), load_catalog("landfall", **catalog_of(tmp_path))
    catalog.create_namespace("lake")
    columns = [("name", pa.string()), ("_kafka_partition", pa.int32()), ("_offset", pa.int64())]
    made = catalog.create_table("lake.clicks", pa.schema(columns))
    partial = [{"field-id": 1, "names": ["name"]}]
    with made.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": json.dumps(partial)})

    clicks.land(_partition=PARTITION).publish()

    assert [row["_kafka_partition"] for row in clicks.rows()] == [3] * 10
    assert [row["_offset"] for row in clicks.rows()] == [*range(10)]


def test_a_file_with_both_names_of_a_column_is_refused(tmp_path: Path) -> None:
    clicks = Clicks(tmp_path).land(_partition=PARTITION, _kafka_partition=PARTITION)

    assert clicks.conflict().endswith(
        ": columns _partition and _kafka_partition are both column _kafka_partition of the table"
    )


@pytest.mark.parametrize(
    ("first", "second", "new", "known"),
    [
        ({"userId": range(10)}, {"userid": range(10)}, "userid", "userId"),
        ({}, {"NAME": range(10)}, "NAME", "name"),
        ({"a": [{"Id": 1}] * 10}, {"a": [{"id": 1}] * 10}, "a.id", "a.Id"),
        ({}, {"x": range(10), "X": range(10)}, "X", "x"),
    ],
)
def test_columns_that_differ_by_case_only_are_refused_before_the_commit(
    tmp_path: Path, first: Any, second: Any, new: str, known: str
) -> None:
    clicks = Clicks(tmp_path).land(**first).publish()
    before = clicks.table.metadata_location
    clicks.land(**second)

    error = clicks.conflict()

    assert f": column {new} and column {known} differ by case only, and Spark and" in error
    assert clicks.table.metadata_location == before


def test_the_name_mapping_of_the_table_is_the_way_out_of_a_conflict_of_cases(
    tmp_path: Path,
) -> None:
    clicks = Clicks(tmp_path).land(userId=range(10)).publish().land(userid=range(10))
    assert "have the table's name mapping find userid as another column" in clicks.conflict()
    # As docs/publishers/iceberg.md says it.
    with clicks.table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.add_column("userid_2", LongType())
        mapping = transaction.table_metadata.name_mapping()
        next(field for field in mapping if "userid_2" in field.names).names.append("userid")
        transaction.set_properties({"schema.name-mapping.default": mapping.model_dump_json()})

    clicks.publish()

    rows = clicks.rows()
    assert [row["userId"] for row in rows] == [*range(10), *[None] * 10]
    assert [row["userid_2"] for row in rows] == [*[None] * 10, *range(10)]


def test_no_table_is_created_with_columns_that_differ_by_case_only(tmp_path: Path) -> None:
    clicks = Clicks(tmp_path).land(x=range(10), X=range(10))

    assert ": column X and column x differ by case only" in clicks.conflict()
    assert load_catalog("landfall", **catalog_of(tmp_path)).list_tables("lake") == []


def test_files_without_bounds_are_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Clicks(tmp_path).land(price=pa.array([1.5] * 10)).publish()
        other = logging.getLogger("pyiceberg.io.pyarrow")
        other.warning("PyArrow statistics missing for column %d when writing file", 2)
        other.warning("something else")

    assert [record.getMessage() for record in caplog.records] == ["something else"]
