"""Tables and partitions of files: their names, columns and options."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall import ledger
from landfall.errors import Stalled
from landfall.ledger.names.object_names import ObjectName, parse_key
from landfall.publish.building import publisher
from landfall.publish.catalog import TableName
from landfall.publish.catalog.hive import part_name
from landfall.publish.catalog.hive_types import columns_of, fits, hive_type, together
from landfall.publish.catalog.naming import TableNaming
from landfall.publish.steps import StepPublisher
from tests.support.ledger.sample_ledger import replace_header
from tests.support.publishers.catalogs import MemoryCatalog, Warehouse, memory_warehouse, parquet_of
from tests.support.publishers.lake import CLICKS, ORDERS, Landed

HIVE = {"metastore": "thrift://hive:9083"}
WIDER = ("tinyint", "smallint", "int", "bigint")


def built(tmp_path: Path, options: dict[str, Any], **spec: Any) -> Any:
    context = Landed(tmp_path).context("Hive", {**HIVE, **options}, **spec)
    return publisher(context.group, context.entry, context.store)


def named(key: str) -> ObjectName:
    return parse_key(f"{key}/1_0_00000000000000000000.parquet")


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.timestamp("ms", "UTC"), "timestamp"),
        (pa.binary(16), "binary"),
        (pa.map_(pa.string(), pa.list_(pa.int32())), "map<string,array<int>>"),
        (pa.struct({"A": pa.int64(), "b": pa.null()}), "struct<a:bigint,b:string>"),
    ],
)
def test_types_as_hive_writes_them(type_: pa.DataType, expected: str) -> None:
    assert hive_type(type_) == expected


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (pa.schema({"t": pa.time32("ms")}), "column t: Hive has no type for time32"),
        (pa.schema({"a": pa.int8(), "A": pa.int8()}), "column A: another one differs only"),
        (pa.schema({"s": pa.struct({"a:b": pa.int8()})}), "column s: Hive has no struct"),
    ],
)
def test_columns_that_hive_cannot_have_are_named(schema: pa.Schema, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        columns_of(schema)


@given(st.lists(st.sampled_from(WIDER), min_size=1))
def test_columns_together_are_as_wide_as_the_widest(types: list[str]) -> None:
    (found,) = together({"c": type_} for type_ in types).values()

    assert found == max(types, key=WIDER.index)
    assert all(fits(type_, found) for type_ in types)


def test_a_table_is_named_after_the_topic_and_its_destination() -> None:
    naming = TableNaming("raw", "{folder:db}_{topic}", {"a.b": "Special"})

    assert naming.name_of(named("db=My%2FShop/web-clicks.v2/dt=1")) == TableName(
        "raw", "my_shop_web_clicks_v2"
    )
    assert naming.name_of(named("db=x/a.b/dt=1")) == TableName("raw", "special")


def test_partitions_are_called_as_hive_calls_them() -> None:
    assert part_name(("dt", "c"), ("2026", "a b/c=ü%")) == "dt=2026/c=a b%2Fc%3Dü%25"


@pytest.mark.parametrize(
    ("options", "spec", "problem"),
    [
        ({"metastore": "hive:9083"}, {}, "metastore: 'hive:9083' is not a URI"),
        ({"metastore": "thrift://h:x"}, {}, "metastore: 'thrift://h:x' is not a URI"),
        ({"metastore": []}, {}, "metastore: is empty"),
        ({"table": "a-{topic}"}, {}, "table: 'a-{topic}' is no name"),
        ({"database": "{tpoic}"}, {}, r"database: unknown placeholder \{tpoic\}"),
        ({"scheme": "gs"}, {}, "scheme: 'gs' is not s3, s3a or s3n"),
        ({"timeoutSeconds": 0}, {}, "timeoutSeconds: 0"),
        ({"tableProperties": {"EXTERNAL": "FALSE"}}, {}, "tableProperties: EXTERNAL is not"),
        ({"tabel": "x"}, {}, "unknown option tabel"),
        ({}, {"route__pattern": "{date}"}, "'2013-01-02'|'1970-01-01' is not NAME=VALUE"),
        (
            {},
            {"route__topicPath": "db={field:db}/{topic}", "decode__format": "Json"},
            r"name each folder of route.topicPath, as in \{folder:db\}_\{topic\}",
        ),
        (
            {},
            {"output": {"format": "Json"}, "decode__format": "Json"},
            "columns: defines which columns a table of Json has",
        ),
    ],
)
def test_options_that_cannot_be_are_named(
    tmp_path: Path, options: dict[str, Any], spec: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Stalled, match=problem) as stalled:
        built(tmp_path, options, **spec)

    assert str(stalled.value).startswith("spec.publish[0].options")


def test_columns_of_the_user_are_those_of_files_that_have_none(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    warehouse = memory_warehouse(landed)
    spec = {"output": {"format": "Json"}, "decode__format": "Json"}

    warehouse.publish(spec=spec, columns={"Id": "BIGINT", "tags": "array< string >"})

    table = warehouse.table("clicks")
    assert table.columns == {"id": "bigint", "tags": "array<string>"}
    assert table.storage
    assert table.storage.serde == "org.apache.hive.hcatalog.data.JsonSerDe"


def test_a_partition_that_is_there_costs_no_call(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS, ORDERS).settle()
    warehouse = memory_warehouse(landed)
    publisher, follower = warehouse.publisher(), landed.follower()
    publisher.publish(follower)
    catalog = warehouse.catalog()
    assert isinstance(catalog, MemoryCatalog)
    catalog.calls.clear()
    landed.land(CLICKS, ORDERS).settle()

    publisher.publish(follower)

    assert catalog.calls == []
    assert publisher.position() == landed.sample.state.seq


def test_objects_of_an_earlier_route_are_named_or_left_out(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    landed.sample.directory = "dt=2026-11-21/hr=04"
    landed.land(CLICKS).settle()
    warehouse = memory_warehouse(landed)
    spec = {"route__pattern": "dt={date}/hr={hour}"}

    with pytest.raises(Stalled, match=r"clicks/dt=2026-11-21/1_0_.*otherFolders: Skip"):
        warehouse.publish(spec=spec)
    warehouse.publish(spec=spec, other_folders="Skip")

    assert warehouse.has("clicks", "2026-11-21", "04")


def test_topics_that_would_share_a_table_are_refused(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS, ORDERS).settle()

    with pytest.raises(Stalled, match=r"lake\.all: is at .*/orders, and the topic at .*/clicks"):
        memory_warehouse(landed).publish(table="all")


def test_a_preview_says_what_would_be_done_and_a_reset_does_it_anew(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    warehouse = memory_warehouse(landed)
    publisher: StepPublisher = warehouse.publisher()
    catalog = warehouse.catalog()
    assert isinstance(catalog, MemoryCatalog)

    assert [*publisher.preview(landed.follower())] == [
        f"table lake.clicks: create at file://{tmp_path}/landed/clicks",
        f"table lake.clicks: add partition file://{tmp_path}/landed/clicks/dt=2026-11-21",
    ]
    assert not catalog.tables
    publisher.publish(landed.follower())
    assert [*publisher.preview(landed.follower())] == []
    catalog.tables.clear()
    catalog.parts.clear()
    publisher.reset(landed.follower())
    publisher.publish(landed.follower())

    assert warehouse.has("clicks", "2026-11-21")


def test_a_column_that_is_also_a_folder_is_refused(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    landed.sample.body = parquet_of(dt=pa.string())
    landed.land(CLICKS).settle()

    with pytest.raises(Stalled, match=r"column dt of clicks/.* has the name of a folder"):
        memory_warehouse(landed).publish()


HOURLY = {"route__pattern": "dt={date}/hr={hour}", "completeness": {}}
HOUR = 3_600_000
DAY_START = 1_795_219_200_000
"""2026-11-21T00:00:00Z."""


def hour(number: int) -> str:
    return f"dt=2026-11-21/hr={number:02}"


def complete(landed: Landed, hours: int) -> None:
    """Say that clicks are complete up to an hour of the day; what has landed is visible."""
    state, until = landed.sample.state, DAY_START + hours * HOUR
    drained = ((CLICKS.partition, state.checkpoint[CLICKS]),)
    entries = (ledger.Horizon(CLICKS.topic, until, drained),)
    landed.sample.append(
        lambda h: ledger.Finalize(
            header=replace_header(h, state.seq), delay=1, looked=until + 1, entries=entries
        )
    )


def hours_of(warehouse: Warehouse) -> list[str]:
    catalog = warehouse.catalog()
    assert isinstance(catalog, MemoryCatalog)
    return sorted(hr for _, hr in catalog.parts.get(TableName("lake", "clicks"), {}))


def land(landed: Landed, *hours: int) -> None:
    for number in hours:
        landed.sample.directory = hour(number)
        landed.land(CLICKS)


def test_folders_of_complete_hours_only_become_partitions(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    warehouse = memory_warehouse(landed)
    publisher = warehouse.publisher(spec=HOURLY, partitions="WhenFinished")
    follower = landed.follower()
    land(landed, 0, 1, 2, 3)
    landed.settle()
    publisher.publish(follower)
    assert hours_of(warehouse) == []

    complete(landed, 2)
    publisher.publish(follower)
    assert hours_of(warehouse) == ["00", "01"]

    land(landed, 4)
    complete(landed, 4)
    publisher.publish(follower)
    assert hours_of(warehouse) == ["00", "01", "02", "03"]

    land(landed, 5)
    complete(landed, 5)
    warehouse.publisher(spec=HOURLY, partitions="WhenFinished").publish(landed.follower())
    assert hours_of(warehouse) == ["00", "01", "02", "03", "04"]


def test_a_late_object_makes_its_hour_a_partition_at_once(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    warehouse = memory_warehouse(landed)
    publisher = warehouse.publisher(spec=HOURLY, partitions="WhenFinished")
    follower = landed.follower()
    land(landed, 0)
    complete(landed, 4)
    publisher.publish(follower)
    land(landed, 2, 4)
    landed.settle()

    publisher.publish(follower)

    assert hours_of(warehouse) == ["00", "02"]


def test_a_dropped_table_is_filled_with_complete_hours_only(tmp_path: Path) -> None:
    landed = Landed(tmp_path)
    warehouse = memory_warehouse(landed)
    options = {"spec": HOURLY, "partitions": "WhenFinished"}
    land(landed, 0, 1, 2, 3)
    complete(landed, 1)
    complete(landed, 2)
    warehouse.publish(**options)
    catalog = warehouse.catalog()
    assert isinstance(catalog, MemoryCatalog)
    catalog.tables.clear()
    catalog.parts.clear()
    complete(landed, 3)

    warehouse.publish(**options)

    assert hours_of(warehouse) == ["00", "01", "02"]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"route__pattern": "dt={date}"}, "spec.completeness is not set"),
        ({"route__pattern": "hr={hour}", "completeness": {}}, "begins with a date"),
    ],
)
def test_a_group_whose_hours_are_never_complete_is_refused(
    tmp_path: Path, spec: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Stalled, match=f"options.partitions: .*{problem}"):
        built(tmp_path, {"partitions": "WhenFinished"}, **spec)


def test_a_managed_table_is_refused(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    warehouse = memory_warehouse(landed)
    warehouse.publish()
    catalog, name = warehouse.catalog(), TableName("lake", "clicks")
    assert isinstance(catalog, MemoryCatalog)
    catalog.tables[name] = replace(catalog.tables[name], is_external=False)
    landed.land(CLICKS).settle()

    with pytest.raises(Stalled, match=r"lake\.clicks: is managed"):
        warehouse.publish()
