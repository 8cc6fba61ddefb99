"""Records of Debezium's ``ExtractNewRecordState``: rows with fields of the envelope among theirs.

==============================  ==================================================================
record                          outcome
==============================  ==================================================================
``__deleted`` false, or         the row
``__op`` c, r, u
``__deleted`` true, or          the row, and what is absent or null there is read of the key, if
``__op`` d                      keys are decoded
tombstone                       a deletion: the row is the key. By default
                                (``delete.tombstone.handling.mode: tombstone``) nothing else is
                                sent of one
heartbeat, transaction, change  skipped: no change of a row
of a schema
none of these fields            bad: a deletion would look like any other row
==============================  ==================================================================

``__op`` becomes ``_op``, ``__deleted`` ``_deleted`` and ``__source_ts_ms`` ``_source_ts``; other
fields that ``add.fields`` adds, such as ``__lsn``, keep their names. A field that a column needs,
but the record does not have, makes it bad, and the reason names the setting that adds it. Pure.

Source: Debezium 3.6, "New Record State Extraction" and ``io.debezium.transforms``.
"""

from dataclasses import dataclass

import msgspec

from landfall.pipeline.decoders.envelopes.debezium import is_expected
from landfall.pipeline.decoders.envelopes.opened import (
    DOCUMENT,
    ENCODE,
    LETTERS,
    NULL,
    OP,
    SOURCE,
    SOURCE_TS,
    Bad,
    Document,
    KeyRule,
    OpenedEnvelope,
    Skipped,
    deleted_by_tombstone,
)
from landfall.pipeline.decoders.envelopes.schemas import ConnectTypes
from landfall.pipeline.decoders.envelopes.unavailable import without_unavailable

_OP, _DELETED, _SOURCE_TS = "__op", "__deleted", "__source_ts_ms"
_ADDED = {OP: (_OP, "op"), SOURCE_TS: (_SOURCE_TS, "source.ts_ms")}
"""The field that a member is read from, and the name in ``add.fields`` that adds it."""
_DELETIONS = {b"true": True, b'"true"': True, b"false": False, b'"false"': False}


@dataclass(frozen=True)
class Flattened:
    """Opens records of ``ExtractNewRecordState``; the attributes are as of ``Debezium``."""

    columns: frozenset[str]
    types: ConnectTypes
    has_keys: bool
    name: str = "debezium"

    def __post_init__(self) -> None:
        """Refuse a column that no record has.

        Raises:
            ValueError: a column reads ``_source``.
        """
        if SOURCE in self.columns:
            raise ValueError(
                "envelope DebeziumFlattened: there is no _source; a column reads what add.fields "
                "adds, such as __source_lsn"
            )

    def tombstone(self) -> OpenedEnvelope:
        """Return the row of a deletion that has nothing else. Raises as ``Opener.read``."""
        return deleted_by_tombstone(has_keys=self.has_keys)

    def read(self, payload: bytes) -> OpenedEnvelope:
        """Return the row of a record. Raises as ``Opener.read``."""
        document, problem = DOCUMENT.decode(payload), ""
        if document.keys() == {"schema", "payload"}:
            problem = self.types.problem(bytes(document["schema"]), of_row=True)
            if bytes(document["payload"]) == b"null":
                return self.tombstone()
            document = DOCUMENT.decode(document["payload"])
        if is_expected(document.keys()):
            raise Skipped
        letter, deleted = _letter(document), _deleted(document)
        if letter is None and deleted is None:
            raise Bad(
                "no field __op or __deleted; set delete.tombstone.handling.mode: rewrite and "
                "add.fields: op,source.ts_ms of ExtractNewRecordState"
            )
        is_deleted = letter == "d" if deleted is None else deleted
        if problem:
            raise Bad(problem)
        meta = self._meta(document, letter or ("d" if is_deleted else None), is_deleted=is_deleted)
        encoded = ENCODE(document)
        row, marked = without_unavailable(encoded, self.columns, is_deleted=is_deleted)
        is_completed = is_deleted and self.has_keys
        return OpenedEnvelope(
            row, meta + marked, KeyRule.ABSENT if is_completed else KeyRule.NOTHING
        )

    def _meta(self, document: Document, letter: str | None, *, is_deleted: bool) -> bytes:
        """Take the time out of a record, and return the members that its row has.

        Raises:
            Bad: a column reads one that the record does not have.
        """
        meta = [b'"_op":"%s"' % letter.encode()] if letter else []
        meta.append(b'"_deleted":%s' % (b"true" if is_deleted else b"false"))
        at = document.pop(_SOURCE_TS, NULL)
        if bytes(at) != b"null":
            meta.append(b'"_source_ts":%d' % msgspec.json.decode(at, type=int))
        for name, is_there in ((OP, letter is not None), (SOURCE_TS, bytes(at) != b"null")):
            if name in self.columns and not is_there:
                added, remedy = _ADDED[name]
                raise Bad(
                    f"a column reads {name}, and there is no field {added}; set add.fields: "
                    f"{remedy} of ExtractNewRecordState"
                )
        return b",".join(meta)


def _letter(document: Document) -> str | None:
    """Take the letter out of a record.

    Raises:
        Bad: no row changes in this way.
    """
    found = msgspec.json.decode(document.pop(_OP, b"null"), type=str | None)
    if found is not None and found not in LETTERS:
        raise Bad(f"__op {found!r:.20} is no change of a row")
    return found


def _deleted(document: Document) -> bool | None:
    """Take out of a record whether it is a deletion. Raises Bad likewise."""
    found = bytes(document.pop(_DELETED, b"null"))
    if found == b"null":
        return None
    if found not in _DELETIONS:
        raise Bad("__deleted is neither true nor false")
    return _DELETIONS[found]
