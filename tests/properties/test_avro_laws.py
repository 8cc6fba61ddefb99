"""Cursors read what fastavro reads, or reject the row: random schemas, values and damage."""

from typing import Any
from unittest.mock import patch

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from landfall.native import HotPath, hot_path
from landfall.pipeline.decoders.avro import blocks
from landfall.pipeline.decoders.avro.plan import ALL, Tree
from tests.support.payloads.avro import (
    Declared,
    as_json,
    columns,
    encoded,
    plain,
    records,
    reference,
    same,
    schemas,
    values,
)

SLOW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

ANY = schemas()


@st.composite
def written(draw: st.DrawFn, of: st.SearchStrategy[Declared] = ANY) -> tuple[Declared, list[bytes]]:
    """A schema and payloads, now and then so many that arrays are read item by item at once."""
    schema = draw(of)
    made = draw(st.lists(values(schema), min_size=1, max_size=5))
    times = draw(st.sampled_from([1, 1, 60]))
    return schema, [encoded(schema, value) for value in made] * times


@SLOW
@given(written())
def test_what_was_written_is_read(case: tuple[Declared, list[bytes]]) -> None:
    schema, payloads = case

    column, _, errors = columns(schema, payloads)

    assert errors == {}
    for payload, value in zip(payloads, column.to_pylist(), strict=True):
        assert same(plain(schema, value), reference(schema, payload)[0])


@st.composite
def damaged(draw: st.DrawFn, of: st.SearchStrategy[Declared] = ANY) -> tuple[Declared, list[bytes]]:
    """Payloads cut, extended, and with bytes changed, between others that are whole."""
    schema, payloads = draw(written(of))
    made = []
    for payload in payloads[:8]:
        match draw(st.sampled_from(["whole", "cut", "extended", "flipped", "flipped", "noise"])):
            case "cut":
                made.append(payload[: draw(st.integers(0, len(payload)))])
            case "extended":
                made.append(payload + draw(st.binary(min_size=1, max_size=4)))
            case "flipped" if payload:
                content = bytearray(payload)
                for _ in range(draw(st.integers(1, 3))):
                    place = draw(st.integers(0, len(payload) - 1))
                    content[place] = draw(st.integers(0, 255))
                made.append(bytes(content))
            case "noise":
                made.append(draw(st.binary(max_size=30)))
            case _:
                made.append(payload)
    return schema, made * draw(st.sampled_from([1, 30]))


NUMBERS: Declared = {
    "type": "record",
    "name": "Numbers",
    "fields": [
        {"name": "longs", "type": {"type": "array", "items": "long"}},
        {"name": "ints", "type": {"type": "array", "items": "int"}},
        {"name": "last", "type": "long"},
    ],
}
SIZED = b"\x03\x04\x02\x01\x02\x05\x00\x00\x0e"
"""Longs 1, -1 in a block with its size, -3 in another; no ints; 7."""


@pytest.mark.skipif(hot_path().module is None, reason="the extension is not installed")
@SLOW
@given(damaged(st.just(NUMBERS)), st.binary(max_size=24), st.sampled_from([ALL, {"last": ALL}]))
def test_arrays_of_numbers_are_the_same_without_the_extension(
    case: tuple[Declared, list[bytes]], noise: bytes, wanted: Tree
) -> None:
    payloads = [*case[1], SIZED, SIZED[:3] + noise, b"\x02" + b"\xff" * 9 + noise]
    native = columns(NUMBERS, payloads, wanted=wanted)

    with patch.object(blocks, "hot_path", lambda: HotPath(None, None, "of the test")):
        column, _, errors = columns(NUMBERS, payloads, wanted=wanted)

    good = pa.array([row not in errors for row in range(len(payloads))])
    assert errors == native[2]
    assert column.filter(good).to_pylist() == native[0].filter(good).to_pylist()
    values = {"longs": [1, -1, -3], "ints": [], "last": 7}
    read = column[len(case[1])].as_py()
    assert read == {name: values[name] for name in read}


def fastavro_reads(schema: Declared, payload: bytes) -> tuple[bool, Any]:
    try:
        value, size = reference(schema, payload)
    except Exception:  # noqa: BLE001  # whatever fastavro thinks of it
        return False, None
    return size == len(payload), value


@SLOW
@given(damaged())
def test_a_damaged_row_is_what_fastavro_reads_or_rejected(
    case: tuple[Declared, list[bytes]],
) -> None:
    schema, payloads = case

    column, _, errors = columns(schema, payloads)

    for row, payload in enumerate(payloads):
        if row not in errors:
            is_whole, value = fastavro_reads(schema, payload)
            assert is_whole
            assert same(plain(schema, column[row].as_py()), value)


@SLOW
@given(
    damaged(records(schemas(depth=2))),
    st.sampled_from([{}, {"f1": None}, {"f0": None, "f2": None}]),
)
def test_what_is_not_wanted_changes_nothing_else(
    case: tuple[Declared, list[bytes]], wanted: dict[str, None]
) -> None:
    schema, payloads = case

    everything, _, errors = columns(schema, payloads)
    some, _, fewer_errors = columns(schema, payloads, wanted=wanted)

    # Text that nobody reads is not checked for UTF-8, so fewer rows may be bad.
    assert fewer_errors.keys() <= errors.keys()
    for row in set(range(len(payloads))) - errors.keys():
        whole = everything[row].as_py()
        assert same(some[row].as_py(), {name: whole[name] for name in whole if name in wanted})


@SLOW
@given(written(schemas(unions=False)))
def test_json_has_every_value(case: tuple[Declared, list[bytes]]) -> None:
    schema, payloads = case

    _, texts, errors = columns(schema, payloads)

    assert errors == {}
    for payload, text in zip(payloads, texts.to_pylist(), strict=True):
        value = as_json(schema, reference(schema, payload)[0])
        assert orjson.loads(text) == orjson.loads(orjson.dumps(value))
