"""Marks the directories of complete hours and days by an empty object, ``_SUCCESS``.

Secor's finalizer does the same, and Hadoop's jobs leave it in a directory that they have written
(``mapreduce.fileoutputcommitter.marksuccessfuljobs``). Readers such as Spark, Hive and Trino ignore
objects whose names begin with ``_`` or ``.``.

A marker is created if it is absent, and never deleted. So any number of publishers may do this at
once, or again. The cursor keeps the directories that have data and are not complete yet; without
it, the ledger is read from its start, which gives the same ones.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import msgspec

from landfall.ledger.names.object_names import ObjectName, parse_key
from landfall.pipeline.calendar import Period, Unit
from landfall.pipeline.decoders.options import read_options
from landfall.publish import Published, Stretch
from landfall.publish.context import Context
from landfall.publish.cursor import Position, PublisherCursor
from landfall.publish.finished import Calendars
from landfall.publish.following import Follower

KEPT_PERIODS = 100
"""Until anything of a topic is complete, only the directories of the latest periods are remembered:
so many of each unit, or as many as ``lookback``.
"""
MAX_PARSED = 50_000
"""Directories whose periods are kept, so that they are not parsed for every stretch."""
_MARKER = re.compile(r"[_.][A-Za-z0-9._-]{1,22}")  # as long as the shortest name of an object


class SuccessOptions(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Options of the publisher ``Success``; docs/publishers/success.md describes them."""

    lookback: int = 10
    marker: str = "_SUCCESS"
    on_late: Literal["Count", "Marker", "Rewrite"] = "Count"


class Success:
    """Marks directories of complete hours and days."""

    @staticmethod
    def of(options: Mapping[str, object], context: Context) -> "SuccessPublisher":
        """Build the publisher; see ``PublisherType``."""
        read = read_options(options, SuccessOptions)
        if context.group.spec.completeness is None:
            raise ValueError("options: spec.completeness is not set, so no hour is ever complete")
        if read.on_late == "Rewrite":
            raise ValueError(
                "option onLate: Rewrite would have to replace objects, which a publisher does not: "
                "take Marker, and let the reader's job rewrite its own output"
            )
        if read.lookback < 1:
            raise ValueError(f"option lookback: at least 1, got {read.lookback}")
        if not _MARKER.fullmatch(read.marker) or read.marker.startswith(("_LATE-", "_landfall")):
            raise ValueError(
                "option marker: a name of up to 23 letters, digits and ._- that begins with _ or . "
                "so that readers skip it, but not with _LATE- or _landfall, "
                f"got {read.marker!r}"
            )
        return SuccessPublisher(context, context.cursor(f"Success {read.marker}"), read)


@dataclass
class SuccessPublisher:
    """Marks directories of complete hours and days; see ``Publisher``.

    Attributes:
        context: what the publisher is built from.
        cursor: the position, and the directories that have data and are not complete yet.
        options: of the publisher.
        late: objects since this was built that became visible in complete directories.
    """

    context: Context
    cursor: PublisherCursor
    options: SuccessOptions
    late: int = 0

    def __post_init__(self) -> None:
        self._calendars = Calendars(self.context.group.spec)
        self._periods: dict[str, tuple[str, Period] | None] = {}

    @property
    def details(self) -> str:
        """Details in the status besides the position."""
        return f"{self.late} objects came late since this driver started" if self.late else ""

    def publish(self, follower: Follower) -> Published:
        """See ``Publisher``; ``objects`` are markers, including existing ones."""
        at = self.cursor.read()
        done = Published(at.through)
        for stretch in follower.stretches(at.through):
            found = self._read(stretch, at.tables)
            for key in found.markers:
                self.context.store.create(key, b"")
            at = Position(stretch.through, found.open)
            self.cursor.write(at)
            self.late += found.late
            done.objects += len(found.markers)
            done.through, done.slots = at.through, done.slots + stretch.through - stretch.after
        return done

    def position(self) -> int:
        """See ``Publisher``."""
        return self.cursor.read().through

    def preview(self, follower: Follower) -> Iterator[str]:
        """See ``Publisher``."""
        at = self.cursor.read()
        for stretch in follower.stretches(at.through):
            found = self._read(stretch, at.tables)
            yield from (f"create {key} if it is absent" for key in found.markers)
            at = Position(stretch.through, found.open)

    def reset(self, follower: Follower) -> None:  # noqa: ARG002  # of the protocol
        """See ``Publisher``. Markers stay."""
        self.cursor.write(Position())

    def _read(self, stretch: Stretch, known: Mapping[str, int]) -> "_MarkerChanges":
        """Return the directories that a stretch opens, and those to be marked."""
        objects = [o for o in stretch.objects if self.context.object_name(o.key)]
        folders = {folder: slot for folder, slot in known.items() if self._name(folder)}
        late = list(self._calendars.late(replace(stretch, objects=tuple(objects))))
        found = _MarkerChanges(folders, late=len(late))
        # What is landed again may be in a directory that had no data. A merge's has its marker.
        again = [o for r in stretch.replaced if r.changes_rows for o in r.objects]
        for object_ in [*objects, *(o for o in again if self.context.object_name(o.key))]:
            name = parse_key(object_.key)
            for period in self._calendars.of(name.topic).periods(name.output_partition):
                found.open[_folder(name, period)] = object_.slot
        for object_ in late if self.options.on_late == "Marker" else ():
            name = parse_key(object_.key)
            *_, period = self._calendars.of(name.topic).periods(name.output_partition)
            found.markers.append(f"{_folder(name, period)}/_LATE-{object_.slot:010d}")
        self._finish(stretch, found)
        return found

    def _finish(self, stretch: Stretch, found: "_MarkerChanges") -> None:
        """Move the directories that are complete at the end of the stretch to the markers."""
        horizons = {
            **stretch.horizons,
            **{horizon.topic: horizon.until for horizon in stretch.finished},
        }
        first = {horizon.topic: horizon.until for horizon in stretch.finished if horizon.before < 0}
        starts: dict[tuple[str, Unit], datetime] = {}
        ends: dict[tuple[str, str], list[int]] = {}
        complete: list[tuple[int, str]] = []
        for folder in list(found.open):
            topic, period = self._period(folder)
            if topic not in horizons:
                ends.setdefault((topic, period.unit.value), []).append(period.end)
            elif period.end <= horizons[topic]:
                del found.open[folder]
                if topic in first and (key := (topic, period.unit)) not in starts:
                    starts[key] = self._first_start(*key, first[topic])
                if period.start >= starts.get((topic, period.unit), period.start):
                    complete.append((folder.count("/"), folder))
        self._forget(found, ends)
        # The hours of a day first: once the day's marker exists, theirs do.
        for _, folder in sorted(complete, key=lambda each: (-each[0], each[1])):
            found.markers.append(f"{folder}/{self.options.marker}")

    def _first_start(self, topic: str, unit: Unit, until: int) -> datetime:
        """The start of the first of the ``lookback`` periods before the first horizon."""
        return self._calendars.of(topic).recent(unit, until, self.options.lookback)

    def _forget(self, found: "_MarkerChanges", ends: Mapping[tuple[str, str], list[int]]) -> None:
        """Drop the oldest directories of topics that never had a complete period."""
        kept = max(KEPT_PERIODS, self.options.lookback)
        bounds = {
            key: sorted(distinct)[-kept]
            for key, of_unit in ends.items()
            if len(distinct := {*of_unit}) > kept
        }
        for folder in list(found.open) if bounds else ():
            topic, period = self._period(folder)
            if period.end < bounds.get((topic, period.unit.value), period.end):
                del found.open[folder]

    def _name(self, folder: str) -> tuple[str, Period] | None:
        """The topic and the period of a directory; None if the route has another pattern now."""
        if folder not in self._periods:
            if len(self._periods) >= MAX_PARSED:
                self._periods.clear()
            name = _parsed(folder)
            of_folder = self._calendars.of(name.topic).periods(name.output_partition)
            found = [period for period in of_folder if period.directory == name.output_partition]
            self._periods[folder] = (name.topic, found[0]) if found else None
        return self._periods[folder]

    def _period(self, folder: str) -> tuple[str, Period]:
        found = self._name(folder)
        assert found, "folders of another pattern are left out"
        return found


@dataclass
class _MarkerChanges:
    """Directories with data that are not complete, with the last slot; and markers to create."""

    open: dict[str, int]
    late: int = 0
    markers: list[str] = field(default_factory=list)


def _folder(name: ObjectName, period: Period) -> str:
    return f"{name.destination}/{name.topic}/{period.directory}".removeprefix("/")


def _parsed(folder: str) -> ObjectName:
    """Return the parts of a directory as an object name's."""
    return parse_key(f"{folder}/0_0_{0:020d}")
