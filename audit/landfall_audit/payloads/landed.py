"""The contents of files of columns, in the forms in which ``payloads`` compares values."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from landfall_audit.payloads import BadPayload, comparable, json_documents, of_json
from landfall_audit.spec import ColumnTypeName, ValueTypeSection

_MICROS = {"s": 10**6, "ms": 10**3, "us": 1}
"""How many microseconds a unit of a timestamp has."""


def forms(array: pa.Array, declared: ValueTypeSection | None = None) -> list[object]:
    """The form of each value of an array; ``declared`` marks text that is JSON."""
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    nested = next((form for is_one, form in _NESTED if is_one(array.type)), None)
    if nested is not None:
        return nested(array, declared)
    if declared is not None and declared.type is ColumnTypeName.JSON:
        return _each(array, json_form)
    return _leaves(array)


def _leaves(array: pa.Array) -> list[object]:
    if kinds.is_timestamp(array.type):
        return _each(array.cast(pa.int64()), _micros(array.type.unit))
    if kinds.is_date32(array.type):
        return _each(array.cast(pa.int32()), int)
    if kinds.is_time(array.type):
        as_micros = array.cast(pa.time64("us"), safe=False).cast(pa.int64())
        return _each(as_micros, lambda micros: ("time", micros))
    return _each(array, comparable)


def is_of_milliseconds(type_: pa.DataType) -> bool:
    """Return whether a column's times have no microseconds, as older software wrote them."""
    if kinds.is_timestamp(type_):
        return type_.unit in {"s", "ms"}
    inner = [type_.field(i).type for i in range(type_.num_fields)] if type_.num_fields else []
    return any(map(is_of_milliseconds, inner))


def json_form(text: Any) -> object:
    """The form of JSON text; the text itself, marked, if it is no JSON."""
    try:
        return of_json(json_documents.value_of(text.encode() if isinstance(text, str) else text))
    except BadPayload:
        return "no JSON", text


def _each(array: pa.Array, form: Callable[[Any], object]) -> list[object]:
    return [None if value is None else form(value) for value in array.to_pylist()]


def _micros(unit: str) -> Callable[[int], int]:
    if unit == "ns":
        return lambda value: value // 1000
    return lambda value: value * _MICROS[unit]


def _lists(array: Any, declared: ValueTypeSection | None) -> list[object]:
    inner = forms(array.values, declared.items if declared else None)
    return _spans(array, lambda start, end: ("list", tuple(inner[start:end])))


def _maps(array: Any, _: ValueTypeSection | None) -> list[object]:
    keys, values = forms(array.keys), forms(array.items)

    def entries(start: int, end: int) -> object:
        found = zip(keys[start:end], values[start:end], strict=True)
        return "map", tuple(sorted(found, key=lambda entry: str(entry[0])))

    return _spans(array, entries)


def _spans(array: Any, form: Callable[[int, int], object]) -> list[object]:
    ends: Sequence[int] = array.offsets.to_pylist()
    is_there = array.is_valid().to_pylist()
    return [
        form(start, end) if there else None
        for start, end, there in zip(ends, ends[1:], is_there, strict=False)
    ]


def _structs(array: Any, declared: ValueTypeSection | None) -> list[object]:
    names = [field.name for field in array.type]
    fields = {field.name: field for field in declared.fields} if declared else {}
    inner = [forms(array.field(i), fields.get(name)) for i, name in enumerate(names)]
    is_there = array.is_valid().to_pylist()
    rows = zip(*inner, strict=True) if inner else [()] * len(array)
    return [
        ("struct", tuple(sorted(zip(names, row, strict=True)))) if there else None
        for row, there in zip(rows, is_there, strict=True)
    ]


_NESTED: Sequence[
    tuple[Callable[[pa.DataType], bool], Callable[[Any, ValueTypeSection | None], list[object]]]
] = (
    (kinds.is_list, _lists),
    (kinds.is_large_list, _lists),
    (kinds.is_struct, _structs),
    (kinds.is_map, _maps),
)
