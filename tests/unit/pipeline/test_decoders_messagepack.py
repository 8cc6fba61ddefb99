from datetime import UTC, datetime

import msgpack
import numpy as np
import orjson
import pytest

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.messagepack import MessagePackDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled

A = (("a",),)


def decode(values: list[bytes | None], wanted: Wanted) -> Decoded:
    decoder = MessagePackDecoder.of({}, wanted)
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


def errors_of(decoded: Decoded) -> dict[int, str]:
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


def packed(*values: object) -> list[bytes | None]:
    return [msgpack.packb(value, datetime=True) for value in values]


def test_integers_are_one_int64_array() -> None:
    got = decode(packed({"a": 1}, {"b": "x", "a": -2}), Wanted(A)).fields["a",]

    assert isinstance(got, np.ndarray)
    assert got.tolist() == [1, -2]


def test_a_field_is_what_json_would_hold() -> None:
    at = datetime(2026, 11, 21, 4, 0, 0, 250000, tzinfo=UTC)
    values = ["x", 1.5, True, None, b"\xfb\xff", at, [1], {"b": 1}, 2**64 - 1]

    got = decode([*packed(*({"a": value} for value in values)), None], Wanted(A))

    assert got.fields["a",] == [
        *["x", 1.5, True, None, "+/8=", "2026-11-21T04:00:00.250000Z", [1], {"b": 1}, 2**64 - 1],
        None,
    ]


def test_keys_that_are_not_text_have_no_path() -> None:
    got = decode(packed({1: 2, "a": 3, b"a": 4, None: 5}, {"m": {7: 1, "a": 2}}), Wanted(A))

    assert got.fields["a",] == [3, None]


def test_of_a_repeated_key_the_last_value_counts() -> None:
    payload = b"\x82\xa1a\x01\xa1a\x02"

    got = decode([payload], Wanted(A, json=True))

    assert list(got.fields["a",]) == [2]
    assert got.records.values.to_pylist() == [b'{"a":2}']


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"", "truncated"),
        (b"\x90", "Expected `object`"),
        (b"\x81\xa1a\x01\x00", "trailing characters"),
        (b"\x81\xa1a", "truncated"),
        (b"\x82\xa1z\xc1\xa1a\x01", "invalid opcode"),
        (b"\x81\xa1a\xa1\xff", "can't decode byte 0xff"),
        (b"\x81\xa1a\xdd\xff\xff\xff\xff\x01", "truncated"),
        (b"\x81\xa1z\xdf\xff\xff\xff\xff\x01", "truncated"),
        (b"\x81\xa1z" + b"\x91" * 100_000 + b"\x01", "recursion"),
        (b"\x81\xa1a" + b"\x91" * 100_000 + b"\x01", "recursion"),
        (b"\x81\xa1a\xd5\xff\x00\x00", "Invalid MessagePack timestamp"),
        (b"\x81\xa1a\xc7\x0c\xff\x00\x00\x00\x01" + b"\x7f" + b"\xff" * 7, "out of range"),
    ],
)
def test_a_bad_payload_is_rejected_alone(payload: bytes, error: str) -> None:
    good = msgpack.packb({"a": 1})

    got = decode([good, payload, good], Wanted(A))

    assert list(errors_of(got)) == [1]
    assert errors_of(got)[1].startswith("messagepack: ")
    assert error in errors_of(got)[1]
    assert list(got.fields["a",]) == [1, 1]


def test_each_column_type_reads_its_own_values() -> None:
    types = [
        *("String", "Int32", "Int64", "Float64", "Boolean"),
        *("Timestamp", "Date", "Binary", "Json"),
    ]
    schema = schema_of([Column(name=kind, type=kind) for kind in types])
    at = datetime(2026, 11, 21, 4, tzinfo=UTC)
    inner = {"b": [1, None, b"x"], "at": at}
    values = ["x", 2**31 - 1, -(2**63), 2, True, at, "2026-11-21", b"\x00\xff", inner]

    got = decode([*packed(dict(zip(types, values, strict=True)), {}), None], Wanted(schema=schema))

    assert got.columns is not None
    assert got.columns.to_pylist() == [
        {
            **dict(zip(types, values, strict=True)),
            "Float64": 2.0,
            "Date": datetime(2026, 11, 21, tzinfo=UTC).date(),
            "Json": '{"b":[1,null,"eA=="],"at":"2026-11-21T04:00:00Z"}',
        },
        *[dict.fromkeys(types)] * 2,
    ]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("String", 1),
        ("String", b"x"),
        ("Int32", 2**31),
        ("Int64", 2**63),
        ("Int64", 1.0),
        ("Int64", True),
        ("Float64", "1"),
        ("Boolean", 1),
        ("Timestamp", b"2026-11-21"),
        ("Timestamp", float("nan")),
        ("Date", 1),
        ("Binary", "eA=="),
        ("Json", float("nan")),
        ("Json", [msgpack.ExtType(5, b"x")]),
    ],
)
def test_a_value_of_another_type_makes_a_bad_row_that_names_the_column(
    kind: str, value: object
) -> None:
    schema = schema_of([Column(name="a", type=kind)])

    got = decode(packed({"a": None}, {"a": value}), Wanted(schema=schema))

    assert list(errors_of(got)) == [1]
    assert "a" in errors_of(got)[1].partition(":")[2]
    assert got.columns is not None
    assert got.columns.to_pylist() == [{"a": None}]


def test_nan_is_a_number_of_a_float_column() -> None:
    schema = schema_of([Column(name="a", type="Float64")])

    got = decode(packed({"a": float("nan")}, {"a": float("-inf")}), Wanted(schema=schema))

    assert got.columns is not None
    assert str(got.columns.column(0).to_pylist()) == "[nan, -inf]"


def test_every_map_becomes_json() -> None:
    row = {"s": "é\n", "i": 2**64 - 1, "f": 0.5, "n": None, "b": b"\xfb\xff", 7: {"x": [True]}}

    got = decode([*packed(row), None, *packed({})], Wanted(json=True))

    values = got.records.values.to_pylist()
    assert [value and orjson.loads(value) for value in values] == [
        {"s": "é\n", "i": 2**64 - 1, "f": 0.5, "n": None, "b": "+/8=", "7": {"x": [True]}},
        None,
        {},
    ]


@pytest.mark.parametrize(
    "value",
    [float("nan"), [float("inf")], {"b": -float("inf")}, msgpack.ExtType(5, b"x"), {None: 1}],
)
def test_what_json_cannot_hold_is_rejected(value: object) -> None:
    got = decode(packed({"a": value}, {"a": 1}), Wanted(json=True))

    assert list(errors_of(got)) == [0]
    assert got.records.values.to_pylist() == [b'{"a":1}']


def test_a_float32_that_is_not_finite_is_noticed() -> None:
    got = decode([b"\x81\xa1a\xca\x7f\xc0\x00\x00"], Wanted(json=True))

    assert errors_of(got) == {0: "messagepack: JSON has no number nan"}


def test_it_has_no_options() -> None:
    with pytest.raises(ValueError, match="unknown option depth; there are none"):
        MessagePackDecoder.of({"depth": 3}, Wanted())
