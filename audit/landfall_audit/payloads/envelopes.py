"""Rows in envelopes, opened one by one by the rules of the pages on them.

A payload is an object of Python here, of any decoder. ``open_`` makes of it the row that must be
landed, with the members that the envelope gives.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from landfall_audit.half_pairs import without_halves
from landfall_audit.payloads import AuditLeftOut, BadPayload, JsonNumber, Undecided, json_documents
from landfall_audit.spec import ColumnSection, ColumnTypeName, DecodeSection, EnvelopeFieldsSection

Document: TypeAlias = Mapping[str, Any]
Row: TypeAlias = dict[str, Any]
Key: TypeAlias = Callable[[], Document | None] | None
"""Reads the key of a record; None if keys are not read."""
Open: TypeAlias = Callable[[Document | None, Key], Row]
"""Makes a row of a payload and of its key. Raises BadPayload, LeftOut and Undecided."""

_CHANGES = {"c", "r", "u", "d"}
_PLACEHOLDER = "__debezium_unavailable_value"
_IN_MAP = {_PLACEHOLDER: _PLACEHOLDER}
_NOT_LOGGED: Sequence[object] = (
    _PLACEHOLDER,
    base64.b64encode(_PLACEHOLDER.encode()).decode(),
    [_PLACEHOLDER],
    [JsonNumber(byte) for byte in _PLACEHOLDER.encode()],
    _IN_MAP,
    json.dumps(_IN_MAP, separators=(",", ":")),
)
_OWN = {"_op", "_deleted", "_source_ts", "_source", "_unavailable", "_patch"}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_INT64 = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(_INTEGER.pattern + r"(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_UNKNOWN = object()
_DECODER = json.JSONDecoder(parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=str)
_TYPED = {"$oid", "$symbol", "$uuid", "$numberDecimal", "$binary", "$numberInt", "$numberLong"} | {
    *("$numberDouble", "$date", "$undefined")
}
_TRUTHS = {"0": False, "1": True, "false": False, "true": True}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # the text gets its Z at the end
_NUMBERS = {ColumnTypeName.INT32, ColumnTypeName.INT64, ColumnTypeName.FLOAT64}


def opener(decode: DecodeSection) -> Open:
    """Return what opens the envelopes of a group."""
    reads = {column.path[0] for column in decode.payload_columns()}
    match decode.envelope:
        case "Debezium":
            return lambda payload, key: _with_own(_debezium(payload, key, reads))
        case "DebeziumFlattened":
            return lambda payload, key: _with_own(_flattened(payload, key, reads))
        case "Maxwell":
            return lambda payload, _: _with_own(_by_fields(_MAXWELL, payload, None, "old"))
        case "Canal":
            texts = _texts(decode.payload_columns())
            return lambda payload, _: _with_own(_canal(payload, texts))
        case _:
            fields = decode.envelope_fields
            assert fields is not None, "the writer has asked for them"
            return lambda payload, key: _with_own(_by_fields(fields, payload, key))


Made: TypeAlias = tuple[Row, Row]
"""A row, and the members that its envelope gives."""


def _with_own(made: Made) -> Row:
    row, own = made
    if _OWN & row.keys():
        raise BadPayload(f"the row has a column {min(_OWN & row.keys())} itself")
    return {**row, **own}


def _is_text(value: object) -> bool:
    return value is None or (isinstance(value, str) and not isinstance(value, JsonNumber))


def _integer(value: object) -> object:
    is_integer = isinstance(value, JsonNumber | int) and not isinstance(value, bool)
    if not is_integer or not _INTEGER.fullmatch(str(value)):
        raise BadPayload("a time that is no integer")
    return value


def _object(value: object, what: str) -> Row:
    if not isinstance(value, Mapping):
        raise BadPayload(f"{what} is no object")
    return dict(value)


def _inside(payload: Document) -> Any:
    """Return what Kafka Connect's converter has put into ``payload``, or the object itself."""
    return payload["payload"] if payload.keys() == {"schema", "payload"} else payload


def _filled(row: Row, key: Document) -> Row:
    """A row with the values of a key that it lacks."""
    more = _object(_inside(key), "the key")
    return row | {name: value for name, value in more.items() if row.get(name) is None}


def _without_schema(payload: Document) -> Document:
    """Raise Undecided for types that a schema in JSON names: the writer compares them."""
    if "schema" in payload and payload["schema"] is not None:
        raise Undecided("JSON that contains its schema, in envelopes")
    return payload


# ------------------------------------------------------------------------------------- Debezium


def _is_other_topic(names: set[str]) -> bool:
    return bool(
        (names and names <= {"ts_ms", "ts_us", "ts_ns"})
        or names >= {"status", "id", "event_count", "data_collections"}
        or names >= {"databaseName", "ddl", "tableChanges"}
    )


def _debezium(payload: Document | None, key: Key, reads: set[str]) -> Made:
    change = _change(payload)
    op, source = str(change["op"]), change.get("source")
    source = {} if source is None else _object(source, "source")
    if not _is_text(source.get("connector", "")):
        raise BadPayload("source.connector is no text")
    own: Row = {"_op": op, "_deleted": op == "d"}
    if source.get("ts_ms") is not None:
        own["_source_ts"] = _integer(source["ts_ms"])
    if change.get("source") is not None:
        own["_source"] = source
    row = change.get("before" if op == "d" else "after")
    if isinstance(row, str):
        return _logged(_extended(row), own, reads)
    is_mongodb = source.get("connector") == "mongodb"
    if row is None and (op == "u" or (op == "d" and is_mongodb)):
        return _without_document(change, key, own, reads)
    if row is None and op != "d":
        raise BadPayload("no row")
    if row is None:
        return _filled({}, _read(key)), own
    row, own = _logged(_object(row, "the row"), own, reads)
    is_filled = op == "d" and not is_mongodb and key is not None
    return (_of_key(row, key) if is_filled else row), own


def _change(payload: Document | None) -> Document:
    """The envelope of a payload, whose letter is one of a row's change."""
    if payload is not None and payload.get("op") is None and "payload" in payload:
        payload = _without_schema(payload)["payload"]
    if payload is None:
        raise AuditLeftOut("a tombstone")
    change = _object(payload, "payload")
    if change.get("op") is None and _is_other_topic(set(change)):
        raise AuditLeftOut("no change of a row")
    op = change.get("op")
    if op is None or not _is_text(op) or op not in _CHANGES:
        raise BadPayload(f"op {op}")
    return change


def _without_document(change: Document, key: Key, own: Row, reads: set[str]) -> Made:
    """A change of MongoDB whose key alone names the document."""
    if own["_op"] != "d":
        if change.get("updateDescription") is None:
            raise BadPayload("no row")
        own["_patch"] = _patch(_object(change["updateDescription"], "updateDescription"))
        if reads and "_patch" not in reads:
            raise BadPayload("a patch that no column reads")
    return _id_of(_read(key)), own


def _read(key: Key) -> Document:
    found = key() if key is not None else None
    if found is None:
        raise BadPayload("the row is in the key, and there is none")
    return found


def _of_key(row: Row, key: Key) -> Row:
    if not row:
        return _filled(row, _read(key))
    found = key() if key is not None else None
    return row if found is None else _filled(row, found)


def _logged(row: Row, own: Row, reads: set[str]) -> Made:
    """Take values out that the database did not log, and name them; a deleted row may lack them."""
    missing = [name for name, value in row.items() if value in _NOT_LOGGED]
    if not missing:
        return row, own
    if reads & set(missing) and "_unavailable" not in reads and not own["_deleted"]:
        raise BadPayload("a value that was not logged, and a column reads it")
    kept = {name: value for name, value in row.items() if name not in missing}
    return kept, own | {"_unavailable": missing}


def _flattened(payload: Document | None, key: Key, reads: set[str]) -> Made:
    if payload is not None and payload.keys() == {"schema", "payload"}:
        _without_schema(payload)
        payload = payload["payload"]
    if payload is None:
        return _filled({}, _read(key)), {"_op": "d", "_deleted": True}
    row = _object(payload, "the record")
    if _is_other_topic(set(row)):
        raise AuditLeftOut("no change of a row")
    op, deleted = row.pop("__op", None), row.pop("__deleted", None)
    at = row.pop("__source_ts_ms", None)
    if (op is None and deleted is None) or not _is_text(op) or op not in {None, *_CHANGES}:
        raise BadPayload("nothing that names the change")
    if deleted is not None and deleted not in (True, False, "true", "false"):
        raise BadPayload("__deleted is no truth")
    is_deleted = op == "d" if deleted is None else deleted in (True, "true")
    letter = op or ("d" if is_deleted else None)
    if (letter is None and "_op" in reads) or (at is None and "_source_ts" in reads):
        raise BadPayload("a field that a column reads was not added")
    own: Row = {"_deleted": is_deleted}
    own |= {} if letter is None else {"_op": letter}
    own |= {} if at is None else {"_source_ts": _integer(at)}
    row, own = _logged(row, own, reads)
    return (_of_key(row, key) if is_deleted and key is not None else row), own


# -------------------------------------------------------------------------------------- MongoDB


def _extended(text: object) -> Row:
    if not isinstance(text, str):
        raise BadPayload("a document that is no text")
    if "NaN" in text or "Infinity" in text:  # which MongoDB writes without quotes
        return _object(_plain(_with_constants(text)), "the document")
    return _object(_plain(json_documents.value_of(text.encode("utf-8", "replace"))), "the document")


def _with_constants(text: str) -> Any:
    try:
        return _DECODER.decode(without_halves(text.encode("utf-8", "replace")).decode())
    except (ValueError, RecursionError) as error:
        raise BadPayload(f"no document: {error}") from None


def _patch(description: Row) -> Row:
    found = {name: description.get(name) for name in ("removedFields", "truncatedArrays")}
    if description.get("updatedFields") is not None:
        found["updatedFields"] = _extended(description["updatedFields"])
    return found


def _id_of(key: Document) -> Row:
    text = _object(_inside(key), "the key").get("id")
    if not isinstance(text, str) or isinstance(text, JsonNumber):
        raise BadPayload("the key of no document")
    return {"_id": _plain(json_documents.value_of(text.encode()))}


def _plain(value: Any) -> Any:
    """A value without the types of extended JSON."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    name = next(iter(value), "")
    found = _typed(name, value[name]) if name in _TYPED and len(value) <= 2 else _UNKNOWN
    if found is not _UNKNOWN:
        return found
    return {name: _plain(item) for name, item in value.items()}


def _typed(name: str, value: Any) -> Any:
    """The value of a type of extended JSON."""
    if isinstance(value, Mapping):
        value = value.get("base64") if name == "$binary" else _long(value)
    if name == "$undefined":
        return None
    if name == "$date" and isinstance(value, JsonNumber) and _INTEGER.fullmatch(value):
        return _moment(value)
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        return _UNKNOWN
    if name == "$numberDouble":
        return JsonNumber(value) if _NUMBER.fullmatch(value) else value
    if name in {"$numberInt", "$numberLong"}:
        return JsonNumber(value) if _INTEGER.fullmatch(value) else _UNKNOWN
    return value


def _long(value: Mapping[str, Any]) -> Any:
    found = value.get("$numberLong")
    is_text = isinstance(found, str) and not isinstance(found, JsonNumber)
    return JsonNumber(found) if is_text and len(value) == 1 else None


def _moment(millis: str) -> str:
    try:
        at = _EPOCH + timedelta(milliseconds=int(millis))
    except (OverflowError, ValueError):
        raise BadPayload("a time outside of the years 1 to 9999") from None
    return f"{at.isoformat(timespec='microseconds')}Z"


# -------------------------------------------------------------------- envelopes by their fields


_MAXWELL = EnvelopeFieldsSection(
    op="type",
    insert=("insert",),
    read=("bootstrap-insert",),
    update=("update",),
    delete=("delete",),
    skip=(
        *("bootstrap-start", "bootstrap-complete", "table-create", "table-alter", "table-drop"),
        *("database-create", "database-alter", "database-drop"),
    ),
    row="data",
    timestamp="ts",
    unit="Seconds",
    tombstone="Skip",
)
_ROW = "\0row"
"""Where the only row of a message of Canal is put."""
_CANAL = EnvelopeFieldsSection(
    op="type",
    insert=("INSERT",),
    update=("UPDATE",),
    delete=("DELETE",),
    skip=("CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX"),
    row=_ROW,
    timestamp="es",
    tombstone="Skip",
)
_PER_SECOND = {
    "Seconds": 1,
    "Milliseconds": 10**3,
    "Microseconds": 10**6,
    "Nanoseconds": 10**9,
}


def _at(document: Any, path: str | None) -> Any:
    for step in (path or "").split("."):
        document = document.get(step) if isinstance(document, Mapping) else None
    return document


def _by_fields(
    fields: EnvelopeFieldsSection, payload: Document | None, key: Key, *more: str
) -> Made:
    """Open an envelope; ``more`` are members that are not part of ``_source``."""
    if payload is None:
        if fields.tombstone == "Skip":
            raise AuditLeftOut("a tombstone")
        return _filled({}, _read(key)), {"_op": "d", "_deleted": True}
    document = _object(_inside(payload), "the payload")
    letter = _letter(fields, document)
    row = _row_at(fields, document, letter)
    if letter == "d":
        row = _deleted_row(fields, row, document, key)
    elif not row:
        raise BadPayload("a row without anything")
    own: Row = {"_op": letter, "_deleted": letter == "d"}
    if fields.timestamp and (at := _at(document, fields.timestamp)) is not None:
        own["_source_ts"] = _millis(at, fields.unit)
    if fields.row is not None:
        gone = {*(path.split(".")[0] for path in (fields.row, fields.before) if path), *more}
        own["_source"] = {name: of for name, of in document.items() if name not in gone}
    return row, own


def _deleted_row(fields: EnvelopeFieldsSection, row: Row, document: Row, key: Key) -> Row:
    """A row with what only its keys have."""
    if fields.key and (inner := _at(document, fields.key)) is not None:
        row = _filled(row, _object(inner, fields.key))
    return _of_key(row, key) if key is not None or not row else row


def _letter(fields: EnvelopeFieldsSection, document: Row) -> str:
    op = _at(document, fields.op)
    if op is None or isinstance(op, Mapping | list):
        raise BadPayload(f"no {fields.op}")
    op = str(op).lower() if isinstance(op, bool) else str(op)
    if op in fields.skip:
        raise AuditLeftOut(f"{fields.op} {op}")
    letter = fields.letter(op)
    if letter is None:
        raise BadPayload(f"{fields.op} {op}")
    return letter


def _row_at(fields: EnvelopeFieldsSection, document: Row, letter: str) -> Row:
    if fields.row is None:
        own = {p for p in (fields.op, fields.key, fields.timestamp) if p}
        gone = {path.split(".")[0] for path in own}
        return {name: value for name, value in document.items() if name not in gone}
    found = _at(document, fields.before) if letter == "d" and fields.before else None
    found = _at(document, fields.row) if found is None else found
    if found is None and letter != "d":
        raise BadPayload(f"no {fields.row}")
    return {} if found is None else _object(found, fields.row)


def _millis(value: object, unit: str) -> object:
    if isinstance(value, JsonNumber | int) and _INT64.fullmatch(str(value)):
        return JsonNumber(int(value) * 1000 // _PER_SECOND[unit])
    if isinstance(value, str) and not isinstance(value, JsonNumber):
        return value
    raise BadPayload("a time that is neither an integer nor text")


def _texts(columns: Sequence[ColumnSection]) -> Mapping[str, bool]:
    """Return which members are read as numbers, or truths, alone; whether they are truths."""
    types: dict[str, set[ColumnTypeName]] = {}
    for column in columns:
        types.setdefault(column.path[0], set()).add(column.type)
    return {
        name: of == {ColumnTypeName.BOOLEAN}
        for name, of in types.items()
        if of <= _NUMBERS or of == {ColumnTypeName.BOOLEAN}
    }


def _canal(payload: Document | None, texts: Mapping[str, bool]) -> Made:
    if payload is None:
        raise AuditLeftOut("a tombstone")
    document = _object(_inside(payload), "the payload")
    data = document.pop("data", None)
    if isinstance(data, list) and len(data) == 1 and isinstance(data[0], Mapping):
        data = {
            name: _read_text(value, is_truth=texts[name]) if name in texts else value
            for name, value in data[0].items()
        }
    elif isinstance(data, Mapping):
        data = [data]  # no list, so no row
    document[_ROW] = data
    return _by_fields(_CANAL, document, None, "old", "mysqlType", "sqlType")


def _read_text(value: object, *, is_truth: bool) -> object:
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        return value
    if is_truth:
        return _TRUTHS.get(value, value)
    return JsonNumber(value) if _NUMBER.fullmatch(value) else value
