"""Tables of files with decimals, lists and structs, which groups declare as columns."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog

from landfall.api.spec import Column
from landfall.pipeline.decoders.typed_columns import record_batch, schema_of
from landfall.publish.building import publisher
from landfall.publish.catalog.hive_types import columns_of
from tests.support.publishers.lake import CLICKS, Landed
from tests.support.publishers.parquet_files import rewritten

PRICE = {"type": "Decimal", "precision": 10, "scale": 2}
SCHEMA = schema_of(
    [
        Column.model_validate({"name": "price", **PRICE}),
        Column.model_validate({"name": "tags", "type": "List", "items": {"type": "String"}}),
        Column.model_validate(
            {
                "name": "geo",
                "type": "Struct",
                "fields": [
                    {"name": "at", "type": "Timestamp"},
                    {"name": "sums", "type": "List", "items": PRICE},
                ],
            }
        ),
    ]
)
ROW = {
    "price": Decimal("1.50"),
    "tags": ["a", None],
    "geo": {"at": datetime(2026, 11, 21, 4, tzinfo=UTC), "sums": [Decimal("0.10")]},
}
NOTHING = dict.fromkeys(ROW)


def nested(table: pa.Table) -> pa.Table:
    """The columns that a decoder makes, with those of the table; the first row alone has values."""
    empty = [""] * (len(table) - 1)
    texts = (
        "1.5",
        '["a",null]',
        '{"at":"2026-11-21T04:00:00Z","sums":[0.10]}',
    )
    made, errors = record_batch(SCHEMA, [pa.array([text, *empty]) for text in texts])
    assert errors == {}
    for field, column in zip(made.schema, made.columns, strict=True):
        table = table.append_column(field, column)
    return table


def landed_in(folder: Path) -> Landed:
    landed = Landed(folder).land(CLICKS).settle()
    rewritten(landed, landed.keys("clicks")[0], nested)
    return landed


def publish(landed: Landed, kind: str, options: dict[str, Any]) -> None:
    context = landed.context(kind, options)
    publisher(context.group, context.entry, context.store).publish(context.follower())


def test_iceberg_has_their_types_and_values(tmp_path: Path) -> None:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }

    publish(landed_in(tmp_path), "Iceberg", {"catalog": catalog})

    table = load_catalog("landfall", **catalog).load_table("lake.clicks")
    found = table.scan().to_arrow().sort_by("_offset").select(list(ROW)).to_pylist()
    assert found[:2] == [ROW, NOTHING]
    types = {field.name: str(field.field_type) for field in table.schema().fields}
    assert (types["price"], types["tags"]) == ("decimal(10, 2)", "list<string>")


def test_delta_has_their_types_and_values(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()

    publish(landed_in(tmp_path), "Delta", {"table": f"file://{tmp_path}/tables/{{topic}}"})

    table = DeltaTable(f"{tmp_path}/tables/clicks")
    query = "select price, tags, geo from t order by _offset limit 2"
    found = pa.table(QueryBuilder().register("t", table).execute(query).read_all()).to_pylist()
    assert found == [ROW, NOTHING]


def test_hive_has_their_types() -> None:
    assert columns_of(SCHEMA) == {
        "price": "decimal(10,2)",
        "tags": "array<string>",
        "geo": "struct<at:timestamp,sums:array<decimal(10,2)>>",
    }
