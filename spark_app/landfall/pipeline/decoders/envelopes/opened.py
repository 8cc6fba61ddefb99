"""The row of an opened envelope, and how the members of a row are put together. Pure.

Rows are kept as bytes of JSON: only what an envelope adds is parsed and written.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import msgspec

OP, DELETED, SOURCE_TS = "_op", "_deleted", "_source_ts"
SOURCE, UNAVAILABLE, PATCH = "_source", "_unavailable", "_patch"
OWN_NAMES = frozenset({OP, DELETED, SOURCE_TS, SOURCE, UNAVAILABLE, PATCH})
"""The names of the members that a row has in addition to the columns of the table."""
LETTERS = {"c": b"false", "r": b"false", "u": b"false", "d": b"true"}
"""The letters of changes of rows, and whether each is a deletion, as JSON."""

Document = dict[str, msgspec.Raw]
NULL, ABSENT = msgspec.Raw(b"null"), msgspec.Raw(b"")
DOCUMENT = msgspec.json.Decoder(Document)
TEXT = msgspec.json.Decoder(str)
ENCODE = msgspec.json.Encoder().encode
UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""What the decoders of msgspec raise for bytes that are no JSON, or other JSON."""


class Bad(Exception):  # noqa: N818  # a fact about a payload
    """The payload is no row; the text is the reason."""


class Skipped(Exception):  # noqa: N818
    """The payload is no change of a row, and needs to be none."""


class KeyRule(Enum):
    """The part of a row that is in the key of its record."""

    NOTHING = "nothing"
    ABSENT = "absent"
    """The members of the key that the row lacks, or that are null in it."""
    DOCUMENT = "document"
    """``_id``, which the key has as text of JSON in ``id``: a document of MongoDB."""


@dataclass(frozen=True, slots=True)
class OpenedEnvelope:
    """The row of an envelope.

    Attributes:
        row: a JSON object.
        meta: more members, without braces.
        of_key: what the row takes of its key.
    """

    row: bytes
    meta: bytes
    of_key: KeyRule = KeyRule.NOTHING


class Opener(Protocol):
    """Opens the envelopes of one kind of producer."""

    @property
    def name(self) -> str:
        """Return what errors begin with."""
        ...

    def tombstone(self) -> OpenedEnvelope:
        """Return the row of a record without a payload. Raises as ``read``."""
        ...

    def read(self, payload: bytes) -> OpenedEnvelope:
        """Return the row of a payload.

        Raises:
            Skipped: the payload is no change of a row, and is expected among changes.
            Bad: it is none that there is a rule for.
            msgspec.DecodeError, ValueError, RecursionError: it is no JSON that can be read.
        """
        ...


def meta_of(op: str) -> bytes:
    """Return the members that each row has: the letter, and whether it is a deletion."""
    return b'"_op":"%s","_deleted":%s' % (op.encode(), LETTERS[op])


def deleted_by_tombstone(*, has_keys: bool) -> OpenedEnvelope:
    """Return the row of a deletion that has nothing but the key of its record.

    Args:
        has_keys: whether keys are decoded.

    Raises:
        Bad: they are not.
    """
    if not has_keys:
        raise Bad("a tombstone: set decode.key, and the deleted row is read of the key")
    return OpenedEnvelope(b"{}", meta_of("d"), KeyRule.ABSENT)


def completed(row: bytes, key: bytes) -> bytes:
    """Return a row with the members of a key that it lacks, or that are null in it.

    Raises:
        msgspec.DecodeError: the key is no object.
    """
    named = inside_schema(DOCUMENT.decode(key))
    document = DOCUMENT.decode(row)
    for name, value in named.items():
        if bytes(document.get(name, NULL)) == b"null":
            document[name] = value
    return ENCODE(document)


def inside_schema(document: Document) -> Document:
    """Return what JSON of Kafka Connect has in ``payload`` if it contains its schema.

    Raises:
        msgspec.DecodeError: that is no object, as with the payload of a tombstone.
    """
    if document.keys() != {"schema", "payload"}:
        return document
    return DOCUMENT.decode(document["payload"])


def together(row: bytes, meta: bytes) -> bytes:
    """Return a row with more members.

    Raises:
        Bad: the row has one of them, too, or names that are no text.
    """
    if b'"_' in row or b'"\\u005' in row:
        try:
            own = OWN_NAMES & DOCUMENT.decode(row).keys()
        except UNREADABLE as error:
            raise Bad(reason(error)) from error
        if own:
            raise Bad(f"the row has a column {min(own)}, a name that the envelope gives")
    inside = row[1:-1].strip()
    return b"{%s,%s}" % (inside, meta) if inside else b"{%s}" % meta


def reason(error: Exception) -> str:
    """Return why JSON cannot be read; it has no bytes of the payload."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} at byte {error.start}"
    return str(error)


def kind_of(value: bytes) -> str:
    """Return what a value of JSON is that should be an object."""
    if value == b"null":
        return "null"
    return "text" if value.startswith(b'"') else "no object"
