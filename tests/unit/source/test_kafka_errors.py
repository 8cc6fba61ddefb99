"""A denial by the broker is reported early, and not taken for a timeout."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from landfall.errors import SourceAway, Stalled
from landfall.network import NO_TLS
from landfall.source.kafka_errors import ErrorTracker, fetch_metadata, translate_error


@dataclass
class Client:
    """A client whose requests time out, and whose error callback gets ``reported``, if anything."""

    errors: ErrorTracker
    reported: int | None = None
    timeouts: list[float] = field(default_factory=list)

    def list_topics(self, _topic: str | None, seconds: float) -> Any:
        self.timeouts.append(seconds)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def poll(self, _seconds: float) -> None:
        if self.reported is not None:
            self.errors.record(KafkaError(self.reported))


@pytest.mark.parametrize(
    ("reported", "raised", "timeouts"),
    [
        (KafkaError._AUTHENTICATION, KafkaError._AUTHENTICATION, [2.0]),
        (KafkaError._SSL, KafkaError._SSL, [2.0]),
        (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, [2.0, 58.0]),
        (None, KafkaError._TIMED_OUT, [2.0, 58.0]),
    ],
)
def test_a_denial_is_reported_without_waiting_for_the_timeout(
    reported: int | None, raised: int, timeouts: list[float]
) -> None:
    client = Client(ErrorTracker(), reported)

    with pytest.raises(KafkaException) as failed:
        fetch_metadata(client, client.errors, 60.0)  # type: ignore[arg-type]  # all it uses

    assert (failed.value.args[0].code(), client.timeouts) == (raised, timeouts)


@pytest.mark.parametrize(
    ("code", "text", "cause"),
    [
        (
            KafkaError._TRANSPORT,
            (
                "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused "
                "(after 0ms in state CONNECT)"
            ),
            "127.0.0.1:1: Connection refused",
        ),
        (
            KafkaError._RESOLVE,
            (
                "nosuch:9092/7: Failed to resolve 'nosuch:9092': Name or service not known "
                "(after 12ms in state CONNECT)"
            ),
            "nosuch:9092: no such host (Name or service not known)",
        ),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down", ""),
        (KafkaError._SSL, "ssl://h:1/bootstrap: SSL handshake failed", ""),
    ],
)
def test_the_cause_is_the_address_and_what_is_wrong_with_it(
    code: int, text: str, cause: str
) -> None:
    errors = ErrorTracker()

    errors.record(KafkaError(code, text))
    errors.record(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))

    assert errors.cause == cause


@pytest.mark.parametrize("address", ["ssl://h:1/bootstrap", "sasl_ssl://h:1/3", "h:1/bootstrap"])
def test_a_broker_without_tls_is_named_in_plain_words(address: str) -> None:
    text = (
        f"{address}: SSL handshake failed: error:0A00010B:SSL routines::wrong version number "
        "(after 8ms in state SSL_HANDSHAKE)"
    )

    assert str(translate_error(KafkaError(KafkaError._SSL, text), "topics")) == (
        f"topics: h:1: {NO_TLS}"
    )


@pytest.mark.parametrize(
    ("alert", "is_denied"),
    [
        ("ssl/tls alert bad certificate: SSL alert number 42", True),
        ("tlsv13 alert certificate required: SSL alert number 116", True),
        ("tlsv1 alert unknown ca: SSL alert number 48", True),
        ("tlsv1 alert internal error: SSL alert number 80", False),
    ],
)
def test_a_refused_certificate_of_the_client_is_a_denial(alert: str, *, is_denied: bool) -> None:
    text = f"ssl://h:1/1: Receive failed: error:0A000412:SSL routines::{alert} (after 5ms in state)"
    errors = ErrorTracker()
    error = KafkaError(KafkaError._TRANSPORT, text)

    errors.record(error)

    assert (errors.denial is not None) is is_denied
    assert isinstance(translate_error(error, "topics"), Stalled if is_denied else SourceAway)
    assert (
        "refuses the client's certificate" in str(translate_error(error, "topics"))
    ) is is_denied
