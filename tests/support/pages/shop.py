"""The example ``examples/schemas``: its group with other addresses, and what must be landed."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import yaml
from examples.schemas import produce

from tests.support.pages.markdown import ROOT

EXAMPLE = ROOT / "examples/schemas/shop.yaml"
TOPICS = produce.TOPICS
COUNTRIES = ("DE", "AT", None)
Rows = list[dict[str, Any]]
Types = Mapping[str, str]

COLUMNS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "orders": {
        "id": ("BIGINT", "bigint"),
        "at": ("TIMESTAMP WITH TIME ZONE", "timestamp"),
        "total": ("DECIMAL(9,2)", "decimal(9,2)"),
        "coupon": ("VARCHAR", "string"),
        "items": ("STRUCT(sku VARCHAR, n INTEGER)[]", "array<struct<sku:string,n:int>>"),
    },
    "clicks": {
        "at": ("BIGINT", "bigint"),
        "user": ("VARCHAR", "string"),
        "kind": ("VARCHAR", "string"),
        "pages": ("VARCHAR[]", "array<string>"),
        "amount": ("DOUBLE", "double"),
        "device": ("STRUCT(os VARCHAR, width INTEGER)", "struct<os:string,width:int>"),
        "scrolled": ("MAP(VARCHAR, INTEGER)", "map<string,int>"),
    },
    "logins": {
        "who": ("VARCHAR", "string"),
        "ip": ("VARCHAR", "string"),
        "at": ("TIMESTAMP WITH TIME ZONE", "timestamp"),
        "is_v6": ("BOOLEAN", "boolean"),
        "country": ("VARCHAR", "string"),
    },
}
"""The columns of each topic's files, with their types in DuckDB and in Spark."""
ENVELOPE: Mapping[str, tuple[str, str]] = {
    "_topic": ("VARCHAR", "string"),
    "_partition": ("INTEGER", "int"),
    "_offset": ("BIGINT", "bigint"),
}
BROKEN = (
    ("clicks", produce.COUNT, "protobuf: Wire format was corrupt", b"\xffbroken"),
    (
        "logins",
        produce.COUNT,
        "json: not UTF-8: invalid start byte at byte 0",
        b"\xffbroken",
    ),
    (
        "orders",
        produce.COUNT,
        "avro: does not begin with the byte 0 of a schema id",
        b"\xffbroken",
    ),
)
"""Topic, offset, reason and payload of the dead letters."""


def document(prefix: str, **output: object) -> dict[str, Any]:
    """The example's group, with topics called ``<prefix>orders`` and so on.

    Args:
        prefix: of the topics.
        output: takes the place of fields of ``spec.output``.
    """
    made: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    made["spec"]["source"]["kafka"]["topics"] = [f"{prefix}{name}" for name in TOPICS]
    made["spec"]["output"] |= output
    for entry in made["spec"]["topics"]:
        entry["pattern"] = f"{prefix}{entry['pattern']}"
    return made


def written(folder: Path, prefix: str, **output: object) -> Path:
    """That group as a file."""
    file = folder / "shop.yaml"
    file.write_text(yaml.safe_dump(document(prefix, **output)))
    return file


def types(topic: str) -> tuple[Types, Types]:
    """The types of a topic's columns, those of the envelope included: DuckDB's and Spark's."""
    columns = {**COLUMNS[topic], **ENVELOPE}
    return (
        {name: duck for name, (duck, _) in columns.items()},
        {name: spark for name, (_, spark) in columns.items()},
    )


def expected(topic: str, prefix: str = "") -> Rows:
    """The rows that must be landed of a topic, in the order of their offsets."""
    rows: dict[str, list[tuple[int, Mapping[str, Any]]]] = {
        "orders": list(enumerate(map(_with_defaults, produce.orders()))),
        "clicks": list(enumerate(produce.clicks())),
        "logins": [
            (i, _enriched(i, login))
            for i, login in enumerate(produce.logins())
            if login["who"] != "probe"
        ],
    }
    return [
        {**row, "_topic": f"{prefix}{topic}", "_partition": 0, "_offset": offset}
        for offset, row in rows[topic]
    ]


def _with_defaults(order: Mapping[str, Any]) -> Mapping[str, Any]:
    """An order with nulls for columns that files of its version do not have."""
    return {"coupon": None, "items": None, **order}


def _enriched(i: int, login: Mapping[str, Any]) -> Mapping[str, Any]:
    ip = login["ip"]
    return {
        "who": login["who"].lower(),
        # The network of an address, as the guide to Mask says.
        "ip": "2001:db8::" if ":" in ip else f"{ip.rpartition('.')[0]}.0",
        "at": datetime.fromtimestamp(login["at"] / 1000, UTC),
        "is_v6": ":" in ip,
        "country": COUNTRIES[i % 3],
    }


def in_duckdb(folder: Path, topic: str) -> tuple[Types, Rows]:
    """The types of a topic's columns and its rows, in the order of their offsets, by DuckDB."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    names = [*COLUMNS[topic], *ENVELOPE]
    found = connection.sql(
        f"SELECT {_quoted(names)} FROM read_parquet('{folder}/*/*.parquet', "
        "union_by_name = true, hive_partitioning = false) ORDER BY _offset"
    )
    types = dict(zip(found.columns, map(str, found.types), strict=True))
    return {name: text.replace('"', "") for name, text in types.items()}, in_utc(
        found.to_arrow_table().to_pylist(maps_as_pydicts="strict")
    )


def dead_letters(folder: Path) -> list[tuple[str, int, str, bytes]]:
    """Topic, offset, reason and payload of every dead letter below a folder, by DuckDB."""
    return (
        duckdb.connect()
        .execute(
            f"SELECT topic, \"offset\", error, value FROM read_parquet('{folder}/**/*.parquet', "
            "hive_partitioning = false) ORDER BY topic"
        )
        .fetchall()
    )


def in_utc(rows: Iterable[dict[str, Any]]) -> Rows:
    """The rows with their times in UTC: Spark's are of the local zone, and do not say so."""
    return [
        {
            name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
