"""Envelopes that are described by the paths of their fields: Maxwell, Canal, and any other. Pure.

``decode.envelopeFields`` names the field of the operation, its values for each change, and where
row, previous row, key and time are; ``MAXWELL`` and ``CANAL`` are two such descriptions. ``_op`` of
a row is the letter that Debezium has for the change, for every name that a producer has for it.

=====================================  ===========================================================
payload                                outcome
=====================================  ===========================================================
operation of an insert, read, update   the row at ``row``
operation of a deletion                the row at ``before``, or else at ``row``; what is absent or
                                       null there is at ``key``, or else in the key of the record
operation that ``skip`` lists          skipped
any other, or none; no row             bad
tombstone                              as ``tombstone`` declares: a deletion of the row that the
                                       key of the record names, or skipped
=====================================  ===========================================================

Sources: Maxwell 1.44, "Reference", "Data Format"; Canal 1.1,
``com.alibaba.otter.canal.protocol.FlatMessage`` and ``CanalEntry.EventType``.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import msgspec

from landfall.api.spec import ColumnType
from landfall.api.spec.decode import EnvelopeFields, TombstoneMeaning
from landfall.pipeline.decoders import Path
from landfall.pipeline.decoders.envelopes.opened import (
    DOCUMENT,
    ENCODE,
    TEXT,
    Bad,
    Document,
    KeyRule,
    OpenedEnvelope,
    Skipped,
    completed,
    deleted_by_tombstone,
    inside_schema,
    kind_of,
    meta_of,
)
from landfall.pipeline.decoders.typed_columns import TypedColumn

_MILLIS: Mapping[str, tuple[int, int]] = {
    "Seconds": (1000, 1),
    "Milliseconds": (1, 1),
    "Microseconds": (1, 1000),
    "Nanoseconds": (1, 1_000_000),
}
"""By what a number of a unit is multiplied, and divided, for milliseconds."""
_INTEGER = re.compile(rb"-?(0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(rb'"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"')
_TRUTHS = {b'"0"': b"false", b'"1"': b"true", b'"false"': b"false", b'"true"': b"true"}
_NUMBERS = frozenset({ColumnType.INT32, ColumnType.INT64, ColumnType.FLOAT64})
_ROWS = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True)
class ByFields:
    """Opens envelopes of one description.

    Attributes:
        name: what errors begin with.
        op: where the operation is.
        letters: the letter of each operation that changes a row.
        skipped: operations that change none.
        row: where the row is; None if the payload is the row, with the envelope's fields in it.
        before: where the row before a deletion is.
        key: where the key of a deleted row is.
        timestamp: where the time of the change is.
        unit: of that time, if it is a number.
        takes_key: whether a deleted row takes what it lacks of the key of its record.
        has_keys: whether keys are decoded.
        is_deleted_by_tombstone: whether a tombstone is a deletion.
        dropped: members of the envelope that ``_source`` does not have.
        texts: columns whose values are texts in rows and no texts in the table.
        has_list: whether the row is in a list of one.
    """

    name: str
    op: Path
    letters: Mapping[str, str]
    skipped: AbstractSet[str] = frozenset()
    row: Path | None = None
    before: Path | None = None
    key: Path | None = None
    timestamp: Path | None = None
    unit: str = "Milliseconds"
    takes_key: bool = True
    has_keys: bool = False
    is_deleted_by_tombstone: bool = True
    dropped: AbstractSet[str] = frozenset()
    texts: Mapping[str, ColumnType] | None = None
    has_list: bool = False

    def tombstone(self) -> OpenedEnvelope:
        """Return the row of a deletion that has nothing else. Raises as ``Opener.read``."""
        if not self.is_deleted_by_tombstone:
            raise Skipped
        return deleted_by_tombstone(has_keys=self.has_keys)

    def read(self, payload: bytes) -> OpenedEnvelope:
        """Return the row of a payload. Raises as ``Opener.read``."""
        document = inside_schema(DOCUMENT.decode(payload))
        op = self._op(document)
        if op in self.skipped:
            raise Skipped
        letter = self.letters.get(op)
        if letter is None:
            raise Bad(f"{'.'.join(self.op)} {op!r:.20} is no change of a row")
        row = self._row(document, letter)
        key = _found(document, self.key) if letter == "d" and self.key else b"null"
        if key != b"null":
            row = completed(row, key)
        takes_key = letter == "d" and self.takes_key and self.has_keys
        if row == b"{}" and not takes_key:
            raise Bad(f"{'.'.join(self.op)} {op!r:.20}: no row, and no key of one")
        rule = KeyRule.ABSENT if takes_key else KeyRule.NOTHING
        return OpenedEnvelope(row, self._meta(document, letter), rule)

    def _op(self, document: Document) -> str:
        value = _found(document, self.op)
        if value == b"null":
            raise Bad(f"no field {'.'.join(self.op)!r}, which names the operation")
        return TEXT.decode(value) if value.startswith(b'"') else value.decode()

    def _row(self, document: Document, letter: str) -> bytes:
        """Return the row; ``{}`` if a deletion has none.

        Raises:
            Bad: there is none, or it is no object.
        """
        if self.row is None:
            own = {path[0] for path in (self.op, self.key, self.timestamp) if path}
            return ENCODE({name: of for name, of in document.items() if name not in own})
        places = [self.before, self.row] if letter == "d" and self.before else [self.row]
        for place in places:
            if (found := _found(document, place)) != b"null":
                return self._single(".".join(place), found)
        if letter == "d":
            return b"{}"
        raise Bad(f"{'.'.join(self.row)} is null")

    def _single(self, name: str, found: bytes) -> bytes:
        if self.has_list:
            rows = _ROWS.decode(found)
            if len(rows) != 1:
                raise Bad(f"{name} has {len(rows)} rows, and a record is one row")
            found = bytes(rows[0])
        if not found.startswith(b"{"):
            raise Bad(f"{name} is {kind_of(found)}")
        return self._of_texts(found) if self.texts else found

    def _of_texts(self, row: bytes) -> bytes:
        """Return a row with numbers and truths where columns read them of text."""
        document = DOCUMENT.decode(row)
        for name, of in (self.texts or {}).items():
            value = bytes(document.get(name, b"null"))
            if of in _NUMBERS and _NUMBER.fullmatch(value):
                document[name] = msgspec.Raw(value[1:-1])
            elif of is ColumnType.BOOLEAN and value in _TRUTHS:
                document[name] = msgspec.Raw(_TRUTHS[value])
        return ENCODE(document)

    def _meta(self, document: Document, letter: str) -> bytes:
        meta = meta_of(letter)
        at = _found(document, self.timestamp) if self.timestamp else b"null"
        if _INTEGER.fullmatch(at):
            times, over = _MILLIS[self.unit]
            meta += b',"_source_ts":%d' % (int(at) * times // over)
        elif at.startswith(b'"'):
            meta += b',"_source_ts":' + at
        elif at != b"null":
            raise Bad(f"{'.'.join(self.timestamp or ())} is neither an integer nor text")
        if self.row is None:
            return meta
        source = {name: of for name, of in document.items() if name not in self.dropped}
        return meta + b',"_source":' + ENCODE(source)


def _path(text: str | None) -> Path | None:
    return None if text is None else _steps(text)


def _steps(text: str) -> Path:
    return tuple(text.split("."))


def _found(document: Document, path: Path) -> bytes:
    """Return the value at a path; ``null`` if there is none."""
    found: msgspec.Raw | None = document.get(path[0])
    for step in path[1:]:
        if found is None or not bytes(found).startswith(b"{"):
            return b"null"
        found = DOCUMENT.decode(found).get(step)
    return b"null" if found is None else bytes(found)


_MAXWELL = ByFields(
    name="maxwell",
    op=("type",),
    letters={"insert": "c", "bootstrap-insert": "r", "update": "u", "delete": "d"},
    skipped=frozenset(
        (
            *("bootstrap-start", "bootstrap-complete"),
            *(f"{what}-{how}" for what in ("table", "database") for how in ("create", "alter")),
            *("table-drop", "database-drop"),
        )
    ),
    row=("data",),
    timestamp=("ts",),
    unit="Seconds",
    takes_key=False,
    is_deleted_by_tombstone=False,
    dropped=frozenset({"data", "old"}),
)
_CANAL = ByFields(
    name="canal",
    op=("type",),
    letters={"INSERT": "c", "UPDATE": "u", "DELETE": "d"},
    skipped=frozenset({"CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX"}),
    row=("data",),
    timestamp=("es",),
    takes_key=False,
    is_deleted_by_tombstone=False,
    dropped=frozenset({"data", "old", "mysqlType", "sqlType"}),
    has_list=True,
)


def of_spec(fields: EnvelopeFields | None, *, has_keys: bool) -> ByFields:
    """Return what opens envelopes as ``decode.envelopeFields`` describes them."""
    assert fields is not None, "the validation of the spec asks for them"
    row, before = _path(fields.row), _path(fields.before)
    return ByFields(
        name="envelope",
        op=_steps(fields.op),
        letters={text: letter for letter, of in fields.by_letter() for text in of},
        skipped=frozenset(fields.skip),
        row=row,
        before=before,
        key=_path(fields.key),
        timestamp=_path(fields.timestamp),
        unit=fields.unit,
        has_keys=has_keys,
        is_deleted_by_tombstone=fields.tombstone is TombstoneMeaning.DELETE,
        dropped=frozenset(path[0] for path in (row, before) if path),
    )


def maxwell() -> ByFields:
    """Return what opens JSON of Maxwell."""
    return _MAXWELL


def canal(columns: Sequence[TypedColumn]) -> ByFields:
    """Return what opens flat messages of Canal, in which all values of rows are texts."""
    types = dict[str, set[ColumnType]]()
    for column in columns:
        types.setdefault(column.path[0], set()).add(column.type)
    texts = {
        name: max(of) for name, of in types.items() if of <= _NUMBERS or of == {ColumnType.BOOLEAN}
    }
    return replace(_CANAL, texts=texts)
