"""Which output partition a record goes to: a function of the record alone, never of the clock.

A pattern is text with pieces in it:

=========================  =======================================================================================
``{topic}``                the record's topic
``{date}``                 ``2026-11-21``, short for ``{time:%Y-%m-%d}``
``{hour}``                 ``04``, short for ``{time:%H}``
``{minute}``               ``59``, short for ``{time:%M}``
``{time:%Y/%m}``           the event time by strftime directives, any text between them; ``/`` makes directories
``%Y`` outside braces      the same as ``{time:%Y}``
``{field:meta.country}``   a payload field; dots part a nested path
=========================  =======================================================================================

Directives: ``%Y %y %m %d %j %H %M %S %F %G %V %u``; all give digits, none depends on a locale. A
    brace or a ``%`` that
belongs to no piece is refused. Labels come from the wall time of the route's time zone: when clocks
go back, both passes of the repeated hour share one label.

Field values are text made safe as Hive does it: ASCII other than letters, digits, ``_``, ``.`` and
``-``, whatever is not printable, and values of dots alone are percent-encoded; absent and empty
values become ``__HIVE_DEFAULT_PARTITION__``. So no value can leave or split the directory it stands
in. A row whose directories get too long, or whose field is an object or an array, is bad.

Only the distinct time buckets and field values of a batch are ever looked at one by one. Pure: no
I/O, no clock.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Route, Timestamp
from landfall.ledger.object_names import check_directories
from landfall.pipeline.event_time import EventTime, Path
from landfall.pipeline.records import BadRows, FieldValues, Int64s, Records
from landfall.pipeline.timezones import EPOCH, MAX_SECONDS, MIN_SECONDS, Zone, distinct

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
MAX_DIRECTORY_BYTES = 240
"""Of one directory's name: file systems allow 255."""
MAX_PARTITION_BYTES = 512
"""Of an output partition: with the longest topic and the object's name it leaves room for a root
within S3's 1024.
"""

_PIECE = re.compile(r"\{([^{}]*)\}|(%.?)|([^{}%]+)|([{}])", re.DOTALL)
_SHORT = {"date": "%Y-%m-%d", "hour": "%H", "minute": "%M"}
_SAFE = re.compile(r"[A-Za-z0-9_.-]+")
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
"""Per directive: the seconds within which its label stays the same, and the label of a wall time.
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """What an output partition is rendered from: a topic, a wall time, the safe texts of the fields."""

    topic: str
    time: datetime
    fields: tuple[str, ...]


Piece: TypeAlias = Callable[[Moment], str]


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern.

    Attributes:
        pieces: what to write, in order.
        fields: payload fields the pieces name.
        granularity: seconds within which no piece that tells time changes; 0 if none does.
    """

    pieces: tuple[Piece, ...]
    fields: tuple[Path, ...]
    granularity: int

    def render(self, moment: Moment) -> str:
        """The output partition."""
        return "".join([piece(moment) for piece in self.pieces])


@dataclass(frozen=True)
class Routed:
    """Where some rows go.

    Attributes:
        codes: int64, shape (rows,): index into ``partitions``; -1 for bad rows.
        partitions: distinct output partitions, each with at least one row.
        times_ms: event times, shape (rows,), milliseconds since 1970 UTC; None if the pattern tells
            no time.
        bad: rows that cannot be routed.
    """

    codes: Int64s
    partitions: tuple[str, ...]
    times_ms: Int64s | None
    bad: BadRows


@dataclass(frozen=True)
class Router:
    """Sends rows to output partitions."""

    pattern: Pattern
    event_time: EventTime
    zone: Zone

    @classmethod
    def of(cls, route: Route, timestamp: Timestamp | None) -> "Router":
        """Build the router the spec asks for.

        Raises:
            ValueError: the pattern is not one; the message names the piece.
        """
        return cls(parse_pattern(route.pattern), EventTime(timestamp), Zone(route.timezone))

    @property
    def fields(self) -> tuple[Path, ...]:
        """Payload fields the decoder must bring: of the event time, if the pattern tells time, and of the pieces."""
        timed = self.event_time.fields if self.pattern.granularity else ()
        return tuple(dict.fromkeys((*timed, *self.pattern.fields)))

    def route(self, records: Records, fields: Mapping[Path, FieldValues]) -> Routed:
        """Say for every row where it goes, or what is wrong with it."""
        times, times_ms = self._times(records, fields)
        texts = [_texts(path, fields[path]) for path in self.pattern.fields]
        errors = {
            row: error for axis in reversed(texts) for row, error in axis.errors.items()
        } | dict(times.errors)
        good = (
            np.delete(np.arange(len(records)), list(errors)) if errors else np.arange(len(records))
        )
        combined, combinations = _combined(
            [times.codes[good], *(axis.codes[good] for axis in texts)]
        )
        moments = [
            Moment(
                records.topic_partition.topic,
                times.labels[time],
                tuple(axis.labels[code] for axis, code in zip(texts, codes, strict=True)),
            )
            for time, *codes in combinations.tolist()
        ]
        numbers, partitions, too_long = _numbered(
            [self.pattern.render(moment) for moment in moments]
        )
        codes = np.full(len(records), -1, np.int64)
        codes[good] = numbers[combined]
        if too_long:
            errors |= {
                row: too_long[combined[i]]
                for i, row in enumerate(good.tolist())
                if combined[i] in too_long
            }
        bad = sorted(errors)
        return Routed(
            codes,
            partitions,
            times_ms,
            BadRows(np.array(bad, np.int64), [errors[row] for row in bad]),
        )

    def _times(
        self, records: Records, fields: Mapping[Path, FieldValues]
    ) -> tuple["_Axis[datetime]", Int64s | None]:
        step = self.pattern.granularity
        if not step:
            return _Axis(np.zeros(len(records), np.int64), (EPOCH,)), None
        times = self.event_time.read(records, fields)
        local, errors = self.zone.to_local(times.millis // 1000), dict(times.errors)
        if len(local) and (local.min() < MIN_SECONDS or local.max() > MAX_SECONDS):
            outside = np.flatnonzero((local < MIN_SECONDS) | (local > MAX_SECONDS))
            local = np.where((local < MIN_SECONDS) | (local > MAX_SECONDS), 0, local)
            said = {
                row: f"timestamp out of range in {self.zone.name}, got {times.millis[row]}"
                for row in outside.tolist()
            }
            errors = said | errors
        codes, buckets = distinct(local // step)
        labels = [EPOCH + timedelta(seconds=bucket * step) for bucket in buckets.tolist()]
        return _Axis(codes, labels, errors), times.millis


Label = TypeVar("Label")


@dataclass(frozen=True)
class _Axis(Generic[Label]):
    """One thing an output partition depends on: ``labels[codes[row]]``, or what is wrong with the row."""

    codes: Int64s
    labels: Sequence[Label]
    errors: Mapping[int, str] = field(default_factory=dict)


def _combined(columns: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
    """Return ``(codes, combinations)``: the distinct rows of the columns side by side, and which of them each row is."""
    codes, combinations = distinct(columns[0])
    combinations = combinations[:, np.newaxis]
    for column in columns[1:]:
        values = int(column.max(initial=0)) + 1
        codes, pairs = distinct(codes * values + column)
        combinations = np.column_stack([combinations[pairs // values], pairs % values])
    return codes, combinations


def _numbered(names: Sequence[str]) -> tuple[Int64s, tuple[str, ...], Mapping[int, str]]:
    """Number the distinct names; those too long get -1 and an error."""
    numbers, errors, known = np.full(len(names), -1, np.int64), {}, dict[str, int]()
    for i, name in enumerate(names):
        if _fits(name):
            numbers[i] = known.setdefault(name, len(known))
        else:
            errors[i] = f"route: output partition of {len(name.encode())} bytes: {name[:60]!r}..."
    return numbers, tuple(known), errors


def _fits(partition: str) -> bool:
    longest = max(len(directory.encode()) for directory in partition.split("/"))
    return longest <= MAX_DIRECTORY_BYTES and len(partition.encode()) <= MAX_PARTITION_BYTES


# ------------------------------------------------------------------------------------------- fields


def _texts(path: Path, values: FieldValues) -> _Axis[str]:
    """The safe texts of a field's values."""
    if isinstance(values, np.ndarray):
        codes, numbers = distinct(values)
        return _Axis(codes, [escape(str(number)) for number in numbers.tolist()])
    if isinstance(values, pa.Array):
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        return _Axis(
            np.asarray(encoded.indices, np.int64),
            [escape(text or "") for text in encoded.dictionary.to_pylist()],
        )
    texts = values if set(map(type, values)) == {str} else [_text(value) for value in values]
    known: dict[str | None, int] = {}
    codes = np.fromiter(
        (known.setdefault(text, len(known)) for text in texts), np.int64, len(texts)
    )
    error = f"route: field {'.'.join(path)!r} is not a single value"
    errors = (
        dict.fromkeys(np.flatnonzero(codes == known[None]).tolist(), error) if None in known else {}
    )
    return _Axis(codes, [escape(text or "") for text in known], errors)


def _text(value: object) -> str | None:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case _:
            return None


def escape(text: str) -> str:
    """One directory name, or a part of one, for any text: never empty, no ``/``, not ``.`` or ``..``, printable."""
    if not text:
        return DEFAULT_PARTITION
    if _SAFE.fullmatch(text) and text.strip("."):
        return text
    kept = "_-" if not text.strip(".") else "_-."
    return "".join(char if _is_plain(char) or char in kept else _percent(char) for char in text)


def _is_plain(char: str) -> bool:
    return char.isalnum() if char.isascii() else char.isprintable()


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


# ------------------------------------------------------------------------------------------ pattern


def parse_pattern(text: str) -> Pattern:
    """Read a pattern.

    Raises:
        ValueError: a piece is unknown, or what it renders to would not be directories below the
            output root.
    """
    pieces: list[Piece] = []
    fields: dict[Path, int] = {}
    steps: list[int] = []
    for inner, directive, literal, stray in _PIECE.findall(text):
        if literal:
            pieces.append(_literal(literal))
        elif inner == "topic":
            pieces.append(lambda moment: moment.topic)
        elif inner.startswith("field:"):
            pieces.append(_field(fields.setdefault(_path(inner), len(fields))))
        else:
            timed = _time_pieces(inner, directive, stray)
            pieces += (piece for _, piece in timed)
            steps += (step for step, _ in timed if step)
    pattern = Pattern(tuple(pieces), tuple(fields), min(steps, default=0))
    sample = pattern.render(Moment("topic", EPOCH, ("value",) * len(fields)))
    check_directories(sample)
    if not _fits(sample):
        raise ValueError(f"directories too long: {text!r}")
    return pattern


def _literal(text: str) -> Piece:
    return lambda _: text


def _field(index: int) -> Piece:
    return lambda moment: moment.fields[index]


def _path(inner: str) -> Path:
    path = tuple(inner.removeprefix("field:").split("."))
    if not all(path):
        raise ValueError(f"not a field's path: {{{inner}}}")
    return path


def _time_pieces(inner: str, directive: str, stray: str) -> list[tuple[int, Piece]]:
    """The pieces of a strftime format, each with its granularity; literal text has 0."""
    if inner not in _SHORT and not inner.startswith("time:") and not directive:
        raise ValueError(f"unknown piece {stray or '{' + inner + '}'!r}; there are {_KNOWN}")
    layout = directive or _SHORT.get(inner) or inner.removeprefix("time:")
    pieces = []
    for part, literal in re.findall(r"(%.?)|([^%]+)", layout, re.DOTALL):
        if part and part not in _DIRECTIVES:
            raise ValueError(f"unknown directive {part!r}; there are {' '.join(_DIRECTIVES)}")
        pieces.append(_directive(part) if part else (0, _literal(literal)))
    return pieces


def _directive(part: str) -> tuple[int, Piece]:
    step, label = _DIRECTIVES[part]
    return step, lambda moment: label(moment.time)


_KNOWN = "{topic} {date} {hour} {minute} {time:%Y/%m/%d} {field:path} and bare %Y-%m-%d"
