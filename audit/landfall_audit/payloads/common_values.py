"""Values that are the same from all decoders: ``decode.values: Common``, as JSON.

The rules are on the page "Values" of the documentation (docs/decoders/values.md).
"""

import base64
import math
from datetime import date, datetime, timedelta

from landfall_audit.payloads import BadPayload, JsonNumber

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # a wall time; a UTC time gets its Z at the end


def instant(micros: int) -> str:
    """The text of an instant: microseconds since 1970 UTC.

    Raises:
        BadPayload: it is outside of the years 1 to 9999. So with the other times.
    """
    return f"{wall_time(micros)}Z"


def wall_time(micros: int) -> str:
    """The text of a time without a zone."""
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")
    except OverflowError:
        raise BadPayload("a time outside of the years 1 to 9999") from None


def day(days: int) -> str:
    """The text of a date: days since 1970."""
    try:
        return date.fromordinal(_EPOCH.toordinal() + days).isoformat()
    except (ValueError, OverflowError):
        raise BadPayload("a time outside of the years 1 to 9999") from None


def time_of_day(micros: int) -> str:
    """The text of microseconds since midnight."""
    return wall_time(micros).partition("T")[2]


def of_bytes(value: bytes) -> str:
    """The text of bytes."""
    return base64.b64encode(value).decode()


def of_float(value: float) -> object:
    """A number, or the text of one that JSON does not have."""
    if math.isfinite(value):
        return JsonNumber(repr(value))
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
