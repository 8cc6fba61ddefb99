"""Columns whose type is more than a name: times by unit, days, decimals, lists and structs."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from landfall.api.spec import Column, Decode, ValueType
from landfall.ledger.offsets import TopicPartition
from landfall.native import HotPath
from landfall.pipeline.decoders import Decoded, Decoder, Wanted
from landfall.pipeline.decoders.delimited import DelimitedDecoder
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.messagepack import MessagePackDecoder
from landfall.pipeline.decoders.typed_columns import schema_of, typed_columns
from landfall.pipeline.records import filled
from tests.support.driver.hot_paths import BOTH, running

MIDNIGHT = datetime(2025, 11, 21, tzinfo=UTC)
SECONDS = 1763683200
SECOND = timedelta(seconds=1)
PRICE: dict[str, object] = {"type": "Decimal", "precision": 10, "scale": 2}


@pytest.fixture(autouse=True, params=BOTH)
def _path(request: pytest.FixtureRequest) -> Iterator[None]:
    path: HotPath = request.param
    with running(path):
        yield


def wanted(*columns: dict[str, object], **more: object) -> Wanted:
    """The columns of a group's spec, named ``c`` unless they say otherwise."""
    named = [{"name": "c"} | column for column in columns]
    decode = Decode.model_validate({"format": "Json", "columns": named, **more})
    return Wanted(schema=schema_of(decode.payload_columns()))


def outcome(decoder: Decoder, *payloads: bytes) -> list[object]:
    """The first column of each payload, or the error in its place."""
    got: Decoded = decoder.decode(
        filled(TopicPartition("t", 0), range(len(payloads)), list(payloads))
    )
    assert got.columns is not None
    found: list[object] = [None] * len(payloads)
    kept = range(len(payloads)) if got.positions is None else got.positions.tolist()
    for row, value in zip(kept, got.columns.column(0).to_pylist(), strict=True):
        found[row] = value
    for row, error in zip(got.bad.rows.tolist(), got.bad.errors, strict=True):
        found[row] = error
    return found


def of_json(want: Wanted, *values: str) -> list[object]:
    """The outcome for JSON values of the field ``c``."""
    return outcome(JsonDecoder.of({}, want), *(f'{{"c":{value}}}'.encode() for value in values))


def of_text(want: Wanted, *values: str) -> list[object]:
    decoder = DelimitedDecoder.of({"columns": ["c"], "separator": "|"}, want)
    return outcome(decoder, *map(str.encode, values))


# -------------------------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("unit", "number"),
    [
        ("Seconds", SECONDS),
        ("Milliseconds", SECONDS * 10**3),
        ("Microseconds", SECONDS * 10**6),
        ("Nanoseconds", SECONDS * 10**9),
        *(("Auto", SECONDS * 10**n) for n in (0, 3, 6, 9)),
        (None, SECONDS * 10**3),
    ],
)
def test_a_number_is_a_time_in_its_unit(unit: str | None, number: int) -> None:
    want = wanted({"type": "Timestamp", "unit": unit})

    assert of_json(want, str(number), f'"{number}"', '"2025-11-21"') == [MIDNIGHT] * 3
    assert of_text(want, str(number), "2025-11-21T01:00:00+01:00") == [MIDNIGHT] * 2


def test_numbers_with_a_fraction_are_times() -> None:
    half = MIDNIGHT + SECOND / 2

    assert of_json(wanted({"type": "Timestamp", "unit": "Seconds"}), "1763683200.5") == [half]
    assert of_json(wanted({"type": "Timestamp"}), "1763683200500.0") == [half]


def test_microseconds_are_kept() -> None:
    micros = [MIDNIGHT + timedelta(microseconds=1)]

    assert of_json(wanted({"type": "Timestamp", "unit": "Microseconds"}), f"{SECONDS}000001") == (
        micros
    )
    assert of_json(wanted({"type": "Timestamp"}), '"2025-11-21T00:00:00.000001Z"') == micros


def test_text_has_a_format_and_a_time_zone() -> None:
    want = wanted(
        {
            "type": "Timestamp",
            "unit": "Custom",
            "format": "%d.%m.%Y %H:%M",
            "timezone": "Europe/Berlin",
        }
    )

    got = of_json(want, '"21.11.2025 01:00"', '"2025-11-21"')

    assert got[0] == MIDNIGHT
    assert str(got[1]).startswith("column c: timestamp: expected text in the format '%d.%m.%Y")


@pytest.mark.parametrize(
    "event",
    [
        {"field": "c", "unit": "Seconds"},
        {"field": "c"},
        {"field": "c", "unit": "Custom", "format": "%S %d %m %Y", "timezone": "Asia/Tokyo"},
    ],
)
def test_the_field_of_the_event_time_has_the_same_time_as_a_column(
    event: dict[str, object],
) -> None:
    text = '"00 21 11 2025"' if "format" in event else str(SECONDS)
    shift = timedelta(hours=-9) if "format" in event else timedelta()

    plain, inside = (
        of_json(wanted({"type": "Timestamp"}, timestamp=event), text),
        of_json(
            wanted(
                {"type": "Struct", "fields": [{"name": "x", "field": "y", "type": "Timestamp"}]},
                timestamp=event | {"field": "c.y"},
            ),
            f'{{"y":{text}}}',
        ),
    )

    assert (plain, inside) == ([MIDNIGHT + shift], [{"x": MIDNIGHT + shift}])


@pytest.mark.parametrize(
    ("column", "contradiction"),
    [
        ({"unit": "Milliseconds"}, "unit Milliseconds"),
        ({"unit": "Seconds", "timezone": "Asia/Tokyo"}, "timezone Asia/Tokyo"),
        ({"unit": "Custom", "format": "%Y-%j"}, "unit Custom"),
    ],
)
def test_a_column_that_contradicts_the_event_time_is_refused(
    column: dict[str, object], contradiction: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        wanted({"type": "Timestamp", **column}, timestamp={"field": "c", "unit": "Seconds"})

    assert f"columns: c: {contradiction}, but decode.timestamp reads the same field 'c'" in str(
        caught.value
    )


def test_columns_of_keys_and_headers_are_the_event_time_too() -> None:
    column = {"name": "at", "type": "Timestamp", "field": "t"}
    sources = [
        ("Key", {"key": {"format": "Json", "columns": [column]}}, Decode.key_columns),
        ("Header", {"header_columns": [column]}, Decode.typed_headers),
    ]
    for source, more, columns in sources:
        event = {"field": "t", "source": source, "unit": "Nanoseconds"}

        decode = Decode.model_validate({"timestamp": event, **more})

        assert [each.unit for each in columns(decode)] == ["Nanoseconds"]
        assert Decode.model_validate(more).columns == ()


def test_a_date_is_days_since_1970() -> None:
    want, day = wanted({"type": "Date", "unit": "Days"}), date(2025, 11, 21)

    got = of_json(want, "20413", '"20413"', '"2025-11-21"', "-719163", "null", "1.5", '"soon"')

    assert got[:3] == [day] * 3
    assert got[3] == "column c: expected days of a Date, got -719163"
    assert got[4] is None
    assert [str(error).partition(",")[0] for error in got[5:]] == [
        "json: c: Expected `int | str | null`",
        "column c: expected Date",
    ]
    assert of_text(want, "20413", "2025-11-21", "") == [day, day, None]


# ----------------------------------------------------------------------------------------- decimals


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.1", "0.10"),
        ("12345678.99", "12345678.99"),
        ("-0.0", "0.00"),
        ("1.5e2", "150.00"),
        ("1E-2", "0.01"),
        ("12.3400", "12.34"),
        ("0e-30", "0.00"),
    ],
)
def test_a_decimal_has_the_digits_that_are_written(text: str, number: str) -> None:
    exact = [Decimal(number)] * 2

    assert of_json(wanted(PRICE), text, f'"{text}"') == exact
    assert of_text(wanted(PRICE), text, f"{text}") == exact


def test_no_double_is_in_between() -> None:
    want = wanted({"type": "Decimal", "precision": 38, "scale": 18})

    assert of_json(want, "12345678901234567890.123456789012345678") == [
        Decimal("12345678901234567890.123456789012345678")
    ]


@pytest.mark.parametrize(
    "text",
    ["12.345", "123456789", "1e9", "1e-3", "1e999999999", "true", "[1]", '"x"', '"1_0"', '"NaN"'],
)
def test_a_decimal_that_does_not_fit_is_a_dead_letter(text: str) -> None:
    assert of_json(wanted(PRICE), text, "1") == [
        f"column c: expected Decimal(10,2), got {text}",
        Decimal("1.00"),
    ]


@given(st.integers(-(10**40), 10**40), st.integers(-45, 10), st.integers(1, 38), st.data())
def test_a_decimal_is_exact_or_refused(
    digits: int, exponent: int, precision: int, data: st.DataObject
) -> None:
    number = Decimal(f"{digits}e{exponent}")
    scale = data.draw(st.integers(0, precision))
    want = wanted({"type": "Decimal", "precision": precision, "scale": scale})

    forms = (str(number), f"{number:f}")
    texts = (f'"{form}"' for form in forms)
    got = [*of_json(want, *forms, *texts), *of_text(want, *forms), *of_text(want, forms[1])]

    scaled = Fraction(number) * 10**scale
    if scaled.denominator == 1 and abs(scaled) < 10**precision:
        assert got == [number] * 7
    else:
        assert [str(error)[:18] for error in got] == ["column c: expected"] * 7


@pytest.mark.parametrize("unscaled", [0, 1, -1, 12345, -12345, 127, 128, -128, 10**10 - 1])
def test_base64_of_the_unscaled_number_is_a_decimal(unscaled: int) -> None:
    encoded = base64.b64encode(unscaled.to_bytes(9, "big", signed=True)).decode()
    want = wanted({**PRICE, "encoding": "Base64"})

    assert of_json(want, f'"{encoded}"') == of_text(want, encoded)
    assert of_json(want, f'"{encoded}"') == [Decimal(unscaled).scaleb(-2)]


def test_a_decimal_may_name_its_scale() -> None:
    want = wanted({**PRICE, "encoding": "Base64"})

    got = of_json(want, '{"scale":1,"value":"MDk="}', '{"scale":3,"value":"MDk="}', '"*"', "1.5")

    assert got == [
        Decimal("1234.50"),
        'column c: expected Decimal(10,2), got {"scale":3,"value":"MDk="}',
        'column c: expected Decimal(10,2), got "*"',
        Decimal("1.50"),
    ]


def test_messagepack_has_decimals_too() -> None:
    values = [1, "1.50", b"\x30\x39", 0.1, None, float("nan"), 0.125]
    decoder = MessagePackDecoder.of({}, wanted(PRICE))

    assert outcome(decoder, *(msgpack.packb({"c": value}) for value in values)) == [
        Decimal("1.00"),
        Decimal("1.50"),
        Decimal("123.45"),
        Decimal("0.10"),
        None,
        "column c: expected Decimal(10,2), got nan",
        "column c: expected Decimal(10,2), got 0.125",
    ]


# -------------------------------------------------------------------------------- lists and structs

ORDER: dict[str, object] = {
    "type": "List",
    "items": {
        "type": "Struct",
        "nullable": False,
        "fields": [
            {"name": "sku", "type": "String", "nullable": False},
            {"name": "price", "field": "p", **PRICE},
            {"name": "at", "type": "Timestamp", "unit": "Seconds"},
            {"name": "tags", "type": "List", "items": {"type": "List", "items": {"type": "Date"}}},
            {"name": "raw", "type": "Json"},
        ],
    },
}
NOTHING = dict.fromkeys(("price", "at", "tags", "raw"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("[]", []),
        ('[{"sku":"a"},{"sku":"b","x":1}]', [{"sku": "a", **NOTHING}, {"sku": "b", **NOTHING}]),
        (
            '[{"sku":"a","p":0.1,"at":1763683200,"tags":[["2025-11-21"],null],"raw":{"x": 1.0}}]',
            [
                {
                    "sku": "a",
                    "price": Decimal("0.10"),
                    "at": MIDNIGHT,
                    "tags": [[date(2025, 11, 21)], None],
                    "raw": '{"x": 1.0}',
                }
            ],
        ),
        ('[{"sku":"a"},null]', "column c[1]: null"),
        ('[{"sku":"a"},{}]', "column c[1].sku: null"),
        ('[{"sku":"a","p":1.234}]', "column c[0].price: expected Decimal(10,2), got 1.234"),
        (
            '[{"sku":"a"},{"sku":"a","tags":[[],["2025-11-21","x"]]}]',
            "column c[1].tags[1][1]: expected Date, got 'x'",
        ),
        ('[{"sku":5}]', "c[0].sku: Expected `str | null`, got `int`"),
        ('{"sku":"a"}', "c: Expected `array | null`, got `object`"),
        ('[{"sku":"a","tags":[1]}]', "c[0].tags[0]: Expected `array | null`, got `int`"),
    ],
)
def test_what_is_inside_obeys_the_rules_of_its_type(text: str, value: object) -> None:
    if isinstance(value, str) and not value.startswith("column"):
        expected = [f"json: {value}", f"column {value}"]
    else:
        expected = [value, value]

    assert [*of_json(wanted(ORDER), text), *of_text(wanted(ORDER), text)] == expected


def test_a_row_alone_has_the_outcome_that_it_has_among_others() -> None:
    texts = ["null", '[{"sku":"a","p":1.234}]', '[{"sku":"b"}]', "[null]", "[]", '[{"sku":5}]']
    want = wanted(ORDER)

    assert of_json(want, *texts) == [of_json(want, text)[0] for text in texts]


def test_what_is_not_there_is_null_and_not_missing_inside() -> None:
    want = wanted({"type": "Struct", "fields": [{"name": "x", "type": "Int32", "nullable": False}]})

    assert of_json(want, "null", '{"x":1}', "{}") == [None, {"x": 1}, "column c.x: null"]
    assert outcome(JsonDecoder.of({}, want), b"{}") == [None]


def test_lists_of_messagepack_are_those_of_json() -> None:
    value = [{"sku": "a", "p": "1.50", "at": SECONDS, "raw": {"x": 1}}]

    got = outcome(MessagePackDecoder.of({}, wanted(ORDER)), msgpack.packb({"c": value}))

    made: Any = got[0]
    assert got == [[{**NOTHING, "sku": "a", "price": Decimal("1.50"), **made[0]}]]
    assert (made[0]["at"], json.loads(made[0]["raw"])) == (MIDNIGHT, {"x": 1})


# --------------------------------------------------------------------------------------- the spec


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"type": "Decimal"}, "type Decimal needs a precision"),
        ({"type": "Decimal", "precision": 39}, "less than or equal to 38"),
        ({"type": "Decimal", "precision": 2, "scale": 3}, "scale 3 is above precision 2"),
        ({"type": "List"}, "type List needs items"),
        ({"type": "Struct"}, "type Struct needs fields"),
        ({"type": "String", "items": {"type": "String"}}, "items is not for type String"),
        ({"type": "Int32", "unit": "Seconds"}, "unit is not for type Int32"),
        ({"type": "Timestamp", "unit": "Days"}, "unit Days is for type Date"),
        ({"type": "Date", "unit": "Seconds"}, "unit Days is for type Date"),
        ({"type": "Timestamp", "unit": "Custom"}, "unit Custom needs a format"),
        ({"type": "Timestamp", "unit": "Custom", "format": "%b %d"}, "has no year"),
        ({"type": "List", "items": {"type": "Decimal"}}, "type Decimal needs a precision"),
        (
            {"type": "Struct", "fields": [{"name": n, "type": "String"} for n in ("a", "A")]},
            "a",
        ),
    ],
)
def test_a_type_without_what_it_needs_is_refused(column: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Column.model_validate({"name": "c", **column})


def test_a_column_without_these_fields_is_stored_as_before() -> None:
    stored = Column(name="a", type="Int32").model_dump(mode="json", by_alias=True)

    assert stored == {"name": "a", "type": "Int32", "field": None, "nullable": True}


def test_a_stored_column_is_read_back() -> None:
    for column in ({"name": "c", **ORDER}, {"name": "c", "type": "Date", "unit": "Days"}):
        whole = Column.model_validate(column)

        assert Column.model_validate(whole.model_dump(mode="json", by_alias=True)) == whole


def test_columns_are_described_by_their_arrow_types() -> None:
    schema = wanted(ORDER).schema

    assert schema is not None
    assert schema.field("c").type.value_type.field("price").type == pa.decimal128(10, 2)


def test_a_schema_has_every_setting_of_each_declared_type() -> None:
    struct = {"type": "Struct", "fields": [{"name": "x", "type": "Int64"}]}
    types: list[dict[str, object]] = [
        {"type": "Int64"},
        {"type": "Timestamp"},
        {"type": "Timestamp", "unit": "Seconds"},
        {"type": "Timestamp", "unit": "Custom", "format": "%d/%m/%Y", "timezone": "Asia/Tokyo"},
        {"type": "Decimal", "precision": 5},
        {"type": "Decimal", "precision": 5, "scale": 0},
        {"type": "Decimal", "precision": 5, "scale": 1},
        {"type": "List", "items": {"type": "Int64"}},
        {"type": "List", "items": {"type": "Int64", "nullable": False}},
        struct,
        {"type": "Struct", "fields": [{"name": "x", "type": "Int64", "nullable": False}]},
        {"type": "List", "items": struct},
    ]
    named = [{"name": f"c{n}", **each} for n, each in enumerate([*types, *reversed(types)])]

    found = typed_columns(schema_of([Column.model_validate(each) for each in named]))

    assert [column.declared for column in found] == [
        ValueType.model_validate(each) for each in [*types, *reversed(types)]
    ]
