"""The librdkafka properties for a group's Kafka.

They come from the addresses in the spec, its plain properties, and the files of its secret; a later
source overrides an earlier one. Properties that exactly-once depends on are set by Landfall and
rejected everywhere else.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pkgutil import resolve_name
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from landfall.api.secrets import read_secret
from landfall.api.spec import ConsumerGroup, EventTopic, Kafka
from landfall.api.values import Scalar
from landfall.api.words import did_you_mean
from landfall.errors import Reason, Stalled
from landfall.source.property_names import NAMES, OF_JAVA

T = TypeVar("T")

EXACTNESS_PROPERTIES: Mapping[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "check.crcs": True,
    "allow.auto.create.topics": False,
}
"""Consumer properties that exactly-once depends on; a user cannot change them."""

LOG_PROPERTIES: Mapping[str, object] = {
    # Landfall's own errors report an unreachable broker; librdkafka would log it twenty times a
    # second, and its notices go to the terminal of the user of a command.
    "log_level": 2,
}
"""Defaults for what librdkafka logs; a user's properties override them."""

_FETCH_BYTES, _ANSWER_BYTES = 64 * 2**20, 256 * 2**20
FETCH_PROPERTIES: Mapping[str, object] = {
    # What is fetched beyond the end of a slice is discarded. So little is fetched ahead, and the
    # next fetch follows at once.
    "queued.max.messages.kbytes": 8 * 1024,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 10,
    # A message may be larger than any of these but the last.
    "fetch.message.max.bytes": 2 * 2**20,
    "fetch.max.bytes": _FETCH_BYTES,
    "receive.message.max.bytes": _ANSWER_BYTES,
    **LOG_PROPERTIES,
}
"""Defaults for how much is fetched at a time; ``with_fetch_properties`` applies them."""
_MESSAGE_BYTES = 1_000_000
"""librdkafka's default for ``message.max.bytes``, below which it accepts no fetch."""
_FRAME_BYTES = 512
"""By how much librdkafka wants an answer to be larger than what is fetched with it."""

CALLBACK = "oauth_cb"
"""The property of confluent-kafka that names what gives tokens for OAUTHBEARER; no librdkafka's."""

_RESERVED = EXACTNESS_PROPERTIES.keys() | {
    "bootstrap.servers",
    "metadata.broker.list",
    "group.id",
    "group.instance.id",
    "auto.commit.enable",
}


def with_fetch_properties(properties: Mapping[str, object]) -> dict[str, object]:
    """The properties with ``FETCH_PROPERTIES`` for what they do not set.

    A limit that has to be as large as another one grows with that, and one that has to be smaller
    shrinks: librdkafka does the same, but only for limits that are not set.
    """
    fetch, answer = "fetch.max.bytes", "receive.message.max.bytes"
    message_bytes = _number(properties.get("message.max.bytes")) or _MESSAGE_BYTES
    fetch_bytes, answer_bytes = _number(properties.get(fetch)), _number(properties.get(answer))
    if fetch_bytes is None:
        most = _FETCH_BYTES if answer_bytes is None else answer_bytes - _FRAME_BYTES
        fetch_bytes = max(min(_FETCH_BYTES, most), message_bytes)
    if answer_bytes is None:
        answer_bytes = max(_ANSWER_BYTES, fetch_bytes + _FRAME_BYTES)
    return {**FETCH_PROPERTIES, fetch: fetch_bytes, answer: answer_bytes, **properties}


def _number(value: object) -> int | None:
    """A number of bytes; None if it is not set, or no number, which librdkafka reports better."""
    try:
        return int(str(value))
    except ValueError:
        return None


def kafka_properties(group: ConsumerGroup) -> dict[str, str]:
    """The librdkafka properties of this group. They contain secrets: never log them.

    The secret's file ``properties`` holds ``key=value`` lines; any other file is the property of
    its name.

    Raises:
        Stalled: SPEC_INVALID, a property is reserved, or a line is not ``key=value``.
    """
    merged = properties_of(group.spec.source.require_kafka(), _SECTION)
    return {**merged, "group.id": group.kafka_group_id}


def properties_of(kafka: Kafka | EventTopic, section: str) -> dict[str, str]:
    """The librdkafka properties that a section of the spec gives, with the brokers' addresses.

    Raises:
        Stalled: SPEC_INVALID, as ``kafka_properties``; the message begins with ``section``.
    """
    plain = {key: _text(value) for key, value in kafka.properties.items() if value is not None}
    secret = read_secret(kafka.properties_secret_ref.name) if kafka.properties_secret_ref else {}
    merged = {**plain, **secret_properties(secret, f"{section}.propertiesSecretRef")}
    if reserved := sorted(_RESERVED & merged.keys()):
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{section}.properties: landfall sets {', '.join(reserved)} itself",
        )
    return {"bootstrap.servers": kafka.bootstrap_servers, **merged}


def secret_properties(secret: Mapping[str, str], field: str) -> dict[str, str]:
    """The properties in the files of a secret: ``properties``, and single ones by their names.

    Raises:
        Stalled: SPEC_INVALID, a line is not ``key=value``; the message begins with ``field``.
    """
    lines = dict(_lines(secret.get("properties", ""), field))
    single = {name: text.strip() for name, text in secret.items() if name != "properties"}
    return {**lines, **single}


def create_client(
    kind: Callable[[dict[str, Any]], T], properties: Mapping[str, object], field: str = ""
) -> T:
    """A client of this kind with these properties; messages begin with ``field``.

    Raises:
        Stalled: SPEC_INVALID, librdkafka does not accept a property or its value. The message does
            not contain the value, which may be a secret.
    """
    try:
        return kind(_with_callback(properties, field or _FIELD))
    except KafkaException as error:
        # Without a cause: the original message quotes the value.
        message = _refusal(error.args[0].str(), properties)
        raise Stalled(Reason.SPEC_INVALID, f"{field or _FIELD}{message}") from None


def _with_callback(properties: Mapping[str, object], field: str) -> dict[str, Any]:
    """The properties with the function that ``oauth_cb`` names, ``package.module:name``."""
    name = properties.get(CALLBACK)
    if not isinstance(name, str):
        return dict(properties)
    try:
        function = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{field}.{CALLBACK}: cannot import {name!r:.80}: {error}"
        ) from error
    if ":" not in name or not callable(function):
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{field}.{CALLBACK}: expected package.module:function, got {name!r:.80}",
        )
    return {**properties, CALLBACK: function}


_SECTION = "spec.source.kafka"
_FIELD = f"{_SECTION}.properties"
_WITHOUT_KERBEROS = (
    ".sasl.mechanism: GSSAPI (Kerberos), which is the default, is not in the librdkafka of "
    "confluent-kafka's wheel: set PLAIN, SCRAM-SHA-512 or OAUTHBEARER, or install confluent-kafka "
    "into the image from source, with a librdkafka that has libsasl2"
)
_NAMED = re.compile(r'property:? "?([\w.]+)"?|value for "([\w.]+)"')


def _refusal(message: str, properties: Mapping[str, object]) -> str:  # noqa: PLR0911  # one line for each case
    """Librdkafka's refusal, after the property that it names and without any value."""
    name = next((java for java in OF_JAVA if java in properties), "")
    if name and ("JAAS" in message or f'"{name}"' in message):
        return f".{name}: is a property of the Java client, librdkafka has {OF_JAVA[name]}"
    if "SASL mechanism GSSAPI" in message:
        return _WITHOUT_KERBEROS
    found = _NAMED.search(message)
    if not found:
        for value in properties.values():
            message = message.replace(f'"{value}"', "its value")
        return f": {message}"
    name = found[1] or found[2]
    if message.startswith("No such"):
        return f".{name}: librdkafka has no such property{did_you_mean(name, NAMES)}"
    if match := re.search(r"allowed range ([-\d]+)\.\.([-\d]+)", message):
        return f".{name}: must be a number from {match[1]} to {match[2]}"
    if "true or false" in message:
        return f".{name}: must be true or false"
    return f".{name}: librdkafka does not accept this value"


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(text: str, field: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            key, found, value = line.partition("=")
            if not found:
                raise Stalled(
                    Reason.SPEC_INVALID,
                    f"{field}: properties in the secret, line {number}: not key=value",
                )
            yield key.strip(), value.strip()
