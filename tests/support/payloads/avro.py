"""Avro for tests: fastavro as the independent reader, and random schemas with values of them."""

import io
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

from landfall.pipeline.decoders.avro.plan import compile_schema
from landfall.pipeline.decoders.avro.reading import payload_data, read
from landfall.pipeline.decoders.avro.schema import parse_schema

Declared = Any
"""A schema as ``json.loads`` gives it."""

EVENT: Declared = {
    "type": "record",
    "name": "Event",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": "double"},
        {"name": "country", "type": "string"},
        {"name": "url", "type": "string"},
        {"name": "agent", "type": ["null", "string"], "default": None},
        {"name": "status", "type": "int"},
        {"name": "ok", "type": "boolean"},
        {
            "name": "meta",
            "type": {
                "type": "record",
                "name": "Meta",
                "fields": [{"name": "host", "type": "string"}, {"name": "ts", "type": "long"}],
            },
        },
    ],
}


def encoded(schema: Declared, value: object) -> bytes:
    """The value as fastavro writes it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def reference(schema: Declared, payload: bytes, reader: Declared = None) -> tuple[object, int]:
    """What fastavro reads, and how many bytes it needed for it."""
    stream = io.BytesIO(payload)
    parsed = None if reader is None else fastavro.parse_schema(reader)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), parsed)
    return value, stream.tell()


def columns(
    schema: Declared, payloads: Sequence[bytes], reader: Declared = None, wanted: Any = None
) -> tuple[pa.Array, pa.StringArray, Mapping[int, str]]:
    """What the cursors read: a column, the same as JSON, and the errors by row."""
    node = compile_schema(
        parse_schema(json.dumps(schema)),
        None if reader is None else parse_schema(json.dumps(reader)),
        wanted,
    )
    column, errors = read(node, *payload_data(pa.array(payloads, pa.binary())))
    column.validate(full=not errors)
    return column, node.text(column), errors


def plain(schema: Declared, value: Any) -> object:  # noqa: PLR0911  # a table
    """A value of a column as fastavro has it: maps are dicts, unions their value alone."""
    match schema:
        case list():
            present = [branch for branch in schema if branch != "null"]
            if value is None or not present:
                return None
            if len(present) == 1:
                return plain(present[0], value)
            (name,) = [name for name, member in value.items() if member is not None]
            (branch,) = [branch for branch in present if kind(branch) == name]
            return plain(branch, value[name])
        case {"type": "record", "fields": fields}:
            return {each["name"]: plain(each["type"], value[each["name"]]) for each in fields}
        case {"type": "array", "items": items}:
            return [plain(items, each) for each in value]
        case {"type": "map", "values": values}:
            return {key: plain(values, each) for key, each in value}
        case {"type": str(inner)} if inner not in {"enum", "fixed"}:
            return plain(inner, value)
    return value


def kind(schema: Declared) -> str:
    """The name of a branch of a union."""
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


def same(value: object, other: object) -> bool:
    """Whether two values are equal, types and NaN included."""
    match value, other:
        case dict(), dict():
            return value.keys() == other.keys() and all(same(value[k], other[k]) for k in value)
        case list(), list():
            return len(value) == len(other) and all(map(same, value, other))
        case tuple(), tuple():  # a record's name and the record
            return same(list(value), list(other))
        case float(), float():
            both_nan = math.isnan(value) and math.isnan(other)
            return both_nan or (value == other and str(value) == str(other))
    return type(value) is type(other) and value == other


def as_json(schema: Declared, value: Any) -> object:
    """The documented JSON of a value without unions, as fastavro has it."""
    match schema, value:
        case {"type": "record", "fields": fields}, _:
            return {each["name"]: as_json(each["type"], value[each["name"]]) for each in fields}
        case {"type": "array", "items": items}, _:
            return [as_json(items, each) for each in value]
        case {"type": "map", "values": values}, _:
            return {key: as_json(values, each) for key, each in value.items()}
        case _, bytes():
            return value.decode("latin-1")
        case _, float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70),
    "long": st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70),
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.binary(max_size=80),
    "string": st.text(max_size=40),
}


@st.composite
def schemas(  # noqa: PLR0911  # a table
    draw: st.DrawFn, depth: int = 3, unions: bool = True
) -> Declared:
    """A random schema; every named type in it has a name of its own."""
    leaves = ["int", "long", "string", "bytes", "null", "boolean", "float", "double"]
    nested = ["record", "array", "map", *(["union"] if unions else [])] if depth else []
    inner = schemas(depth=depth - 1, unions=unions)
    match draw(st.sampled_from([*leaves, "enum", "fixed", *nested, *nested])):
        case "enum":
            return {"type": "enum", "name": draw(_names()), "symbols": ["A", "B", "C"]}
        case "fixed":
            size = draw(st.sampled_from([0, 1, 2, 8, 16, 40]))
            return {"type": "fixed", "name": draw(_names()), "size": size}
        case "record":
            return draw(records(inner))
        case "array":
            return {"type": "array", "items": draw(inner)}
        case "map":
            return {"type": "map", "values": draw(inner)}
        case "union":
            branch = inner.filter(lambda schema: not isinstance(schema, list))
            return draw(st.lists(branch, min_size=1, max_size=4, unique_by=kind))
        case leaf:
            return leaf


@st.composite
def records(draw: st.DrawFn, fields: st.SearchStrategy[Declared]) -> Declared:
    """A record with up to four fields, ``f0`` to ``f3``."""
    types = draw(st.lists(fields, max_size=4))
    made = [{"name": f"f{i}", "type": type_} for i, type_ in enumerate(types)]
    return {"type": "record", "name": draw(_names()), "fields": made}


def _names() -> st.SearchStrategy[str]:
    return st.uuids(version=4).map(lambda made: f"N{made.hex}")


def values(schema: Declared) -> st.SearchStrategy[Any]:  # noqa: PLR0911  # a table
    """Values of a schema, as fastavro writes them: of a union with the name of the branch."""
    match schema:
        case list():
            return st.one_of([values(branch).map(partial(_tagged, branch)) for branch in schema])
        case {"type": "record", "fields": fields}:
            return st.fixed_dictionaries({f["name"]: values(f["type"]) for f in fields})
        case {"type": "array", "items": items}:
            return st.lists(values(items), max_size=5)
        case {"type": "map", "values": inner}:
            return st.dictionaries(st.text(max_size=5), values(inner), max_size=4)
        case {"type": "enum", "symbols": symbols}:
            return st.sampled_from(symbols)
        case {"type": "fixed", "size": size}:
            return st.binary(min_size=size, max_size=size)
    return VALUES[schema]


def _tagged(branch: Declared, value: object) -> object:
    return None if branch == "null" else (kind(branch), value)
