"""The driver's side of Kafka: topics, watermarks, offsets by time, the offset mirror.

Ends are last stable offsets: an offset below one will never change its visibility, so a planned
range always has the same records. Committed offsets of the Kafka group are written for others to
look at; nothing here reads them.
"""

import re
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from landfall.api.spec import ConsumerGroup, Kafka
from landfall.errors import LandfallError, Reason, Retry, SourceAway, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.source import Topic, Watermarks
from landfall.source.kafka_errors import Trouble, meaning, metadata
from landfall.source.properties import PACE, READING, connected, kafka_properties

T = TypeVar("T")

_EARLIEST: OffsetSpec = OffsetSpec.earliest()
_LATEST: OffsetSpec = OffsetSpec.latest()
_RECORD_TIME_SECONDS = 2.0
_LAST_MILLISECOND = 253_402_300_799_000
"""Of the year 9999, but for a second."""


class KafkaLog:
    """A group's topics, as a ``source.Log``. Connects at the first call; safe to use from several threads."""

    def __init__(
        self, group: ConsumerGroup, answer_timeout: timedelta = timedelta(seconds=10)
    ) -> None:
        """Give the broker ``answer_timeout`` for an answer.

        Raises:
            Stalled: SPEC_INVALID, the properties cannot be used.
        """
        self._seconds = answer_timeout.total_seconds()
        self._kafka = group.spec.source.kafka
        self._trouble = Trouble()
        properties: dict[str, Any] = {
            **PACE,
            **kafka_properties(group),
            "error_cb": self._trouble.note,
        }
        self._admin = connected(AdminClient, properties)
        self._mirror = connected(Consumer, {**properties, **READING})
        self._looking = Lock()
        self._known: set[str] = set()
        # a record long gone is stood in for by the first that is left
        self._looker = connected(
            Consumer, {**properties, **READING, "auto.offset.reset": "earliest"}
        )

    def topics(self) -> tuple[Topic, ...]:
        """The topics the group lands; those named in the spec that do not exist are left out."""
        try:
            known = metadata(self._admin, self._trouble, self._seconds).topics
        except KafkaException as error:
            raise self._meaning(error, "topics") from error
        return tuple(
            Topic(name, str(found.topic_id), len(found.partitions))
            for name, found in self._described(
                name for name in known if wanted(self._kafka, name)
            ).items()
            if not found.is_internal
        )

    def topic_ids(self, names: Collection[str]) -> Mapping[str, str]:
        """The id that each of these topics has now; a topic that is gone is left out."""
        return {name: str(found.topic_id) for name, found in self._described(names).items()}

    def watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, Watermarks]:
        """Log start and last stable offset of each, asked for in two calls; those that are gone are left out."""
        starts = self._offsets(tps, _EARLIEST)
        ends = self._offsets(starts, _LATEST)
        return {tp: Watermarks(min(starts[tp], end), end) for tp, end in ends.items()}

    def offsets_at(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, int]:
        """The first offset at or after ``time`` by record timestamps, which need not be in order; the end if none is."""
        found = self._offsets(tps, OffsetSpec.for_timestamp(int(time.timestamp() * 1000)))
        ends = self._offsets([tp for tp, offset in found.items() if offset < 0], _LATEST)
        return {
            tp: ends.get(tp, offset) for tp, offset in found.items() if tp in ends or offset >= 0
        }

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        """The timestamp of the first record at or after each offset; what is not known within two seconds is left out."""
        with self._looking:
            try:
                self._know({tp.topic for tp in positions})
                self._looker.assign(
                    [Position(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
                )
                return self._look(positions)
            except KafkaException as error:
                raise self._meaning(error, "record times") from error
            finally:
                self._looker.unassign()

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets to the Kafka group, as nobody's member; refused with ``Retry`` while it has members."""
        if not next_offsets:
            return
        positions = [
            Position(tp.topic, tp.partition, offset) for tp, offset in next_offsets.items()
        ]
        try:
            committed = self._mirror.commit(offsets=positions, asynchronous=False) or ()
        except KafkaException as error:
            raise self._mirror_error(error) from error
        for position in committed:
            if position.error is not None:
                raise self._mirror_error(position.error)

    def close(self) -> None:
        """Leave the broker."""
        self._mirror.close()
        self._looker.close()

    def _described(self, topics: Iterable[str]) -> Mapping[str, Any]:
        names = sorted(topics)
        if not names:
            return {}
        try:
            futures = self._admin.describe_topics(
                TopicCollection(names), request_timeout=self._seconds
            )
        except KafkaException as error:
            raise self._meaning(error, "topics") from error
        return self._present({name: futures[name] for name in names})

    def _offsets(
        self, tps: Collection[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        if not tps:
            return {}
        asked = {Position(tp.topic, tp.partition): spec for tp in tps}
        try:
            futures = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._seconds
            )
        except KafkaException as error:
            raise self._meaning(error, "offsets") from error
        found = self._present(
            {TopicPartition(p.topic, p.partition): future for p, future in futures.items()}
        )
        return {tp: result.offset for tp, result in found.items()}

    def _present(self, futures: Mapping[T, "Future[Any]"]) -> dict[T, Any]:
        """The answers, without those whose topic or Kafka partition does not exist."""
        answers = {}
        for asked, future in futures.items():
            try:
                answers[asked] = future.result()
            except KafkaException as error:
                fault = self._meaning(error, str(asked))
                if not (isinstance(fault, Stalled) and fault.reason is Reason.TOPIC_MISSING):
                    raise fault from error
        return answers

    def _know(self, topics: set[str]) -> None:
        # a client that does not know a topic yet may take a second to ask for its leaders by itself
        if not topics <= self._known:
            metadata(self._looker, self._trouble, self._seconds)
            self._known = topics

    def _look(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, datetime]:
        times: dict[TopicPartition, datetime] = {}
        unseen = set(positions)
        deadline = time.monotonic() + _RECORD_TIME_SECONDS
        while unseen and time.monotonic() < deadline:
            first: dict[TopicPartition, Message] = {}
            for message in self._looker.consume(len(unseen), 0.02):
                tp = _topic_partition(message)
                if tp in unseen:
                    first.setdefault(tp, message)
            if first:
                self._looker.incremental_unassign(
                    [Position(tp.topic, tp.partition) for tp in first]
                )
            unseen -= first.keys()
            times.update({tp: when for tp, message in first.items() if (when := _time(message))})
        return times

    def _meaning(self, error: KafkaException, what: str) -> LandfallError:
        """What an error means; behind a time-out may stand a refusal that only the callback was told."""
        fault = meaning(error, what)
        self._admin.poll(0)
        refusal = self._trouble.refusal
        return meaning(refusal, what) if refusal is not None and isinstance(fault, Retry) else fault

    def _mirror_error(self, error: KafkaError | KafkaException) -> LandfallError:
        fault = meaning(error, "offset mirror")
        return (
            fault
            if isinstance(fault, Stalled) and fault.reason is Reason.SOURCE_DENIED
            else SourceAway(str(fault))
        )


def wanted(kafka: Kafka, name: str) -> bool:
    """Whether a group lands the topic of this name: patterns match whole names, ``__`` topics are Kafka's own."""
    if name.startswith("__") or (kafka.exclude is not None and re.fullmatch(kafka.exclude, name)):
        return False
    return name in kafka.topics or bool(
        kafka.topic_pattern and re.fullmatch(kafka.topic_pattern, name)
    )


def _topic_partition(message: Message) -> TopicPartition | None:
    topic, partition = message.topic(), message.partition()
    return (
        TopicPartition(topic, partition)
        if topic and partition is not None and partition >= 0
        else None
    )


def _time(message: Message) -> datetime | None:
    _, milliseconds = message.timestamp()
    # whoever produces a record may date it in any year, also in none that a calendar has
    is_known = message.error() is None and 0 <= milliseconds <= _LAST_MILLISECOND
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if is_known else None
