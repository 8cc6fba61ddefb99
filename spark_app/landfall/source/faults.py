"""What the Kafka client's errors mean for us."""

from confluent_kafka import KafkaError, KafkaException

from landfall.errors import LandfallError, Reason, Retry, Stalled

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


def meaning(error: KafkaError | KafkaException, what: str) -> LandfallError:
    """What an error of the client means for us; ``what`` says what was tried, such as ``clicks/3 at offset 42``."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    message = f"{what}: {cause.str()}"
    if cause.code() in _DENIED:
        return Stalled(Reason.SOURCE_DENIED, message)
    if cause.code() in _ABSENT:
        return Stalled(Reason.TOPIC_MISSING, message)
    return Retry(message)


def denied(error: KafkaError) -> bool:
    """Whether the broker refuses us: the client itself would go on trying for ever."""
    return error.code() in _DENIED
