"""Tables of a catalog that other programs change, too."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from landfall.publish.catalog import Columns, Table, TableName
from tests.support.publishers.catalogs import MemoryCatalog, memory_warehouse, parquet_of
from tests.support.publishers.lake import CLICKS, Landed

CLICKS_TABLE = TableName("lake", "clicks")


class RevisedCatalog(MemoryCatalog):
    """Like a metastore, it notices only changes of clients that count revisions."""

    def change(self, table: Table, columns: Columns, properties: Mapping[str, str]) -> None:
        self.calls.append("change")
        self.tables[table.name] = replace(table, columns=columns, properties=properties)


def test_what_another_program_changed_stays_when_a_column_is_added(tmp_path: Path) -> None:
    warehouse = memory_warehouse(Landed(tmp_path))
    catalog = warehouse.catalog()
    assert isinstance(catalog, MemoryCatalog)
    catalog.__class__ = RevisedCatalog
    landed, publisher = warehouse.landed, warehouse.publisher()
    landed.sample.body = parquet_of(name=pa.string())
    landed.land(CLICKS).settle()
    publisher.publish(landed.follower())
    table = catalog.tables[CLICKS_TABLE]
    catalog.tables[CLICKS_TABLE] = replace(table, properties={**table.properties, "owner": "web"})
    landed.sample.open(generation=2)
    landed.sample.body = parquet_of(name=pa.string(), country=pa.string())
    landed.land(CLICKS).settle()

    publisher.publish(landed.follower())

    found = catalog.tables[CLICKS_TABLE]
    assert "country" in found.columns
    assert found.properties["owner"] == "web"
