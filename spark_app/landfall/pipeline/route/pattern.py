"""Route patterns: parsing ``spec.route.pattern`` and rendering output partitions. Pure.

``landfall.pipeline.route`` defines what a pattern may contain.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import gcd
from typing import TypeAlias

from landfall.api import route_pattern
from landfall.api.route_pattern import Token, TokenKind
from landfall.ledger.names.folders import DESTINATION_END, check_directories
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.pipeline.decoders.whole_records import key_path
from landfall.pipeline.event_time import Path
from landfall.pipeline.timezones import EPOCH

MAX_DIRECTORY_BYTES = 240
"""The longest name of one directory; file systems allow 255 bytes."""
MAX_PARTITION_BYTES = 512
"""The longest output partition. S3 allows keys of 1024 bytes, and this leaves room for the longest
topic, the object's name and an output root.
"""

_DAY = 86_400
_HOUR = 3_600
_MINUTE = 60

_HEADER = "header:"
_SCHEMA: Mapping[str, Path] = {"id": SCHEMA_ID, "name": SCHEMA_NAME}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_DIRECTIVES: Mapping[str, tuple[int, Callable[[datetime], str]]] = {
    "%Y": (_DAY, lambda t: f"{t.year:04}"),
    "%y": (_DAY, lambda t: f"{t.year % 100:02}"),
    "%m": (_DAY, lambda t: f"{t.month:02}"),
    "%b": (_DAY, lambda t: _MONTHS[t.month - 1]),
    "%d": (_DAY, lambda t: f"{t.day:02}"),
    "%j": (_DAY, lambda t: f"{t.timetuple().tm_yday:03}"),
    "%F": (_DAY, lambda t: f"{t.year:04}-{t.month:02}-{t.day:02}"),
    "%G": (_DAY, lambda t: f"{t.isocalendar().year:04}"),
    "%V": (_DAY, lambda t: f"{t.isocalendar().week:02}"),
    "%u": (_DAY, lambda t: f"{t.isoweekday()}"),
    "%H": (_HOUR, lambda t: f"{t.hour:02}"),
    "%M": (_MINUTE, lambda t: f"{t.minute:02}"),
    "%S": (1, lambda t: f"{t.second:02}"),
}
"""For each directive: the seconds for which its label stays the same, and how to make it."""


@dataclass(frozen=True, slots=True)
class PatternInput:
    """The values that an output partition is rendered from.

    Attributes:
        topic: the topic of the record.
        kafka_partition: its Kafka partition.
        time: the event time as wall time of the route's time zone.
        fields: the escaped values of ``Pattern.fields``.
    """

    topic: str
    kafka_partition: int
    time: datetime
    fields: tuple[str, ...]


Segment: TypeAlias = Callable[[PatternInput], str]
"""Renders a placeholder or literal text."""


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern.

    Attributes:
        segments: placeholders and literal text, in order.
        fields: the payload fields that placeholders name.
        granularity: seconds within which no time placeholder changes; 0 if there is none.
    """

    segments: tuple[Segment, ...]
    fields: tuple[Path, ...]
    granularity: int

    def render(self, values: PatternInput) -> str:
        """Return the output partition."""
        return "".join([segment(values) for segment in self.segments])


def header_of(path: Path) -> str | None:
    """The name of the header that a placeholder reads; None if it reads something else."""
    return path[1].removeprefix(_HEADER) if _is_header(path) else None


def _is_header(path: Path) -> bool:
    return len(path) == 2 and not path[0] and path[1].startswith(_HEADER)


def parse_route(pattern: str, topic_path: str | None) -> Pattern:
    """Parse ``spec.route.pattern``, after ``spec.route.topicPath`` if there is one.

    What it renders is then as ``folders.directories`` takes it.

    Raises:
        ValueError: as ``parse_pattern``.
    """
    parse_pattern(pattern)
    if topic_path is None:
        return parse_pattern(pattern)
    destination = topic_path.removesuffix(route_pattern.TOPIC_END)
    parse_pattern(destination)
    return parse_text(f"{destination}{DESTINATION_END}{pattern}")


def parse_pattern(text: str) -> Pattern:
    """Parse ``spec.route.pattern``.

    Raises:
        ValueError: a placeholder is unknown, or the result would not be directories
            below the output root.
    """
    pattern = parse_text(text)
    # Field values are escaped and checked when they are known; the pattern's own
    # text is checked here.
    sample = pattern.render(PatternInput("topic", 0, EPOCH, ("value",) * len(pattern.fields)))
    try:
        check_directories(sample, shown=text)
    except ValueError as error:
        stripped = text.strip("/")
        hint = f", did you mean {stripped!r}?" if stripped not in {"", text} else ""
        raise ValueError(f"{error}{hint}") from None
    if not fits(sample):
        raise ValueError(f"directories too long: {text!r}")
    return pattern


def parse_text(text: str) -> Pattern:
    """Parse text with the placeholders of ``spec.route.pattern``, which need make no directories.

    Raises:
        ValueError: a placeholder is unknown.
    """
    segments: list[Segment] = []
    fields: dict[Path, int] = {}
    steps: list[int] = []
    for token in route_pattern.tokens(text):
        if (path := _path(token)) is not None:
            segments.append(_field(fields.setdefault(path, len(fields))))
        else:
            step, segment = _segment(token)
            segments.append(segment)
            steps.append(step)
    return Pattern(tuple(segments), tuple(fields), gcd(*steps))


def _path(token: Token) -> Path | None:
    """Where the value of a placeholder is; None if it is no value of the record."""
    match token.kind:
        case TokenKind.FIELD:
            return tuple(token.text.split("."))
        case TokenKind.KEY:
            return key_path(token.text.split(".") if token.text else ())
        case TokenKind.SCHEMA:
            return _SCHEMA[token.text]
        case TokenKind.HEADER:
            return ("", f"{_HEADER}{token.text}")
    return None


def _literal(text: str) -> Segment:
    return lambda _: text


def _field(index: int) -> Segment:
    return lambda values: values.fields[index]


def _segment(token: Token) -> tuple[int, Segment]:
    """Return the granularity, 0 if the segment shows no time, and the segment."""
    match token.kind:
        case TokenKind.TOPIC:
            return 0, lambda values: values.topic
        case TokenKind.KAFKA_PARTITION:
            return 0, lambda values: str(values.kafka_partition)
        case TokenKind.MINUTES:
            width = int(token.text)
            return width * _MINUTE, lambda values: f"{values.time.minute // width * width:02}"
        case TokenKind.DIRECTIVE:
            step, label = _DIRECTIVES[token.text]
            return step, lambda values: label(values.time)
        case _:
            return 0, _literal(token.text)


def fits(partition: str) -> bool:
    """Return whether an output partition and each of its directories are short enough."""
    longest = max(len(directory.encode()) for directory in partition.split("/"))
    return longest <= MAX_DIRECTORY_BYTES and len(partition.encode()) <= MAX_PARTITION_BYTES
