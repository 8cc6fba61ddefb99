"""Computes the output partition of a record, as the guide on decoding and routing describes it.

It works on one record at a time, with ``json``, ``datetime``, ``zoneinfo`` and ``fractions``. The
writer computes the same in columns, with other libraries; ``tests/properties/test_auditor_laws.py``
compares the two.

Not supported (``RouteNotSupported``) are groups with transforms, and routes that use fields of
payloads that are not JSON. A record whose output partition cannot be computed has none: the writer
should have made it a dead letter.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import TypeAlias
from zoneinfo import ZoneInfo

from landfall.api.spec import GroupSpec, MissingTimestamp, Timestamp, TimeUnit
from landfall.audit.half_pairs import without_halves

Source: TypeAlias = tuple[str, int]
"""Topic and Kafka partition of a record."""
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""The headers of a record, in order."""
Part: TypeAlias = Callable[[Source, datetime, Mapping[tuple[str, ...], str]], str]
"""Maps the source, wall time and the texts of fields to one part of the path."""
Payload: TypeAlias = bytes | None

_HEADER = "\0header"
"""Stands for the payload's path in the place of a header; no field of a pattern has this name."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = {
    TimeUnit.SECONDS: 1,
    TimeUnit.MILLISECONDS: 10**3,
    TimeUnit.MICROSECONDS: 10**6,
    TimeUnit.NANOSECONDS: 10**9,
}
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_SHORT = {"date": "%Y-%m-%d", "hour": "%H", "minute": "%M"}
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_MAX_DIRECTORY_BYTES, _MAX_PATH_BYTES = 240, 512


class RouteNotSupported(Exception):  # noqa: N818  # states a fact, like StopIteration
    """This module cannot compute the output partitions of this group."""


class _NoOutputPartition(Exception):  # noqa: N818  # never leaves this module
    """The record has no output partition."""


@dataclass(frozen=True)
class RouteEvaluator:
    """Computes the output partition of each record of a group.

    Attributes:
        parts: of the path; joined, they are the output partition.
        fields: paths of the fields that the pattern contains.
        timed: whether the pattern contains a time.
        timestamp: where the event time is in the payload; None for the timestamp of Kafka.
        zone: of the times in the path.
        headers: names of the headers that the pattern contains.
    """

    parts: tuple[Part, ...]
    fields: tuple[tuple[str, ...], ...]
    timed: bool
    timestamp: Timestamp | None
    zone: ZoneInfo
    headers: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: GroupSpec) -> "RouteEvaluator":
        """Parse the pattern of a group.

        Raises:
            RouteNotSupported: the group has transforms, or its route uses payloads other than JSON,
                schemas, keys, or headers as times.
        """
        pattern = spec.route.pattern
        if spec.route.topic_path is not None:
            # An empty folder stands where the topic's will be.
            pattern = f"{spec.route.topic_path.removesuffix('/{topic}')}//{pattern}"
        if "{schema:" in pattern:
            raise RouteNotSupported("schemas")
        source = spec.decode.timestamp.source if spec.decode.timestamp else "Value"
        if "{key" in pattern or source != "Value":
            raise RouteNotSupported("keys, or headers as times")
        parts, fields, timed = _parsed(pattern)
        headers = tuple(
            name for kind, name in (f for f in fields if len(f) == 2) if kind == _HEADER
        )
        fields = tuple(field for field in fields if field[0] != _HEADER)
        reads_payloads = bool(fields) or (timed and spec.decode.timestamp is not None)
        if spec.transforms:
            raise RouteNotSupported("transforms")
        if reads_payloads and spec.decode.format != "Json":
            raise RouteNotSupported(f"fields of {spec.decode.format} payloads")
        zone = ZoneInfo(spec.route.timezone)
        return cls(parts, fields, timed, spec.decode.timestamp, zone, headers)

    def output_partition(
        self, source: Source, value: Payload, kafka_millis: int, headers: Headers = ()
    ) -> str | None:
        """The output partition of a record; None if the record must be a dead letter.

        If the group has a ``topicPath``, the destination comes before it, with ``//`` between them.
        """
        try:
            document = _document(value) if self.fields or (self.timed and self.timestamp) else {}
            moment = self._moment(document, kafka_millis) if self.timed else _EPOCH
            texts = {field: _text(_found(document, field)) for field in self.fields}
            texts |= {(_HEADER, name): _text_of_header(headers, name) for name in self.headers}
            path = self._rendered(source, moment, texts)
        except (_NoOutputPartition, ValueError, OverflowError, RecursionError):
            return None
        return path if _fits(path) else None

    def _rendered(
        self, source: Source, moment: datetime, texts: Mapping[tuple[str, ...], str]
    ) -> str:
        return "".join(part(source, moment, texts) for part in self.parts)

    def _moment(self, document: Mapping[str, object], kafka_millis: int) -> datetime:
        if self.timestamp is None:
            return _local(self.zone, _kafka_seconds(kafka_millis))
        value = _found(document, self.timestamp.path)
        if value is not None:
            return _local(self.zone, _seconds(value, self.timestamp, kafka_millis))
        match self.timestamp.missing:
            case MissingTimestamp.EPOCH:
                return _local(self.zone, 0)
            case MissingTimestamp.KAFKA_TIMESTAMP:
                return _local(self.zone, _kafka_seconds(kafka_millis))
            case MissingTimestamp.DEAD_LETTER:
                raise _NoOutputPartition


def _document(value: Payload) -> Mapping[str, object]:
    """The payload's JSON object; a tombstone counts as an object without fields."""
    if value is None:
        return {}
    found = json.loads(without_halves(value).decode())
    if not isinstance(found, dict):
        raise _NoOutputPartition
    return found


def _found(document: object, path: tuple[str, ...]) -> object:
    for name in path:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def _text_of_header(headers: Headers, name: str) -> str:
    """The last value of a header; UnicodeDecodeError, a ValueError, if it is no text."""
    found = [value for key, value in headers if key == name]
    return _text(found[-1].decode() if found and found[-1] is not None else None)


def _text(value: object) -> str:
    if value is None or value == "":
        return "__HIVE_DEFAULT_PARTITION__"
    if isinstance(value, dict | list):
        raise _NoOutputPartition
    return _safe(str(value).lower() if isinstance(value, bool) else str(value))


@lru_cache(1 << 14)
def _safe(text: str) -> str:
    """The text with unsafe characters escaped as Hive does, as ``%XX`` for each byte.

    Letters, digits, ``_``, ``-``, ``.`` and printable characters beyond ASCII stay, unless the text
    is only dots: then it would name this directory or its parent.
    """
    is_dots = set(text) == {"."}

    def escaped(char: str) -> str:
        stays = (
            (char.isalnum() or char in "_-" or (char == "." and not is_dots))
            if char.isascii()
            else char.isprintable()
        )
        return (
            char
            if stays
            else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        )

    return "".join(map(escaped, text))


def _fits(path: str) -> bool:
    sizes = [len(directory.encode()) for directory in path.split("/")]
    return max(sizes) <= _MAX_DIRECTORY_BYTES and sum(sizes) + len(sizes) - 1 <= _MAX_PATH_BYTES


# --------------------------------------------------------------------------------------------- time


def _kafka_seconds(millis: int) -> int:
    if millis < 0:
        raise _NoOutputPartition
    return millis // 1000


@lru_cache(1 << 16)
def _local(zone: ZoneInfo, seconds: int) -> datetime:
    """The wall time in a zone; OverflowError if it is outside the calendar."""
    return (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)


def _seconds(value: object, timestamp: Timestamp, kafka_millis: int) -> int:
    """The time that a field holds, in whole seconds since 1970: no directive shows fractions."""
    unit = timestamp.unit
    if isinstance(value, str):
        return _seconds_of_text(value, timestamp, kafka_millis)
    if isinstance(value, bool) or not isinstance(value, int | float) or unit is TimeUnit.ISO8601:
        raise _NoOutputPartition
    if unit is TimeUnit.CUSTOM:
        if isinstance(value, float):
            raise _NoOutputPartition
        return _seconds_of_text(str(value), timestamp, kafka_millis)
    return _scaled(Fraction(value), unit)  # raises ValueError or OverflowError for NaN and infinity


def _scaled(number: Fraction, unit: TimeUnit) -> int:
    if unit is TimeUnit.AUTO:
        whole = math.floor(number)
        larger = (
            (TimeUnit.NANOSECONDS, 10**18),
            (TimeUnit.MICROSECONDS, 10**15),
            (TimeUnit.MILLISECONDS, 10**12),
        )
        unit = next((unit for unit, least in larger if whole >= least), TimeUnit.SECONDS)
    return math.floor(number / _PER_SECOND[unit])


def _seconds_of_text(text: str, timestamp: Timestamp, kafka_millis: int) -> int:
    if timestamp.unit is TimeUnit.CUSTOM:
        assert timestamp.format is not None, "the spec refuses Custom without a format"
        if not re.search("%[YyGcx]", timestamp.format.replace("%%", "")):
            return _nearest_of_year(text, timestamp, kafka_millis)
        found = datetime.strptime(text, timestamp.format)  # noqa: DTZ007  # the zone comes next
    elif timestamp.unit is not TimeUnit.ISO8601 and _DECIMAL.fullmatch(text):
        return _scaled(Fraction(Decimal(text)), timestamp.unit)
    else:
        found = _of_iso(text)
    return _since_epoch(found, timestamp) // timedelta(seconds=1)


def _since_epoch(found: datetime, timestamp: Timestamp) -> timedelta:
    return (found if found.tzinfo else found.replace(tzinfo=ZoneInfo(timestamp.timezone))) - _EPOCH


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
        raise _NoOutputPartition
    return f"{first + timedelta(days=number - 1)}{text[8:]}"


def _after(before: datetime) -> datetime:
    """The moment after a leap second, which only the last minute of a day in UTC has."""
    in_utc = before.replace(tzinfo=None) - (before.utcoffset() or timedelta())
    if (in_utc.hour, in_utc.minute) != (23, 59):
        raise _NoOutputPartition
    return before + timedelta(seconds=1)


def _without_zone_name(text: str) -> str:
    """The text without the name of a zone: after an offset it says nothing more."""
    if text.endswith(("UTC", "GMT")) and text[-4:-3].isascii():
        before = text[:-3].removesuffix(" ")
        return f"{before}Z" if before[-1:].isdecimal() else text
    before, bracket, name = text.removesuffix("]").partition("[")
    plain = name.replace("/", "").replace("_", "").replace("-", "").replace("+", "")
    if text.endswith("]") and bracket and name[:1].isalpha() and plain.isalnum():
        offset = re.search(r"(Z|[+-][0-9:]+)$", before)
        return before if offset else text
    return text


def _nearest_of_year(text: str, timestamp: Timestamp, kafka_millis: int) -> int:
    """The time in the year that brings it nearest to the Kafka timestamp."""
    if kafka_millis < 0:
        raise _NoOutputPartition
    kafka = timedelta(milliseconds=kafka_millis)
    found = []
    for year in ((_EPOCH + kafka).year + step for step in (-1, 0, 1)):
        with suppress(ValueError):  # 29 February
            date = datetime.strptime(f"{year:04} {text}", f"%Y {timestamp.format}")  # noqa: DTZ007  # the zone comes next
            found.append(_since_epoch(date, timestamp))
    if not found:
        raise _NoOutputPartition
    return min(found, key=lambda since: abs(since - kafka)) // timedelta(seconds=1)


# ------------------------------------------------------------------------------------------ pattern


def _parsed(pattern: str) -> tuple[tuple[Part, ...], tuple[tuple[str, ...], ...], bool]:
    """The parts, the fields they use, and whether any of them shows a time."""
    parts: list[Part] = []
    fields: list[tuple[str, ...]] = []
    timed = False
    for braced, directive, literal in re.findall(r"\{([^}]*)\}|(%.)|([^{%]+)", pattern, re.DOTALL):
        if braced == "topic":
            parts.append(lambda source, _, __: source[0])
        elif braced == "kafka_partition":
            parts.append(lambda source, _, __: str(source[1]))
        elif braced.startswith("minute:"):
            timed = True
            parts.append(partial(_minutes, int(braced.removeprefix("minute:"))))
        elif braced.startswith("field:"):
            fields.append(tuple(braced.removeprefix("field:").split(".")))
            parts.append(partial(_field, fields[-1]))
        elif braced.startswith("header:"):
            fields.append((_HEADER, braced.removeprefix("header:")))
            parts.append(partial(_field, fields[-1]))
        elif literal:
            parts.append(partial(_literal, literal))
        else:
            layout = directive or _SHORT.get(braced) or braced.removeprefix("time:")
            timed = timed or "%" in layout
            parts.append(partial(_time, layout))
    return tuple(parts), tuple(fields), timed


def _field(
    path: tuple[str, ...], _: object, __: datetime, texts: Mapping[tuple[str, ...], str]
) -> str:
    return texts[path]


def _literal(text: str, *_: object) -> str:
    return text


def _minutes(width: int, _: object, moment: datetime, __: object) -> str:
    return f"{moment.minute - moment.minute % width:02}"


def _time(layout: str, _: object, moment: datetime, __: object) -> str:
    return _formatted(layout, moment.replace(tzinfo=None))


@lru_cache(1 << 14)
def _formatted(layout: str, wall: datetime) -> str:
    # The C library does not pad years before 1000 to four digits.
    padded = layout.replace("%F", "%Y-%m-%d").replace("%Y", f"{wall.year:04}")
    padded = padded.replace("%b", _MONTHS[3 * wall.month - 3 : 3 * wall.month])
    return wall.strftime(padded.replace("%G", f"{wall.isocalendar().year:04}"))
