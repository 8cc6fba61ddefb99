"""How to reach a group's Kafka, in librdkafka's properties.

They come from three places, the later winning: the addresses in the spec, its plain properties, the
secret's files. Those that exactness hangs on are ours and are refused wherever they turn up.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from landfall.api.secrets import read_secret
from landfall.api.spec import ConsumerGroup
from landfall.api.values import Scalar
from landfall.errors import Reason, Stalled

T = TypeVar("T")

READING: Mapping[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "check.crcs": True,
    "allow.auto.create.topics": False,
}
"""Exactness hangs on these."""

PACE: Mapping[str, object] = {
    # what was fetched beyond the end of a slice is thrown away: little is asked for ahead, but
    # asked for again at once
    "queued.max.messages.kbytes": 8 * 1024,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 10,
    # a message may be larger than any of these but the last
    "fetch.message.max.bytes": 2 * 2**20,
    "fetch.max.bytes": 64 * 2**20,
    "receive.message.max.bytes": 256 * 2**20,
    # an unreachable broker is told by our errors; librdkafka would tell it twenty times a second
    "log_level": 2,
}
"""How much is fetched at a time; a user's properties override these."""

_OURS = READING.keys() | {
    "bootstrap.servers",
    "metadata.broker.list",
    "group.id",
    "group.instance.id",
    "auto.commit.enable",
}


def kafka_properties(group: ConsumerGroup) -> dict[str, str]:
    """How to reach this group's Kafka, in librdkafka's names. Holds secrets: never log it.

    Of the secret's files, ``properties`` holds ``key=value`` lines, every other file is the
    property of its name.

    Raises:
        Stalled: SPEC_INVALID, a property is one of those that exactness hangs on, or a line is not
            ``key=value``.
    """
    kafka = group.spec.source.kafka
    written = {key: _text(value) for key, value in kafka.properties.items() if value is not None}
    files = read_secret(kafka.properties_secret_ref.name) if kafka.properties_secret_ref else {}
    lines = dict(_lines(files.get("properties", "")))
    single = {name: text.strip() for name, text in files.items() if name != "properties"}
    merged = {**written, **lines, **single}
    if refused := sorted(_OURS & merged.keys()):
        raise Stalled(
            Reason.SPEC_INVALID, f"source.kafka: landfall sets {', '.join(refused)} itself"
        )
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": group.kafka_group_id,
        **merged,
    }


def connected(kind: Callable[[dict[str, Any]], T], properties: Mapping[str, object]) -> T:
    """A client of these properties.

    Raises:
        Stalled: SPEC_INVALID, the client knows no such property or value; the message names no
            value.
    """
    try:
        return kind(dict(properties))
    except KafkaException as error:
        said = error.args[0].str()
        for value in properties.values():
            said = said.replace(f'"{value}"', "its value")
        raise Stalled(Reason.SPEC_INVALID, f"source.kafka: {said}") from None


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            key, found, value = line.partition("=")
            if not found:
                raise Stalled(
                    Reason.SPEC_INVALID,
                    f"source.kafka: secret's properties, line {number}: not key=value",
                )
            yield key.strip(), value.strip()
