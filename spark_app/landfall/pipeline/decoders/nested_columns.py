"""Columns of type List and Struct: what they hold is a column of its own, converted as any other.

A list becomes one column of all items and where each row's begin; a struct a column for each field.
So an inner value obeys the rules of its type, and its error names its place:
``column items[2].price: null``. A null, an absent value and what has an error are null as a whole.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from landfall.api.spec import Column, ColumnType, Item, ValueType

Converted: TypeAlias = tuple[pa.Array, dict[int, str]]
Inner: TypeAlias = Callable[[str, Item | Column, Sequence[object]], Converted]
"""Converts a column by its name, what declares it, and its values."""

_PLACE = re.compile(r" - at `\$\.?(.*)`$")
"""Where in a value msgspec met what it did not expect."""


def arrow_type(declared: ValueType, inner: Callable[[ValueType], pa.DataType]) -> pa.DataType:
    """Return the Arrow type of a List or a Struct."""
    if declared.type is ColumnType.LIST:
        assert declared.items is not None, "the spec's validation requires it"
        return pa.list_(inner(declared.items))
    return pa.struct([pa.field(field.name, inner(field)) for field in declared.fields])


def json_type(declared: ValueType, inner: Callable[[ValueType], Any]) -> Any:
    """Return the type that msgspec must find for a List or a Struct."""
    if declared.type is ColumnType.LIST:
        assert declared.items is not None, "the spec's validation requires it"
        return list[inner(declared.items)] | None  # type: ignore[misc]  # a type made at run time
    fields = [(f"f{i}", inner(field), None) for i, field in enumerate(declared.fields)]
    rename = {f"f{i}": field.key for i, field in enumerate(declared.fields)}
    return msgspec.defstruct("Declared", fields, rename=rename, gc=False) | None


def of_texts(
    name: str, decode: Callable[[str], object], texts: pa.StringArray
) -> tuple[list[object], dict[int, str]]:
    """Return the values of JSON texts, and errors by row; empty text is null."""
    values: list[object] = []
    errors: dict[int, str] = {}
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(decode(text) if text else None)
        except (msgspec.DecodeError, RecursionError) as error:
            values.append(None)
            errors[row] = f"column {placed(name, error)}"
    return values, errors


def placed(name: str, error: Exception) -> str:
    """Return what msgspec reports about a value of this name, with the place in the value first."""
    text = str(error)
    found = _PLACE.search(text)
    if found is None:
        return f"{name}: {text}"
    dot = "" if found[1].startswith("[") else "."
    return f"{name}{dot}{found[1]}: {text[: found.start()]}"


def convert(name: str, declared: ValueType, values: Sequence[object], inner: Inner) -> Converted:
    """Return a column of a List or a Struct, and errors by row.

    Args:
        name: of the column, for errors.
        declared: its type.
        values: of the type that ``json_type`` names.
        inner: converts what is inside.
    """
    is_null = np.fromiter((value is None for value in values), np.bool_, len(values))
    if declared.type is ColumnType.LIST:
        return _lists(name=name, declared=declared, values=values, is_null=is_null, inner=inner)
    return _structs(name=name, declared=declared, values=values, is_null=is_null, inner=inner)


def _lists(
    name: str, declared: ValueType, values: Sequence[Any], is_null: Any, inner: Inner
) -> Converted:
    assert declared.items is not None, "the spec's validation requires it"
    lists: list[list[object]] = [value or [] for value in values]
    ends = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    items, of_items = inner(f"{name}[]", declared.items, list(chain.from_iterable(lists)))
    errors: dict[int, str] = {}
    for item in sorted(of_items):
        row = int(np.searchsorted(ends, item, "right")) - 1
        place = f"column {name}[{item - int(ends[row])}]"
        errors.setdefault(row, place + of_items[item].removeprefix(f"column {name}[]"))
    offsets = pa.array(ends, pa.int32())
    mask = pa.array(is_null) if is_null.any() else None
    return pa.ListArray.from_arrays(offsets, items, mask=mask), errors


def _structs(
    name: str, declared: ValueType, values: Sequence[object], is_null: Any, inner: Inner
) -> Converted:
    present = np.flatnonzero(~is_null)
    # Where the struct is null its fields are, too, and none of them is missing.
    spread = np.full(len(values), len(present))
    spread[present] = np.arange(len(present))
    arrays, errors = [], dict[int, str]()
    for i, field in enumerate(declared.fields):
        of_field = [getattr(values[row], f"f{i}") for row in present.tolist()]
        array, wrong = inner(f"{name}.{field.name}", field, of_field)
        padded = pa.concat_arrays([array, pa.nulls(1, array.type)])
        arrays.append(padded.take(pa.array(spread)))
        errors = {int(present[row]): error for row, error in wrong.items()} | errors
    fields = [
        pa.field(field.name, array.type)
        for field, array in zip(declared.fields, arrays, strict=True)
    ]
    mask = pa.array(is_null) if is_null.any() else None
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask), errors


__all__: Sequence[str] = ("Converted", "arrow_type", "convert", "json_type", "of_texts", "placed")
