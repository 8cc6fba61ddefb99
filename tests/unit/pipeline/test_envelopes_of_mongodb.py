"""Documents of MongoDB in envelopes of Debezium: text, and patches without the document."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.envelopes import documents, rows

SOURCE = {"connector": "mongodb", "ts_ms": 1_795_233_600_000, "collection": "orders"}
FILE = Path(__file__).parent / "debezium/documents-3.6.1.jsonl"
OID = "6560f3c29c1d4b0012ab34cd"
KEYS = [{"id": json.dumps({"$oid": OID})}]
KEY = {"format": "Json"}
COLUMNS = [
    {"name": "id", "type": "String", "field": "_id"},
    {"name": "n", "type": "Int64"},
    {"name": "_op", "type": "String"},
]
PATCH = {"name": "_patch", "type": "Json"}


def change(op: str, after: object = None, before: object = None, **more: Any) -> dict[str, Any]:
    texts = {"before": before, "after": after}
    return {
        **{name: of if of is None else json.dumps(of) for name, of in texts.items()},
        "updateDescription": None,
        "source": SOURCE,
        "op": op,
        **more,
    }


def updated(**fields: Any) -> dict[str, Any]:
    return {
        "updatedFields": json.dumps(fields),
        "removedFields": ["gone"],
        "truncatedArrays": [{"field": "tags", "size": 2}],
    }


def test_a_row_is_the_document_that_the_text_has() -> None:
    document = {"_id": {"$oid": OID}, "n": {"$numberLong": "5"}}

    assert rows(
        change("c", document),
        change("u", {**document, "n": 6}, updateDescription=updated(n=6)),
        change("d", before=document),
        columns=COLUMNS,
    ) == [
        {"id": OID, "n": 5, "_op": "c"},
        {"id": OID, "n": 6, "_op": "u"},
        {"id": OID, "n": 5, "_op": "d"},
    ]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"$numberInt": "-5"}, -5),
        ({"$numberLong": "9223372036854775807"}, 2**63 - 1),
        ({"$numberDouble": "1.50"}, 1.5),
        ({"$numberDouble": "NaN"}, "NaN"),
        ({"$numberDecimal": "1.50"}, "1.50"),
        ({"$date": 1_795_233_600_001}, "2026-11-21T04:00:00.001000Z"),
        ({"$date": {"$numberLong": "-1"}}, "1969-12-31T23:59:59.999000Z"),
        ({"$date": "2026-11-21T04:00:00Z"}, "2026-11-21T04:00:00Z"),
        ({"$binary": "AQI=", "$type": "00"}, "AQI="),
        ({"$binary": {"base64": "AQI=", "subType": "00"}}, "AQI="),
        ({"$undefined": True}, None),
        ({"$numberLong": "five"}, {"$numberLong": "five"}),
        ({"$timestamp": {"t": 1, "i": 2}}, {"$timestamp": {"t": 1, "i": 2}}),
        ({"$minKey": 1}, {"$minKey": 1}),
        ({"a": [{"$oid": OID}, {"b": {"$numberInt": "1"}}]}, {"a": [OID, {"b": 1}]}),
        ({"price": 1, "$oid": "x"}, {"price": 1, "$oid": "x"}),
    ],
)
def test_types_that_json_does_not_have_are_plain_values(value: object, plain: object) -> None:
    [row] = documents(change("c", {"_id": 1, "v": value}))

    assert (row["_id"], row["v"]) == (1, plain)


def test_documents_of_debeziums_own_classes_are_rows() -> None:
    made = [json.loads(line) for line in FILE.read_text().splitlines()]
    changes = [change("c") | {"after": each["after"]} for each in made]
    keys = [{"id": each["key"]} for each in made]

    found = documents(*changes)
    deleted = documents(*[change("d") for _ in made], keys=keys, key=KEY)

    assert {each["name"]: row["v"] for each, row in zip(made, found, strict=True)} == {
        "int32": -5,
        "int64": 2**63 - 1,
        "double": 1.5,
        "nan": "NaN",
        "decimal": "1.50",
        "date": "2026-11-21T04:00:00.001000Z",
        "binary": "AQI=",
        "uuid": "AAAAAAAAQACAAAAAAAAAAQ==",
        "null": None,
        "undefined": None,
        "symbol": "s",
        "timestamp": {"$timestamp": {"t": 1, "i": 2}},
        "nested": {"a": [1, {"b": OID}]},
    }
    assert [row["_id"] for row in found] == [row["_id"] for row in deleted]
    assert {str(row["_id"]) for row in found} == {OID, "7", "k"}


def test_numbers_stay_as_they_are_written() -> None:
    payload = change("c") | {"after": '{"_id": "k", "v": 0.10}'}

    [found] = rows(payload, columns=[*COLUMNS, {"name": "v", "type": "Json"}])

    assert found["v"] == "0.10"


def test_a_patch_is_marked() -> None:
    payload = change("u", updateDescription=updated(**{"a.b": {"$numberLong": "5"}}))

    [row] = rows(payload, keys=KEYS, key=KEY, columns=[*COLUMNS, PATCH])
    [document] = documents(payload, keys=KEYS, key=KEY)

    assert (row["id"], row["n"], row["_op"]) == (OID, None, "u")
    assert json.loads(row["_patch"]) == {
        "updatedFields": {"a.b": 5},
        "removedFields": ["gone"],
        "truncatedArrays": [{"field": "tags", "size": 2}],
    }
    assert document["_patch"] == json.loads(row["_patch"])
    assert document["_source"] == SOURCE


def test_a_patch_never_looks_like_a_document() -> None:
    payload = change("u", updateDescription=updated(n=6))

    [unread] = rows(payload, keys=KEYS, key=KEY, columns=COLUMNS)
    [without_key] = rows(payload, columns=[*COLUMNS, PATCH])

    assert unread.startswith("debezium: op u: a patch without the document; declare a column")
    assert "capture.mode: change_streams_update_full" in unread
    assert without_key == (
        "debezium: op u: after is null; set decode.key, and _id is read of the key"
    )


def test_a_deleted_document_is_the_id_of_its_key() -> None:
    [row] = rows(change("d"), keys=KEYS, key=KEY, columns=COLUMNS)
    [other] = rows(change("d"), keys=[{"id": 5}], key=KEY, columns=COLUMNS)

    assert row == {"id": OID, "n": None, "_op": "d"}
    assert other == ("debezium: key: no text of JSON in 'id', as the keys of documents have it")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[1]", "after is text, but no document: Expected `object`, got `array`"),
        ("{", "after is text, but no document: Input data was truncated"),
        ('{"d": {"$date": 99999999999999999}}', "$date 99999999999999999 is outside of the years"),
    ],
)
def test_a_text_that_is_no_document_is_a_dead_letter(text: str, error: str) -> None:
    [found] = rows(change("c") | {"after": text}, columns=COLUMNS)

    assert found.startswith(f"debezium: {error}")


def test_half_a_surrogate_pair_in_a_text_is_read_as_elsewhere() -> None:
    [row] = documents(change("c") | {"after": '{"_id": "\\ud83d"}'})

    assert row["_id"] == "\ufffd"
