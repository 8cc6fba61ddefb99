"""``decode.envelope: Debezium``: rows of changes, what is skipped, and what is bad."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall import registry
from landfall.api.spec import Decode, parse_group
from landfall.api.spec.decode import Envelope
from landfall.errors import Stalled
from tests.support.envelopes import COLUMNS, decoded, documents, rows
from tests.support.kubernetes.groups import document
from tests.support.payloads.avro import encoded

AT = 1_795_233_600_000
"""When the database made each change."""
SOURCE = {"connector": "postgresql", "ts_ms": AT, "table": "orders", "lsn": 24_023_128}
UNAVAILABLE = "__debezium_unavailable_value"
MARKED = {"name": "_unavailable", "type": "List", "items": {"type": "String"}}
KEY = {"format": "Json"}
Row = Mapping[str, Any]


def change(op: str, before: object = None, after: object = None, **more: object) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": AT + 5, **more}


# ------------------------------------------------------------------------------------------- rows


def test_a_row_is_what_it_is_after_the_change() -> None:
    old, new = {"id": 1, "note": "a"}, {"id": 1, "note": "b"}

    assert rows(change("c", None, old), change("r", None, old), change("u", old, new)) == [
        {"id": 1, "note": "a", "_op": "c"},
        {"id": 1, "note": "a", "_op": "r"},
        {"id": 1, "note": "b", "_op": "u"},
    ]


def test_a_deleted_row_is_what_it_was_before() -> None:
    assert rows(change("d", {"id": 1, "note": "a"})) == [{"id": 1, "note": "a", "_op": "d"}]


def test_json_has_the_row_and_what_the_envelope_says() -> None:
    more = {"_source_ts": AT, "_source": SOURCE}

    assert documents(change("c", None, {"id": 1}), change("d", {})) == [
        {"id": 1, "_op": "c", "_deleted": False, **more},
        {"_op": "d", "_deleted": True, **more},
    ]


def test_columns_read_the_position_in_the_databases_log() -> None:
    columns = [
        {"name": "gone", "type": "Boolean", "field": "_deleted"},
        {"name": "lsn", "type": "Int64", "field": "_source.lsn"},
        {"name": "at", "type": "Timestamp", "field": "_source_ts"},
        {"name": "source", "type": "Json", "field": "_source"},
    ]

    [row] = rows(change("c", None, {"id": 1}), columns=columns)

    assert (row["gone"], row["lsn"], row["at"].timestamp() * 1000) == (False, 24_023_128, AT)
    assert json.loads(row["source"]) == SOURCE


def test_what_a_deleted_row_lacks_is_read_of_its_key() -> None:
    keys = [{"id": 1}, {"schema": {}, "payload": {"id": 2}}, {"id": 9, "note": "k"}]
    changes = [change("d"), change("d", {"id": None}), change("d", {"id": 3, "note": "a"})]

    assert rows(*changes, keys=keys, key=KEY) == [
        {"id": 1, "note": None, "_op": "d"},
        {"id": 2, "note": None, "_op": "d"},
        {"id": 3, "note": "a", "_op": "d"},
    ]


def test_a_deleted_row_of_which_nothing_is_known_is_bad() -> None:
    without_key = rows(change("d"))
    null, unreadable = (rows(change("d"), keys=[key], key=KEY) for key in (None, b"1"))

    assert without_key == [
        "debezium: op d: before is null; set decode.key, and the row is read of the key"
    ]
    assert null == ["debezium: key: the row is read of the key, and there is none"]
    assert unreadable[0].startswith("debezium: key: json: Expected `object`")


def test_columns_of_keys_are_read_as_without_an_envelope() -> None:
    key = {"format": "Json", "columns": [{"name": "k", "type": "Int64", "field": "id"}]}

    found = rows(
        None, change("d"), change("c", None, {"id": 2}), keys=[{"id": n} for n in range(3)], key=key
    )

    assert [(row["k"], row["id"], row["_op"]) for row in found] == [(1, 1, "d"), (2, 2, "c")]


def test_json_may_say_its_schema() -> None:
    said = {"schema": {"type": "struct"}, "payload": change("c", None, {"id": 1, "note": "a"})}

    assert rows(said, {"schema": None, "payload": None}) == [{"id": 1, "note": "a", "_op": "c"}]


def test_half_a_surrogate_pair_is_read_as_elsewhere() -> None:
    payload = json.dumps(change("c", None, {"id": 1, "note": "?"})).replace("?", "\\ud83d")

    assert rows(payload.encode()) == [{"id": 1, "note": "\ufffd", "_op": "c"}]


# ---------------------------------------------------------------------------- what is no row


def test_what_is_expected_to_be_no_row_is_skipped() -> None:
    transaction = {"status": "BEGIN", "id": "7:1", "event_count": None, "data_collections": None}
    schema = {"source": SOURCE, "databaseName": "d", "ddl": "ALTER TABLE t", "tableChanges": []}
    expected = [None, {"ts_ms": AT}, {"ts_ms": AT, "ts_us": 1}, transaction, schema]

    found = decoded([*expected, change("c", None, {"id": 1})], columns=COLUMNS)

    assert (found.filtered, len(found.bad), len(found.records)) == (5, 0, 1)
    assert found.records.offsets.tolist() == [5]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (change("t"), "op t: the table was truncated, which names no single rows"),
        (change("m"), "op m: a message, which is no row of a table"),
        (change("x", None, {"id": 1}), "op 'x' is unknown"),
        ({"id": 1, "note": "a"}, "no field 'op': no change of Debezium"),
        ({}, "no field 'op': no change of Debezium"),
        (change("c"), "op c: after is null"),
        (change("u", {"id": 1}), "op u: after is null"),
        (
            change("c", None, "[1]"),
            "after is text, but no document: Expected `object`, got `array`",
        ),
        (change("c", None, [1]), "op c: after is no object"),
        (change("c", None, {"_op": 1}), "the row has a column _op, a name that the envelope gives"),
        (
            b'{"op":"c","after":{"\\u005fop":1}}',
            "the row has a column _op, a name that the envelope gives",
        ),
        (b'{"op":"c","after":{"_a":1,"\xff":1}}', "not UTF-8: invalid start byte at byte 0"),
        (change(1), "Expected `str | null`, got `int` - at `$.op`"),  # type: ignore[arg-type]
        (b"{", "Input data was truncated"),
        ([1], "Expected `object`, got `array`"),
    ],
)
def test_what_is_no_row_is_a_dead_letter(payload: object, error: str) -> None:
    good = change("c", None, {"id": 1})

    found = decoded([good, payload, None, good], columns=COLUMNS)

    assert list(zip(found.bad.rows, found.bad.errors, strict=True)) == [(1, f"debezium: {error}")]
    assert found.records.offsets.tolist() == [0, 3]


def test_a_column_that_does_not_fit_names_its_record() -> None:
    payloads = [None, change("c", None, {"id": "x"}), None, change("c", None, {"id": 1})]

    found = decoded(payloads, columns=COLUMNS)

    assert found.bad.rows.tolist() == [1]
    assert found.bad.errors == ["json: id: Expected `int | null`, got `str`"]
    assert found.filtered == 2


# --------------------------------------------------------- values that the database did not log


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ({"type": "String"}, UNAVAILABLE),
        ({"type": "Json"}, UNAVAILABLE),
        ({"type": "Binary"}, base64.b64encode(UNAVAILABLE.encode()).decode()),
        ({"type": "List", "items": {"type": "String"}}, [UNAVAILABLE]),
        ({"type": "List", "items": {"type": "Int32"}}, list(UNAVAILABLE.encode())),
        ({"type": "Json"}, {UNAVAILABLE: UNAVAILABLE}),
        ({"type": "String"}, json.dumps({UNAVAILABLE: UNAVAILABLE}, separators=(",", ":"))),
    ],
)
def test_a_value_that_was_not_logged_is_marked(type_: Row, value: object) -> None:
    columns = [*COLUMNS, MARKED, {"name": "big", **type_}]
    payload = json.dumps(change("u", None, {"id": 1, "big": value}), separators=(",", ":"))

    [row] = rows(payload.encode(), columns=columns)

    assert (row["big"], row["_unavailable"]) == (None, ["big"])


def test_a_value_that_was_not_logged_never_looks_like_null() -> None:
    updated = change("u", None, {"id": 1, "note": UNAVAILABLE})

    [error] = rows(updated)
    [other] = rows(change("u", None, {"id": 1, "big": UNAVAILABLE}))

    assert error.startswith("debezium: column note: its value was not logged")
    assert "REPLICA IDENTITY FULL" in error
    assert other == {"id": 1, "note": None, "_op": "u"}  # no column reads it


def test_a_deleted_row_may_lack_values_that_were_not_logged() -> None:
    [row] = rows(change("d", {"id": 1, "note": UNAVAILABLE}))

    assert row == {"id": 1, "note": None, "_op": "d"}


def test_json_names_the_values_that_were_not_logged() -> None:
    [row] = documents(change("u", None, {"id": 1, "note": UNAVAILABLE}))

    assert (row["_unavailable"], "note" in row) == (["note"], False)


def test_text_that_only_contains_the_placeholder_is_text() -> None:
    [row] = rows(change("u", None, {"id": 1, "note": f"see {UNAVAILABLE}"}))

    assert row["note"] == f"see {UNAVAILABLE}"


# --------------------------------------------------------------------------- types of the schema


def said(name: str, value: object, **parameters: str) -> dict[str, Any]:
    """A change that says of the type of its field ``v`` what it is called."""
    of_value = {"field": "v", "type": "int64", "name": name, "parameters": parameters}
    after = {"field": "after", "type": "struct", "fields": [of_value]}
    return {"schema": {"fields": [after]}, "payload": change("c", None, {"id": 1, "v": value})}


TIME, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."


@pytest.mark.parametrize(
    ("column", "name", "parameters", "remedy"),
    [
        ({"type": "Timestamp"}, f"{TIME}Timestamp", {}, ""),
        ({"type": "Timestamp"}, f"{TIME}MicroTimestamp", {}, "set unit: Microseconds"),
        ({"type": "Timestamp", "unit": "Microseconds"}, f"{TIME}MicroTimestamp", {}, ""),
        ({"type": "Timestamp", "unit": "Auto"}, f"{TIME}NanoTimestamp", {}, ""),
        (
            {"type": "Timestamp", "unit": "Seconds"},
            f"{CONNECT}Timestamp",
            {},
            "set unit: Milliseconds",
        ),
        (
            {"type": "Timestamp"},
            f"{TIME}Date",
            {},
            "no instant; declare type: Date with unit: Days",
        ),
        ({"type": "Timestamp"}, f"{TIME}MicroTime", {}, "no instant; declare type: Int64"),
        ({"type": "Int64"}, f"{TIME}MicroTimestamp", {}, ""),
        (
            {"type": "Decimal", "precision": 9, "scale": 2},
            f"{CONNECT}Decimal",
            {"scale": "2"},
            "set encoding: Base64 and scale: 2",
        ),
        (
            {"type": "Decimal", "precision": 9, "scale": 1, "encoding": "Base64"},
            f"{CONNECT}Decimal",
            {"scale": "2"},
            "set scale: 2",
        ),
    ],
)
def test_a_column_that_contradicts_the_schema_is_bad(
    column: Row, name: str, parameters: dict[str, str], remedy: str
) -> None:
    value = "MDk=" if column["type"] == "Decimal" else 5

    [found] = rows(said(name, value, **parameters), columns=[*COLUMNS, {"name": "v", **column}])

    if remedy:
        assert found == f"debezium: column v: its schema names {name}: {remedy}"
    else:
        assert found["v"] is not None


# ---------------------------------------------------------------------------------- other formats


AVRO_ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "connect.name": f"{TIME}MicroTimestamp"}},
        {"name": "day", "type": {"type": "int", "connect.name": f"{TIME}Date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
    ],
}
AVRO = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", AVRO_ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [{"name": "ts_ms", "type": "long"}, {"name": "lsn", "type": "long"}],
            },
        },
        {"name": "op", "type": "string"},
    ],
}
AVRO_COLUMNS = [
    *({"name": name, "type": "Int64"} for name in ("id", "lsn")),
    {"name": "at", "type": "Timestamp"},
    {"name": "day", "type": "Date"},
    {"name": "price", "type": "Decimal", "precision": 10, "scale": 2},
    {"name": "_op", "type": "String"},
]
AVRO_COLUMNS[1]["field"] = "_source.lsn"


def test_avro_gives_the_rows_that_json_gives() -> None:
    value = {"id": 7, "at": AT * 1000 + 1, "day": 20_778, "price": Decimal("123.45")}
    source = {"ts_ms": AT, "lsn": 5}
    payloads = [
        encoded(AVRO, {"before": None, "after": value, "source": source, "op": "c"}),
        encoded(AVRO, {"before": value, "after": None, "source": source, "op": "d"}),
        encoded(AVRO, {"before": None, "after": None, "source": source, "op": "t"}),
        None,
    ]
    options = {"schema": json.dumps(AVRO)}

    created, deleted, truncated = rows(
        *payloads, format="Avro", options=options, columns=AVRO_COLUMNS
    )

    assert created == {
        "id": 7,
        "lsn": 5,
        "at": datetime.fromtimestamp(AT / 1000, UTC) + timedelta(microseconds=1),
        "day": date(1970, 1, 1) + timedelta(days=20_778),
        "price": Decimal("123.45"),
        "_op": "c",
    }
    assert deleted == {**created, "_op": "d"}
    assert truncated.startswith("debezium: op t")


def test_bytes_of_avro_that_are_no_envelope_are_bad() -> None:
    [error] = rows(b"\x7f", format="Avro", options={"schema": json.dumps(AVRO)})

    assert error.startswith("avro:")


def test_json_schema_gives_the_rows_that_json_gives() -> None:
    options = {"schema": json.dumps({"type": "object", "required": ["source"]})}
    good, refused = change("c", None, {"id": 1}), {"op": "c", "after": {"id": 2}}

    row, error = rows(good, refused, format="JsonSchema", options=options)

    assert row["id"] == 1
    assert "source" in error


# ------------------------------------------------------------------------------------------- spec


NEEDS = "Debezium needs decode{}.format Json, JsonSchema, Avro, Protobuf"
OF_ENVELOPES = (
    "lands payloads by their own schemas, in which envelopes are columns and not rows; declare "
    "decode.columns, or leave decode.envelope out"
)


@pytest.mark.parametrize(
    ("decode", "output", "error"),
    [
        (
            {"format": "Csv"},
            {},
            f"spec.decode.envelope: {NEEDS.format('')}, not Csv",
        ),
        (
            {"key": {"format": "Raw"}},
            {},
            f"spec.decode.envelope: {NEEDS.format('.key')}, not Raw",
        ),
        (
            {"format": "Avro", "options": {"schema": json.dumps(AVRO)}},
            {"format": "Parquet", "columns": "FromSchema"},
            f"spec.output.columns: FromSchema {OF_ENVELOPES}",
        ),
    ],
)
def test_what_has_no_envelopes_is_refused(decode: Row, output: Row, error: str) -> None:
    made = document("cdc")
    made["spec"] |= {
        "decode": {"format": "Json", "envelope": "Debezium", **decode},
        "route": {"pattern": "all"},
        "output": {"url": "file:///tmp/out", "format": "Json", **output},
    }

    with pytest.raises(Stalled) as caught:
        registry.pipeline(parse_group(made).spec)

    assert str(caught.value) == error


def test_one_column_must_mark_deleted_rows() -> None:
    with pytest.raises(Stalled, match="a deleted row would look like any other"):
        decoded([], columns=COLUMNS[:2])


def test_the_stored_spec_names_the_envelope_only_if_there_is_one() -> None:
    assert "envelope" not in Decode().model_dump()
    assert Decode(format="Json", envelope=Envelope.DEBEZIUM).model_dump()["envelope"] == "Debezium"


# ------------------------------------------------------------------------------------------- laws


@dataclass
class History:
    """A table, and what Debezium has sent of its changes."""

    table: dict[int, Any] = field(default_factory=dict)
    payloads: list[Any] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)

    def send(self, key: int, payload: object) -> None:
        self.keys.append({"id": key})
        self.payloads.append(payload)

    def delete(self, draw: st.DrawFn, key: int) -> None:
        before = self.table.pop(key)
        known = draw(st.sampled_from([before, {"id": key, "note": None}, None]))
        self.send(key, change("d", known))
        if draw(st.booleans()):
            self.send(key, None)

    def change(self, draw: st.DrawFn, key: int, other: int, note: str) -> None:
        before = self.table.get(key)
        if before is None:
            self.table[key] = {"id": key, "note": note}
            self.send(key, change(draw(st.sampled_from("cr")), None, self.table[key]))
        elif key == other:
            self.delete(draw, key)
        elif other not in self.table and note:  # the row's key changes
            self.delete(draw, key)
            self.table[other] = {**before, "id": other}
            self.send(other, change("c", None, self.table[other]))
        else:
            self.table[key] = {"id": key, "note": note}
            known = draw(st.sampled_from([before, None]))
            self.send(key, change("u", known, self.table[key]))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Random inserts, updates, deletions and changes of keys, with heartbeats between them."""
    history = History()
    steps = st.tuples(st.integers(0, 4), st.integers(0, 4), st.text(max_size=3))
    for key, other, note in draw(st.lists(steps, max_size=30)):
        history.change(draw, key, other, note)
        if draw(st.booleans()):
            history.send(key, {"ts_ms": AT})
    return history


@given(histories())
def test_the_last_row_of_each_key_is_the_table(history: History) -> None:
    found = rows(*history.payloads, keys=history.keys, key=KEY)

    last = {row["id"]: row for row in found}
    assert history.table == {
        key: {"id": key, "note": row["note"]} for key, row in last.items() if row["_op"] != "d"
    }
    assert len(found) == sum(p is not None and "op" in p for p in history.payloads)
