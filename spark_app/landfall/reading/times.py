"""Which times an output partition is for, read from its name by the route's pattern. Pure.

``dt=2026-11-21/hr=04`` of the route ``dt={date}/hr={hour}`` is for the hour from 04:00 on, in the
route's time zone. Where clocks are set back, it is for both passes of the hour.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from landfall.api.spec import Route
from landfall.pipeline.calendar import Calendar

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class PartitionTimes:
    """Reads the times of output partitions that one route has made.

    Attributes:
        route: ``spec.route``.
    """

    route: Route

    def of(self, output_partition: str) -> tuple[datetime, datetime] | None:
        """From when on, and before when, the event times of its records are; in UTC.

        None if its name does not say it: the pattern has no date, or it is another pattern's.
        """
        found = tuple(self._calendar.periods(output_partition))
        if not found:
            return None
        try:
            zone, wall = ZoneInfo(self.route.timezone), found[-1].start
            starts = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
            return min(starts), _EPOCH + timedelta(milliseconds=found[-1].end)
        except OverflowError:  # at an end of the calendar
            return None

    @cached_property
    def _calendar(self) -> Calendar:
        return Calendar.of(self.route)
