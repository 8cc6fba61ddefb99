"""Computes the output partition of a record, as the guide on decoding and routing describes it.

It works on one record at a time, with ``json``, ``datetime``, ``zoneinfo`` and ``times``. The
writer computes the same in columns, with other libraries; ``tests/properties/test_auditor_laws.py``
compares the two.

Not supported (``RouteNotSupported``) are groups with transforms, and routes that use fields of
payloads that are not JSON, unless they are opened envelopes. A record whose output partition cannot
be computed has none: the writer should have made it a dead letter.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import TypeAlias
from zoneinfo import ZoneInfo

from landfall_audit import times
from landfall_audit.half_pairs import without_halves
from landfall_audit.payloads import (
    AuditLeftOut,
    BadPayload,
    JsonNumber,
    SourceRecord,
    Undecided,
)
from landfall_audit.spec import AuditedSpec, MissingTimestampPolicy, TimestampSection, TimeUnitName

Source: TypeAlias = tuple[str, int]
"""Topic and Kafka partition of a record."""
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""The headers of a record, in order."""
Part: TypeAlias = Callable[[Source, datetime, Mapping[tuple[str, ...], str]], str]
"""Maps the source, wall time and the texts of fields to one part of the path."""
OpenedRow: TypeAlias = Callable[[SourceRecord], Mapping[str, object]]
"""Makes the row of a record in an envelope. Raises BadPayload, AuditLeftOut and Undecided."""

_HEADER = "\0header"
"""Replaces the payload's path for a header; no field of a pattern has this name."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_SHORT = {"date": "%Y-%m-%d", "hour": "%H", "minute": "%M"}
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
        opened: makes the row of a record whose payload is an envelope; None if payloads are rows.
    """

    parts: tuple[Part, ...]
    fields: tuple[tuple[str, ...], ...]
    timed: bool
    timestamp: TimestampSection | None
    zone: ZoneInfo
    headers: tuple[str, ...] = ()
    opened: OpenedRow | None = None

    @classmethod
    def of(cls, spec: AuditedSpec, opened: OpenedRow | None = None) -> "RouteEvaluator":
        """Parse the pattern of a group.

        Args:
            spec: of the group.
            opened: makes the rows of a group with envelopes; None if that is not supported.

        Raises:
            RouteNotSupported: the group has transforms, or its route uses payloads other than JSON
                or opened envelopes, schemas, keys, or headers as times.
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
        if not spec.decode.envelope:
            opened = None
        elif reads_payloads and opened is None:
            raise RouteNotSupported(f"fields of envelopes of {spec.decode.envelope}")
        if reads_payloads and opened is None and spec.decode.format != "Json":
            raise RouteNotSupported(f"fields of {spec.decode.format} payloads")
        zone = ZoneInfo(spec.route.timezone)
        return cls(parts, fields, timed, spec.decode.timestamp, zone, headers, opened)

    def output_partition(self, source: Source, record: SourceRecord, millis: int) -> str | None:
        """The output partition of a record; None if no row of it is landed.

        If the group has a ``topicPath``, the destination comes before it, with ``//`` between them.

        Args:
            source: of the record.
            record: its payload, key and headers.
            millis: its Kafka timestamp in milliseconds; -1 for none.
        """
        try:
            document = self._document(record)
            moment = self._moment(document, millis) if self.timed else _EPOCH
            texts = {field: _text(_found(document, field)) for field in self.fields}
            texts |= {
                (_HEADER, name): _text_of_header(record.headers, name) for name in self.headers
            }
            path = self._rendered(source, moment, texts)
        except (_NoOutputPartition, ValueError, OverflowError, RecursionError):
            return None
        except (AuditLeftOut, BadPayload, Undecided):
            return None
        return path if _fits(path) else None

    def _document(self, record: SourceRecord) -> Mapping[str, object]:
        """The fields of a record, if any is needed."""
        if not self.fields and not (self.timed and self.timestamp):
            return {}
        if self.opened is None:
            return _document(record.value)
        return {name: _plain(value) for name, value in self.opened(record).items()}

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
            case MissingTimestampPolicy.EPOCH:
                return _local(self.zone, 0)
            case MissingTimestampPolicy.KAFKA_TIMESTAMP:
                return _local(self.zone, _kafka_seconds(kafka_millis))
            case MissingTimestampPolicy.DEAD_LETTER:
                raise _NoOutputPartition


def _plain(value: object) -> object:
    """A value as Python's ``json`` reads it."""
    if isinstance(value, JsonNumber):
        return json.loads(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _document(value: bytes | None) -> Mapping[str, object]:
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


def _seconds(value: object, timestamp: TimestampSection, kafka_millis: int) -> int:
    """The time that a field holds, in whole seconds since 1970: no directive shows fractions."""
    fmt = timestamp.format
    text = value if isinstance(value, str) else str(value)
    is_custom = timestamp.unit is TimeUnitName.CUSTOM and not isinstance(value, bool | float)
    if is_custom and fmt and not re.search("%[YyGcx]", fmt.replace("%%", "")):
        return _nearest_of_year(text, timestamp, kafka_millis)
    return times.micros(value, timestamp.unit, fmt, timestamp.timezone) // 10**6


def _nearest_of_year(text: str, timestamp: TimestampSection, kafka_millis: int) -> int:
    """The time in the year that brings it nearest to the Kafka timestamp."""
    if kafka_millis < 0:
        raise _NoOutputPartition
    kafka = timedelta(milliseconds=kafka_millis)
    found = []
    for year in ((_EPOCH + kafka).year + step for step in (-1, 0, 1)):
        with suppress(ValueError):  # 29 February
            date = datetime.strptime(f"{year:04} {text}", f"%Y {timestamp.format}")  # noqa: DTZ007  # the zone comes next
            found.append(times.since_epoch(date, timestamp.timezone))
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
