"""The periods of time that directories of a route stand for, and when each is over.

A directory of an output partition stands for a period if the pattern names the day in it, or a
coarser or finer unit, so that no later time leads to the same directory: the hour in
``dt={date}/hr={hour}``, and its day in the directory above. A pattern without such a directory,
such as ``hr={hour}``, has no periods. Other placeholders may stand next to the time.

A period is over at the last instant whose wall time is in it. So where clocks are set back, the
hour that is there twice is over after its second pass. Pure, but for the time zone database.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import accumulate

import numpy as np

from landfall.api.route_pattern import Token, TokenKind, tokens
from landfall.api.spec import Route
from landfall.pipeline.route.pattern import Pattern, PatternInput, parse_pattern
from landfall.pipeline.timezones import EPOCH, Zone

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_KEPT_BOUNDARIES = 1000
"""Idle topics all ask for the same time, and there may be thousands."""
_MONDAY = datetime(1, 1, 1)  # noqa: DTZ001  # as below
_NEVER = datetime(9999, 12, 30)  # noqa: DTZ001  # wall time has no zone
"""Periods that end later are never over: their end may be outside of the calendar in UTC."""


class Unit(Enum):
    """How long a period is; shorter units come later."""

    YEAR = "year"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"


_NAMED: Sequence[tuple[Unit, frozenset[str]]] = (
    (Unit.YEAR, frozenset({"%Y"})),
    (Unit.MONTH, frozenset({"%Y", "%m"})),
    (Unit.WEEK, frozenset({"%G", "%V"})),
    (Unit.DAY, frozenset({"%F"})),
    (Unit.DAY, frozenset({"%Y", "%m", "%d"})),
    (Unit.DAY, frozenset({"%Y", "%j"})),
    (Unit.DAY, frozenset({"%G", "%V", "%u"})),
)
"""Directives that name a period of this unit, and no other of them may be left out."""
_STEPS = {
    Unit.WEEK: timedelta(days=7),
    Unit.DAY: timedelta(days=1),
    Unit.HOUR: timedelta(hours=1),
    Unit.SECOND: timedelta(seconds=1),
}
_SAME = {"%y": "%Y", "%b": "%m"}
_DIGITS = {
    "%Y": r"\d{4}",
    "%y": r"\d\d",
    "%m": r"\d\d",
    "%b": "|".join(_MONTHS),
    "%d": r"\d\d",
    "%j": r"\d{3}",
    "%F": r"\d{4}-\d\d-\d\d",
    "%G": r"\d{4}",
    "%V": r"\d\d",
    "%u": r"\d",
    "%H": r"\d\d",
    "%M": r"\d\d",
    "%S": r"\d\d",
}


@dataclass(frozen=True, slots=True)
class Period:
    """A period that directories of a route stand for.

    Attributes:
        directory: relative to the folder of the topic, such as ``dt=2026-11-21/hr=04``; empty if it
            depends on more than the time.
        unit: how long it is.
        start: of its wall time.
        end: when it is over, in milliseconds since 1970-01-01 UTC.
    """

    directory: str
    unit: Unit
    start: datetime
    end: int


@dataclass(frozen=True)
class _Level:
    """The first ``depth`` directories of a pattern, which stand for periods."""

    depth: int
    unit: Unit
    minutes: int
    expression: re.Pattern[str]
    is_plain: bool

    def next_start(self, start: datetime) -> datetime:
        """The start of the period after the one that begins at ``start``."""
        match self.unit:
            case Unit.YEAR:
                return start.replace(year=start.year + 1)
            case Unit.MONTH:
                return (start + timedelta(days=31)).replace(day=1)
        return start + self._step

    def floor(self, wall: datetime) -> datetime:
        """The start of the period with this wall time."""
        match self.unit:
            case Unit.YEAR:
                return datetime(wall.year, 1, 1)  # noqa: DTZ001  # wall time has no zone
            case Unit.MONTH:
                return datetime(wall.year, wall.month, 1)  # noqa: DTZ001
        return wall - (wall - _MONDAY) % self._step

    @property
    def _step(self) -> timedelta:
        return self.minutes * timedelta(minutes=1) if self.minutes else _STEPS[self.unit]

    def start(self, directory: str) -> datetime | None:
        """The start of the period that a directory of this depth stands for; None if of none."""
        found = self.expression.fullmatch(directory)
        try:
            return _start({k: v for k, v in found.groupdict().items() if v}) if found else None
        except ValueError:  # there is no such day
            return None


class Calendar:
    """The periods of a route."""

    def __init__(self, levels: Iterable[_Level], pattern: Pattern, zone: Zone) -> None:
        """Use ``of``."""
        self._levels = tuple(levels)
        self._pattern = pattern
        self._zone = zone
        self._boundaries: dict[int, int] = {}

    @classmethod
    def of(cls, route: Route) -> "Calendar":
        """The calendar of ``spec.route``."""
        return cls(
            _levels(tokens(route.pattern)), parse_pattern(route.pattern), Zone(route.timezone)
        )

    @property
    def is_empty(self) -> bool:
        """Return whether no directory stands for a period."""
        return not self._levels

    @property
    def units(self) -> tuple[Unit, ...]:
        """How long the periods are that directories stand for, the longest first."""
        return tuple(level.unit for level in self._levels)

    def periods(self, output_partition: str) -> Iterator[Period]:
        """The periods of an output partition and of the directories above, the longest first.

        One that was made by another pattern has none.
        """
        names = tuple(accumulate(output_partition.split("/"), "{}/{}".format))
        for level in self._levels:
            if level.depth <= len(names):
                directory = names[level.depth - 1]
                start = level.start(directory)
                if start is not None:
                    yield Period(directory, level.unit, start, self._end(level, start))

    def is_over(self, output_partition: str, horizon: int) -> bool:
        """Return whether the period of an output partition is over at a horizon (ms)."""
        found = tuple(self.periods(output_partition))
        return bool(found) and found[-1].end <= horizon

    def recent(self, unit: Unit, until: int, count: int) -> datetime:
        """The start of the first of so many periods of a unit before the period of a time (ms)."""
        level = next(level for level in self._levels if level.unit is unit)
        start = level.floor(self._wall(until))
        for _ in range(count):
            if start.year > 1:
                start = level.floor(start - timedelta(microseconds=1))
        return start

    def finished(self, after: int, until: int) -> Iterator[Period]:
        """The periods that are over at ``until`` and were not at ``after`` (ms), longest first.

        With ``after`` -1, where nothing is known of the time before, only the last of each unit.
        """
        for level in self._levels:
            if after < 0:
                if (last := self._last_over(level, until)) is not None:
                    yield last
                continue
            start = level.floor(self._wall(after))
            while start < _NEVER:
                period = self._period(level, start)
                if period.end > until:
                    break
                if period.end > after:
                    yield period
                start = level.next_start(start)

    def boundary(self, until: int) -> int:
        """The end (ms) of the last of the shortest periods that is over at ``until``; -1 for none.

        Periods shorter than a minute are taken as a minute.
        """
        if not self._levels:
            return -1
        level = self._levels[-1]
        if level.unit is Unit.SECOND:
            level = _Level(
                depth=level.depth,
                unit=Unit.MINUTE,
                minutes=1,
                expression=level.expression,
                is_plain=level.is_plain,
            )
        if until not in self._boundaries:
            if len(self._boundaries) >= _KEPT_BOUNDARIES:
                self._boundaries.clear()
            last = self._last_over(level, until)
            self._boundaries[until] = -1 if last is None else last.end
        return self._boundaries[until]

    def _last_over(self, level: _Level, until: int) -> Period | None:
        start = level.floor(self._wall(until))
        for _ in range(3):  # wall time may have been set back in between
            if start.year <= 1:
                return None
            start = level.floor(start - timedelta(microseconds=1))
            period = self._period(level, start)
            if period.end <= until:
                return period
        return None

    def _period(self, level: _Level, start: datetime) -> Period:
        fields = ("value",) * len(self._pattern.fields)
        rendered = self._pattern.render(PatternInput("", 0, start, fields))
        directory = "/".join(rendered.split("/")[: level.depth]) if level.is_plain else ""
        return Period(directory, level.unit, start, self._end(level, start))

    def _wall(self, millis: int) -> datetime:
        seconds = np.array([millis // 1000], np.int64)
        return EPOCH + timedelta(seconds=int(self._zone.to_local(seconds)[0]))

    def _end(self, level: _Level, start: datetime) -> int:
        """The instant after the last one whose wall time is in the period."""
        if start >= _NEVER or (end := level.next_start(start)) >= _NEVER:
            return 2**62
        last = (end - timedelta(seconds=1)).replace(tzinfo=self._zone.info)
        both = (last.replace(fold=fold).timestamp() for fold in (0, 1))
        return (int(max(both)) + 1) * 1000


def _levels(pattern: Sequence[Token]) -> Iterator[_Level]:
    """The directories that stand for periods: those that name a time, and the last one."""
    parts: list[list[Token]] = [[]]
    for token in pattern:
        first, *others = token.text.split("/") if token.kind is TokenKind.TEXT else ("",)
        parts[-1].append(Token(TokenKind.TEXT, first) if token.kind is TokenKind.TEXT else token)
        parts += [[Token(TokenKind.TEXT, text)] for text in others]
    for depth in range(1, len(parts) + 1):
        above = [token for part in parts[:depth] for token in part]
        unit, minutes = _unit(above)
        is_named = any(_is_time(token) for token in parts[depth - 1])
        if unit is not None and (is_named or depth == len(parts)):
            plain = all(token.kind is TokenKind.TEXT or _is_time(token) for token in above)
            yield _Level(
                depth=depth,
                unit=unit,
                minutes=minutes,
                expression=re.compile(_expression(parts[:depth])),
                is_plain=plain,
            )


def _is_time(token: Token) -> bool:
    return token.kind in {TokenKind.DIRECTIVE, TokenKind.MINUTES}


def _unit(pattern: Sequence[Token]) -> tuple[Unit | None, int]:
    """The unit that these tokens name, and its minutes; None if not the whole of one."""
    named = {_SAME.get(t.text, t.text) for t in pattern if t.kind is TokenKind.DIRECTIVE}
    widths = [int(t.text) for t in pattern if t.kind is TokenKind.MINUTES]
    clock, dates = named & {"%H", "%M", "%S"}, named - {"%H", "%M", "%S"}
    units = [unit for unit, needed in _NAMED if needed <= dates]
    found = max(units, key=list(Unit).index, default=None)
    is_whole = any(needed >= dates for unit, needed in _NAMED if unit is found) or "%F" in dates
    if not clock and not widths:
        return (found if is_whole or found is Unit.DAY else None), 0
    if found is not Unit.DAY or "%H" not in clock:
        return None, 0
    has_minutes = "%M" in clock or bool(widths)
    if "%S" in clock:
        return (Unit.SECOND, 0) if "%M" in clock else (None, 0)
    if has_minutes:
        return Unit.MINUTE, 1 if "%M" in clock else min(widths)
    return Unit.HOUR, 0


def _expression(parts: Sequence[Sequence[Token]]) -> str:
    """A regular expression for the directories, with a group for each time placeholder."""
    known: set[str] = set()

    def of(token: Token) -> str:
        if token.kind is TokenKind.TEXT:
            return re.escape(token.text)
        if not _is_time(token):
            return "[^/]*"
        name = token.text[1:] if token.kind is TokenKind.DIRECTIVE else "minutes"
        shape = _DIGITS.get(token.text, r"\d\d")
        if name in known:
            return f"(?:{shape})"
        known.add(name)
        return f"(?P<{name}>{shape})"

    return "/".join("".join(map(of, part)) for part in parts)


def _start(found: dict[str, str]) -> datetime:
    """The first wall time with these labels.

    Raises:
        ValueError: there is none.
    """
    if date := found.get("F"):
        day = datetime.fromisoformat(date)
    elif "G" in found:
        week = (int(found["G"]), int(found["V"]), int(found.get("u", 1)))
        day = datetime.fromisocalendar(*week)
    else:
        year = int(found["Y"]) if "Y" in found else 2000 + int(found["y"])
        if "j" in found:
            day = datetime(year, 1, 1) + timedelta(days=int(found["j"]) - 1)  # noqa: DTZ001
        else:
            month = int(found["m"]) if "m" in found else 1
            month = _MONTHS.index(found["b"]) + 1 if "b" in found else month
            day = datetime(year, month, int(found.get("d", 1)))  # noqa: DTZ001
    minute = int(found.get("M", found.get("minutes", 0)))
    return day.replace(hour=int(found.get("H", 0)), minute=minute, second=int(found.get("S", 0)))
