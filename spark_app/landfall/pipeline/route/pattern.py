"""Route patterns: parsing ``spec.route.pattern`` and rendering output partitions. Pure.

``landfall.pipeline.route`` says what a pattern may contain.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from landfall.ledger.object_names import check_directories
from landfall.pipeline.event_time import Path
from landfall.pipeline.timezones import EPOCH

MAX_DIRECTORY_BYTES = 240
"""The longest name of one directory; file systems allow 255 bytes."""
MAX_PARTITION_BYTES = 512
"""The longest output partition. S3 allows keys of 1024 bytes, and this leaves room for the longest
topic, the object's name and an output root.
"""

_TOKEN = re.compile(r"\{([^{}]*)\}|(%.?)|([^{}%]+)|([{}])", re.DOTALL)
_SHORT = {"date": "%Y-%m-%d", "hour": "%H", "minute": "%M"}
_KNOWN = "{topic} {date} {hour} {minute} {time:%Y/%m/%d} {field:path} and bare %Y-%m-%d"
_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60

_DIRECTIVES: Mapping[str, tuple[int, Callable[[datetime], str]]] = {
    "%Y": (_DAY, lambda t: f"{t.year:04}"),
    "%y": (_DAY, lambda t: f"{t.year % 100:02}"),
    "%m": (_DAY, lambda t: f"{t.month:02}"),
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
    """What an output partition is rendered from.

    Attributes:
        topic: the topic of the record.
        time: the event time as wall time of the route's time zone.
        fields: the escaped values of ``Pattern.fields``.
    """

    topic: str
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


def parse_pattern(text: str) -> Pattern:
    """Parse ``spec.route.pattern``.

    Raises:
        ValueError: a placeholder is unknown, or the result would not be directories
            below the output root.
    """
    segments: list[Segment] = []
    fields: dict[Path, int] = {}
    steps: list[int] = []
    for inner, directive, literal, stray in _TOKEN.findall(text):
        if literal:
            segments.append(_literal(literal))
        elif inner == "topic":
            segments.append(lambda values: values.topic)
        elif inner.startswith("field:"):
            segments.append(_field(fields.setdefault(_path(inner), len(fields))))
        else:
            timed = _time_segments(inner, directive, stray)
            segments += (segment for _, segment in timed)
            steps += (step for step, _ in timed if step)
    pattern = Pattern(tuple(segments), tuple(fields), min(steps, default=0))
    # Field values are escaped and checked when they are known; the pattern's own
    # text is checked here.
    sample = pattern.render(PatternInput("topic", EPOCH, ("value",) * len(fields)))
    check_directories(sample)
    if not fits(sample):
        raise ValueError(f"directories too long: {text!r}")
    return pattern


def _literal(text: str) -> Segment:
    return lambda _: text


def _field(index: int) -> Segment:
    return lambda values: values.fields[index]


def _path(inner: str) -> Path:
    path = tuple(inner.removeprefix("field:").split("."))
    if not all(path):
        raise ValueError(f"invalid field path: {{{inner}}}")
    return path


def _time_segments(inner: str, directive: str, stray: str) -> list[tuple[int, Segment]]:
    """Return the segments of a strftime format, each with its granularity; literal text has 0."""
    if inner not in _SHORT and not inner.startswith("time:") and not directive:
        raise ValueError(
            f"unknown placeholder {stray or '{' + inner + '}'!r}; expected one of {_KNOWN}"
        )
    layout = directive or _SHORT.get(inner) or inner.removeprefix("time:")
    segments = []
    for part, literal in re.findall(r"(%.?)|([^%]+)", layout, re.DOTALL):
        if part and part not in _DIRECTIVES:
            raise ValueError(f"unknown directive {part!r}; expected one of {' '.join(_DIRECTIVES)}")
        segments.append(_directive(part) if part else (0, _literal(literal)))
    return segments


def _directive(part: str) -> tuple[int, Segment]:
    step, label = _DIRECTIVES[part]
    return step, lambda values: label(values.time)


def fits(partition: str) -> bool:
    """Whether an output partition and each of its directories are short enough."""
    longest = max(len(directory.encode()) for directory in partition.split("/"))
    return longest <= MAX_DIRECTORY_BYTES and len(partition.encode()) <= MAX_PARTITION_BYTES
