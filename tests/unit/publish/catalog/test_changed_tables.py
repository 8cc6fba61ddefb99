"""Tables of a catalog that other programs change, too, and whose objects get other columns."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from landfall.errors import Stalled
from landfall.publish.catalog import Columns, Table, TableName
from landfall.publish.steps import StepPublisher
from tests.support.publishers.catalogs import MemoryCatalog, memory_warehouse, parquet_of
from tests.support.publishers.lake import CLICKS, Landed

CLICKS_TABLE = TableName("lake", "clicks")


class RevisedCatalog(MemoryCatalog):
    """Like a metastore, it notices only changes of clients that count revisions."""

    def change(self, table: Table, columns: Columns, properties: Mapping[str, str]) -> None:
        self.calls.append("change")
        self.tables[table.name] = replace(table, columns=columns, properties=properties)


def scene(root: Path) -> tuple[Landed, StepPublisher, MemoryCatalog]:
    """A table of an object with the column ``name``, and its publisher."""
    warehouse = memory_warehouse(Landed(root))
    catalog = warehouse.catalog()
    assert isinstance(catalog, MemoryCatalog)
    landed, publisher = warehouse.landed, warehouse.publisher()
    landed.sample.open(spec="a" * 64)
    landed.sample.body = parquet_of(name=pa.string())
    landed.land(CLICKS).settle()
    publisher.publish(landed.follower())
    return landed, publisher, catalog


def test_what_another_program_changed_stays_when_a_column_is_added(tmp_path: Path) -> None:
    landed, publisher, catalog = scene(tmp_path)
    catalog.__class__ = RevisedCatalog
    table = catalog.tables[CLICKS_TABLE]
    catalog.tables[CLICKS_TABLE] = replace(table, properties={**table.properties, "owner": "web"})
    landed.sample.open(generation=2)
    landed.sample.body = parquet_of(name=pa.string(), country=pa.string())
    landed.land(CLICKS).settle()

    publisher.publish(landed.follower())

    found = catalog.tables[CLICKS_TABLE]
    assert "country" in found.columns
    assert found.properties["owner"] == "web"


def test_a_column_of_a_spec_of_the_same_generation_is_in_the_table(tmp_path: Path) -> None:
    landed, publisher, catalog = scene(tmp_path)
    landed.land(CLICKS)
    landed.sample.open(spec="b" * 64)
    landed.settle()
    publisher.publish(landed.follower())
    landed.sample.body = parquet_of(name=pa.string(), country=pa.string())
    landed.land(CLICKS).settle()

    for _ in range(2):
        publisher.publish(landed.follower())

        assert [*catalog.tables[CLICKS_TABLE].columns] == ["_offset", "name", "country"]
        publisher.reset(landed.follower())
        del catalog.tables[CLICKS_TABLE]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_column_of_two_types_is_given_by_option_columns(
    tmp_path: Path, *, is_there: bool
) -> None:
    warehouse = memory_warehouse(Landed(tmp_path))
    landed = warehouse.landed
    landed.sample.body = parquet_of(name=pa.string())
    landed.land(CLICKS).settle()
    if is_there:
        warehouse.publish()
    landed.sample.open(generation=2)
    landed.sample.body = parquet_of(name=pa.int64())
    landed.land(CLICKS).settle()

    with pytest.raises(Stalled, match="give the types of its columns by option columns, in a"):
        warehouse.publish()
    warehouse.publish(columns={"_offset": "bigint", "name": "string"})

    assert warehouse.table("clicks").columns == {"_offset": "bigint", "name": "string"}
