"""One text in ISO 8601, and the instant of a moment. Pure.

``datetime.fromisoformat`` reads nearly all forms. Read besides are the forms of XML Schema, which
Secor reads: a date with a time zone (``2001-07-04Z``), the end of a day (``24:00``), and small
``t`` and ``z``; the leap second of UTC, which is the first second of the next day; the day of a
year (``2001-185``); and what programs write after a time: `` UTC`` and `` GMT`` (databases), and
the name of a zone after an offset, which counts (``Z[UTC]``, Java, RFC 9557).
"""

import re
from datetime import date, datetime, timedelta

from landfall.pipeline.timezones import EPOCH, Zone

_MICRO = timedelta(microseconds=1)
_DATE_IN_ZONE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(Z|[+-][0-9]{2}:[0-9]{2})")
_END_OF_DAY = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ])24:00((?::00(?:[.,]0+)?)?)(Z|[+-][0-9].*)?"
)
_LEAP_SECOND = re.compile(r"([^T ]+[T ][0-9]{2}(?::[0-9]{2}:|[0-9]{2}))60(.*)")
_DAY_OF_YEAR = re.compile(r"([0-9]{4})-([0-9]{3})((?:[T Z+-].*)?)")
_NAMED_ZONE = re.compile(r"(.*[0-9]) ?(?:UTC|GMT)|(.*(?:Z|[+-][0-9:]+))\[[A-Z][A-Z0-9_/+-]*\]")


def _days(years: str, leap_years: str) -> str:
    return (
        rf"(?:(?:{years})-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
        r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
        rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:{leap_years})-02-29)"
    )


_LEAP = "(?:0[48]|[2468][048]|[13579][26])"
DAY = _days(
    # Regular expressions of Arrow have no lookahead: the year 0000 is left out digit by digit.
    "000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3}",
    f"[0-9]{{2}}{_LEAP}|{_LEAP}00",
)
"""Matches a day of the years 0001 to 9999 that exists, such as ``2026-11-21``."""
DAY_IN_NANOSECONDS = _days("(?:1[7-9]|2[01])[0-9]{2}", f"(?:1[7-9]|2[01]){_LEAP}|2000")
"""Matches a day of the years 1700 to 2199, whose nanoseconds int64 holds."""


def parse_iso8601(text: str) -> datetime:
    """The moment that a text names, without a time zone if it names none.

    Raises:
        ValueError: the text is not in ISO 8601.
        OverflowError: the text is the end of the last day of the year 9999.
    """
    upper = text.upper() if text.isascii() else text
    if match := _NAMED_ZONE.fullmatch(upper):
        upper = match[2] or f"{match[1]}Z"
    if match := _DAY_OF_YEAR.fullmatch(upper):
        upper = f"{_day_of_year(int(match[1]), int(match[2]))}{match[3]}"
    if match := _DATE_IN_ZONE.fullmatch(upper):
        return datetime.fromisoformat(f"{match[1]}T00:00{match[2]}")
    if match := _END_OF_DAY.fullmatch(upper):
        begin = datetime.fromisoformat(f"{match[1]}00:00{match[2]}{match[3] or ''}")
        return begin + timedelta(days=1)
    if match := _LEAP_SECOND.fullmatch(upper):
        return _after_leap_second(datetime.fromisoformat(f"{match[1]}59{match[2]}"))
    return datetime.fromisoformat(upper)


def _day_of_year(year: int, number: int) -> date:
    day = date(year, 1, 1) + timedelta(days=number - 1)
    if day.year != year:
        raise ValueError("no day of this year")
    return day


def _after_leap_second(before: datetime) -> datetime:
    """The moment a second later; ValueError unless that begins a day in UTC."""
    after = before + timedelta(seconds=1)
    shift = after.utcoffset() or timedelta()
    in_utc = after.replace(tzinfo=None) - shift
    if (in_utc.hour, in_utc.minute, in_utc.second) != (0, 0, 0):
        raise ValueError("no leap second")
    return after


def instant(moment: datetime, zone: Zone) -> int:
    """Microseconds since 1970 UTC; a moment without a zone is wall time of ``zone``."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=zone.info)
    shift = aware.utcoffset()
    assert shift is not None, "an aware datetime has an offset"
    # Not converted to UTC with astimezone(), which raises at both ends of the calendar.
    return (moment.replace(tzinfo=None) - EPOCH - shift) // _MICRO
