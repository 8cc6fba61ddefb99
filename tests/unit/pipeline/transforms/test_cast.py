"""``Cast``: the table of its module, on JSON payloads and on columns, which agree."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.errors import Stalled
from tests.support.driver.transformed import Group, payloads, rejected, spec_error


def cast(to: str, *values: object) -> tuple[list[object], dict[int, str]]:
    """The values that were cast, and what is wrong with the others."""
    got = Group([{"use": "Cast", "options": {"x": to}}]).apply(*({"x": value} for value in values))
    return [json.loads(payload or b"")["x"] for payload in payloads(got)], rejected(got)


@pytest.mark.parametrize(
    ("to", "values", "made"),
    [
        ("String", ["a", 1, True, None, ""], ["a", "1", "true", None, ""]),
        ("Int64", ["12", 3, 4.0, None, "", -(2**63)], [12, 3, 4, None, None, -(2**63)]),
        ("Int32", ["-5", 2**31 - 1], [-5, 2**31 - 1]),
        ("Float64", ["1.5", 2, 2.5, "1e3", ""], [1.5, 2.0, 2.5, 1000.0, None]),
        ("Boolean", ["true", "false", True, None], [True, False, True, None]),
        (
            "Timestamp",
            ["2026-11-21T04:00:00.123456789+01:00", 0, "1"],
            [
                "2026-11-21T03:00:00.123456Z",
                "1970-01-01T00:00:00.000000Z",
                "1970-01-01T00:00:00.001000Z",
            ],
        ),
        ("Date", ["2026-11-21", None], ["2026-11-21", None]),
    ],
)
def test_a_value_becomes_the_type(to: str, values: list[object], made: list[object]) -> None:
    assert cast(to, *values) == (made, {})


@pytest.mark.parametrize(
    ("to", "value"),
    [
        ("String", {}),
        ("String", [1]),
        ("Int64", "1.5"),
        ("Int64", " 1"),
        ("Int64", "1x"),
        ("Int64", 1.5),
        ("Int64", 2**63),
        ("Int64", 1e300),
        ("Int64", True),
        ("Int64", {}),
        ("Int32", 2**31),
        ("Int32", "2147483648"),
        ("Float64", "nan"),
        ("Float64", "inf"),
        ("Float64", 2**53 + 1),
        ("Float64", "x"),
        ("Boolean", "yes"),
        ("Boolean", 1),
        ("Timestamp", "soon"),
        ("Timestamp", True),
        ("Timestamp", 2**62),
        ("Date", "21.11.2026"),
        ("Date", 1),
    ],
)
def test_a_value_that_does_not_rejects_its_row(to: str, value: object) -> None:
    made, errors = cast(to, "" if to != "Date" else None, value)

    assert made == [None if to != "String" else ""]
    assert list(errors) == [1]
    assert errors[1].startswith(f"cast: x: expected {to}") or to == "Timestamp"
    assert errors[1].startswith("cast: x: ")


def test_integers_beyond_64_bits_reject_their_own_rows_only() -> None:
    made, errors = cast("Int64", 1, 2**70, "5", -(2**70), 3)

    assert made == [1, 5, 3]
    assert [*errors] == [1, 3]


def test_numbers_keep_their_digits_as_text() -> None:
    got = Group([{"use": "Cast", "options": {"x": "String"}}]).apply(
        b'{"x": 12345678901234567890.10}', b'{"x":1e999}'
    )

    assert payloads(got) == [b'{"x":"12345678901234567890.10"}', b'{"x":"1e999"}']


def test_a_field_that_is_absent_stays_absent() -> None:
    got = Group([{"use": "Cast", "options": {"x": "Int64", "m.y": "String"}}]).apply(
        {"a": 1}, {"m": {"y": 2}}, None
    )

    assert payloads(got) == [b'{"a":1}', b'{"m":{"y":"2"}}'.replace(b" ", b""), None]


def test_a_route_uses_the_new_value() -> None:
    for columns in (None, {"x": "String"}):
        group = Group(
            [{"use": "Cast", "options": {"x": "Int64"}}],
            columns,
            {"route__pattern": "x={field:x}"},
        )

        assert [name for name, _ in group.partition({"x": "007"}).outputs] == ["x=7"]


def test_the_field_of_the_event_time_is_read_as_it() -> None:
    decode = {"decode__timestamp": {"field": "x", "unit": "Seconds"}}
    steps = [{"use": "Cast", "options": {"x": "Timestamp", "y": "Timestamp"}}]
    row = {"x": 1763683200.5, "y": 1763683200000}

    for columns in (None, {"x": "Float64", "y": "Int64"}):
        (made,) = payloads(Group(steps, columns, decode).apply(row))

        assert json.loads(made or b"") == {
            "x": "2025-11-21T00:00:00.500000Z",
            "y": "2025-11-21T00:00:00.000000Z",
        }


def test_a_cast_that_contradicts_the_event_time_is_refused() -> None:
    steps = [{"use": "Cast", "options": {"x": {"type": "Timestamp", "unit": "Milliseconds"}}}]

    with pytest.raises(Stalled, match=r"x: unit Milliseconds, but .* the same field 'x'"):
        Group(steps, None, {"decode__timestamp": {"field": "x", "unit": "Seconds"}}).pipeline()


@pytest.mark.parametrize(
    ("to", "value", "made"),
    [
        ({"type": "Timestamp", "unit": "Microseconds"}, 1763683200000001, "00.000001Z"),
        ({"type": "Timestamp", "unit": "Custom", "format": "%Y/%j"}, "2025/325", "00.000000Z"),
        ({"type": "Date", "unit": "Days"}, 20413, "2025-11-21"),
        ({"type": "Decimal", "precision": 38, "scale": 18}, 0.1, "0.100000000000000000"),
        ({"type": "Decimal", "precision": 4, "scale": 2, "encoding": "Base64"}, "MDk=", None),
        ({"type": "Decimal", "precision": 5, "scale": 2, "encoding": "Base64"}, "MDk=", "123.45"),
        ({"type": "Decimal", "precision": 2}, 1.5, None),
    ],
)
def test_a_type_has_more_than_its_name(
    to: dict[str, object], value: object, made: str | None
) -> None:
    steps = [{"use": "Cast", "options": {"x": to}}]
    kinds = {int: "Int64", float: "Float64", str: "String"}

    for columns in (None, {"x": kinds[type(value)]}):
        got = Group(steps, columns).apply({"x": value})

        found = [json.loads(payload or b"")["x"] for payload in payloads(got)]
        assert [text[-len(made or "") :] for text in found] == ([made] if made else [])
        assert made or rejected(got)[0].startswith("cast: x: expected Decimal(")


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ({"type": "Decimal"}, "x: type Decimal needs a precision"),
        ({"type": "Decimal", "precision": 39}, "x: precision: Input should be less than"),
        ({"type": "Int32", "unit": "Seconds"}, "x: unit is not for type Int32"),
        ({"type": "List"}, "x: expected String"),
        ({"type": "Int32", "size": 1}, "x: size: Extra inputs are not permitted"),
    ],
)
def test_a_type_that_is_none_is_refused(to: dict[str, object], message: str) -> None:
    assert message in spec_error("Cast", {"x": to}, None)


PAIRS = [
    ("Int64", "String", st.integers(-(2**63), 2**63 - 1)),
    ("Int64", "Int32", st.integers(-(2**33), 2**33)),
    ("Int64", "Float64", st.integers(-(2**54), 2**54)),
    ("Int64", "Timestamp", st.integers(-(2**50), 2**50)),
    ("Float64", "Int64", st.floats(-10, 10) | st.integers(-(2**70), 2**70).map(float)),
    ("Boolean", "String", st.booleans()),
    ("String", "Int64", st.text(max_size=3) | st.integers().map(str)),
    ("String", "Float64", st.text(max_size=3) | st.floats().map(str)),
    ("String", "Boolean", st.sampled_from(["true", "false", "True", "1", ""])),
    ("String", "Timestamp", st.text(max_size=3) | st.datetimes().map(lambda at: at.isoformat())),
    ("String", "Date", st.text(max_size=3) | st.dates().map(str)),
]


@given(st.sampled_from(PAIRS), st.data())
def test_columns_and_payloads_agree(
    pair: tuple[str, str, st.SearchStrategy[object]], data: st.DataObject
) -> None:
    from_, to, strategy = pair
    rows = [{"x": data.draw(st.none() | strategy)} for _ in range(4)]
    steps = [{"use": "Cast", "options": {"x": to}}]

    as_json, as_column = Group(steps).apply(*rows), Group(steps, {"x": from_}).apply(*rows)

    assert rejected(as_json).keys() == rejected(as_column).keys()
    assert list(map(json.loads, payloads(as_json))) == list(map(json.loads, payloads(as_column)))  # type: ignore[arg-type]  # no tombstones


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "name at least one field"),
        ({"n": "Integer"}, "n: expected String, Int32, Int64, Float64, Boolean, Timestamp, Date"),
        ({"z": "String"}, "no column 'z'"),
        ({"b": "Int64"}, "b: bool cannot become Int64"),
        ({"at": "Float64"}, "at: timestamp[us, tz=UTC] cannot become Float64"),
    ],
)
def test_what_cannot_be_cast_is_refused(options: dict[str, object], message: str) -> None:
    assert message in spec_error("Cast", options, {"n": "Int64", "b": "Boolean", "at": "Timestamp"})
