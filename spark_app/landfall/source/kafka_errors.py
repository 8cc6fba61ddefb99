"""Translates the Kafka client's errors to Landfall's.

A client that is denied access keeps trying: the caller only sees a timeout, and the cause goes to
the client's error callback. ``ErrorTracker`` is that callback, and ``fetch_metadata`` is the first
call of a client, which reports a denial early.
"""

import re
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException

from landfall.errors import LandfallError, Reason, SourceAway, Stalled
from landfall.network import NO_TLS

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

_UNREACHED = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE})  # noqa: SLF001  # as above
_NOISE = re.compile(r"/(bootstrap|\d+)(?=: )| \(after \d+ms in state .*\)$")
_CONNECT = re.compile(r"Connect to \S+ failed: ")
_RESOLVE = re.compile(r"Failed to resolve '[^']*': (.+)")
_NO_TLS = re.compile(
    r"^(?:\w+://)?(?P<server>[^/\s]+?)(?:/\w+)?: SSL handshake failed: .*"
    r"(?:wrong version number|packet length too long|record layer failure|http request)"
)

_CERTIFICATE_REFUSED = re.compile(r"(?i)(alert [\w ]*): SSL alert number (4[2-689]|116)\b")
"""The broker's alerts about a client's certificate (RFC 8446, 6.2), which arrive after TLS 1.3's
handshake, so that librdkafka takes them for a broken connection.
"""

_FIRST_TIMEOUT_SECONDS = 2.0


def translate_error(error: KafkaError | KafkaException, operation: str) -> LandfallError:
    """The Landfall error for an error of the client.

    ``operation`` is what failed, such as ``clicks/3[40, 50)``, and begins the message.
    """
    cause = error.args[0] if isinstance(error, KafkaException) else error
    plain = _NO_TLS.match(cause.str())
    why = f"{plain['server']}: {NO_TLS}" if plain else cause.str()
    if alert := _CERTIFICATE_REFUSED.search(why):
        why = f"the broker refuses the client's certificate, or wants one (TLS {alert[1]})"
    message = f"{operation}: {why}"
    if _is_denial(cause):
        return Stalled(Reason.SOURCE_DENIED, message)
    if cause.code() in _ABSENT:
        return Stalled(Reason.TOPIC_MISSING, message)
    return SourceAway(message)


def _is_denial(error: KafkaError) -> bool:
    return error.code() in _DENIED or _CERTIFICATE_REFUSED.search(error.str()) is not None


def is_denied_topic(error: KafkaError | KafkaException) -> bool:
    """Return whether access to one topic is denied, while other topics may be readable."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return bool(cause.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)


@dataclass
class ErrorTracker:
    """Keeps the errors of a client's ``error_cb``: the last one, or a denial if there was one."""

    last: KafkaError | None = None

    def record(self, error: KafkaError) -> None:
        """Keep an error, unless a denial is kept already."""
        # "All brokers are down" follows the cause and is less specific.
        is_summary = error.code() == KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001  # as above
        if self.denial is None and not (is_summary and self.last is not None):
            self.last = error

    def clear(self) -> None:
        """Discard the error: the broker has responded since."""
        self.last = None

    @property
    def cause(self) -> str:
        """Why the broker was not reached, after its address; empty if that is not known."""
        if self.last is None or self.last.code() not in _UNREACHED:
            return ""
        text = _NOISE.sub("", self.last.str())
        return _RESOLVE.sub(r"no such host (\1)", _CONNECT.sub("", text))

    @property
    def denial(self) -> KafkaError | None:
        """The error with which the broker denied access; None if it did not."""
        return self.last if self.last is not None and _is_denial(self.last) else None


class MetadataClient(Protocol):
    """A client of confluent-kafka, or one with the same two methods."""

    def list_topics(self, topic: str | None, timeout: float, /) -> Any:
        """The broker's metadata of a topic, or of all topics, as ``ClusterMetadata``."""
        ...

    def poll(self, timeout: float, /) -> Any:
        """Let errors of the whole client reach its callback."""
        ...


def fetch_metadata(
    client: MetadataClient, errors: ErrorTracker, seconds: float, topic: str | None = None
) -> Any:
    """The broker's metadata of a topic, or of all topics.

    Raises:
        KafkaException: no response within ``seconds``. A denial is raised after
            ``_FIRST_TIMEOUT_SECONDS``.
    """
    # A short first attempt: callbacks run only between calls, so a denial is seen after the call.
    timeout = min(seconds, _FIRST_TIMEOUT_SECONDS)
    is_last = timeout >= seconds
    while True:
        try:
            found = client.list_topics(topic, timeout)
        except KafkaException as error:
            client.poll(0)
            if errors.denial is not None:
                raise KafkaException(errors.denial) from error
            if is_last:
                raise
            timeout, is_last = seconds - timeout, True
        else:
            client.poll(0)
            errors.clear()
            return found
