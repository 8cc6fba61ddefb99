"""Kafka messages in bulk, as columns.

Clients give messages as ``Fetched``. Everything here maps C functions of confluent-kafka over lists
of its messages: a few calls per message, and no Python code of its own. ``source.native_client``
has the twin, whose messages stay in the extension.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Message

from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import CURRENT_RULES, LandingRules
from landfall.pipeline.records import HEADERS, Columns, Int64s, Records

Place: TypeAlias = tuple[str | None, int | None]
"""Topic and Kafka partition of a message; an error of the whole client has neither."""

_MILLISECONDS = itemgetter(1)  # of Message.timestamp(), a pair of type and milliseconds
_EMPTY_HEADERS = pa.nulls(0, HEADERS).values  # `pa.array` of a list imports pandas, if it is there
RowHeaders: TypeAlias = list[tuple[str, bytes | None]] | None
"""The headers of a message; None where a name is not UTF-8, which the client cannot read."""


class Fetched(Protocol):
    """Consecutive messages of one topic partition, as a client gave them; none is an error."""

    def __len__(self) -> int: ...

    def part(self, start: int, end: int) -> Self:
        """The messages ``start <= i < end``."""
        ...

    def joined(self, later: Self) -> Self:
        """Return these messages, then later ones of the same client."""
        ...

    def offsets(self) -> Int64s:
        """Offsets, shape (messages,)."""
        ...

    def sizes(self) -> Int64s:
        """Sizes of payloads, keys and headers together, in bytes, shape (messages,)."""
        ...

    def payload_sizes(self) -> Int64s:
        """Sizes of payloads in bytes, shape (messages,)."""
        ...

    def timestamps(self) -> Int64s:
        """Timestamps in milliseconds, shape (messages,); -1 where there is none."""
        ...

    def values(self) -> pa.BinaryArray:
        """Payloads; null is a tombstone."""
        ...

    def keys(self) -> pa.BinaryArray:
        """Keys; null where there is none."""
        ...

    def headers(self) -> list[RowHeaders]:
        """The headers of each message; they are made again by each call."""
        ...

    def leader_epoch(self) -> int | None:
        """The leader epoch of the last message, if it is known."""
        ...


@dataclass(frozen=True, slots=True)
class PythonFetched:
    """Messages of confluent-kafka: one Python object each.

    Attributes:
        found: the messages.
        read_headers: the headers of each, which the client can be asked for only once; empty if
            none are read.
    """

    found: list[Message]
    read_headers: list[RowHeaders] = field(default_factory=list)

    @classmethod
    def of(cls, found: list[Message]) -> "PythonFetched":
        """Read the headers of messages."""
        return cls(found, _read_headers(found))

    def __len__(self) -> int:
        return len(self.found)

    def part(self, start: int, end: int) -> "PythonFetched":
        """See ``Fetched``."""
        return PythonFetched(self.found[start:end], self.read_headers[start:end])

    def joined(self, later: "PythonFetched") -> "PythonFetched":
        """See ``Fetched``."""
        return PythonFetched(self.found + later.found, self.read_headers + later.read_headers)

    def offsets(self) -> Int64s:
        """See ``Fetched``."""
        return np.fromiter(map(Message.offset, self.found), np.int64, len(self.found))

    def sizes(self) -> Int64s:
        """See ``Fetched``."""
        keys = (len(key) if key else 0 for key in map(Message.key, self.found))
        sizes = self.payload_sizes() + np.fromiter(keys, np.int64, len(self.found))
        if any(self.read_headers):
            headers = map(_headers_size, self.read_headers)
            sizes += np.fromiter(headers, np.int64, len(self.found))
        return sizes

    def payload_sizes(self) -> Int64s:
        """See ``Fetched``."""
        return np.fromiter(map(len, self.found), np.int64, len(self.found))

    def timestamps(self) -> Int64s:
        """See ``Fetched``."""
        return np.fromiter(
            map(_MILLISECONDS, map(Message.timestamp, self.found)), np.int64, len(self.found)
        )

    def values(self) -> pa.BinaryArray:
        """See ``Fetched``."""
        return pa.array(list(map(Message.value, self.found)), pa.binary())

    def keys(self) -> pa.BinaryArray:
        """See ``Fetched``."""
        return pa.array(list(map(Message.key, self.found)), pa.binary())

    def headers(self) -> list[RowHeaders]:
        """See ``Fetched``."""
        return self.read_headers

    def leader_epoch(self) -> int | None:
        """See ``Fetched``."""
        epoch: int | None = self.found[-1].leader_epoch() if self.found else None
        return epoch


def _read_headers(found: Sequence[Message]) -> list[RowHeaders]:
    """The headers of each message; for an unreadable one, a second call returns corrupt memory."""
    read: list[RowHeaders] = []
    remaining: Iterator[Any] = map(Message.headers, found)
    while len(read) < len(found):
        try:
            # Only through map: if headers() is called directly, the interpreter may notice the
            # client's error too late.
            read.extend(headers or [] for headers in remaining)
        except SystemError:
            read.append(None)
    return read


def _headers_size(headers: RowHeaders) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers or ())


@dataclass(frozen=True, slots=True)
class Messages:
    """Consecutive messages of one topic partition, none of them an error.

    Attributes:
        found: the messages.
        offsets: their offsets, shape (messages,).
        sizes: sizes of payloads, keys and headers together, in bytes, shape (messages,).
    """

    found: Fetched
    offsets: Int64s
    sizes: Int64s

    @classmethod
    def of(cls, found: Fetched) -> "Messages":
        """Extract offsets and sizes of messages."""
        return cls(found, found.offsets(), found.sizes())

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, run: slice) -> "Messages":
        start, end, _ = run.indices(len(self))
        if (start, end) == (0, len(self)):
            return self
        return Messages(self.found.part(start, max(start, end)), self.offsets[run], self.sizes[run])

    def __add__(self, later: "Messages") -> "Messages":
        if not len(self):
            return later
        if not len(later):
            return self
        return Messages(
            self.found.joined(later.found),
            np.concatenate((self.offsets, later.offsets)),
            np.concatenate((self.sizes, later.sizes)),
        )

    def records(self, tp: TopicPartition) -> Records:
        """The messages as records, whose timestamps, keys and headers are extracted when used."""
        found = self.found
        columns = Columns(
            timestamps=found.timestamps,
            keys=found.keys,
            headers=cache(lambda: _headers(found.headers())),
        )
        epoch = found.leader_epoch()
        return Records(
            topic_partition=tp,
            offsets=self.offsets,
            values=found.values(),
            columns=columns,
            leader_epoch=-1 if epoch is None else epoch,
        )


NO_MESSAGES = Messages.of(PythonFetched([]))


@dataclass(frozen=True, slots=True)
class FetchError:
    """An error that a client returned instead of a message.

    Attributes:
        error: what happened.
        place: where; both None if the error is of the whole client.
        offset: what it is about, such as the end of the log; None if it is not known.
    """

    error: KafkaError
    place: Place
    offset: int | None


@dataclass(frozen=True, slots=True)
class Fetch:
    """The result of one poll of a client, by topic partition; false if it is empty."""

    messages: Mapping[Place, Messages] = field(default_factory=dict)
    errors: Sequence[FetchError] = ()

    @classmethod
    def of(cls, found: list[Message]) -> "Fetch":
        """Divide messages of confluent-kafka."""
        errors: list[FetchError] = []
        if any(map(Message.error, found)):
            errors = [
                FetchError(error, (message.topic(), message.partition()), message.offset())
                for message in found
                if (error := message.error()) is not None
            ]
            found = [message for message in found if message.error() is None]
        topics, partitions = set(map(Message.topic, found)), set(map(Message.partition, found))
        if len(topics) == len(partitions) == 1:
            groups = {(topics.pop(), partitions.pop()): found}
        else:
            groups = defaultdict(list)
            for message in found:
                groups[message.topic(), message.partition()].append(message)
        return cls(
            {place: Messages.of(PythonFetched.of(group)) for place, group in groups.items()}, errors
        )

    def __bool__(self) -> bool:
        return bool(self.messages or self.errors)

    def places(self) -> list[Place]:
        """The topic partitions of messages and errors."""
        return list(dict.fromkeys((*(error.place for error in self.errors), *self.messages)))

    def at(self, place: Place) -> "Fetch":
        """Return the part of one topic partition."""
        errors = [error for error in self.errors if error.place == place]
        messages = self.messages.get(place)
        return Fetch({} if messages is None else {place: messages}, errors)


def chunks(
    fetches: Iterable[Messages],
    max_rows: int,
    target_bytes: int,
    rules: LandingRules = CURRENT_RULES,
) -> Iterator[Messages]:
    """The same messages in chunks that do not depend on how they were fetched.

    A chunk ends after ``max_rows`` messages, or with the message that makes it reach
    ``target_bytes``; keys and headers count, but by the first rules.
    """
    of_payloads = rules is LandingRules.PAYLOADS
    pending = NO_MESSAGES
    for fetch in fetches:
        pending += fetch
        while rows := chunk_rows(
            pending.found.payload_sizes() if of_payloads else pending.sizes, max_rows, target_bytes
        ):
            yield pending[:rows]
            pending = pending[rows:]
    if len(pending):
        yield pending


def chunk_rows(sizes: Int64s, max_rows: int, target_bytes: int) -> int:
    """How many rows make the next chunk; 0 if there are not enough for one."""
    if sizes.sum() >= target_bytes:
        return min(int(np.searchsorted(sizes.cumsum(), target_bytes)) + 1, max_rows)
    return max_rows if len(sizes) >= max_rows else 0


def _headers(read: list[RowHeaders]) -> pa.ListArray:
    """The headers of each message as a column; null where they cannot be read."""
    if any(headers is None or headers for headers in read):
        return pa.array(read, HEADERS)
    return pa.ListArray.from_arrays(pa.array(np.zeros(len(read) + 1, np.int32)), _EMPTY_HEADERS)
