"""What the Kafka client's errors mean for us.

A client that is refused goes on trying for ever: whoever waits for an answer sees a time-out, and
why is told to a callback alone. ``Trouble`` is that callback, and ``metadata`` the first call of a
client, which tells a refusal soon.
"""

from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from landfall.errors import LandfallError, Reason, SourceAway, Stalled

_DENIED = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001  # librdkafka's local errors are spelled so
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)

_ABSENT = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)

_FIRST_LOOK_SECONDS = 2.0


def meaning(error: KafkaError | KafkaException, what: str) -> LandfallError:
    """What an error of the client means for us; ``what`` says what was tried, such as ``clicks/3 at offset 42``."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    message = f"{what}: {cause.str()}"
    if cause.code() in _DENIED:
        return Stalled(Reason.SOURCE_DENIED, message)
    if cause.code() in _ABSENT:
        return Stalled(Reason.TOPIC_MISSING, message)
    return SourceAway(message)


def denied(error: KafkaError) -> bool:
    """Whether the broker refuses us: the client itself would go on trying for ever."""
    return error.code() in _DENIED


@dataclass
class Trouble:
    """The client's ``error_cb``; ``last`` is the last error it told, or the refusal that others came after."""

    last: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        """Keep an error in mind."""
        if self.refusal is None:  # "all brokers are down" comes after it and says less
            self.last = error

    def clear(self) -> None:
        """Forget it: the broker has answered since."""
        self.last = None

    @property
    def refusal(self) -> KafkaError | None:
        """Why the broker refuses us, or None."""
        return self.last if self.last is not None and denied(self.last) else None


def metadata(
    client: AdminClient | Consumer, trouble: Trouble, seconds: float, topic: str | None = None
) -> ClusterMetadata:
    """What the broker says of a topic, or of all of them.

    Raises:
        KafkaException: no answer within ``seconds``; a refusal is told after
            ``_FIRST_LOOK_SECONDS``.
    """
    patience = min(seconds, _FIRST_LOOK_SECONDS)  # callbacks are served between two calls only
    while True:
        try:
            found = client.list_topics(topic, patience)
        except KafkaException as error:
            client.poll(0)
            if trouble.refusal is not None:
                raise KafkaException(trouble.refusal) from error
            if patience >= seconds:
                raise
            patience = seconds
        else:
            client.poll(0)
            trouble.clear()
            return found
