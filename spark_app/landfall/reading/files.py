"""Landed objects as readers see them, and which of them a scan needs. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TypedDict
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from landfall.api.spec import Route
from landfall.ledger.names.object_names import ObjectName, parse_key
from landfall.pipeline.calendar import Calendar
from landfall.pipeline.route import DEFAULT_PARTITION

# Which times an output partition is for, read from its name by the route's pattern.
#
# ``dt=2026-11-21/hr=04`` of the route ``dt={date}/hr={hour}`` is for the hour from 04:00 on, in the
# route's time zone. Where clocks are set back, it is for both passes of the hour.

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

        None if its name has no such times: the pattern has no date, or it is another pattern's.
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


Values = Mapping[str, str | Collection[str]]
"""Values of partition columns, by name."""


@dataclass(frozen=True, slots=True)
class File:
    """A landed object of data.

    Attributes:
        key: of the object, below the output root.
        slot: the slot of the ledger that makes it visible.
        rows: how many it has.
        size: in bytes.
        spec: the digest of the stored spec that it was made by; empty if none is stored.
    """

    key: str
    slot: int
    rows: int
    size: int
    spec: str = ""

    @property
    def name(self) -> ObjectName:
        """The parts of its key: topic, output partition, Kafka partition and so on."""
        return parse_key(self.key)

    @property
    def partition_values(self) -> dict[str, str | None]:
        """The values that folders ``name=value`` have, as in Hive; None where a record had none."""
        name = self.name
        folders = f"{name.destination}/{name.output_partition}".split("/")
        pairs = (folder.partition("=") for folder in folders)
        return {
            column: None if value == DEFAULT_PARTITION else unquote(value)
            for column, equals, value in pairs
            if equals and column
        }


class Choice(TypedDict, total=False):
    """The selection of files that a scan reads; by default all of a topic.

    Attributes:
        output_partition: the folders of an output partition, or those above it, such as
            ``dt=2026-11-21``; ``*``, ``?`` and ``[…]`` stand for text as in a shell.
        where: values of folders ``name=value``, such as ``{"dt": "2026-11-21"}``; one of several in
            a list.
        since: leaves out output partitions of earlier times only.
        until: leaves out output partitions of this time and later.
    """

    output_partition: str
    where: Values
    since: datetime
    until: datetime


def chooser(choice: Choice, times: Callable[[File], PartitionTimes]) -> Callable[[File], bool]:
    """Return whether a file is chosen; ``times`` reads the times of its output partition.

    Files whose output partition has no such times are chosen for any time.

    Raises:
        ValueError: a time has no time zone, or is none.
    """
    for name in ("since", "until"):
        time = choice.get(name)
        if time is not None and not isinstance(time, datetime):
            raise ValueError(f"{name}: expected a datetime with a time zone, got {time!r}")
        if time is not None and time.tzinfo is None:
            raise ValueError(f"{name} needs a time zone, got {time}")
    folders = choice.get("output_partition", "").strip("/")
    wanted = {name: _several(values) for name, values in choice.get("where", {}).items()}
    since = choice.get("since", datetime.min.replace(tzinfo=UTC))
    until = choice.get("until", datetime.max.replace(tzinfo=UTC))
    is_timed = "since" in choice or "until" in choice

    def is_chosen(file: File) -> bool:
        name = file.name
        if folders and not _is_below(name.output_partition, folders):
            return False
        values = file.partition_values if wanted else {}
        if any(values.get(column) not in allowed for column, allowed in wanted.items()):
            return False
        found = times(file).of(name.output_partition) if is_timed else None
        return found is None or (found[0] < until and found[1] > since)

    return is_chosen


def _several(values: str | Collection[str]) -> frozenset[str | None]:
    return frozenset([values] if isinstance(values, str) else values)


def _is_below(output_partition: str, folders: str) -> bool:
    depth = folders.count("/") + 1
    return fnmatchcase("/".join(output_partition.split("/")[:depth]), folders)
