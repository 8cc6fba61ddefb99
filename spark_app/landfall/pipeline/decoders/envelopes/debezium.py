"""Envelopes of Debezium, and what Debezium sends among them. Pure.

==================================  ==============================================================
payload                             outcome
==================================  ==============================================================
``op`` c, r, u                      the row is ``after``
``op`` d                            the row is ``before``, and what is absent or null there is
                                    read of the key, if keys are decoded
``op`` u of MongoDB, without        a patch: the row has ``_id``, of the key, and ``_patch``
``after``
tombstone                           skipped: a deletion sends ``op`` d before it
heartbeat, begin or end of a        skipped: no change of a row
transaction, change of a schema
``op`` t, ``op`` m, other ``op``    bad: a truncated table, or a message, is no row
no ``op``, or no row in it          bad
==================================  ==============================================================

Sources: Debezium 3.6, "PostgreSQL connector", "MongoDB connector", "Data change events", and the
class ``io.debezium.data.Envelope``.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import msgspec

from landfall.pipeline.decoders.envelopes import mongodb
from landfall.pipeline.decoders.envelopes.opened import (
    ABSENT,
    DOCUMENT,
    LETTERS,
    NULL,
    PATCH,
    Bad,
    KeyRule,
    OpenedEnvelope,
    Skipped,
    kind_of,
    meta_of,
)
from landfall.pipeline.decoders.envelopes.schemas import ConnectTypes
from landfall.pipeline.decoders.envelopes.unavailable import without_unavailable

_HEARTBEAT = frozenset({"ts_ms", "ts_us", "ts_ns"})
_TRANSACTION = frozenset({"status", "id", "event_count", "data_collections"})
_SCHEMA_CHANGE = frozenset({"databaseName", "ddl", "tableChanges"})
_NO_ROWS = {
    "t": "op t: the table was truncated, which names no single rows",
    "m": "op m: a message, which is no row of a table",
}
_MONGODB = "mongodb"


class _Change(msgspec.Struct, gc=False):
    """An envelope, or with ``payload`` what is around one that contains its schema."""

    op: str | None = None
    before: msgspec.Raw = NULL
    after: msgspec.Raw = NULL
    source: msgspec.Raw = NULL
    schema: msgspec.Raw = NULL
    payload: msgspec.Raw = ABSENT
    updated: msgspec.Raw = msgspec.field(default=NULL, name="updateDescription")


class _Source(msgspec.Struct, gc=False):
    ts_ms: int | None = None
    connector: str | None = None


_CHANGE = msgspec.json.Decoder(_Change)
_SOURCE = msgspec.json.Decoder(_Source | None)


@dataclass(frozen=True)
class Debezium:
    """Opens the envelopes of Debezium.

    Attributes:
        columns: the names of the row that typed columns are read from; empty without columns.
        types: compares these columns with schemas in payloads.
        has_keys: whether keys are decoded.
    """

    columns: frozenset[str]
    types: ConnectTypes
    has_keys: bool
    name: str = "debezium"

    def tombstone(self) -> OpenedEnvelope:
        """Return nothing: a deletion sends ``op`` d before it."""
        raise Skipped

    def read(self, payload: bytes) -> OpenedEnvelope:
        """Return the row of a change. Raises as ``Opener.read``."""
        change, problem = _CHANGE.decode(payload), ""
        if change.op is None and (inside := bytes(change.payload)):
            problem, payload = self.types.problem(bytes(change.schema)), inside
            if payload == b"null":
                raise Skipped
            change = _CHANGE.decode(payload)
        if change.op is None:
            raise _without_op(payload)
        if change.op not in LETTERS:
            raise Bad(_NO_ROWS.get(change.op, f"op {change.op!r:.20} is unknown"))
        source = _SOURCE.decode(change.source)
        opened = self._row(change, is_mongodb=source is not None and source.connector == _MONGODB)
        if problem:
            raise Bad(problem)
        meta = opened.meta
        if source is not None:
            if source.ts_ms is not None:
                meta += b',"_source_ts":%d' % source.ts_ms
            meta += b',"_source":' + bytes(change.source)
        is_deleted = change.op == "d"
        row, marked = without_unavailable(opened.row, self.columns, is_deleted=is_deleted)
        return OpenedEnvelope(row, meta + marked, opened.of_key)

    def _row(self, change: _Change, *, is_mongodb: bool) -> OpenedEnvelope:
        """Return the row that a change has.

        Raises:
            Bad: it has none.
        """
        op = change.op or ""
        name, row = ("before", change.before) if op == "d" else ("after", change.after)
        text, meta = bytes(row), meta_of(op)
        if text.startswith(b'"'):
            text = mongodb.document(name, text)
            return OpenedEnvelope(text, meta)
        if text.startswith(b"{"):
            is_completed = op == "d" and self.has_keys and not is_mongodb
            return OpenedEnvelope(text, meta, KeyRule.ABSENT if is_completed else KeyRule.NOTHING)
        if text == b"null" and op == "d":
            if not self.has_keys:
                raise Bad("op d: before is null; set decode.key, and the row is read of the key")
            return OpenedEnvelope(b"{}", meta, KeyRule.DOCUMENT if is_mongodb else KeyRule.ABSENT)
        if text == b"null" and op == "u" and (patch := mongodb.patch(bytes(change.updated))):
            return self._patched(patch, meta)
        raise Bad(f"op {op}: {name} is {kind_of(text)}")

    def _patched(self, patch: bytes, meta: bytes) -> OpenedEnvelope:
        if not self.has_keys:
            raise Bad("op u: after is null; set decode.key, and _id is read of the key")
        if self.columns and PATCH not in self.columns:
            raise Bad(
                "op u: a patch without the document; declare a column {name: _patch, type: Json}, "
                "or set capture.mode: change_streams_update_full of the connector"
            )
        return OpenedEnvelope(b"{}", meta + b',"_patch":' + patch, KeyRule.DOCUMENT)


def _without_op(payload: bytes) -> Exception:
    """Return why an object without a letter is no change."""
    names = DOCUMENT.decode(payload).keys()
    if is_expected(names):
        return Skipped()
    return Bad("no field 'op': no change of Debezium")


def is_expected(names: AbstractSet[str]) -> bool:
    """Return whether these are the names of a heartbeat, a transaction or a change of a schema."""
    is_heartbeat = bool(names) and names <= _HEARTBEAT
    return is_heartbeat or names >= _TRANSACTION or names >= _SCHEMA_CHANGE
