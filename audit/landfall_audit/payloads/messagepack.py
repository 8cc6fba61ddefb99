"""MessagePack payloads, read by ``msgpack``."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgpack

from landfall_audit.payloads import BadPayload, Instant, JsonNumber, Undecided, common_values


def document(payload: bytes) -> Mapping[object, object]:
    """The map that a payload is; keys may be of any type.

    Raises:
        BadPayload: it is no map, or more than one value.
        Undecided: it holds what is not compared.
    """
    try:
        found = msgpack.unpackb(
            payload, raw=False, strict_map_key=False, timestamp=0, unicode_errors="surrogateescape"
        )
    except (RecursionError, msgpack.exceptions.StackError):
        raise Undecided("MessagePack that is nested too deep") from None
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise BadPayload(f"messagepack: {error}") from None
    if not isinstance(found, dict):
        raise BadPayload("messagepack: no map")
    return {_checked_key(key): _value(value) for key, value in found.items()}


def _value(value: Any) -> object:
    match value:
        case msgpack.Timestamp():
            return Instant((value.seconds * 10**9 + value.nanoseconds) // 1000)
        case msgpack.ExtType():
            raise Undecided("an extension type of MessagePack")
        case str():
            return _text(value)
        case dict():
            return {_checked_key(key): _value(inner) for key, inner in value.items()}
        case Sequence() if not isinstance(value, bytes):
            return [_value(inner) for inner in value]
    return value


def _checked_key(key: object) -> object:
    return _text(key) if isinstance(key, str) else key


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Where no column reads it, it is not checked; where one does, it is a dead letter.
        raise Undecided("text of MessagePack that is not UTF-8") from None
    return text


def common_json_value(value: object) -> object:
    """The value as it is written as JSON with ``values: Common``."""
    match value:
        case bytes():
            return common_values.of_bytes(value)
        case Instant():
            return common_values.instant(value.micros)
        case float():
            return common_values.of_float(value)
        case Mapping():
            return {_json_key(key): common_json_value(inner) for key, inner in value.items()}
        case list():
            return [common_json_value(inner) for inner in value]
    return json_value(value)


def json_value(value: object) -> object:
    """The value as it is written as JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Instant):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value.micros)
        return moment.isoformat().replace("+00:00", "Z")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    if isinstance(value, Mapping):
        return {_json_key(key): json_value(inner) for key, inner in value.items()}
    return [json_value(inner) for inner in value] if isinstance(value, list) else value


def _number(value: float) -> JsonNumber:
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124  # not a number
        raise BadPayload(f"JSON has no number {value}")
    return JsonNumber(repr(value))


def _json_key(key: object) -> str:
    if isinstance(key, str):
        return key
    if type(key) is int:
        return str(key)
    raise Undecided("keys of MessagePack that are neither text nor integers")
