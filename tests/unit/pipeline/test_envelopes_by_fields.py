"""Envelopes that are described by their fields: ``Maxwell``, ``Canal`` and ``Fields``."""

from typing import Any

import pytest
from pydantic import ValidationError

from landfall.api.spec import Decode
from tests.support.envelopes import COLUMNS, decoded, documents, rows

AT = 1_795_233_600_000
PLAIN: dict[str, Any] = {
    "op": "op",
    "insert": ["I"],
    "update": ["U"],
    "delete": ["D"],
    "skip": ["HB"],
    "row": "new.row",
    "before": "old",
    "key": "key",
    "timestamp": "meta.at",
    "unit": "Microseconds",
}
MAXWELL = {"database": "shop", "table": "orders", "ts": 1_795_233_600, "xid": 7, "commit": True}
CANAL: dict[str, Any] = {
    "database": "shop",
    "table": "orders",
    "es": AT,
    "ts": AT + 900,
    "id": 9,
    "isDdl": False,
    "mysqlType": {"id": "bigint(20)", "note": "varchar(9)"},
    "sqlType": {"id": -5, "note": 12},
    "pkNames": ["id"],
    "sql": "",
    "old": None,
}
KEY = {"format": "Json"}


def plain(*payloads: object, keys: Any = (), key: Any = None, **fields: Any) -> list[Any]:
    """The rows of payloads in the envelope ``PLAIN``."""
    more = {} if key is None else {"key": key}
    described = {name: of for name, of in {**PLAIN, **fields}.items() if of is not None}
    return rows(*payloads, keys=keys, envelope="Fields", envelopeFields=described, **more)


# ----------------------------------------------------------------------------------------- Fields


def test_operations_and_places_are_those_that_the_group_names() -> None:
    one, two = {"id": 1, "note": "a"}, {"id": 1, "note": "b"}

    assert plain(
        {"op": "I", "new": {"row": one}},
        {"op": "U", "new": {"row": two}, "old": one},
        {"op": "HB"},
        {"op": "D", "new": None, "old": two},
    ) == [{**one, "_op": "c"}, {**two, "_op": "u"}, {**two, "_op": "d"}]


def test_a_deleted_row_without_one_is_its_key() -> None:
    inside, of_record = {"op": "D", "key": {"id": 1}}, {"op": "D"}

    assert plain(inside) == [{"id": 1, "note": None, "_op": "d"}]
    assert plain(of_record, keys=[{"id": 2}], key=KEY) == [{"id": 2, "note": None, "_op": "d"}]
    assert plain(of_record) == ["envelope: op 'D': no row, and no key of one"]


def test_a_tombstone_deletes_or_is_left_out_as_the_group_declares() -> None:
    deleted = [{"id": 3, "note": None, "_op": "d"}]

    assert plain(None, keys=[{"id": 3}], key=KEY) == deleted
    assert plain(None, tombstone="Skip") == []
    assert plain(None) == [
        "envelope: a tombstone: set decode.key, and the deleted row is read of the key"
    ]


def test_the_payload_is_the_row_if_no_place_is_named() -> None:
    without = {"row": None, "before": None, "key": None, "timestamp": "at", "unit": None}
    fields = {name: of for name, of in {**PLAIN, **without}.items() if of is not None}

    assert documents({"op": "I", "at": AT, "id": 1}, envelope="Fields", envelopeFields=fields) == [
        {"id": 1, "_op": "c", "_deleted": False, "_source_ts": AT}
    ]


@pytest.mark.parametrize(
    ("unit", "at", "found"),
    [
        ("Seconds", 1_795_233_600, AT),
        ("Microseconds", AT * 1000 + 999, AT),
        ("Nanoseconds", AT * 10**6, AT),
        ("Milliseconds", "2026-11-21T04:00:00Z", "2026-11-21T04:00:00Z"),
    ],
)
def test_times_are_milliseconds_or_text(unit: str, at: object, found: object) -> None:
    fields = {**PLAIN, "unit": unit}
    payload = {"op": "I", "new": {"row": {"id": 1}}, "meta": {"at": at}, "old": 5}

    [row] = documents(payload, envelope="Fields", envelopeFields=fields)

    assert row["_source_ts"] == found
    assert row["_source"] == {"op": "I", "meta": {"at": at}}


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"op": "X"}, "op 'X' is no change of a row"),
        ({"new": {"row": {"id": 1}}}, "no field 'op', which names the operation"),
        ({"op": "I"}, "new.row is null"),
        ({"op": "I", "new": {"row": "text"}}, "new.row is text"),
        ({"op": "I", "new": {"row": {}}}, "op 'I': no row, and no key of one"),
        ({"op": "I", "new": {"row": {"_op": 1}}}, "the row has a column _op, a name that the "),
        ({"op": "I", "new": {"row": {"id": 1}}, "meta": {"at": 1.5}}, "meta.at is neither an int"),
        ({"op": "D", "key": 5}, "Expected `object`, got `int`"),
        (b"[1]", "Expected `object`, got `array`"),
    ],
)
def test_what_is_no_row_is_a_dead_letter(payload: object, error: str) -> None:
    [found] = plain(payload)

    assert found.startswith(f"envelope: {error}")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"insert": [], "update": [], "delete": []}, "give the values of op"),
        ({"delete": ["I"]}, "I"),
        ({"row": None, "before": "old"}, "before needs row"),
        ({"row": "new..row"}, "has an empty step"),
    ],
)
def test_a_description_that_describes_nothing_is_refused(fields: Any, error: str) -> None:
    with pytest.raises(ValidationError, match=error):
        Decode.model_validate({"envelope": "Fields", "envelopeFields": {**PLAIN, **fields}})


@pytest.mark.parametrize("decode", [{"envelope": "Fields"}, {"envelopeFields": PLAIN}])
def test_fields_go_with_their_envelope_alone(decode: Any) -> None:
    with pytest.raises(ValidationError, match="envelope Fields needs envelopeFields"):
        Decode.model_validate(decode)


# ---------------------------------------------------------------------------------------- Maxwell


def test_maxwell() -> None:
    one = {"id": 1, "note": "a"}
    payloads = [
        {**MAXWELL, "type": "bootstrap-start", "data": {}},
        {**MAXWELL, "type": "bootstrap-insert", "data": one},
        {**MAXWELL, "type": "bootstrap-complete", "data": {}},
        {**MAXWELL, "type": "insert", "data": one},
        {**MAXWELL, "type": "update", "data": {**one, "note": "b"}, "old": {"note": "a"}},
        {**MAXWELL, "type": "delete", "data": one, "old": {}},
        {"type": "table-alter", "database": "shop", "table": "orders", "def": {}, "ts": AT},
        None,
    ]

    found = documents(*payloads, envelope="Maxwell")

    assert [row["_op"] for row in found] == ["r", "c", "u", "d"]
    assert found[2] == {
        "id": 1,
        "note": "b",
        "_op": "u",
        "_deleted": False,
        "_source_ts": AT,
        "_source": {**MAXWELL, "type": "update"},
    }


def test_keys_of_maxwell_give_a_row_nothing() -> None:
    payload = {**MAXWELL, "type": "delete", "data": {"id": 1}}

    [row] = documents(payload, keys=[{"database": "shop", "pk.id": 1}], envelope="Maxwell", key=KEY)

    assert sorted(row) == ["_deleted", "_op", "_source", "_source_ts", "id"]


# ------------------------------------------------------------------------------------------ Canal


def test_canal_has_texts_that_columns_read_as_they_declare() -> None:
    columns = [
        *COLUMNS,
        {"name": "price", "type": "Decimal", "precision": 9, "scale": 2},
        {"name": "weight", "type": "Float64"},
        {"name": "paid", "type": "Boolean"},
        {"name": "code", "type": "String", "field": "zip"},
    ]
    row = {"id": "1", "note": "5", "price": "1.50", "weight": "2.5e1", "paid": "1", "zip": "00123"}

    [found] = rows({**CANAL, "type": "INSERT", "data": [row]}, columns=columns, envelope="Canal")

    assert (found["id"], found["note"], str(found["price"])) == (1, "5", "1.50")
    assert (found["weight"], found["paid"], found["code"]) == (25.0, True, "00123")


def test_canal() -> None:
    payloads = [
        {**CANAL, "type": "UPDATE", "data": [{"id": "1"}], "old": [{"id": "2"}]},
        {**CANAL, "type": "DELETE", "data": [{"id": "1"}]},
        {**CANAL, "type": "ALTER", "isDdl": True, "data": None, "sql": "ALTER TABLE orders"},
    ]

    updated, deleted = documents(*payloads, envelope="Canal")

    assert (updated["id"], updated["_op"], updated["_source_ts"]) == ("1", "u", AT)
    assert sorted(updated["_source"]) == [
        *("database", "es", "id", "isDdl", "pkNames", "sql", "table", "ts", "type")
    ]
    assert (deleted["_op"], deleted["_deleted"]) == ("d", True)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([{"id": "1"}, {"id": "2"}], "canal: data has 2 rows, and a record is one row"),
        ([], "canal: data has 0 rows, and a record is one row"),
        (None, "canal: data is null"),
    ],
)
def test_a_message_of_canal_that_is_not_one_row_is_a_dead_letter(data: Any, error: str) -> None:
    assert rows({**CANAL, "type": "INSERT", "data": data}, envelope="Canal") == [error]


def test_a_truncated_table_of_canal_is_a_dead_letter() -> None:
    found = decoded(
        [{**CANAL, "type": "TRUNCATE", "data": None}], envelope="Canal", columns=COLUMNS
    )

    assert found.bad.errors == ["canal: type 'TRUNCATE' is no change of a row"]
