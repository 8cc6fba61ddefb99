"""Every catalog of tables of files: a real Hive metastore, moto's Glue, and one in memory.

``make publisher-suite`` runs those with the metastore, of which ``make test`` runs one.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from moto import mock_aws

from landfall.errors import Reason, Stalled
from landfall.publish.catalog import Catalog, Partition, TableChanged, TableName
from landfall.publish.catalog.glue import GlueTables
from landfall.publish.catalog.hive import UNKNOWN
from tests.support.publishers.catalogs import (
    Warehouse,
    glue_warehouse,
    hive_warehouse,
    memory_warehouse,
    parquet_of,
)
from tests.support.publishers.lake import CLICKS, ORDERS, Landed

KINDS: dict[str, Callable[[Landed, pytest.FixtureRequest], Warehouse]] = {
    "memory": lambda landed, _: memory_warehouse(landed),
    "hive": lambda landed, request: hive_warehouse(landed, request.getfixturevalue("hive")),
    "glue": lambda landed, _: glue_warehouse(landed),
}


QUICK = ["memory", pytest.param("hive", marks=pytest.mark.full), "glue"]
SLOW_GLUE = ["memory", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("hive", "glue"))]
slow_with_glue = pytest.mark.parametrize("warehouse", SLOW_GLUE, indirect=True)


@pytest.fixture(params=QUICK)
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Warehouse]:
    landed = Landed(tmp_path)
    landed.sample.body = parquet_of(name=pa.string())
    with mock_aws() if request.param == "glue" else nullcontext():
        yield KINDS[request.param](landed, request)


def names(table: Any) -> list[str]:
    return [*table.columns]


@pytest.mark.parametrize("warehouse", KINDS, indirect=True)
def test_a_table_for_each_topic_has_the_folders_of_what_is_visible(warehouse: Warehouse) -> None:
    landed = warehouse.landed.land(CLICKS, ORDERS).settle()
    landed.sample.directory = "dt=2026-11-22"
    landed.land(CLICKS)  # nothing says yet that it is visible

    warehouse.publish()

    table = warehouse.table("clicks")
    assert (table.columns, table.keys) == ({"_offset": "bigint", "name": "string"}, ("dt",))
    assert table.is_external
    assert (warehouse.has("clicks", "2026-11-21"), warehouse.has("orders", "2026-11-21")) == (
        True,
        True,
    )
    assert not warehouse.has("clicks", "2026-11-22")
    landed.settle()
    warehouse.publish()
    location = warehouse.partition("clicks", "2026-11-22").location
    assert location.endswith("/landed/clicks/dt=2026-11-22")


def test_values_are_those_that_the_route_escaped(warehouse: Warehouse) -> None:
    landed = warehouse.landed
    landed.sample.directory = "dt=2026-11-21/c=a%2Fb%20%3D%25ü"
    landed.land(CLICKS).settle()

    warehouse.publish(spec={"route__pattern": "dt={date}/c={field:c}", "decode__format": "Json"})

    found = warehouse.partition("clicks", "2026-11-21", "a/b =%ü")
    assert found.location.endswith("/landed/clicks/dt=2026-11-21/c=a%2Fb%20%3D%25ü")


def test_columns_are_added_to_the_table_and_to_partitions_that_have_them(
    warehouse: Warehouse,
) -> None:
    landed = warehouse.landed.land(CLICKS).settle()
    landed.sample.directory = "dt=2026-11-22"
    landed.land(CLICKS).settle()
    publisher, follower = warehouse.publisher(), landed.follower()
    publisher.publish(follower)
    landed.sample.body = parquet_of(name=pa.string(), Added=pa.list_(pa.int32()))
    spec = {"output": {"columns": "FromSchema"}, "decode__format": "Avro"}
    spec |= {"decode__registry": {"urls": ["http://r"]}}
    landed.land(CLICKS).settle()

    warehouse.publish(spec=spec)

    assert warehouse.table("clicks").columns == {
        "_offset": "bigint",
        "name": "string",
        "added": "array<int>",
    }
    assert names(warehouse.partition("clicks", "2026-11-22")) == ["_offset", "name", "added"]
    assert names(warehouse.partition("clicks", "2026-11-21")) == ["_offset", "name"]


@slow_with_glue
def test_a_column_of_another_type_stops_its_table_only(warehouse: Warehouse) -> None:
    landed = warehouse.landed.land(CLICKS, ORDERS).settle()
    warehouse.publish()
    landed.sample.open(generation=2)
    landed.sample.body = parquet_of(name=pa.int64())
    landed.land(CLICKS).settle()
    landed.sample.body = parquet_of(name=pa.string())
    landed.sample.directory = "dt=2026-11-22"
    landed.land(ORDERS).land(ORDERS).land(ORDERS).settle()  # ends the stretch
    landed.sample.directory = "dt=2026-11-23"
    landed.land(ORDERS).settle()
    publisher = warehouse.publisher()

    for _ in range(2):
        with pytest.raises(
            Stalled, match=r"clicks: .*name is string in the table and bigint"
        ) as stalled:
            publisher.publish(landed.follower())

    assert stalled.value.reason is Reason.DESTINATION_CONFLICT
    assert warehouse.has("orders", "2026-11-22")
    assert warehouse.has("orders", "2026-11-23")
    assert publisher.position() < landed.sample.state.seq
    assert not warehouse.has("clicks", "2026-11-22")


def test_a_table_that_was_dropped_is_filled_from_the_start(warehouse: Warehouse) -> None:
    landed = warehouse.landed
    for day in range(10, 20):
        landed.sample.directory = f"dt=2026-11-{day}"
        landed.land(CLICKS).settle()
    warehouse.publish()
    drop(warehouse, "clicks")
    landed.sample.directory = "dt=2026-11-20"
    landed.land(CLICKS).settle()

    warehouse.publish()

    assert all(warehouse.has("clicks", f"2026-11-{day}") for day in range(10, 21))


@slow_with_glue
def test_many_publishers_at_once_add_each_partition_once(warehouse: Warehouse) -> None:
    landed = warehouse.landed
    for day in range(10, 14):
        landed.sample.directory = f"dt=2026-11-{day}"
        landed.land(CLICKS, ORDERS).settle()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: warehouse.publish(), range(4)))

    assert all(
        warehouse.has(topic, f"2026-11-{day}")
        for topic in ("clicks", "orders")
        for day in range(10, 14)
    )


def test_a_table_is_changed_only_as_it_was_loaded(warehouse: Warehouse) -> None:
    if isinstance(warehouse.catalog(), GlueTables):
        pytest.skip("moto changes a table whatever VersionId says")
    warehouse.landed.land(CLICKS).settle()
    warehouse.publish()
    catalog, other = warehouse.catalog(), warehouse.catalog()
    name = TableName(warehouse.database, "clicks")
    stale, table = load(catalog, name), load(other, name)
    other.change(table, {**table.columns, "a": "int"}, table.properties)

    with pytest.raises(TableChanged):
        catalog.change(stale, {**stale.columns, "b": "int"}, stale.properties)

    assert names(load(catalog, name)) == ["_offset", "name", "a"]


def test_a_partition_elsewhere_is_left_and_named(warehouse: Warehouse) -> None:
    landed = warehouse.landed.land(CLICKS).settle()
    warehouse.publish()
    table = warehouse.table("clicks")
    elsewhere = f"file://{landed.root}/elsewhere"
    Path(landed.root, "elsewhere").mkdir()
    warehouse.catalog().add(table, [Partition(("2026-11-22",), elsewhere, table.columns)])
    landed.sample.directory = "dt=2026-11-22"
    landed.land(CLICKS).settle()

    with pytest.raises(Stalled, match=r"partition dt=2026-11-22 is at file:.*elsewhere, and its"):
        warehouse.publish()


@pytest.mark.parametrize("warehouse", ["hive"], indirect=True)
def test_a_metastore_is_not_asked_for_sizes_that_grow(warehouse: Warehouse) -> None:
    landed = warehouse.landed.land(CLICKS).settle()
    warehouse.publish()
    landed.sample.open(generation=2)
    landed.sample.body = parquet_of(name=pa.string(), added=pa.int64())
    landed.land(CLICKS).settle()
    warehouse.publish()

    found = warehouse.partition("clicks", "2026-11-21")
    assert names(found) == ["_offset", "name", "added"]
    assert {*found.found.parameters.items()} - {*UNKNOWN.items()} == {
        ("transient_lastDdlTime", found.found.parameters["transient_lastDdlTime"])
    }
    assert not warehouse.table("clicks").properties.keys() & {*UNKNOWN, "numRows", "rawDataSize"}


@pytest.mark.parametrize("warehouse", ["hive"], indirect=True)
def test_a_table_whose_files_go_with_it_is_refused(warehouse: Warehouse) -> None:
    landed = warehouse.landed.land(CLICKS).settle()
    warehouse.publish()
    name = TableName(warehouse.database, "clicks")
    table = warehouse.table("clicks").found
    drop(warehouse, "clicks")
    table.tableType = "MANAGED_TABLE"
    del table.parameters["EXTERNAL"]
    client = warehouse.catalog()._client  # type: ignore[attr-defined]  # of the metastore
    client.ask(name, lambda c: c.create_table(table))
    landed.land(CLICKS).settle()

    with pytest.raises(Stalled, match=r"clicks: is managed"):
        warehouse.publish()

    client.ask(name, lambda c: c.drop_table(name.database, name.table, True))
    assert not warehouse.landed.keys("clicks")  # which is why it is refused


def load(catalog: Catalog, name: TableName) -> Any:
    return catalog.load(name)


def drop(warehouse: Warehouse, table: str) -> None:
    catalog, name = warehouse.catalog(), TableName(warehouse.database, table)
    if hasattr(catalog, "tables"):
        del catalog.tables[name], catalog.parts[name]
    elif isinstance(catalog, GlueTables):
        client = catalog._client()
        client.delete_table(DatabaseName=name.database, Name=name.table)
    else:
        client = catalog._client  # type: ignore[attr-defined]  # of the metastore
        client.ask(name, lambda c: c.drop_table(name.database, name.table, False))
