"""``envelope: DebeziumFlattened``: records of ``ExtractNewRecordState`` as rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from landfall.errors import Stalled
from tests.support.envelopes import COLUMNS, decoded, documents, rows

FILE = Path(__file__).parent / "debezium/flattened-3.6.1.jsonl"
MODES = {
    "rewrite": 2,
    "rewrite-with-tombstone": 3,
    "tombstone": 2,
    "delete-to-tombstone": 2,
    "drop": 0,
}
"""Modes of deletions, and how many rows two deletions and a tombstone are in each."""
AT = 1_795_233_600_000
FLATTENED = {"envelope": "DebeziumFlattened"}
KEY = {"format": "Json"}
DELETED = {"name": "_deleted", "type": "Boolean"}
AT_COLUMN = {"name": "_source_ts", "type": "Timestamp"}


def test_fields_of_the_envelope_become_its_members() -> None:
    payload = {"id": 1, "note": "a", "__op": "u", "__lsn": 5, "__source_ts_ms": AT}

    assert documents({**payload, "__deleted": "false"}, **FLATTENED) == [
        {"id": 1, "note": "a", "__lsn": 5, "_op": "u", "_deleted": False, "_source_ts": AT}
    ]


@pytest.mark.parametrize(
    ("added", "op", "is_deleted"),
    [
        ({"__op": "d"}, "d", True),
        ({"__op": "r"}, "r", False),
        ({"__deleted": "true"}, "d", True),
        ({"__deleted": True, "__op": "d"}, "d", True),
        ({"__deleted": "false", "__op": "c"}, "c", False),
    ],
)
def test_either_field_names_a_deletion(added: dict[str, Any], op: str, is_deleted: bool) -> None:
    [row] = rows({"id": 1, **added}, columns=[*COLUMNS, DELETED], **FLATTENED)

    assert (row["_op"], row["_deleted"]) == (op, is_deleted)


def test_a_deleted_row_takes_what_it_lacks_of_its_key() -> None:
    payloads = [{"id": None, "note": None, "__deleted": "true"}, {"id": 2, "__deleted": "false"}]

    [deleted, kept] = documents(*payloads, keys=[{"id": 1}, {"id": 9}], key=KEY, **FLATTENED)

    assert (deleted["id"], deleted["note"], kept["id"]) == (1, None, 2)


def test_a_tombstone_is_a_deletion() -> None:
    with_schema = {"schema": None, "payload": None}

    assert rows(None, with_schema, keys=[{"id": 1}, {"id": 2}], key=KEY, **FLATTENED) == [
        {"id": 1, "note": None, "_op": "d"},
        {"id": 2, "note": None, "_op": "d"},
    ]
    assert rows(None, **FLATTENED) == [
        "debezium: a tombstone: set decode.key, and the deleted row is read of the key"
    ]


@pytest.mark.parametrize("mode", MODES)
def test_records_of_debeziums_own_step_are_rows(mode: str) -> None:
    lines = [json.loads(line) for line in FILE.read_text().splitlines()]
    sent = [each for each in lines if each["mode"] == mode and "value" in each]

    found = decoded(
        [each["value"] for each in sent],
        [each["key"] for each in sent],
        columns=[*COLUMNS, DELETED],
        key=KEY,
        **FLATTENED,
    )
    assert found.columns is not None
    rows_of = [(row["id"], row["_op"], row["_deleted"]) for row in found.columns.to_pylist()]

    assert rows_of[:3] == [(1, "c", False), (1, "r", False), (1, "u", False)]
    assert rows_of[3:] == [(1, "d", True)] * MODES[mode]
    assert (len(found.bad), found.filtered) == (0, 1)  # a heartbeat


def test_other_topics_of_debezium_are_left_out() -> None:
    transaction = {"status": "END", "id": "7:1", "event_count": 2, "data_collections": None}

    assert decoded([{"ts_ms": AT}, transaction], columns=COLUMNS, **FLATTENED).filtered == 2


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"id": 1}, "no field __op or __deleted; set delete.tombstone.handling.mode: rewrite"),
        ({"id": 1, "__op": "t"}, "__op 't' is no change of a row"),
        ({"id": 1, "__op": 5}, "Expected `str | null`, got `int`"),
        ({"id": 1, "__deleted": "no"}, "__deleted is neither true nor false"),
        ({"id": 1, "__deleted": "false"}, "a column reads _op, and there is no field __op; set "),
        ({"id": 1, "__op": "c", "_op": "c"}, "the row has a column _op, a name that the envelope"),
    ],
)
def test_what_names_no_change_is_a_dead_letter(payload: object, error: str) -> None:
    [found] = rows(payload, **FLATTENED)

    assert found.startswith(f"debezium: {error}")


@pytest.mark.parametrize("added", [{}, {"__source_ts_ms": None}])
def test_a_time_that_was_not_added_is_no_null(added: dict[str, Any]) -> None:
    [error] = rows({"id": 1, "__op": "c", **added}, columns=[*COLUMNS, AT_COLUMN], **FLATTENED)

    assert error == (
        "debezium: a column reads _source_ts, and there is no field __source_ts_ms; set "
        "add.fields: source.ts_ms of ExtractNewRecordState"
    )


def test_a_value_that_was_not_logged_is_marked() -> None:
    [row] = documents({"id": 1, "note": "__debezium_unavailable_value", "__op": "u"}, **FLATTENED)

    assert (row["_unavailable"], "note" in row) == (["note"], False)


def test_the_schema_of_the_row_refuses_a_column_in_another_unit() -> None:
    at = {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    payload = {"schema": {"fields": [at]}, "payload": {"id": 1, "at": 5, "__op": "c"}}

    [error] = rows(payload, columns=[*COLUMNS, {"name": "at", "type": "Timestamp"}], **FLATTENED)

    assert error == (
        "debezium: column at: its schema names io.debezium.time.MicroTimestamp: "
        "set unit: Microseconds"
    )


def test_no_column_reads_a_source_that_there_is_not() -> None:
    lsn = {"name": "lsn", "type": "Int64", "field": "_source.lsn"}

    with pytest.raises(Stalled, match="there is no _source"):
        decoded([], columns=[*COLUMNS, lsn], **FLATTENED)
