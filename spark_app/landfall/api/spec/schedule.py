"""The sections ``spec.schedule`` and ``spec.idle``: when a group has no driver."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Annotated, Literal, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator

from landfall.api.pod_spec import Model
from landfall.api.values import Duration, TimeZone

_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


_CRON_FIELDS = 5


def _cron(text: str) -> str:
    try:
        CronSim(text, _ANY_TIME)
    except CronSimError as error:
        raise ValueError(_not_cron(str(error), text)) from None
    if len(text.split()) != _CRON_FIELDS:  # with six, CronSim takes the first for seconds
        raise ValueError(_not_cron("Wrong number of fields", text))
    return text


def _not_cron(why: str, text: str) -> str:
    return f"not five fields of cron such as '5 * * * *', minute first: {why}: {text!r}"


class Idle(Model):
    """When a group whose topics are quiet has no driver, and how often one looks at them."""

    scale_to_zero: Duration = timedelta(minutes=30)
    """How long nothing must have been landed, and nothing be left to land, until the driver is
    stopped.
    """
    look_every: Duration = timedelta(minutes=5)
    """How often a driver is started to look for new records. It stays if there are any."""


class ScheduledRange(NamedTuple):
    """A closed range that a schedule asks for.

    Attributes:
        due: when it is to be landed.
        until: where it ends.
    """

    due: datetime
    until: datetime


class Schedule(Model):
    """When closed ranges of the topics are landed. The driver is gone in between."""

    cron: Annotated[str, AfterValidator(_cron)]
    """When a range is landed: minute, hour, day of month, month and day of week, such as
    ``5 * * * *`` for five minutes past every hour.
    """
    time_zone: TimeZone = "UTC"
    """Time zone of ``cron`` and ``boundary``, such as ``Europe/Berlin``."""
    boundary: Literal["Tick", "Hour", "Day"] = "Tick"
    """Where a range ends, by the Kafka timestamps of the records: at the time that ``cron`` names,
    or at the last full hour or the last midnight before it. With Tick, records that reached Kafka
    late, but before that time, belong to the range, too.
    """
    deadline: Duration = timedelta(hours=1)
    """How long after its time a range must be landed. Later, the group is Degraded, and an alert
    fires.
    """

    def ends(self, after: datetime | None, now: datetime) -> Iterator[datetime]:
        """The ends of the ranges that are due, in order.

        Args:
            after: the end of the last range that was landed; if there is none, only the last range
                is due, which then has all that is before.
            now: the time.
        """
        found = takewhile(lambda each: each.due <= now, self.ranges(after, now))
        yield from (range_.until for range_ in found)

    def ranges(self, after: datetime | None, now: datetime) -> Iterator[ScheduledRange]:
        """The ranges that follow one, in order and without an end: also future ones.

        Args:
            after: the end of the last range that was landed; if there is none, the first one is
                the last that is due.
            now: the time.
        """
        if after is None:
            second = now.replace(microsecond=0) + _SECOND
            latest = next(self._ticks(second, reverse=True), None)
            if latest is not None:
                after = self._end(latest)
                yield ScheduledRange(latest.astimezone(UTC), after)
        for tick in self._ticks(after or now):
            if after is None or self._end(tick) > after:
                after = self._end(tick)
                yield ScheduledRange(tick.astimezone(UTC), after)

    def _ticks(self, start: datetime, *, reverse: bool = False) -> Iterator[datetime]:
        return CronSim(self.cron, start.astimezone(ZoneInfo(self.time_zone)), reverse)

    def _end(self, tick: datetime) -> datetime:
        match self.boundary:
            case "Tick":
                end = tick
            case "Hour":
                end = tick.replace(minute=0)
            case "Day":
                end = tick.replace(hour=0, minute=0)
        return end.astimezone(UTC)
