"""The example ``examples/schemas``: its group with other addresses, and what must be landed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from examples.schemas import produce

from landfall.api.spec import ConsumerGroup
from landfall.cli import group_file
from tests.support.markdown import ROOT

EXAMPLE = ROOT / "examples/schemas/shop.yaml"
TOPICS = ("orders", "clicks", "logins")
COLUMNS = {
    "orders": ("id", "at", "total", "coupon", "items"),
    "clicks": ("at", "user", "kind", "pages", "amount"),
    "logins": ("who", "ip", "at", "country"),
}
COUNTRIES = ("DE", "AT", None)
Rows = list[Mapping[str, Any]]


def group(folder: Path, prefix: str, environment: Mapping[str, str]) -> tuple[Path, ConsumerGroup]:
    """The example's group in a file, with topics called ``<prefix>orders`` and so on."""
    text = EXAMPLE.read_text().replace("file:///tmp/shop", f"file://{folder}/landed")
    for name in TOPICS:
        text = text.replace(f"pattern: {name}", f"pattern: {prefix}{name}")
    text = text.replace("[orders, clicks, logins]", str([f"{prefix}{name}" for name in TOPICS]))
    file = folder / "shop.yaml"
    file.write_text(text)
    return file, group_file.load(file, environment)


def expected() -> Mapping[str, Rows]:
    """The rows that must be landed, by topic, in the order of their offsets."""
    return {
        "orders": [{"coupon": None, "items": None, **order} for order in produce.orders()],
        "clicks": list(produce.clicks()),
        "logins": [
            {
                "who": login["who"].lower(),
                "ip": _masked(login["ip"]),
                "at": datetime.fromtimestamp(login["at"] / 1000, UTC),
                "country": COUNTRIES[i % 3],
            }
            for i, login in enumerate(produce.logins())
            if login["who"] != "probe"
        ],
    }


def _masked(ip: str) -> str:
    """The network of an address, as the guide to ``Mask`` says."""
    return "2001:db8::" if ":" in ip else f"{ip.rpartition('.')[0]}.0"


def in_duckdb(files: str, columns: Sequence[str], order: str = "_offset") -> Rows:
    """Rows of Parquet files in the order of their offsets, with values as text."""
    quoted = ", ".join(f'"{name}"' for name in columns)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    found = connection.sql(
        f"SELECT {quoted} FROM read_parquet('{files}', union_by_name = true, "  # a test's
        f'hive_partitioning = false) ORDER BY "{order}"'
    )
    return as_texts(found.to_arrow_table().to_pylist())


def as_texts(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """The rows with values that all libraries have in common."""
    return [{name: _as_text(value) for name, value in row.items()} for row in rows]


def _as_text(value: Any) -> Any:
    match value:
        case datetime():
            # Spark's times are of the local zone, and say so only by their values.
            return value.astimezone(UTC).isoformat()
        case bytes() | bytearray():
            return value.hex()
        case list():
            return [_as_text(item) for item in value]
        case dict():
            return {name: _as_text(item) for name, item in value.items()}
        case None | bool() | int() | float():
            return value
    return str(value)
