"""Which output partition a record belongs to, worked out anew: from the pattern as ``docs/decoding.md`` describes it.

One record at a time, by ``json``, ``datetime``, ``zoneinfo`` and ``fractions``; the writer does the
same in columns, with other libraries. ``tests/properties/test_auditor_laws.py`` holds the two
against each other.

Not worked out (``RouteNotSupported``): anything after transforms, and fields of payloads that are
not JSON. A record of which this cannot tell has no place: the writer should have made it a dead
letter.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import TypeAlias
from zoneinfo import ZoneInfo

from landfall.api.spec import GroupSpec, MissingTimestamp, Timestamp, TimeUnit

Piece: TypeAlias = Callable[[str, datetime, Mapping[tuple[str, ...], str]], str]
"""Topic, wall time and texts of fields in, a part of the path out."""
Payload: TypeAlias = bytes | None

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = {
    TimeUnit.SECONDS: 1,
    TimeUnit.MILLISECONDS: 10**3,
    TimeUnit.MICROSECONDS: 10**6,
    TimeUnit.NANOSECONDS: 10**9,
}
_SHORT = {"date": "%Y-%m-%d", "hour": "%H", "minute": "%M"}
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_LONGEST_DIRECTORY, _LONGEST_PATH = 240, 512


class RouteNotSupported(Exception):  # noqa: N818  # says what is the case
    """This group's output partitions are beyond this module."""


class _Nowhere(Exception):  # noqa: N818  # stays in this module
    """This record has no output partition."""


@dataclass(frozen=True)
class RouteEvaluator:
    """Tells the output partition of each record of a group."""

    pieces: tuple[Piece, ...]
    fields: tuple[tuple[str, ...], ...]
    timed: bool
    timestamp: Timestamp | None
    zone: ZoneInfo

    @classmethod
    def of(cls, spec: GroupSpec) -> "RouteEvaluator":
        """Read the pattern.

        Raises:
            Cannot: the group does something that this module does not do again.
        """
        pieces, fields, timed = _parsed(spec.route.pattern)
        reads_payloads = bool(fields) or (timed and spec.decode.timestamp is not None)
        if spec.transforms:
            raise RouteNotSupported("transforms")
        if reads_payloads and spec.decode.format != "Json":
            raise RouteNotSupported(f"fields of {spec.decode.format} payloads")
        return cls(pieces, fields, timed, spec.decode.timestamp, ZoneInfo(spec.route.timezone))

    def of_record(self, topic: str, value: Payload, kafka_millis: int) -> str | None:
        """The output partition of a record, or None: it has none."""
        try:
            document = _document(value) if self.fields or (self.timed and self.timestamp) else {}
            moment = self._moment(document, kafka_millis) if self.timed else _EPOCH
            path = self._rendered(
                topic, moment, {field: _text(_found(document, field)) for field in self.fields}
            )
        except (_Nowhere, ValueError, OverflowError, RecursionError):
            return None
        return path if _fits(path) else None

    def _rendered(self, topic: str, moment: datetime, texts: Mapping[tuple[str, ...], str]) -> str:
        return "".join(piece(topic, moment, texts) for piece in self.pieces)

    def _moment(self, document: Mapping[str, object], kafka_millis: int) -> datetime:
        if self.timestamp is None:
            return _local(self.zone, _kafka_seconds(kafka_millis))
        value = _found(document, self.timestamp.path)
        if value is not None:
            return _local(self.zone, _seconds(value, self.timestamp))
        match self.timestamp.missing:
            case MissingTimestamp.EPOCH:
                return _local(self.zone, 0)
            case MissingTimestamp.KAFKA_TIMESTAMP:
                return _local(self.zone, _kafka_seconds(kafka_millis))
            case MissingTimestamp.DEAD_LETTER:
                raise _Nowhere


def _document(value: Payload) -> Mapping[str, object]:
    """The payload's object; a tombstone has no field."""
    if value is None:
        return {}
    found = json.loads(value.decode())
    if not isinstance(found, dict):
        raise _Nowhere
    return found


def _found(document: object, path: tuple[str, ...]) -> object:
    for name in path:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def _text(value: object) -> str:
    if value is None or value == "":
        return "__HIVE_DEFAULT_PARTITION__"
    if isinstance(value, dict | list):
        raise _Nowhere
    return _safe(str(value).lower() if isinstance(value, bool) else str(value))


@lru_cache(1 << 14)
def _safe(text: str) -> str:
    """As Hive escapes: letters, digits, ``_ - .`` and printable characters beyond ASCII stay, unless all are dots."""
    dots = set(text) == {"."}

    def one(char: str) -> str:
        stays = (
            (char.isalnum() or char in "_-" or (char == "." and not dots))
            if char.isascii()
            else char.isprintable()
        )
        return (
            char
            if stays
            else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        )

    return "".join(map(one, text))


def _fits(path: str) -> bool:
    sizes = [len(directory.encode()) for directory in path.split("/")]
    return max(sizes) <= _LONGEST_DIRECTORY and sum(sizes) + len(sizes) - 1 <= _LONGEST_PATH


# --------------------------------------------------------------------------------------------- time


def _kafka_seconds(millis: int) -> int:
    if millis < 0:
        raise _Nowhere
    return millis // 1000


@lru_cache(1 << 16)
def _local(zone: ZoneInfo, seconds: int) -> datetime:
    """Wall time; OverflowError outside the calendar."""
    return (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)


def _seconds(value: object, timestamp: Timestamp) -> int:
    """Whole seconds since 1970 of what a field holds: no label tells less than a second."""
    unit = timestamp.unit
    if isinstance(value, str):
        return _seconds_of_text(value, timestamp)
    if isinstance(value, bool) or not isinstance(value, int | float) or unit is TimeUnit.ISO8601:
        raise _Nowhere
    if unit is TimeUnit.CUSTOM:
        if isinstance(value, float):
            raise _Nowhere
        return _seconds_of_text(str(value), timestamp)
    return _scaled(Fraction(value), unit)  # ValueError and OverflowError for what is no number


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


def _seconds_of_text(text: str, timestamp: Timestamp) -> int:
    if timestamp.unit is TimeUnit.CUSTOM:
        assert timestamp.format is not None, "spec: Custom has a format"
        found = datetime.strptime(text, timestamp.format)  # noqa: DTZ007  # the zone comes next
    elif timestamp.unit is not TimeUnit.ISO8601 and _DECIMAL.fullmatch(text):
        return _scaled(Fraction(Decimal(text)), timestamp.unit)
    else:
        found = datetime.fromisoformat(text)
    aware = found if found.tzinfo else found.replace(tzinfo=ZoneInfo(timestamp.timezone))
    return (aware - _EPOCH) // timedelta(seconds=1)


# ------------------------------------------------------------------------------------------ pattern


def _parsed(pattern: str) -> tuple[tuple[Piece, ...], tuple[tuple[str, ...], ...], bool]:
    """The pieces, the fields they read, and whether any tells the time."""
    pieces: list[Piece] = []
    fields: list[tuple[str, ...]] = []
    timed = False
    for braced, directive, literal in re.findall(r"\{([^}]*)\}|(%.)|([^{%]+)", pattern, re.DOTALL):
        if braced == "topic":
            pieces.append(lambda topic, _, __: topic)
        elif braced.startswith("field:"):
            fields.append(tuple(braced.removeprefix("field:").split(".")))
            pieces.append(partial(_field, fields[-1]))
        elif literal:
            pieces.append(partial(_literal, literal))
        else:
            layout = directive or _SHORT.get(braced) or braced.removeprefix("time:")
            timed = timed or "%" in layout
            pieces.append(partial(_labelled, layout))
    return tuple(pieces), tuple(fields), timed


def _field(
    path: tuple[str, ...], _: str, __: datetime, texts: Mapping[tuple[str, ...], str]
) -> str:
    return texts[path]


def _literal(text: str, *_: object) -> str:
    return text


def _labelled(layout: str, _: str, moment: datetime, __: object) -> str:
    return _label(layout, moment.replace(tzinfo=None))


@lru_cache(1 << 14)
def _label(layout: str, wall: datetime) -> str:
    # the C library does not pad years before 1000
    padded = layout.replace("%F", "%Y-%m-%d").replace("%Y", f"{wall.year:04}")
    return wall.strftime(padded.replace("%G", f"{wall.isocalendar().year:04}"))
