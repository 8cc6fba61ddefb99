"""Times as payloads have them: numbers in a unit, and text, read one by one with ``datetime``.

The guide on decoding and routing defines the meaning of each text. Text without a meaning there
raises ValueError, and times outside the years 1 to 9999 raise OverflowError or ValueError.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from landfall_audit.spec import TimeUnitName

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_SECOND: Mapping[TimeUnitName, int] = {
    TimeUnitName.SECONDS: 1,
    TimeUnitName.MILLISECONDS: 10**3,
    TimeUnitName.MICROSECONDS: 10**6,
    TimeUnitName.NANOSECONDS: 10**9,
}
_AUTO = (
    (TimeUnitName.NANOSECONDS, 10**18),
    (TimeUnitName.MICROSECONDS, 10**15),
    (TimeUnitName.MILLISECONDS, 10**12),
)
"""The least number of each unit, where the size of a number names the unit."""
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


def micros(value: object, unit: TimeUnitName, layout: str | None, timezone: str) -> int:
    """The microseconds since 1970 that a number or a text means, rounded down.

    Args:
        value: a Python number, or text.
        unit: of numbers; what text must be.
        layout: a strptime format, with unit Custom.
        timezone: of text without one.

    Raises:
        ValueError, OverflowError: it is no time, or no ``datetime`` can hold it.
    """
    if isinstance(value, str):
        return _of_text(value, unit, layout, timezone)
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise ValueError(f"no time: {value!r}")  # noqa: TRY004  # so is text that is none
    if unit is TimeUnitName.CUSTOM and isinstance(value, int):
        return _of_text(str(value), unit, layout, timezone)
    if unit in {TimeUnitName.ISO8601, TimeUnitName.CUSTOM}:
        raise ValueError(f"a number, and unit {unit}")
    return of_number(Fraction(value), unit)  # ValueError or OverflowError for NaN and infinity


def of_number(number: Fraction, unit: TimeUnitName) -> int:
    """The microseconds of a number in a unit, rounded down."""
    return math.floor(number * 10**6 / _PER_SECOND[unit_of(number, unit)])


def unit_of(number: Fraction, unit: TimeUnitName) -> TimeUnitName:
    """The unit itself, or the one that the size of the number names."""
    if unit is not TimeUnitName.AUTO:
        return unit
    whole = math.floor(number)
    return next((larger for larger, least in _AUTO if whole >= least), TimeUnitName.SECONDS)


def since_epoch(found: datetime, timezone: str) -> timedelta:
    """The time since 1970 UTC of a moment, which is in this zone if it names none."""
    return (found if found.tzinfo else found.replace(tzinfo=ZoneInfo(timezone))) - _EPOCH


def _of_text(text: str, unit: TimeUnitName, layout: str | None, timezone: str) -> int:
    if unit is TimeUnitName.CUSTOM:
        assert layout is not None, "the spec refuses Custom without a format"
        found = datetime.strptime(text, layout)  # noqa: DTZ007  # the zone comes next
    elif unit is not TimeUnitName.ISO8601 and _NUMBER.fullmatch(text):
        return of_number(Fraction(Decimal(text)), unit)
    else:
        found = _of_iso(text)
    return since_epoch(found, timezone) // _MICROSECOND


def _of_iso(text: str) -> datetime:
    """ISO 8601, and the forms besides that the guide names; small letters count as capitals."""
    text = _without_zone_name(text.upper() if text.isascii() else text)
    text = _with_month(text)
    if len(text) == 11 and text[10] == "Z" and text[7] == "-":
        return datetime.fromisoformat(text[:10]).replace(tzinfo=UTC)
    if len(text) == 16 and text[10] in "+-" and text[4] == text[7] == "-" and text[13] == ":":
        return datetime.fromisoformat(f"{text[:10]} 00:00{text[10:]}")
    if text[4:5] == text[7:8] == "-" and text[10:11] in {"T", " "} and text[11:16] == "24:00":
        begin = datetime.fromisoformat(f"{text[:11]}00{text[13:]}")
        if begin.time() == time.min:
            return begin + timedelta(days=1)
    clock = text.replace(" ", "T").find("T") + 1
    second = clock + (6 if text[clock + 2 : clock + 3] == ":" else 4)
    is_timed = text[clock:second].replace(":", "").isdecimal()
    if clock and is_timed and text[second : second + 2] == "60":
        return _after(datetime.fromisoformat(f"{text[:second]}59{text[second + 2 :]}"))
    return datetime.fromisoformat(text)


def _with_month(text: str) -> str:
    """The text with month and day, if it has the number of a day in its year."""
    numbered = re.fullmatch("([0-9]{4})-([0-9]{3})([T Z+-].*)?", text)
    if numbered is None:
        return text
    first, number = date(int(numbered[1]), 1, 1), int(numbered[2])
    if not 1 <= number <= (date(first.year, 12, 31) - first).days + 1:
        raise ValueError(text)
    return f"{first + timedelta(days=number - 1)}{text[8:]}"


def _after(before: datetime) -> datetime:
    """The moment after a leap second, which only the last minute of a day in UTC has."""
    in_utc = before.replace(tzinfo=None) - (before.utcoffset() or timedelta())
    if (in_utc.hour, in_utc.minute) != (23, 59):
        raise ValueError(f"no leap second: {before}")
    return before + timedelta(seconds=1)


def _without_zone_name(text: str) -> str:
    """The text without the name of a zone: after an offset it adds nothing."""
    if text.endswith(("UTC", "GMT")) and text[-4:-3].isascii():
        before = text[:-3].removesuffix(" ")
        return f"{before}Z" if before[-1:].isdecimal() else text
    before, bracket, name = text.removesuffix("]").partition("[")
    plain = name.replace("/", "").replace("_", "").replace("-", "").replace("+", "")
    if text.endswith("]") and bracket and name[:1].isalpha() and plain.isalnum():
        offset = re.search(r"(Z|[+-][0-9:]+)$", before)
        return before if offset else text
    return text
