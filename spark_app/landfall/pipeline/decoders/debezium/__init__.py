"""Changes of Debezium, opened before the decoder of rows: what it sees is the row.

``decode.envelope: Debezium`` puts this around the group's decoder, in three steps that each of the
decoders with JSON shares:

1. The decoder makes a JSON object of the payload, with common values (``common_values``), so that
   a time is one from every format. ``Json`` payloads are JSON already. If they have a schema, as
   with ``schemas.enable`` of Kafka Connect, what is in ``payload`` counts.
2. The object becomes a row, by the table below, or is skipped, or is bad.
3. ``Json`` reads fields and typed columns of the row, and the row is landed as JSON.

==================================  ==============================================================
payload                             outcome
==================================  ==============================================================
``op`` c, r, u                      the row is ``after``
``op`` d                            the row is ``before``, and what is absent or null there is
                                    read of the key, if keys are decoded
tombstone                           skipped: a deletion sends ``op`` d before it
heartbeat, begin or end of a        skipped: no change of a row
transaction, change of a schema
``op`` t, ``op`` m, other ``op``    bad: a truncated table, or a message, is no row
no ``op``, or no row in it          bad
==================================  ==============================================================

Skipped records count as filtered. A row has five more members:

================  =================================================================================
``_op``           the letter of the change
``_deleted``      whether the change is a deletion
``_source_ts``    when the database made it: ``source.ts_ms``, milliseconds since 1970 UTC
``_source``       the whole ``source``: position in the database's log, table, transaction
``_unavailable``  the names of values that the database did not log, because the change left them
                  alone (TOAST); they are absent from the row. Absent if there are none
================  =================================================================================

Sources: Debezium 3.6, "PostgreSQL connector", "Data change events", and the classes
``io.debezium.data.Envelope`` and ``io.debezium.connector.postgresql.PostgresValueConverter``.
"""

import base64
from dataclasses import dataclass, field, replace
from typing import ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from landfall.pipeline.bounded_cache import BoundedCache
from landfall.pipeline.decoders import Decoded, Decoder, Path, Wanted
from landfall.pipeline.decoders.debezium.schemas import ConnectTypes
from landfall.pipeline.decoders.half_pairs import without_half_pairs
from landfall.pipeline.decoders.json import Json
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.pipeline.decoders.typed_columns import typed_columns
from landfall.pipeline.pinned import PinnedFile, pinned_files
from landfall.pipeline.records import Records

OP, DELETED, SOURCE_TS = "_op", "_deleted", "_source_ts"
SOURCE, UNAVAILABLE = "_source", "_unavailable"
OWN_NAMES = frozenset({OP, DELETED, SOURCE_TS, SOURCE, UNAVAILABLE})
"""The names of the members that a row has in addition to the columns of the table."""

_PLACEHOLDER = b"__debezium_unavailable_value"
_BASE64 = base64.b64encode(_PLACEHOLDER)
_BYTES = b",".join(b"%d" % byte for byte in _PLACEHOLDER)
_UNAVAILABLE_VALUES = frozenset(
    {
        b'"%s"' % _PLACEHOLDER,  # text, JSON, XML, numbers as text
        b'"%s"' % _BASE64,  # bytes
        b'["%s"]' % _PLACEHOLDER,  # a list of text
        b"[%s]" % _BYTES,  # a list of integers
        b'{"%s":"%s"}' % (_PLACEHOLDER, _PLACEHOLDER),  # hstore, as a map
        b'"{\\"%s\\":\\"%s\\"}"' % (_PLACEHOLDER, _PLACEHOLDER),  # hstore, as text
    }
)
"""Debezium's default ``unavailable.value.placeholder``, in values of each type."""

_NULL, _ABSENT = msgspec.Raw(b"null"), msgspec.Raw(b"")
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
_HEARTBEAT = frozenset({"ts_ms", "ts_us", "ts_ns"})
_TRANSACTION = frozenset({"status", "id", "event_count", "data_collections"})
_SCHEMA_CHANGE = frozenset({"databaseName", "ddl", "tableChanges"})
_ROW_OPS = {"c": b"false", "r": b"false", "u": b"false", "d": b"true"}
"""The letters of changes of rows, and whether each is a deletion."""
_NO_ROWS = {
    "t": "op t: the table was truncated, which names no single rows",
    "m": "op m: a message, which is no row of a table",
}


class _Change(msgspec.Struct, gc=False):
    """An envelope, or with ``payload`` what is around one that contains its schema."""

    op: str | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    source: msgspec.Raw = _NULL
    schema: msgspec.Raw = _NULL
    payload: msgspec.Raw = _ABSENT


class _Source(msgspec.Struct, gc=False):
    ts_ms: int | None = None


Document = dict[str, msgspec.Raw]
_CHANGE = msgspec.json.Decoder(_Change)
_SOURCE = msgspec.json.Decoder(_Source | None)
_DOCUMENT = msgspec.json.Decoder(Document)
_TEXT = msgspec.json.Decoder(str)
_ENCODE = msgspec.json.Encoder().encode


class _Bad(Exception):  # noqa: N818  # a fact about a payload
    """The payload is no row; the text is the reason."""


class _Skipped(Exception):  # noqa: N818
    """The payload is no change of a row, and needs to be none."""


@dataclass(frozen=True)
class Debezium:
    """Decodes changes of Debezium.

    Attributes:
        payloads: makes JSON of payloads; None if they are JSON.
        keys: makes JSON of keys; None if the group does not decode them.
        rows: decodes rows.
        columns: the names of the row that typed columns are read from, and ``_unavailable``.
        types: compares these columns with schemas in payloads.
    """

    payloads: Decoder | None
    keys: Decoder | None
    rows: Json
    columns: frozenset[str]
    types: ConnectTypes
    of_schemas: ClassVar[tuple[Path, ...]] = (SCHEMA_ID, SCHEMA_NAME)
    _schemas: BoundedCache[bytes, str] = field(default_factory=BoundedCache, repr=False)

    @classmethod
    def of(cls, payloads: Decoder | None, keys: Decoder | None, wanted: Wanted) -> "Debezium":
        """Build the decoder of what is wanted of rows; arguments are as of the class."""
        paths = tuple(path for path in wanted.fields if path not in cls.of_schemas)
        typed = typed_columns(wanted.schema) if wanted.schema is not None else ()
        names = frozenset(column.path[0] for column in typed)
        rows = Json.of({}, replace(wanted, fields=paths))
        return cls(payloads, keys, rows, names, ConnectTypes.of(typed))

    @classmethod
    def of_payloads(cls, wanted: Wanted) -> Wanted:
        """Return what is wanted of the decoder that makes JSON of payloads."""
        paths = tuple(path for path in wanted.fields if path in cls.of_schemas)
        return Wanted(paths, json=True, read_file=wanted.read_file)

    @property
    def files(self) -> tuple[PinnedFile, ...]:
        """The files that the decoder of payloads has read."""
        return pinned_files([self.payloads])

    def decode(self, records: Records) -> Decoded:
        """Return every change of a row, as the row.

        Raises:
            Retry: what a decoder needs is away.
        """
        decoded = Decoded(records) if self.payloads is None else self.payloads.decode(records)
        opened: list[bytes | None] = []
        errors: dict[int, str] = {}
        is_kept = np.ones(len(decoded.records), np.bool_)
        deleted: dict[int, bytes] = {}
        for row, payload in enumerate(decoded.records.values.to_pylist()):
            try:
                op, document, meta = self._opened(payload)
                if op == "d" and self.keys is not None:
                    deleted[row] = meta
                else:
                    document = _together(document, meta)
            except _Skipped:
                is_kept[row] = False
                continue
            except _Bad as error:
                errors[row] = f"debezium: {error}"
                opened.append(None)
                continue
            opened.append(document)
        # From here on rows are those that are kept.
        now = np.cumsum(is_kept) - 1
        errors = {int(now[row]): error for row, error in errors.items()}
        decoded = decoded.keep(is_kept)
        if deleted:
            rows = now[list(deleted)]
            self._with_keys(decoded.records, rows, list(deleted.values()), opened, errors)
        bodies = pa.array(opened, pa.binary())
        landed = replace(decoded, records=decoded.records.with_values(bodies))
        return self.rows.decode_bodies(landed, bodies, errors)

    def _opened(self, payload: bytes | None) -> tuple[str, bytes, bytes]:
        """Return letter, row and what is added to it, the latter two as JSON.

        Raises:
            _Skipped: the payload is no change of a row.
            _Bad: it is none that there is a rule for.
        """
        if payload is None:
            raise _Skipped
        try:
            return self._read(payload)
        except _UNREADABLE as error:
            mended = without_half_pairs(payload)
            if mended == payload:
                raise _Bad(_reason(error)) from error
        try:
            return self._read(mended)
        except _UNREADABLE as error:
            raise _Bad(_reason(error)) from error

    def _read(self, payload: bytes) -> tuple[str, bytes, bytes]:
        change, problem = _CHANGE.decode(payload), ""
        if change.op is None and (inside := bytes(change.payload)):
            problem, payload = self._problem(bytes(change.schema)), inside
            if payload == b"null":
                raise _Skipped
            change = _CHANGE.decode(payload)
        if change.op is None:
            raise _without_op(payload)
        row = _row(change, is_in_key=self.keys is not None)
        if problem:
            raise _Bad(problem)
        meta = _meta(change)
        if _PLACEHOLDER in row or _BASE64 in row or _BYTES in row:
            row, missing = self._without_unavailable(row)
            meta += b',"_unavailable":' + _ENCODE(missing) if missing else b""
        return change.op, row, meta

    def _problem(self, schema: bytes) -> str:
        known = self._schemas.get(schema)
        if known is None:
            known = self._schemas.add(schema, self.types.problem(schema), len(schema))
        return known

    def _without_unavailable(self, row: bytes) -> tuple[bytes, list[str]]:
        document = _DOCUMENT.decode(row)
        missing = [name for name, value in document.items() if bytes(value) in _UNAVAILABLE_VALUES]
        lost = [name for name in missing if name in self.columns]
        if lost and UNAVAILABLE not in self.columns:
            raise _Bad(
                f"column {lost[0]}: its value was not logged, for the change left it alone; "
                "declare a column {name: _unavailable, type: List, items: {type: String}}, or "
                "set REPLICA IDENTITY FULL for the table"
            )
        gone = frozenset(missing)
        kept = {name: value for name, value in document.items() if name not in gone}
        return (_ENCODE(kept), missing) if missing else (row, missing)

    def _with_keys(
        self,
        records: Records,
        rows: np.ndarray,
        metas: list[bytes],
        opened: list[bytes | None],
        errors: dict[int, str],
    ) -> None:
        """Give deleted rows what only their keys have."""
        assert self.keys is not None
        taken = records.take(rows)
        found = self.keys.decode(taken.with_values(taken.keys))
        wrong = dict(zip(found.bad.rows.tolist(), found.bad.errors, strict=True))
        kept = range(len(rows)) if found.positions is None else found.positions.tolist()
        keys = dict(zip(kept, found.records.values.to_pylist(), strict=True))
        for i, row in enumerate(rows.tolist()):
            before, opened[row] = opened[row], None
            assert before is not None
            if i in wrong:
                errors[row] = f"debezium: key: {wrong[i]}"
                continue
            try:
                opened[row] = _together(_with_key(before, keys[i]), metas[i])
            except (_Bad, *_UNREADABLE) as error:
                errors[row] = f"debezium: key: {error}"


def _with_key(before: bytes, key: bytes | None) -> bytes:
    """Return a deleted row with the members of its key where it has none, or null."""
    if key is None:
        if before == b"{}":
            raise _Bad("op d: before is null, and there is no key")
        return before
    named = _DOCUMENT.decode(key)
    if named.keys() == {"schema", "payload"}:
        named = _DOCUMENT.decode(named["payload"])
    document = _DOCUMENT.decode(before)
    for name, value in named.items():
        if bytes(document.get(name, _NULL)) == b"null":
            document[name] = value
    return _ENCODE(document)


def _reason(error: Exception) -> str:
    """Return why JSON cannot be read; it has no bytes of the payload."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} at byte {error.start}"
    return str(error)


def _together(row: bytes, meta: bytes) -> bytes:
    """Return a row with more members.

    Raises:
        _Bad: the row has one of them, too, or names that are no text.
    """
    if b'"_' in row or b'"\\u005' in row:
        try:
            own = OWN_NAMES & _DOCUMENT.decode(row).keys()
        except _UNREADABLE as error:
            raise _Bad(_reason(error)) from error
        if own:
            raise _Bad(f"the row has a column {min(own)}, a name that the envelope gives")
    inside = row[1:-1].strip()
    return b"{%s,%s}" % (inside, meta) if inside else b"{%s}" % meta


def _without_op(payload: bytes) -> Exception:
    """Return why an object without a letter is no change."""
    names = _DOCUMENT.decode(payload).keys()
    is_expected = (
        (names and names <= _HEARTBEAT) or names >= _TRANSACTION or names >= _SCHEMA_CHANGE
    )
    return _Skipped() if is_expected else _Bad("no field 'op': no change of Debezium")


def _row(change: _Change, *, is_in_key: bool) -> bytes:
    """Return the row that a change has.

    Raises:
        _Bad: it has none.
    """
    op = change.op
    if op not in _ROW_OPS:
        raise _Bad(_NO_ROWS.get(op or "", f"op {op!r:.20} is unknown"))
    name, row = ("before", change.before) if op == "d" else ("after", change.after)
    text = bytes(row)
    if text.startswith(b"{"):
        return text
    if text == b"null" and op == "d":
        if is_in_key:
            return b"{}"
        raise _Bad("op d: before is null; set decode.key, and the row is read of the key")
    what = "null" if text == b"null" else "text" if text.startswith(b'"') else "no object"
    mongo = "" if what == "no object" else "; documents of MongoDB are not supported"
    raise _Bad(f"op {op}: {name} is {what}{mongo}")


def _meta(change: _Change) -> bytes:
    """Return the members that each row has in addition."""
    op = change.op or ""
    meta = b'"_op":"%s","_deleted":%s' % (op.encode(), _ROW_OPS[op])
    source = _SOURCE.decode(change.source)
    if source is None:
        return meta
    if source.ts_ms is not None:
        meta += b',"_source_ts":%d' % source.ts_ms
    return meta + b',"_source":' + bytes(change.source)
