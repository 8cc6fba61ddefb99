"""Date patterns of Java in the directives of ``strptime`` and ``strftime``. Pure.

Sources: java.text.SimpleDateFormat (Secor), org.joda.time.format.DateTimeFormat (Connect), and the
Python documentation, "strftime() and strptime() Format Codes".
"""

import re
from collections.abc import Mapping

from landfall.api.route_pattern import DIRECTIVES

_BOTH: Mapping[str, str] = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "MMM": "%b",
    "dd": "%d",
    "DDD": "%j",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}
_LENIENT: Mapping[str, str] = {
    "y": "%Y",
    "M": "%m",
    "MMMM": "%B",
    "d": "%d",
    "H": "%H",
    "h": "%I",
    "hh": "%I",
    "m": "%M",
    "s": "%S",
    "S": "%f",
    "SS": "%f",
    "SSS": "%f",
    "a": "%p",
    "Z": "%z",
    "X": "%z",
    "XX": "%z",
    "XXX": "%z",
}
"""Letters that strptime reads, though strftime would write them otherwise."""
_DAYS = {"E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A"}

TO_READ: Mapping[str, str] = {**_BOTH, **_LENIENT, **_DAYS}
"""Of SimpleDateFormat, to read a time."""
TO_WRITE: Mapping[str, str] = _BOTH
"""Of SimpleDateFormat, to write a folder's name."""
JODA: Mapping[str, str] = {**_BOTH, "YYYY": "%Y", "YY": "%y", "xxxx": "%G", "ww": "%V", "e": "%u"}
"""Of Joda-Time, to write a folder's name. Its ``Y`` is the year of the era, ``x`` the week's."""
_HINTS = {"Y": "the year of the week: yyyy is the year", "k": "1 to 24", "K": "0 to 11"}

_TOKEN = re.compile(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)|'")


def directives(pattern: str, letters: Mapping[str, str]) -> str:
    """The pattern in directives.

    Args:
        pattern: of Java; quotes enclose text, a doubled quote is one.
        letters: the directive of each word of letters.

    Raises:
        ValueError: a word has no directive, or a quote is not closed.
    """
    return "".join(
        _directive(match, letters, folder=letters is not TO_READ)
        for match in _TOKEN.finditer(pattern)
    )


def _directive(match: re.Match[str], letters: Mapping[str, str], *, folder: bool) -> str:
    if match[2]:
        found = letters.get(match[0])
        if found is None or (folder and found not in DIRECTIVES):
            hint = _HINTS.get(match[2], "")
            raise ValueError(f"{match[0]} has no counterpart" + (f" ({hint})" if hint else ""))
        return found
    if match[0] == "'":
        raise ValueError("a quote is not closed")
    text = "'" if match[0] == "''" else (match[3] or (match[1] or "").replace("''", "'"))
    if folder and re.search("[{}%]", text):
        raise ValueError(f"{text!r} cannot stand in a route")
    return text if folder else text.replace("%", "%%")
