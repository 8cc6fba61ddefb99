"""Documents of MongoDB, which Debezium sends as text of JSON. Pure.

``before`` and ``after`` are texts of *extended JSON*, in which types that JSON does not have are
objects of one member, such as ``{"$numberLong": "5"}``. A row has plain values in their place, the
common ones (``landfall.pipeline.common_values``):

======================================================  ==========================================
extended JSON                                           value
======================================================  ==========================================
``$oid``, ``$symbol``, ``$uuid``, ``$numberDecimal``    the text
``$numberInt``, ``$numberLong``, ``$numberDouble``      the number
NaN, infinities                                         text
``$date``                                               ISO 8601 text with six digits after the
                                                        second
``$binary``                                             its base64
``$undefined``                                          null
======================================================  ==========================================

All other objects stay as they are. Sources: MongoDB, "Extended JSON", versions 1 and 2; Debezium
3.6, ``io.debezium.connector.mongodb.JsonSerialization``.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from landfall.pipeline.decoders.envelopes.opened import (
    DOCUMENT,
    ENCODE,
    NULL,
    TEXT,
    UNREADABLE,
    Bad,
    inside_schema,
    reason,
)
from landfall.pipeline.decoders.half_pairs import without_half_pairs

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEEP_MARK = object()
_CONSTANTS = (b"NaN", b"Infinity")


class _Description(msgspec.Struct, gc=False, rename="camel"):
    """``updateDescription``: how an update changed a document."""

    updated_fields: str | None = None
    removed_fields: msgspec.Raw = NULL
    truncated_arrays: msgspec.Raw = NULL


class _Key(msgspec.Struct, gc=False):
    """The key of a record."""

    id: str


def _as_written(number: str) -> msgspec.Raw:
    return msgspec.Raw(number.encode())


_VALUES = msgspec.json.Decoder(dict[str, Any], float_hook=_as_written)
_VALUE = msgspec.json.Decoder(Any, float_hook=_as_written)
_DESCRIPTION = msgspec.json.Decoder(_Description | None)
_KEY = msgspec.json.Decoder(_Key)


def document(name: str, text: bytes) -> bytes:
    """Return the document of a text, as JSON.

    Args:
        name: of the member that has the text, for errors.
        text: of JSON, as JSON.

    Raises:
        Bad: it is none.
    """
    inner = TEXT.decode(text).encode()
    try:
        return ENCODE(_plain(_read(inner)))
    except UNREADABLE as error:
        raise Bad(f"{name} is text, but no document: {reason(error)}") from error


def patch(description: bytes) -> bytes | None:
    """Return how an update changed a document, as JSON; None if a change does not have it.

    The object has ``updatedFields``, whose names may have dots, ``removedFields`` and
    ``truncatedArrays``.

    Raises:
        Bad: there is none to read.
        msgspec.DecodeError: it has other types.
    """
    read = _DESCRIPTION.decode(description)
    if read is None:
        return None
    made = {"removedFields": read.removed_fields, "truncatedArrays": read.truncated_arrays}
    if read.updated_fields is not None:
        updated = document("updatedFields", ENCODE(read.updated_fields))
        return ENCODE({"updatedFields": msgspec.Raw(updated), **made})
    return ENCODE(made)


def of_key(key: bytes) -> bytes:
    """Return the ``_id`` that a key has, as the object ``{"_id": …}``.

    Args:
        key: an object whose ``id`` is text of extended JSON.

    Raises:
        Bad: it has none.
    """
    try:
        found = _KEY.decode(ENCODE(inside_schema(DOCUMENT.decode(key)))).id
        return ENCODE({"_id": _plain(_VALUE.decode(without_half_pairs(found.encode())))})
    except UNREADABLE as error:
        raise Bad("no text of JSON in 'id', as the keys of documents have it") from error


def _read(text: bytes) -> dict[str, Any]:
    try:
        return _VALUES.decode(text)
    except UNREADABLE:
        mended = without_half_pairs(text)
        if any(name in mended for name in _CONSTANTS):
            return _with_constants(mended)
        if mended == text:
            raise
    return _VALUES.decode(mended)


def _with_constants(text: bytes) -> dict[str, Any]:
    """Read a document with numbers that JSON does not have, which MongoDB writes without quotes."""
    found = json.loads(text, parse_constant=str, parse_float=_as_written)
    if not isinstance(found, dict):
        raise ValueError("no object")  # noqa: TRY004  # as any other text that is no document
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    for name in value:  # the first name decides
        if name in _TYPES and len(value) <= 2:
            found = _TYPES[name](value[name])
            if found is not _KEEP_MARK:
                return found
        break
    return {name: _plain(item) for name, item in value.items()}


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else _KEEP_MARK


def _integer(value: Any) -> Any:
    is_number = isinstance(value, str) and _INTEGER.fullmatch(value)
    return _as_written(value) if is_number else _KEEP_MARK


def _double(value: Any) -> Any:
    if not isinstance(value, str):
        return _KEEP_MARK
    return _as_written(value) if _NUMBER.fullmatch(value) else value


def _date(value: Any) -> Any:
    if isinstance(value, Mapping) and value.keys() == {"$numberLong"}:
        value = value["$numberLong"]
        if not isinstance(value, str) or not _INTEGER.fullmatch(value):
            return _KEEP_MARK
        value = int(value)
    if isinstance(value, str):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        return _KEEP_MARK
    try:
        at = _EPOCH + timedelta(milliseconds=value)
    except OverflowError:
        raise Bad(f"$date {value} is outside of the years 1 to 9999") from None
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _binary(value: Any) -> Any:
    if isinstance(value, Mapping):
        value = value.get("base64")
    return _text(value)


_TYPES: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("$oid", "$symbol", "$uuid", "$numberDecimal"), _text),
    **dict.fromkeys(("$numberInt", "$numberLong"), _integer),
    "$numberDouble": _double,
    "$date": _date,
    "$binary": _binary,
    "$undefined": lambda _: None,
}
"""Reads the value of the first member of an object; ``_KEEP_MARK`` if it is another one."""
