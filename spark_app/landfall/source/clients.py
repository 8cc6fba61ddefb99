"""The clients by which a task reads Kafka: confluent-kafka, or the extension with the same library.

``open_client`` chooses. Both are librdkafka with the same properties, and raise the same errors, of
confluent-kafka. Other parts of Landfall use confluent-kafka alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from landfall.native import HotPath, hot_path
from landfall.pipeline.records import Int64s
from landfall.source.kafka_errors import ErrorTracker, MetadataClient
from landfall.source.messages import Fetch, FetchError, Messages, RowHeaders
from landfall.source.properties import CALLBACK, create_client

_POLL_SECONDS = 0.1
_ONLY_PYTHON = frozenset(
    {
        # confluent-kafka looks for plug-ins among its own files, and for tokens of AWS.
        "plugin.library.paths",
        "sasl.oauthbearer.metadata.authentication.type",
        # A function of Python.
        CALLBACK,
    }
)


class Client(MetadataClient, Protocol):
    """A consumer that joins no group. Methods raise KafkaException, as confluent-kafka's do."""

    def assign(self, positions: list[Position], /) -> None:
        """Begin to fetch topic partitions, and these only."""
        ...

    def unassign(self) -> None:
        """Stop fetching."""
        ...

    def seek(self, position: Position, /) -> None:
        """Continue an assigned topic partition at another position."""
        ...

    def fetch(self, max_messages: int) -> Fetch:
        """The next messages, errors among them; nothing if nothing comes for a moment."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def open_client(
    properties: Mapping[str, object], errors: ErrorTracker, path: HotPath | None = None
) -> Client:
    """A client of the process's hot path, whose errors as a whole go to ``errors``.

    Raises:
        Stalled: SPEC_INVALID, see ``create_client``.
    """
    path = path or hot_path()
    if path.module is None or _ONLY_PYTHON & properties.keys():
        return PythonClient(properties, errors)
    return NativeClient(properties, errors, path)


class PythonClient:
    """confluent-kafka's ``Consumer``."""

    def __init__(self, properties: Mapping[str, object], errors: ErrorTracker) -> None:
        """Create it; raises as ``open_client``."""
        consumer = create_client(Consumer, {**properties, "error_cb": errors.record})
        self._consumer = consumer
        self.assign = consumer.assign
        self.unassign = consumer.unassign
        self.seek = consumer.seek
        self.list_topics = consumer.list_topics
        self.poll = consumer.poll
        self.close = consumer.close

    def fetch(self, max_messages: int) -> Fetch:
        """See ``Client``."""
        # consume(n, t) waits until it has n. So wait only for the first, then take what came with
        # it.
        found = self._consumer.consume(1, _POLL_SECONDS)
        if found and max_messages > 1:
            found += self._consumer.consume(max_messages - 1, 0)
        return Fetch.of(found) if found else Fetch()


class NativeClient:
    """The extension's ``Consumer``."""

    def __init__(
        self, properties: Mapping[str, object], errors: ErrorTracker, path: HotPath
    ) -> None:
        """Create it; raises as ``open_client``."""
        self._errors = errors
        self._refusal = path.module.ClientError

        def create(texts: Mapping[str, Any]) -> Any:
            values = [(key, None if v is None else str(v)) for key, v in texts.items()]
            with self._translated():
                return path.module.Consumer(path.librdkafka, values)

        self._consumer = create_client(create, properties)

    def assign(self, positions: list[Position]) -> None:
        """See ``Client``."""
        with self._translated():
            self._consumer.assign([_position(position) for position in positions])

    def unassign(self) -> None:
        """See ``Client``."""
        with self._translated():
            self._consumer.unassign()

    def seek(self, position: Position) -> None:
        """See ``Client``."""
        with self._translated():
            self._consumer.seek(_position(position))

    def fetch(self, max_messages: int) -> Fetch:
        """See ``Client``."""
        with self._translated():
            groups, failed = self._consumer.fetch(max_messages, int(_POLL_SECONDS * 1000))
        self._track()
        messages = {
            (topic, partition): Messages.of(NativeFetched(batch))
            for topic, partition, batch in groups
        }
        errors = [
            FetchError(KafkaError(code, message), (topic, partition), offset)
            for code, message, topic, partition, offset in failed
        ]
        return Fetch(messages, errors)

    def list_topics(self, topic: str | None, timeout: float) -> "BrokerMetadata":
        """See ``Client``; a topic must be named."""
        try:
            with self._translated():
                found = self._consumer.metadata(topic, int(timeout * 1000))
        finally:
            self._track()
        return BrokerMetadata(
            {
                name: TopicMetadata(KafkaError(code, message) if code else None, ids)
                for name, code, message, ids in found
            }
        )

    def poll(self, timeout: float) -> None:  # noqa: ARG002  # of the protocol; it never waits
        """See ``Client``."""
        self._consumer.poll()
        self._track()

    def close(self) -> None:
        """See ``Client``."""
        self._consumer.close()

    def _track(self) -> None:
        for code, message in self._consumer.reported():
            self._errors.record(KafkaError(code, message))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._refusal as error:
            raise KafkaException(KafkaError(*error.args)) from error


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The part of confluent-kafka's ``TopicMetadata`` that is read here."""

    error: KafkaError | None
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """The part of confluent-kafka's ``ClusterMetadata`` that is read here."""

    topics: Mapping[str, TopicMetadata]


@dataclass(frozen=True, slots=True)
class NativeFetched:
    """Messages that stay in the extension, as ``messages.Fetched``; columns are one copy each."""

    found: Any

    def __len__(self) -> int:
        return len(self.found)

    def part(self, start: int, end: int) -> "NativeFetched":
        """See ``Fetched``."""
        return NativeFetched(self.found.part(start, end))

    def joined(self, later: "NativeFetched") -> "NativeFetched":
        """See ``Fetched``."""
        return NativeFetched(self.found.joined(later.found))

    def offsets(self) -> Int64s:
        """See ``Fetched``."""
        return np.frombuffer(self.found.offsets(), np.int64)

    def sizes(self) -> Int64s:
        """See ``Fetched``."""
        return np.frombuffer(self.found.sizes(), np.int64)

    def payload_sizes(self) -> Int64s:
        """See ``Fetched``."""
        return np.frombuffer(self.found.payload_sizes(), np.int64)

    def timestamps(self) -> Int64s:
        """See ``Fetched``."""
        return np.frombuffer(self.found.timestamps(), np.int64)

    def values(self) -> pa.BinaryArray:
        """See ``Fetched``."""
        return _binary(len(self), *self.found.values())

    def keys(self) -> pa.BinaryArray:
        """See ``Fetched``."""
        return _binary(len(self), *self.found.keys())

    def headers(self) -> list[RowHeaders]:
        """See ``Fetched``."""
        headers: list[RowHeaders] = self.found.headers()
        return headers

    def leader_epoch(self) -> int | None:
        """See ``Fetched``."""
        epoch: int | None = self.found.leader_epoch()
        return epoch


def _binary(rows: int, valid: Any, bounds: Any, contents: Any, nulls: int) -> pa.BinaryArray:
    buffers = [None if valid is None else pa.py_buffer(valid)]
    buffers += [pa.py_buffer(bounds), pa.py_buffer(contents)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)


def _position(position: Position) -> tuple[str, int, int, int | None]:
    return position.topic, position.partition, position.offset, position.leader_epoch
