"""The ``data`` of events about what landed, as it is in JSON. Pure.

The names of fields are public: ``docs/guides/file-events.md`` describes them.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec


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


class Landed(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The ``data`` of an event of the kind ``Landed``.

    Attributes:
        namespace: of the group.
        group: its name.
        lane: of the group.
        slot: the first slot of the ledger that calls the objects visible.
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
        slot: from which on every record of the period is visible, but for late ones.
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
    """The ``data`` of an event of the kind ``Reopened``: what is late, of a period.

    Attributes:
        slot: the first slot of the ledger that calls the objects visible.
        objects: how many objects are late.
        rows: records in them.
        bytes: their size.
    """

    objects: int
    rows: int
    bytes: int


class Replaced(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The ``data`` of an event of the kind ``Replaced``.

    Attributes:
        namespace: of the group.
        group: its name.
        lane: of the group.
        slot: the first slot of the ledger that calls the new objects visible; the old ones are
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


EventData = Landed | PeriodFinished | Replaced
"""What an event says; the kinds ``Finished`` and ``Reopened`` are of periods."""
