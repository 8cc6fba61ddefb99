"""JSON payloads as objects whose values stay the bytes they are until a step writes them.

A document is the payload's object with each value unparsed. A value at a nested path is reached by
parsing the objects above it, and nothing else. So a number that no step writes keeps its digits,
and text its escapes. White space between the parts of an object is lost where it is written again;
of a repeated name the last value counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import msgspec
import pyarrow as pa

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.half_pairs import without_half_pairs
from landfall.pipeline.records import FieldValues

Document: TypeAlias = dict[str, msgspec.Raw]
"""A JSON object by its names, in order; its values are JSON."""
Documents: TypeAlias = list[Document | None]
"""One document per row; None for a tombstone."""

NULL = msgspec.Raw(b"null")
_OBJECT = msgspec.json.Decoder(Document)
_ENCODER = msgspec.json.Encoder()
_BRACE = ord("{")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_documents(decoded: Decoded) -> tuple[Decoded, Documents]:
    """Return the rows with their documents; rows whose payload is no JSON object are rejected."""
    payloads = decoded.records.values.to_pylist()
    read = _OBJECT.decode
    try:
        return decoded, [None if payload is None else read(payload) for payload in payloads]
    except _UNREADABLE:
        documents: Documents = []
        errors: dict[int, str] = {}
        for row, payload in enumerate(payloads):
            try:
                documents.append(None if payload is None else read(without_half_pairs(payload)))
            except _UNREADABLE as error:
                errors[row] = f"not a JSON object: {error}"
        return decoded.reject(errors), documents


def with_documents(
    decoded: Decoded, documents: Documents, written: Iterable[Path], errors: Mapping[int, str]
) -> Decoded:
    """Return the rows with these payloads, and with what the fields are after it.

    Args:
        decoded: the rows before.
        documents: their documents as they are now.
        written: the paths that may have other values now; each becomes a field.
        errors: what is wrong, by row; such rows are rejected.
    """
    encode = _ENCODER.encode
    payloads = [None if document is None else encode(document) for document in documents]
    fields: dict[Path, FieldValues] = dict(decoded.fields)
    found = dict(errors)
    paths = tuple(written)
    inside = [path for path in decoded.fields if any(_overlap(path, other) for other in paths)]
    for path in dict.fromkeys((*paths, *inside)):
        fields[path], unreadable = python_values(
            [None if document is None else find(document, path) for document in documents], path
        )
        found = {**unreadable, **found}
    records = decoded.records.with_values(pa.array(payloads, pa.binary()))
    return replace(decoded, records=records, fields=fields).reject(found)


def _overlap(path: Path, other: Path) -> bool:
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def python_values(
    raws: Sequence[msgspec.Raw | None], path: Path
) -> tuple[list[object], dict[int, str]]:
    """Return JSON values as Python's, None where there is none, and errors by row."""
    try:
        joined = b"[" + b",".join([raw or NULL for raw in raws]) + b"]"
        values: list[object] = msgspec.json.decode(joined)
    except msgspec.DecodeError:
        values, errors = [], dict[int, str]()
        for row, raw in enumerate(raws):
            try:
                values.append(None if raw is None else msgspec.json.decode(raw))
            except msgspec.DecodeError as error:
                values.append(None)
                errors[row] = f"{'.'.join(path)}: {error}"
        return values, errors
    return values, {}


def inner(raw: msgspec.Raw | None) -> Document | None:
    """Return the object that a JSON value is; None if it is none."""
    if raw is None or memoryview(raw)[0] != _BRACE:
        return None
    return _OBJECT.decode(raw)


def find(document: Document, path: Path) -> msgspec.Raw | None:
    """Return the value at a path; None if it is absent."""
    level: Document | None = document
    for part in path[:-1]:
        level = inner(level.get(part)) if level else None
    return level.get(path[-1]) if level else None


def put(document: Document, path: Path, value: msgspec.Raw) -> bool:
    """Set the value at a path, with the objects above it; False if one of these is another value.

    A null above it becomes an object.
    """
    first, *rest = path
    if not rest:
        document[first] = value
        return True
    raw = document.get(first, NULL)
    below: Document | None = {} if bytes(raw) == b"null" else inner(raw)
    if below is None or not put(below, tuple(rest), value):
        return False
    document[first] = raw_of(below)
    return True


def remove(document: Document, path: Path) -> msgspec.Raw | None:
    """Take the value at a path out of the document, and return it; None if it is absent."""
    first, *rest = path
    if not rest:
        return document.pop(first, None)
    below = inner(document.get(first))
    taken = remove(below, tuple(rest)) if below else None
    if taken is not None and below is not None:
        document[first] = raw_of(below)
    return taken


def raw_of(value: object) -> msgspec.Raw:
    """Return a value as JSON."""
    return msgspec.Raw(_ENCODER.encode(value))
