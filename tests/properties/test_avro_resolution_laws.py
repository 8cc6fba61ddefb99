"""Payloads read with another schema than theirs are what fastavro makes of them, or rejected."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.payloads.avro import (
    Declared,
    columns,
    encoded,
    plain,
    reference,
    same,
    schemas,
    values,
)

PROMOTIONS = {
    "int": ["int", "long", "double"],
    "long": ["long", "double"],
    "float": ["float", "double"],
    "string": ["string", "bytes"],
    "bytes": ["bytes", "string"],
}
"""Without ``float`` for integers: fastavro gives the double, which no float is."""
ADDED = [
    {"name": "n0", "type": "long", "default": -7},
    {"name": "n1", "type": ["null", "string"], "default": None},
    {"name": "n2", "type": {"type": "array", "items": "double"}, "default": [0.5]},
    {"name": "n3", "type": {"type": "map", "values": "string"}, "default": {"k": "v"}},
]


@st.composite
def evolved(draw: st.DrawFn, schema: Declared) -> Declared:
    """A schema that reads what this one has written."""
    if isinstance(schema, list):
        return draw(st.permutations(schema))
    changed = draw(_changed(schema))
    if draw(st.integers(0, 4)) == 0 and changed != "null":
        return draw(st.permutations(["null", changed]))
    return changed


@st.composite
def _changed(draw: st.DrawFn, schema: Declared) -> Declared:
    match schema:
        case {"type": "record", "fields": fields}:
            kept = [each for each in fields if draw(st.integers(0, 4))]
            made = [{**each, "type": draw(evolved(each["type"]))} for each in kept]
            more = [each for each in ADDED if draw(st.booleans())]
            return {**schema, "fields": draw(st.permutations([*made, *more]))}
        case {"type": "array", "items": items}:
            return {"type": "array", "items": draw(evolved(items))}
        case {"type": "map", "values": inner}:
            return {"type": "map", "values": draw(evolved(inner))}
        case {"type": "enum"}:
            return {**schema, "symbols": draw(st.permutations(["A", "B", "C", "D"]))}
        case str():
            return draw(st.sampled_from(PROMOTIONS.get(schema, [schema])))
    return schema


@given(st.data())
def test_an_evolved_schema_reads_what_fastavro_reads(data: st.DataObject) -> None:
    writer = data.draw(schemas(unions=False))
    reader = data.draw(evolved(writer))
    rows = data.draw(st.lists(values(writer), min_size=1, max_size=4))
    payloads = [encoded(writer, row) for row in rows]

    column, _, errors = columns(writer, payloads, reader)

    for row, payload in enumerate(payloads):
        try:
            expected = reference(writer, payload, reader)[0]
        except UnicodeDecodeError:
            assert "not UTF-8" in errors[row]
            continue
        assert row not in errors
        assert same(plain(reader, column[row].as_py()), expected)


LEAVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
UNIONS = st.lists(LEAVES, min_size=1, max_size=5, unique=True)


@given(st.data(), UNIONS, UNIONS)
def test_a_union_read_as_another_makes_no_wrong_value(
    data: st.DataObject, writer: Declared, reader: Declared
) -> None:
    rows = data.draw(st.lists(values(writer), min_size=1, max_size=5))
    payloads = [encoded(writer, row) for row in rows]

    column, _, errors = columns(writer, payloads, reader)

    for row in set(range(len(payloads))) - errors.keys():
        # Not what fastavro reads: of bytes it makes a string if that comes first, and may fail.
        written = reference(writer, payloads[row])[0]
        assert _is_alike(plain(reader, column[row].as_py()), written)


def _is_alike(found: Any, written: Any) -> bool:
    """Whether a promotion keeps the value; a float has some seven digits."""
    if isinstance(found, float):
        return same(found, float(written)) or math.isclose(found, written, rel_tol=1e-6)
    if isinstance(found, str) and isinstance(written, bytes):
        return found.encode() == written
    if isinstance(found, bytes) and isinstance(written, str):
        return found == written.encode()
    return same(found, written)
