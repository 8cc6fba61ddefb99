import cProfile
from collections.abc import Iterator
from datetime import UTC, date, datetime

import msgspec
import numpy as np
import pytest

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.native import HotPath
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.structs import StructLeaf, layers
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from tests.support.driver.hot_paths import BOTH, running

A = (("a",),)


@pytest.fixture(autouse=True, params=BOTH)
def _path(request: pytest.FixtureRequest) -> Iterator[None]:
    path: HotPath = request.param
    with running(path):
        yield


def decode(values: list[bytes | None], wanted: Wanted) -> Decoded:
    return JsonDecoder.of({}, wanted).decode(
        filled(TopicPartition("t", 0), range(len(values)), values)
    )


def errors_of(decoded: Decoded) -> dict[int, str]:
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


def test_integers_are_one_int64_array() -> None:
    got = decode([b'{"a":1}', b'{"a":-2,"b":"x"}'], Wanted(A))

    assert isinstance(got.fields["a",], np.ndarray)
    assert got.fields["a",].tolist() == [1, -2]


def test_any_scalar_is_a_field() -> None:
    values = [
        b'{"a":1}',
        b'{"a":"x"}',
        b'{"a":1.0}',
        b'{"a":true}',
        b'{"a":null}',
        b"{}",
        None,
        b'{"a":[1]}',
    ]

    assert decode(values, Wanted(A)).fields["a",] == [1, "x", 1.0, True, None, None, None, [1]]


def test_an_integer_beyond_int64_stays_a_python_integer() -> None:
    assert decode([b'{"a":1}', b'{"a":9223372036854775808}'], Wanted(A)).fields["a",] == [1, 2**63]


def test_a_nested_field_is_none_inside_something_that_is_not_an_object() -> None:
    values = [
        b'{"m":{"t":1,"u":{"v":2}}}',
        b'{"m":{}}',
        b'{"m":null}',
        b'{"m":"x"}',
        b"{}",
        b'{"m":[]}',
    ]

    got = decode(values, Wanted((("m", "t"), ("m", "u", "v"))))

    assert got.fields == {("m", "t"): [1, *[None] * 5], ("m", "u", "v"): [2, *[None] * 5]}
    assert len(got.records) == 6


def test_a_wanted_field_may_contain_another() -> None:
    got = decode([b'{"m":{"t":1}}'], Wanted((("m",), ("m", "t"))))

    assert got.fields["m",] == [{"t": 1}]
    assert got.fields["m", "t"].tolist() == [1]


@pytest.mark.parametrize("name", ["", "é", "$ref", "a.b", 'a"b', "a\\b", "a\nb", "f0"])
def test_a_field_may_have_any_name(name: str) -> None:
    import msgspec

    payload = msgspec.json.encode({"f0": 7, name: 5})

    assert list(decode([payload, payload], Wanted(((name,),))).fields[name,]) == [5, 5]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"", "truncated"),
        (b"   ", "truncated"),
        (b"x", "malformed"),
        (b'"text"', "Expected `object`, got `str`"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b'{"a":1} x', "trailing"),
        (b'{"a":1}{"a":2}', "trailing"),
        (b'{"a":1', "truncated"),
        (b'{"b":NaN}', "malformed"),
        (b'{"b":01}', "malformed"),
        (b'{"b":tru}', "malformed"),
        (b'{"b":"\\x"}', "malformed"),
        (b'{"b":"\n"}', "malformed"),
        (b'{"b":"\xff"}', "json: not UTF-8: invalid start byte at byte 6"),
        (b'{"\xff":1}', "json: not UTF-8: invalid start byte at byte 2"),
        (b"\xef\xbb\xbf{}", "malformed"),
        (b'{"b":' + b"[" * 5000 + b"]" * 5000 + b"}", "recursion"),
    ],
)
def test_a_payload_that_is_not_one_json_object_is_bad(payload: bytes, error: str) -> None:
    for wanted in (Wanted(), Wanted(A), Wanted((("a", "b"),)), Wanted((("\n",),))):
        got = decode([b"{}", payload, b'{"c":1}'], wanted)

        assert (got.records.offsets.tolist(), list(errors_of(got))) == ([0, 2], [1])
        assert error in errors_of(got)[1].lower() or error in errors_of(got)[1]
        assert len(errors_of(got)[1]) < 200


def test_payloads_cannot_blend_into_each_other() -> None:
    values = [
        b'{"a":1}{"a":2}',
        b"",
        b'{"a":',
        b"3}",
        b'{"a":{"b":4}',
        b'{"a":5}}',
        b' {"a":6} ',
        b'{"a":"',
        b'"}',
    ]

    got = decode(values, Wanted(A))

    assert (got.records.offsets.tolist(), list(got.fields["a",])) == ([6], [6])


def test_one_bad_row_does_not_change_the_others() -> None:
    padding = b"x" * 1000  # so that there are several slabs
    values: list[bytes | None] = [b'{"a":%d,"b":"%b"}' % (i, padding) for i in range(1000)]
    values[400], values[700], values[900] = b"bad", None, b'{"a":"text"}'

    got = decode(values, Wanted(A))

    expected = [{700: None, 900: "text"}.get(i, i) for i in range(1000) if i != 400]
    assert (got.fields["a",], list(errors_of(got))) == (expected, [400])
    assert got.records.offsets.tolist() == [i for i in range(1000) if i != 400]


def test_no_rows_give_no_values() -> None:
    assert len(decode([], Wanted(A)).fields["a",]) == 0


def test_payloads_are_passed_on_byte_for_byte() -> None:
    values = [b'{ "a" : 1.50, "a": 2 }\n', b'{"a":1e3}']

    assert decode(values, Wanted(A, json=True)).records.values.to_pylist() == values


def test_typed_columns_have_the_declared_types() -> None:
    kinds = [
        "String",
        "Int32",
        "Int64",
        "Float64",
        "Boolean",
        "Timestamp",
        "Date",
        "Binary",
        "Json",
    ]
    schema = schema_of([Column(name=kind.lower(), type=kind, field=f"x.{kind}") for kind in kinds])
    full = (
        b'{"x":{"String":"s","Int32":-1,"Int64":9223372036854775807,"Float64":1,"Boolean":true,"Timestamp":1357034400000,'
        b'"Date":"2013-01-01","Binary":"AAE=","Json":{"a" :1.50}}}'
    )

    got = decode(
        [full, b"{}", b'{"x":{"Timestamp":"2013-01-01T10:00:00Z","Json":null}}'],
        Wanted(schema=schema),
    )

    assert got.columns is not None
    first, second, third = got.columns.to_pylist()
    ten = datetime(2013, 1, 1, 10, tzinfo=UTC)
    assert list(first.values()) == [
        "s",
        -1,
        2**63 - 1,
        1.0,
        True,
        ten,
        date(2013, 1, 1),
        b"\x00\x01",
        '{"a" :1.50}',
    ]
    assert (list(second.values()), third) == ([None] * 9, {**second, "timestamp": ten})


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("Int32", b"2147483648", "json: c: Expected `int` <= 2147483647"),
        ("Int64", b"1.5", "json: c: Expected `int"),
        ("String", b"5", "json: c: Expected `str"),
        ("Boolean", b"1", "json: c: Expected `bool"),
        ("Float64", b'"1"', "json: c: Expected"),
        ("Float64", b"1" + b"0" * 400, "column c: expected Float64"),
        ("Timestamp", b'"soon"', "column c: timestamp: expected"),
        ("Timestamp", b"1e300", "column c: timestamp out of range"),
        ("Date", b'"2013-02-30"', "column c: expected Date, got '2013-02-30'"),
        ("Binary", b'"*"', "json: c: Invalid base64"),
    ],
)
def test_a_value_of_another_type_is_bad_and_names_the_column(
    kind: str, value: bytes, error: str
) -> None:
    schema = schema_of([Column(name="c", type=kind)])

    got = decode([b'{"c":%b}' % value, b"{}"], Wanted(schema=schema))

    assert errors_of(got)[0].startswith(error)
    assert (len(got.records), len(got.columns or ())) == (1, 1)


def test_null_is_bad_in_a_column_that_is_not_nullable() -> None:
    schema = schema_of([Column(name="c", type="Json", nullable=False)])

    got = decode([b'{"c":null}', b"{}", None, b'{"c":1}'], Wanted(schema=schema))

    assert errors_of(got) == dict.fromkeys(range(3), "column c: null")


def test_a_field_keeps_its_value_beside_a_column_of_its_name() -> None:
    schema = schema_of([Column(name="a", type="Float64"), Column(name="j", type="Json", field="m")])

    got = decode([b'{"a":5,"m":{"x":1}}'], Wanted((("a",), ("m", "x")), schema=schema))

    assert [list(values) for values in got.fields.values()] == [[5], [1]]
    assert got.columns is not None
    assert got.columns.to_pylist() == [{"a": 5.0, "j": '{"x":1}'}]


def test_json_takes_no_options() -> None:
    with pytest.raises(ValueError, match="unknown option x"):
        JsonDecoder.of({"x": 1}, Wanted())


def test_rejected_rows_keep_their_original_positions() -> None:
    decoded = decode([b'{"a":1}', b"bad", b'{"a":3}', b'{"a":4}'], Wanted(A))

    kept = decoded.keep(np.array([True, False, True])).reject({1: "late"})

    assert (kept.records.offsets.tolist(), list(kept.fields["a",]), kept.filtered) == ([0], [1], 1)
    assert errors_of(kept) == {1: errors_of(decoded)[1], 3: "late"}


def test_a_decoder_of_thousands_of_columns_is_built_in_steps_for_each_column() -> None:
    def calls(columns: int) -> int:
        leaves = [StructLeaf(("in", f"c{n}"), int) for n in range(columns)]
        profile = cProfile.Profile()
        profile.enable()
        layers(leaves, msgspec.json.Decoder)
        profile.disable()
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(2_000) < 2.5 * calls(1_000)


@pytest.mark.parametrize(
    ("paths", "of_layers"),
    [
        ([("a",), ("b",)], [[("a",), ("b",)]]),
        ([("a",), ("a", "b"), ("c",)], [[("a",), ("c",)], [("a", "b")]]),
        ([("a", "b"), ("a",), ("a", "c")], [[("a", "b"), ("a", "c")], [("a",)]]),
        ([("a",), ("a",), ("a", "b")], [[("a",)], [("a",)], [("a", "b")]]),
        ([("a", "b", "c"), ("a", "b"), ("a",)], [[("a", "b", "c")], [("a", "b")], [("a",)]]),
    ],
)
def test_paths_that_contain_each_other_are_in_layers_of_their_own(
    paths: list[tuple[str, ...]], of_layers: list[list[tuple[str, ...]]]
) -> None:
    found = layers([StructLeaf(path) for path in paths], msgspec.json.Decoder)

    assert [[leaf.path for leaf in layer.leaves] for layer in found] == of_layers
