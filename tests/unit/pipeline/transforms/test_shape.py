"""``Select``, ``Rename``, ``Set`` and ``Flatten``, on columns and on JSON payloads."""

from collections.abc import Mapping

import pyarrow as pa
import pytest

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.records import filled
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.flatten import Flatten
from tests.support.driver.transformed import Group, payloads, rejected, spec_error

NUMBERS = (
    b'{"a": 1.10, "b": 12345678901234567890123, "s": "\\u00e9", "m": {"x":  1e3, "y": [1, 2]}}'
)
COLUMNS = {"a": "Int64", "b": "String", "c": "Boolean"}


def step(use: str, **options: object) -> Group:
    return Group([{"use": use, "options": options}])


def typed(use: str, columns: Mapping[str, str] = COLUMNS, **options: object) -> Group:
    return Group([{"use": use, "options": options}], columns)


# ------------------------------------------------------------------------------------------- Select


def test_what_is_selected_keeps_its_bytes() -> None:
    got = step("Select", fields=["b", "m.x", "none", "s"]).apply(NUMBERS, None)

    assert payloads(got) == [
        b'{"b":12345678901234567890123,"m":{"x":1e3},"s":"\\u00e9"}',
        None,
    ]


def test_what_is_dropped_leaves_the_rest() -> None:
    got = step("Select", drop=["a", "m.x", "s.t", "none"]).apply(NUMBERS)

    assert payloads(got) == [b'{"b":12345678901234567890123,"s":"\\u00e9","m":{"y":[1, 2]}}']


def test_columns_are_selected_in_the_order_of_the_option() -> None:
    got = typed("Select", fields=["c", "a"]).apply({"a": 1, "b": "x", "c": True})

    assert got.columns is not None
    assert got.columns.to_pylist() == [{"c": True, "a": 1}]
    assert payloads(got) == [b'{"c":true,"a":1}']


def test_a_route_may_use_a_field_that_is_left_out() -> None:
    group = Group(
        [{"use": "Select", "options": {"drop": ["a"]}}],
        spec={"route__pattern": "a={field:a}"},
    )

    ((partition, rows),) = group.partition({"a": 1, "b": 2}).outputs

    assert partition == "a=1"
    assert rows.column("value").to_pylist() == [b'{"b":2}']


# ------------------------------------------------------------------------------------------- Rename


def test_fields_keep_their_places_and_bytes_when_they_are_renamed() -> None:
    got = step("Rename", a="b", b="a", **{"m.x": "x", "s": "m.s"}).apply(NUMBERS, {"b": 1}, None)

    assert payloads(got) == [
        b'{"b":1.10,"a":12345678901234567890123,"m":{"y":[1, 2],"s":"\\u00e9"},"x":1e3}',
        b'{"a":1}',
        None,
    ]


def test_a_name_that_is_taken_rejects_the_row() -> None:
    got = step("Rename", a="b", c="d.e").apply(
        {"a": 1}, {"a": 1, "b": 2}, {"c": 1, "d": 2}, {"c": 1, "d": {"e": 1}}
    )

    assert payloads(got) == [b'{"b":1}']
    assert rejected(got) == {
        1: "rename: there is a field b already",
        2: "rename: what is above d.e is no object",
        3: "rename: there is a field d.e already",
    }


def test_a_route_uses_the_new_name() -> None:
    for columns in (None, COLUMNS):
        group = Group(
            [{"use": "Rename", "options": {"a": "z"}}], columns, {"route__pattern": "z={field:z}"}
        )

        assert [name for name, _ in group.partition({"a": 1}, {"a": 2}).outputs] == ["z=1", "z=2"]


# ---------------------------------------------------------------------------------------------- Set


def test_a_value_is_set_or_replaced() -> None:
    got = step("Set", a=5, x=True, f=1.5, t="it's", **{"m.x": "n"}).apply(NUMBERS, {}, None)

    assert payloads(got) == [
        NUMBERS[:-1]
        .replace(b": ", b":")
        .replace(b", ", b",")
        .replace(b"1.10", b"5")
        .replace(b" 1e3", b'"n"')
        .replace(b"1,2", b"1, 2")
        + b',"x":true,"f":1.5,"t":"it\'s"}',
        b'{"a":5,"x":true,"f":1.5,"t":"it\'s","m":{"x":"n"}}',
        None,
    ]


def test_coordinates_and_times_are_set_with_their_types() -> None:
    group = Group(
        [
            {
                "use": "Set",
                "options": {
                    "o": "{offset}",
                    "p": "{kafka_partition}",
                    "k": "{kafka_timestamp}",
                    "e": "{event_time}",
                    "day": "{date} {hour}h",
                    "where": "{topic}/{kafka_partition}",
                },
            }
        ],
        {"a": "Int64"},
        {"decode__timestamp": {"field": "at"}, "route__timezone": "Europe/Berlin"},
    )

    got = group.apply({"at": "2026-11-21T23:30:00.123456Z"}, {"at": 1}, {"at": "soon"}, {})

    assert payloads(got)[0] == (
        b'{"a":null,"o":100,"p":3,"k":"2025-11-21T04:40:00.000000Z",'
        b'"e":"2026-11-21T23:30:00.123456Z","day":"2026-11-22 00h","where":"clicks/3"}'
    )
    assert got.columns is not None
    assert [str(field.type) for field in got.columns.schema][1:5] == [
        "int64",
        "int64",
        "timestamp[us, tz=UTC]",
        "timestamp[us, tz=UTC]",
    ]
    assert rejected(got) == {
        2: "set: timestamp: expected a number or ISO-8601 text, got 'soon'",
        3: "set: timestamp: no field 'at'",
    }


def test_a_route_uses_what_was_set() -> None:
    for columns in (None, COLUMNS):
        group = Group(
            [{"use": "Set", "options": {"origin": "eu"}}],
            columns,
            {"route__pattern": "from={field:origin}"},
        )

        assert [name for name, _ in group.partition({"a": 1}).outputs] == ["from=eu"]


def test_what_is_above_a_value_must_be_an_object() -> None:
    got = step("Set", **{"a.b": 1}).apply({"a": 2}, {"a": None}, {"a": {"c": 3}})

    assert payloads(got) == [b'{"a":{"b":1}}', b'{"a":{"c": 3,"b":1}}'.replace(b" ", b"")]
    assert rejected(got) == {0: "set: what is above a.b is no object"}


# ------------------------------------------------------------------------------------------ Flatten


def test_nested_objects_become_fields() -> None:
    got = step("Flatten").apply(NUMBERS, {"a": {"b": {"c": 1}, "d": {}}, "a_d": 1}, None)

    assert payloads(got) == [
        b'{"a":1.10,"b":12345678901234567890123,"s":"\\u00e9","m_x":1e3,"m_y":[1, 2]}',
        None,
    ]
    assert rejected(got) == {1: "flatten: two fields become 'a_d'"}


def test_only_named_objects_are_flattened() -> None:
    got = step("Flatten", fields=["m"], separator=".").apply({"m": {"x": 1}, "n": {"x": 1}})

    assert payloads(got) == [b'{"m.x":1,"n":{"x": 1}}']


def test_a_deep_object_is_no_crash() -> None:
    deep = b'{"a":' * 400 + b"1" + b"}" * 400

    got = step("Flatten").apply(deep)

    assert len(got.records) + len(got.bad) == 1


def test_structs_become_columns() -> None:
    inner = pa.struct([("x", pa.int64()), ("z", pa.struct([("y", pa.string())]))])
    array = pa.array([{"x": 1, "z": {"y": "a"}}, None, {"x": 2, "z": None}], inner)
    batch = pa.record_batch({"m": array, "b": [1, 2, 3]})
    flatten = Flatten.of({}, TransformContext(batch.schema))

    got = flatten.apply(
        Decoded(filled(TopicPartition("t", 0), [0, 1, 2], [b"", b"", b""]), {}, batch)
    )

    assert got.columns is not None
    assert got.columns.to_pylist() == [
        {"m_x": 1, "m_z_y": "a", "b": 1},
        {"m_x": None, "m_z_y": None, "b": 2},
        {"m_x": 2, "m_z_y": None, "b": 3},
    ]
    assert flatten.writes == (("m_x",), ("m_z_y",))


# --------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("use", "options", "message"),
    [
        ("Select", {}, "give one of fields and drop"),
        ("Select", {"fields": []}, "options.fields: names no field"),
        ("Select", {"fields": ["a", "a"]}, "options.fields: a field occurs twice"),
        ("Select", {"fields": ["a", "z"]}, "no column 'z'; the columns are a, b, c"),
        ("Select", {"drop": ["a", "b", "c"]}, "options.drop: names all columns"),
        ("Rename", {}, "name at least one field"),
        ("Rename", {"a": 1}, "a: expected the new name, got 1"),
        ("Rename", {"a": "b"}, "there is a column b already"),
        ("Rename", {"a": "x", "b": "x"}, "two fields get one name"),
        ("Rename", {"z": "y"}, "no column 'z'"),
        ("Set", {}, "name at least one field"),
        ("Set", {"x": [1]}, "x: expected text, a number or a boolean"),
        ("Set", {"x": 2**63}, "x: expected text, a number or a boolean"),
        ("Set", {"x": "{when}"}, "x: unknown placeholder '{when}'"),
        ("Set", {"x": "{field:a}"}, "x: {field:…} is no placeholder here"),
        ("Set", {"a..b": 1}, "field 'a..b' has an empty step"),
        ("Flatten", {"fields": ["z"]}, "options.fields: no column z"),
        ("Flatten", {"deep": 1}, "unknown option deep"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(
    use: str, options: dict[str, object], message: str
) -> None:
    error = spec_error(use, options, COLUMNS)

    assert error.startswith("spec.transforms[0]")
    assert message in error


def test_payloads_that_are_no_json_have_no_fields_to_change() -> None:
    error = spec_error("Set", {"x": 1}, decode__format="Raw", output__format="Text")

    assert "Raw payloads have no JSON" in error


def test_a_route_that_reads_what_a_later_step_left_out_is_refused() -> None:
    steps = [
        {"use": "Set", "options": {"day": "{date}"}},
        {"use": "Select", "options": {"drop": ["day"]}},
    ]

    with pytest.raises(Exception, match="day is no column after the transforms"):
        Group(steps, COLUMNS, {"route__pattern": "d={field:day}"}).pipeline()
