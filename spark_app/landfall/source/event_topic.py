"""Notifications of S3 in a topic of Kafka.

The topic is read from its end on: what was written before is found by listing. No offset is
committed, so that any number of drivers reads the same notifications, and none leaves a trace.
"""

import time
from collections.abc import Sequence

from confluent_kafka import OFFSET_END, Consumer, KafkaException
from confluent_kafka import TopicPartition as Position

from landfall.api.spec import EventTopic
from landfall.errors import LandfallError, SourceAway
from landfall.source.kafka_errors import ErrorTracker, fetch_metadata, translate_error
from landfall.source.properties import create_client, properties_of

SECTION = "spec.source.files[].events.kafka"
GROUP_ID = "landfall.file-events"
"""A client must have one; nothing is committed under it."""
REFRESH_SECONDS = 300.0
"""How often to look whether the topic has other partitions."""
_ANSWER_SECONDS = 10.0
_WAIT_SECONDS = 1.0
_MOST_EVENTS = 500


class TopicEvents:
    """``EventSource`` of a topic of Kafka."""

    def __init__(self, topic: EventTopic) -> None:
        """Begin at the end of the topic.

        Raises:
            Stalled: SPEC_INVALID, TOPIC_MISSING or SOURCE_DENIED.
            Retry: the brokers do not answer.
        """
        self._topic = topic.topic
        self._errors = ErrorTracker()
        properties: dict[str, object] = {
            **properties_of(topic, SECTION),
            "group.id": GROUP_ID,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "allow.auto.create.topics": False,
            "log_level": 2,
            "error_cb": self._errors.record,
        }
        self._consumer = create_client(Consumer, properties, f"{SECTION}.properties")
        try:
            self._partitions = self._find_partitions()
            ends = [Position(self._topic, number, OFFSET_END) for number in self._partitions]
            self._consumer.assign(ends)
        except BaseException:
            self.close()
            raise

    def receive(self) -> Sequence[bytes]:
        """See ``EventSource``."""
        if time.monotonic() - self._looked > REFRESH_SECONDS:
            self._check()
        try:
            messages = self._consumer.consume(_MOST_EVENTS, _WAIT_SECONDS)
        except KafkaException as error:
            raise self._translate(error) from error
        for message in messages:
            if (wrong := message.error()) is not None:
                raise translate_error(wrong, self._topic)
        if not messages and self._errors.last is not None:
            self._check()
        return [message.value() or b"" for message in messages]

    def forget(self) -> None:
        """Do nothing: the topic's retention does."""

    def close(self) -> None:
        """See ``EventSource``."""
        self._consumer.close()

    def _check(self) -> None:
        """Return if the brokers answer, and the topic is as it was: else it is opened again.

        The client itself would wait for ever. What is written meanwhile is found by listing.
        """
        if self._find_partitions() != self._partitions:
            raise SourceAway(f"events in topic {self._topic}: its partitions have changed")

    def _find_partitions(self) -> frozenset[int]:
        try:
            found = fetch_metadata(self._consumer, self._errors, _ANSWER_SECONDS, self._topic)
        except KafkaException as error:
            raise self._translate(error) from error
        described = found.topics[self._topic]
        if described.error is not None:
            raise translate_error(described.error, f"events in topic {self._topic}")
        self._looked = time.monotonic()
        return frozenset(described.partitions)

    def _translate(self, error: KafkaException) -> LandfallError:
        what = f"events in topic {self._topic}"
        translated, cause = translate_error(error, what), self._errors.cause
        is_away = isinstance(translated, SourceAway)
        return SourceAway(f"{what}: {cause}") if is_away and cause else translated
