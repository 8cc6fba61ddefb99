"""Events about what landed, as CloudEvents 1.0 in JSON.

============  ===================================================================================
kind          meaning
============  ===================================================================================
``Landed``    objects of a topic became visible: an event for each slot and topic, and several if
              these are more than ``MAX_OBJECTS``
``Finished``  a topic is complete for a period, such as an hour of ``dt={date}/hr={hour}`` or the
              day of it: an event for each
``Reopened``  objects of such a period became visible after that: an event for each slot and period
``Replaced``  objects of a topic were replaced by new ones: an event for each REPLACE and topic, and
              several if these are more than ``MAX_OBJECTS``
============  ===================================================================================

Each event, with its id, order and bytes, is a function of the ledger and the group's routes alone:
every publisher of a group makes the same ones, at any time and from any start. So a receiver
recognizes a repeated one by its source and id.

Source: CloudEvents, "Version 1.0.2", and "JSON Event Format for CloudEvents - Version 1.0.2".

The names of fields of ``data`` are public: ``docs/guides/file-events.md`` describes them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import msgspec

from landfall.ledger.names.object_names import ObjectName, parse_key
from landfall.ledger.task_results import LandedObject
from landfall.pipeline.calendar import Period, Unit
from landfall.publish import Finished, ReplacedObjects, Stretch, VisibleObject
from landfall.publish.context import Context
from landfall.publish.finished import Calendars


class EventObject(msgspec.Struct, frozen=True, rename="camel"):
    """A data object in an event.

    Attributes:
        url: its URL.
        output_partition: its folders below the topic's.
        partition: the Kafka partition of its records.
        first_offset: offset of the first record inside.
        last_offset: offset of the last record inside.
        rows: records inside.
        bytes: its size.
    """

    url: str
    output_partition: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int
    bytes: int


class EventOffsets(msgspec.Struct, frozen=True):
    """The offsets of a Kafka partition, from the first inside of the objects through the last."""

    partition: int
    first: int
    last: int


class LandedEvent(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The ``data`` of an event of the kind ``Landed``.

    Attributes:
        namespace: of the group.
        group: its name.
        lane: of the group.
        slot: the first slot of the ledger that makes the objects visible.
        topic: their topic.
        part: which of ``parts`` events of this slot and topic it is, from 0.
        parts: how many they are.
        rows: records in the objects of this event.
        bytes: their size.
        offsets: of their records, by Kafka partition.
        objects: the objects, in the order of the ledger.
    """

    namespace: str
    group: str
    lane: str
    slot: int
    topic: str
    part: int
    parts: int
    rows: int
    bytes: int
    offsets: tuple[EventOffsets, ...]
    objects: tuple[EventObject, ...]


class PeriodFinished(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The ``data`` of an event of the kind ``Finished``.

    Attributes:
        namespace: of the group.
        group: its name.
        lane: of the group.
        slot: from which every record of the period is visible, except late ones.
        topic: the topic.
        output_partition: the directory that stands for the period, below the topic's folder; empty
            if it has several.
        unit: how long the period is: ``year``, ``month``, ``week``, ``day``, ``hour``, ``minute``
            or ``second``.
        start: of its wall time, ISO 8601.
        timezone: of the wall time.
        end: when it is over, ISO 8601 in UTC.
    """

    namespace: str
    group: str
    lane: str
    slot: int
    topic: str
    output_partition: str
    unit: str
    start: str
    timezone: str
    end: str

    @property
    def start_time(self) -> str:
        """The instant of ``start``, ISO 8601 with the offset of the time zone."""
        return (
            datetime.fromisoformat(self.start).replace(tzinfo=ZoneInfo(self.timezone)).isoformat()
        )


class PeriodReopened(PeriodFinished, frozen=True, rename="camel", kw_only=True):
    """The ``data`` of an event of the kind ``Reopened``: late objects of a period.

    Attributes:
        slot: the first slot of the ledger that makes the objects visible.
        objects: how many objects are late.
        rows: records in them.
        bytes: their size.
    """

    objects: int
    rows: int
    bytes: int


class ReplacedEvent(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The ``data`` of an event of the kind ``Replaced``.

    Attributes:
        namespace: of the group.
        group: its name.
        lane: of the group.
        slot: the first slot of the ledger that makes the new objects visible; the old ones are
            deleted.
        topic: their topic.
        replacement: the slot of the REPLACE.
        part: which of ``parts`` events of this REPLACE and topic it is, from 0.
        parts: how many they are.
        rows: records in the new objects of this event.
        retired_rows: records in the old ones of this event.
        objects: the new ones; of one that was merged, the offsets of its first Kafka partition.
        retired: the old ones.
    """

    namespace: str
    group: str
    lane: str
    slot: int
    topic: str
    replacement: int
    part: int
    parts: int
    rows: int
    retired_rows: int
    objects: tuple[EventObject, ...]
    retired: tuple[EventObject, ...]


EventData = LandedEvent | PeriodFinished | ReplacedEvent
"""The data of an event; the kinds ``Finished`` and ``Reopened`` are about periods."""


MAX_OBJECTS = 500
"""How many objects an event names. With keys as long as S3 allows, an event has 700 kB then, which
is less than Kafka takes by default.
"""
CONTENT_TYPE = "application/cloudevents+json; charset=UTF-8"
"""Of an event by itself."""
BATCH_CONTENT_TYPE = "application/cloudevents-batch+json; charset=UTF-8"
"""Of an array of events."""


class EventKind(StrEnum):
    """Kinds of events; the values are those allowed in the option ``events``."""

    LANDED = "Landed"
    FINISHED = "Finished"
    REOPENED = "Reopened"
    REPLACED = "Replaced"


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        id: unique for its source.
        kind: its kind.
        source: the output root and the group, as a URI reference.
        subject: a topic, or a period's directory with the topic before it.
        time: of the last COMMIT up to the slot, ISO 8601 in UTC.
        data: its content.
    """

    id: str
    kind: EventKind
    source: str
    subject: str
    time: str
    data: EventData

    @property
    def slot(self) -> int:
        """The slot of the ledger that makes it true."""
        return self.data.slot

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of CloudEvents, without the content type of the data."""
        time = {"time": self.time} if self.time else {}
        return {
            "specversion": "1.0",
            "id": self.id,
            "source": self.source,
            "type": f"dev.landfall.{self.kind.lower()}.v1",
            "subject": self.subject,
            **time,
        }

    def encode(self) -> bytes:
        """The event in the JSON format: attributes and data."""
        return msgspec.json.encode(
            {**self.attributes, "datacontenttype": "application/json", "data": self.data}
        )

    def __str__(self) -> str:
        """Describe the event in one line."""
        data = self.data
        rows = (
            f", {data.rows} rows"
            if isinstance(data, LandedEvent | PeriodReopened | ReplacedEvent)
            else ""
        )
        return f"event {self.id}: {self.kind} {self.subject}{rows}"


def encode_batch(events: Sequence[Event]) -> bytes:
    """Events in the JSON batch format."""
    return b"[" + b",".join(event.encode() for event in events) + b"]"


@dataclass(frozen=True)
class Events:
    """Makes the events of a ledger.

    Attributes:
        context: of the publisher; events are about its topics.
        kinds: which events are sent.
        units: of the periods; all if None.
        is_shortest: whether only of the shortest periods that the route of a topic has.
    """

    context: Context
    kinds: frozenset[EventKind]
    units: frozenset[Unit] | None = None
    is_shortest: bool = False
    _calendars: Calendars = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_calendars", Calendars(self.context.group.spec))

    @property
    def source(self) -> str:
        """The source of all events of the group."""
        root = quote(self.context.group.spec.output.url.rstrip("/"), safe="/:@")
        return f"{root}#{self.context.group.full_name}"

    def of(self, stretch: Stretch) -> Iterator[Event]:
        """The events of a stretch, in the order of the slots."""
        makers = {
            EventKind.LANDED: self._all_landed,
            EventKind.FINISHED: self._all_finished,
            EventKind.REOPENED: self._all_reopened,
            EventKind.REPLACED: self._all_replaced,
        }
        found = [e for kind, make in makers.items() if kind in self.kinds for e in make(stretch)]
        return iter(sorted(found, key=lambda event: event.slot))

    def _all_landed(self, stretch: Stretch) -> Iterator[Event]:
        for slot, of_slot in groupby(stretch.objects, lambda each: each.slot):
            by_topic: dict[str, list[tuple[ObjectName, VisibleObject]]] = {}
            for object_ in of_slot:
                if name := self.context.object_name(object_.key):
                    by_topic.setdefault(name.topic, []).append((name, object_))
            for topic, named in sorted(by_topic.items()):
                parts = [named[i : i + MAX_OBJECTS] for i in range(0, len(named), MAX_OBJECTS)]
                for number, part in enumerate(parts):
                    named_objects = tuple(
                        _object(name, object_.landed, self.context.url) for name, object_ in part
                    )
                    data = self._landed(slot, topic, (number, len(parts)), named_objects)
                    label = topic + (f"/{number}" if number else "")
                    yield self._event(
                        kind=EventKind.LANDED,
                        name=label,
                        subject=topic,
                        time=part[0][1].time,
                        data=data,
                    )

    def _landed(
        self, slot: int, topic: str, part: tuple[int, int], objects: tuple[EventObject, ...]
    ) -> LandedEvent:
        return LandedEvent(
            namespace=self.context.group.metadata.namespace,
            group=self.context.group.metadata.name,
            lane=self.context.lane,
            slot=slot,
            topic=topic,
            part=part[0],
            parts=part[1],
            rows=sum(o.rows for o in objects),
            bytes=sum(o.bytes for o in objects),
            offsets=_offsets(objects),
            objects=objects,
        )

    def _all_finished(self, stretch: Stretch) -> Iterator[Event]:
        for finished in stretch.finished:
            for period in self._calendars.periods(finished):
                if self._is_selected(finished.topic, period):
                    data = PeriodFinished(**self._period(finished.slot, finished.topic, period))
                    yield self._of_period(EventKind.FINISHED, period, finished, data)

    def _all_reopened(self, stretch: Stretch) -> Iterator[Event]:
        late: dict[tuple[int, str, Period], list[VisibleObject]] = {}
        for object_, period in self._calendars.reopened(stretch):
            topic = parse_key(object_.key).topic
            if self._is_selected(topic, period):
                late.setdefault((object_.slot, topic, period), []).append(object_)
        for (slot, topic, period), objects in late.items():
            data = PeriodReopened(
                **self._period(slot, topic, period),
                objects=len(objects),
                rows=sum(o.landed.rows for o in objects),
                bytes=sum(o.landed.upload.size for o in objects),
            )
            yield self._of_period(EventKind.REOPENED, period, objects[0], data)

    def _all_replaced(self, stretch: Stretch) -> Iterator[Event]:
        for replacement in stretch.replaced:
            for topic, named in sorted(self._replaced_by_topic(replacement).items()):
                parts = [named[i : i + MAX_OBJECTS] for i in range(0, len(named), MAX_OBJECTS)]
                for number, part in enumerate(parts):
                    data = self._replaced(replacement, topic, (number, len(parts)), part)
                    label = f"{replacement.record}/{topic}" + (f"/{number}" if number else "")
                    yield self._event(
                        kind=EventKind.REPLACED,
                        name=label,
                        subject=topic,
                        time=replacement.time,
                        data=data,
                    )

    def _replaced_by_topic(
        self, replaced: ReplacedObjects
    ) -> dict[str, list[tuple[bool, EventObject]]]:
        """Objects by topic: first new ones, marked as such, then replaced ones."""
        found: dict[str, list[tuple[bool, EventObject]]] = {}
        new = ((True, object_.landed) for object_ in replaced.objects)
        for is_new, landed in (*new, *((False, object_) for object_ in replaced.retired)):
            if name := self.context.object_name(landed.key):
                of_topic = found.setdefault(name.topic, [])
                of_topic.append((is_new, _object(name, landed, self.context.url)))
        return found

    def _replaced(
        self,
        replaced: ReplacedObjects,
        topic: str,
        part: tuple[int, int],
        marked: Sequence[tuple[bool, EventObject]],
    ) -> ReplacedEvent:
        objects = tuple(o for is_new, o in marked if is_new)
        retired = tuple(o for is_new, o in marked if not is_new)
        return ReplacedEvent(
            namespace=self.context.group.metadata.namespace,
            group=self.context.group.metadata.name,
            lane=self.context.lane,
            slot=replaced.slot,
            topic=topic,
            replacement=replaced.record,
            part=part[0],
            parts=part[1],
            rows=sum(o.rows for o in objects),
            retired_rows=sum(o.rows for o in retired),
            objects=objects,
            retired=retired,
        )

    def _is_selected(self, topic: str, period: Period) -> bool:
        if self.is_shortest and period.unit is not self._calendars.of(topic).units[-1]:
            return False
        is_unit = self.units is None or period.unit in self.units
        return is_unit and self.context.is_published(topic)

    def _period(self, slot: int, topic: str, period: Period) -> dict[str, Any]:
        return {
            "namespace": self.context.group.metadata.namespace,
            "group": self.context.group.metadata.name,
            "lane": self.context.lane,
            "slot": slot,
            "topic": topic,
            "output_partition": period.directory,
            "unit": period.unit.value,
            "start": period.start.isoformat(),
            "timezone": self._calendars.timezone(topic),
            "end": (_EPOCH + timedelta(milliseconds=period.end)).isoformat(),
        }

    def _of_period(
        self, kind: EventKind, period: Period, at: Finished | VisibleObject, data: PeriodFinished
    ) -> Event:
        label = period.directory or f"{period.unit.value} {period.start.isoformat()}"
        subject = f"{data.topic}/{label}"
        return self._event(kind=kind, name=subject, subject=subject, time=at.time, data=data)

    def _event(self, kind: EventKind, name: str, subject: str, time: str, data: EventData) -> Event:
        prefix = f"{self.context.group.metadata.name}/{self.context.lane}/{data.slot}"
        return Event(
            id=f"{prefix}/{kind.lower()}/{name}",
            kind=kind,
            source=self.source,
            subject=subject,
            time=time,
            data=data,
        )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _object(name: ObjectName, landed: LandedObject, url: Callable[[str], str]) -> EventObject:
    return EventObject(
        url=url(landed.key),
        output_partition=name.output_partition,
        partition=name.partition,
        first_offset=landed.first_offset,
        last_offset=landed.last_offset,
        rows=landed.rows,
        bytes=landed.upload.size,
    )


def _offsets(objects: Sequence[EventObject]) -> tuple[EventOffsets, ...]:
    found: dict[int, EventOffsets] = {}
    for o in objects:
        known = found.get(o.partition, EventOffsets(o.partition, o.first_offset, o.last_offset))
        found[o.partition] = EventOffsets(
            o.partition, min(known.first, o.first_offset), max(known.last, o.last_offset)
        )
    return tuple(found[partition] for partition in sorted(found))
