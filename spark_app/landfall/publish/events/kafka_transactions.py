"""A position in a ledger that Kafka keeps, and moves in one transaction with messages.

The position is the offset that a consumer group has for partition 0 of the messages' topic: the
first slot that is not sent yet. The transactional id is the name of that group, so a new session
ends every earlier one: Kafka aborts its open transaction, or completes one that was decided, and
refuses what it sends afterwards. Therefore the position is read after that, and is right until the
next session begins. Readers of committed records see the messages of each transaction once.

Source: KIP-98, "Exactly Once Delivery and Transactional Messaging", and KIP-447, which keeps a
reader of offsets waiting while a transaction is about to change them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
)
from confluent_kafka import TopicPartition as Position

from landfall.errors import (
    DestinationAway,
    DestinationDenied,
    LandfallError,
    Reason,
    Stalled,
)
from landfall.source.kafka_errors import ErrorTracker, fetch_metadata
from landfall.source.properties import EXACTNESS_PROPERTIES, create_client

_PRODUCER_PROPERTIES: Mapping[str, object] = {
    "enable.idempotence": True,
    "acks": "all",
    "allow.auto.create.topics": False,
}
_DEFAULTS: Mapping[str, object] = {"linger.ms": 5, "log_level": 2}
RESERVED = (
    _PRODUCER_PROPERTIES.keys()
    | EXACTNESS_PROPERTIES.keys()
    | {"transactional.id", "request.required.acks", "enable.gapless.guarantee"}
    | {"bootstrap.servers", "metadata.broker.list", "group.id", "group.instance.id"}
)
"""Properties that exactly-once depends on; a user cannot change them."""

_WITHDRAWN = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001  # librdkafka's local errors are spelled so
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
_DENIED: Mapping[int, str] = {
    KafkaError._AUTHENTICATION: "",  # noqa: SLF001
    KafkaError._SSL: "",  # noqa: SLF001
    KafkaError.SASL_AUTHENTICATION_FAILED: "",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        ": Write and Describe are needed on the transactional id {name}"
    ),
    KafkaError.GROUP_AUTHORIZATION_FAILED: ": Read is needed on the group {name}",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        ": Write, Describe and Read are needed on it, since the position is an offset of it"
    ),
}
_CONFLICTS = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
    }
)


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Destination:
    """The topic of the messages, and the name of the position.

    Attributes:
        topic: of the messages; it must exist.
        name: the consumer group and the transactional id.
        ledger: the ledger that the position is of; stored with it.
        properties: of librdkafka; they contain secrets.
        field: of the spec, with which messages about properties begin.
        timeout_seconds: of a request.
    """

    topic: str
    name: str
    ledger: str
    properties: Mapping[str, object]
    field: str
    timeout_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class BrokerState:
    """Kafka's state: the id of the cluster, and the position; None if it has none of the ledger.

    The position is the last slot that is sent; -1 for none.
    """

    cluster: str
    through: int | None


def look(to: Destination) -> BrokerState:
    """Read Kafka's state without ending another client's session.

    Raises:
        DestinationAway, Stalled: as ``Session``.
    """
    errors = ErrorTracker()
    with _Translated(to, errors):
        consumer = _consumer(to, errors)
        try:
            return BrokerState(_cluster(to, consumer, errors), _through(to, consumer))
        finally:
            consumer.close()


@dataclass
class Session:
    """The only sender under a name, until another client begins a session.

    Attributes:
        to: where to.
        found: Kafka's state at the start.
    """

    to: Destination
    found: BrokerState = field(init=False)

    def __post_init__(self) -> None:
        """End earlier sessions and read the position.

        Raises:
            DestinationAway: Kafka does not answer, or denies something.
            Stalled: DESTINATION_CONFLICT, the topic does not exist; SPEC_INVALID, a property.
        """
        self._errors = ErrorTracker()
        with _Translated(self.to, self._errors):
            self._consumer: Any = _consumer(self.to, self._errors)
            try:
                cluster = _cluster(self.to, self._consumer, self._errors)
                self._producer: Any = _producer(self.to, self._errors)
                self._producer.init_transactions(self.to.timeout_seconds)
                # After earlier sessions are ended: none of them can move it any more.
                self.found = BrokerState(cluster, _through(self.to, self._consumer))
            except BaseException:
                self._consumer.close()
                raise

    def send(self, messages: Sequence[Message], through: int) -> None:
        """Send messages and move the position, in one transaction. After an error, ``close``.

        Raises:
            DestinationAway: Kafka does not answer, another session has begun, or the outcome is
                unknown.
            Stalled: as at the start, or a message is too large.
        """
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                refused.append(error)

        at = Position(self.to.topic, 0, through + 1, self.to.ledger)
        group = self._consumer.consumer_group_metadata()
        with _Translated(self.to, self._errors, refused):
            self._producer.begin_transaction()
            try:
                for message in messages:
                    self._produce(message, delivered)
                self._producer.send_offsets_to_transaction([at], group, self.to.timeout_seconds)
                self._producer.commit_transaction(self.to.timeout_seconds)
            except BaseException:
                # Only so that readers need not wait until Kafka aborts it.
                with suppress(KafkaException):
                    self._producer.purge()
                    self._producer.abort_transaction(5.0)
                raise

    def close(self) -> None:
        """Release the connections. A transaction that is open is aborted by the next session."""
        with suppress(KafkaException):
            self._producer.purge()
        self._consumer.close()

    def _produce(self, message: Message, delivered: Any) -> None:
        while True:
            try:
                self._producer.produce(
                    self.to.topic,
                    message.value,
                    message.key,
                    headers=list(message.headers),
                    on_delivery=delivered,
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return


@dataclass
class _Translated:
    """Raises errors of the client as Landfall's."""

    to: Destination
    errors: ErrorTracker
    refused: Sequence[KafkaError] = ()

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Translate."""
        if isinstance(error, KafkaException):
            # The error of a message, or of the login, is why a transaction failed.
            said = [*self.refused, *filter(None, [self.errors.denial]), error.args[0]]
            raise translated(next(filter(_is_specific, said), said[-1]), self.to) from error


def _is_specific(error: KafkaError) -> bool:
    return error.code() in _CONFLICTS | _WITHDRAWN | _DENIED.keys()


def translated(error: KafkaError, to: Destination) -> LandfallError:
    """The Landfall error for an error of the client."""
    message, code = f"topic {to.topic}: {error.str()}", error.code()
    if code in _WITHDRAWN:
        return DestinationAway(
            f"topic {to.topic}: another publisher has begun under the name {to.name}"
        )
    if code in _DENIED:
        return DestinationDenied(message + _DENIED[code].format(name=to.name))
    if code in _CONFLICTS:
        return Stalled(Reason.DESTINATION_CONFLICT, message)
    return DestinationAway(message)


def _consumer(to: Destination, errors: ErrorTracker) -> Any:
    own = {**EXACTNESS_PROPERTIES, "group.id": to.name, "error_cb": errors.record}
    return create_client(Consumer, {**_DEFAULTS, **to.properties, **own}, to.field)


def _producer(to: Destination, errors: ErrorTracker) -> Any:
    own = {**_PRODUCER_PROPERTIES, "transactional.id": to.name, "error_cb": errors.record}
    return create_client(Producer, {**_DEFAULTS, **to.properties, **own}, to.field)


def _cluster(to: Destination, consumer: Any, errors: ErrorTracker) -> str:
    """The id of the cluster.

    Raises:
        Stalled: DESTINATION_CONFLICT, it has no such topic.
        KafkaException: it does not answer, or denies the topic.
    """
    metadata = fetch_metadata(consumer, errors, to.timeout_seconds, to.topic)
    found = metadata.topics[to.topic]
    if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise Stalled(Reason.DESTINATION_CONFLICT, f"topic {to.topic}: does not exist: create it")
    if found.error is not None:
        raise KafkaException(found.error)
    return str(metadata.cluster_id)


def _through(to: Destination, consumer: Any) -> int | None:
    [found] = consumer.committed([Position(to.topic, 0)], to.timeout_seconds)
    if found.error is not None:
        raise KafkaException(found.error)
    is_of_ledger = (found.metadata or "") in {"", to.ledger}
    return found.offset - 1 if found.offset >= 0 and is_of_ledger else None
