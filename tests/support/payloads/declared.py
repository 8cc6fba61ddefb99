"""Declared columns of every type, for tests that hold for each."""

from collections.abc import Mapping
from itertools import cycle

from landfall.api.spec import Column, ColumnType, Item

_MORE: Mapping[ColumnType, Mapping[str, object]] = {
    ColumnType.DECIMAL: {"precision": 9, "scale": 3},
    ColumnType.LIST: {"items": Item(type=ColumnType.JSON)},
    ColumnType.STRUCT: {
        "fields": (
            Column(name="a", type=ColumnType.JSON),
            Column(name="b", type=ColumnType.LIST, items=Item(type=ColumnType.INT32)),
        )
    },
}
PYTHON_ONLY = {ColumnType.BINARY, ColumnType.JSON, *_MORE}
"""Types of columns whose values the extension leaves to Python."""
NATIVE = [kind for kind in ColumnType if kind not in PYTHON_ONLY]


def column(kind: ColumnType, name: str, field: str | None = None) -> Column:
    """Return a column of a type, with what the type needs."""
    return Column.model_validate(
        {"name": name, "type": kind, "field": field} | dict(_MORE.get(kind, {}))
    )


def columns_of_every_type(fields: str) -> list[Column]:
    """Return a column of each type, named after it, that reads the letters in turn."""
    return [
        column(kind, str(kind), field)
        for kind, field in zip(ColumnType, cycle(fields), strict=False)
    ]
