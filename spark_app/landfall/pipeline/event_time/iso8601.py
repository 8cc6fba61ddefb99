"""One text in ISO 8601, and the instant of a moment. Pure.

``datetime.fromisoformat`` reads nearly all forms. XML Schema has three more, which Secor reads: a
date with a time zone (``2001-07-04Z``), the end of a day (``24:00``), and small ``t`` and ``z``.
"""

import re
from datetime import datetime, timedelta

from landfall.pipeline.timezones import EPOCH, Zone

_MICRO = timedelta(microseconds=1)
_DATE_IN_ZONE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(Z|[+-][0-9]{2}:[0-9]{2})")
_END_OF_DAY = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ])24:00((?::00(?:[.,]0+)?)?)(Z|[+-][0-9].*)?"
)


def parse_iso8601(text: str) -> datetime:
    """The moment that a text names, without a time zone if it names none.

    Raises:
        ValueError: the text is not in ISO 8601.
        OverflowError: the text is the end of the last day of the year 9999.
    """
    upper = text.upper() if text.isascii() else text
    if match := _DATE_IN_ZONE.fullmatch(upper):
        return datetime.fromisoformat(f"{match[1]}T00:00{match[2]}")
    if match := _END_OF_DAY.fullmatch(upper):
        begin = datetime.fromisoformat(f"{match[1]}00:00{match[2]}{match[3] or ''}")
        return begin + timedelta(days=1)
    return datetime.fromisoformat(upper)


def instant(moment: datetime, zone: Zone) -> int:
    """Microseconds since 1970 UTC; a moment without a zone is wall time of ``zone``."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=zone.info)
    shift = aware.utcoffset()
    assert shift is not None, "an aware datetime has an offset"
    # Not converted to UTC with astimezone(), which raises at both ends of the calendar.
    return (moment.replace(tzinfo=None) - EPOCH - shift) // _MICRO
