"""Kafka messages in bulk, as columns.

Everything here maps C functions of the client over lists of messages: a few calls per message, and
no Python code of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import HEADERS, Columns, Int64s, Records

_MILLISECONDS = itemgetter(1)  # of Message.timestamp(), a pair of type and milliseconds
_EMPTY_HEADERS = pa.nulls(0, HEADERS).values  # `pa.array` of a list imports pandas, if it is there


@dataclass(frozen=True, slots=True)
class Messages:
    """Consecutive messages of one topic partition, none of them an error.

    Attributes:
        found: the messages.
        offsets: their offsets, shape (messages,).
        sizes: sizes of their payloads in bytes, shape (messages,).
    """

    found: list[Message]
    offsets: Int64s
    sizes: Int64s

    @classmethod
    def of(cls, found: list[Message]) -> "Messages":
        """Extract offsets and sizes of messages."""
        count = len(found)
        return cls(
            found,
            np.fromiter(map(Message.offset, found), np.int64, count),
            np.fromiter(map(len, found), np.int64, count),
        )

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, run: slice) -> "Messages":
        return Messages(self.found[run], self.offsets[run], self.sizes[run])

    def __add__(self, later: "Messages") -> "Messages":
        if not len(self):
            return later
        offsets, sizes = (
            np.concatenate((self.offsets, later.offsets)),
            np.concatenate((self.sizes, later.sizes)),
        )
        return Messages(self.found + later.found, offsets, sizes)

    def records(self, tp: TopicPartition) -> Records:
        """The messages as records, whose timestamps, keys and headers are extracted when used."""
        found = self.found
        columns = Columns(
            timestamps=lambda: np.fromiter(
                map(_MILLISECONDS, map(Message.timestamp, found)), np.int64, len(found)
            ),
            keys=lambda: pa.array(list(map(Message.key, found)), pa.binary()),
            # Extracted only once: for a message with an unreadable header, the client's second call
            # returns corrupt memory.
            headers=cache(lambda: _headers(found)),
        )
        epoch = found[-1].leader_epoch() if found else None
        return Records(
            tp,
            self.offsets,
            pa.array(list(map(Message.value, found)), pa.binary()),
            columns,
            -1 if epoch is None else epoch,
        )


def chunks(fetches: Iterable[Messages], max_rows: int, target_bytes: int) -> Iterator[Messages]:
    """The same messages in chunks that do not depend on how they were fetched.

    A chunk ends after ``max_rows`` messages, or with the message that makes it reach
    ``target_bytes``.
    """
    pending = Messages.of([])
    for fetch in fetches:
        pending += fetch
        while rows := _chunk_rows(pending.sizes, max_rows, target_bytes):
            yield pending[:rows]
            pending = pending[rows:]
    if len(pending):
        yield pending


def _chunk_rows(sizes: Int64s, max_rows: int, target_bytes: int) -> int:
    """How many rows make the next chunk; 0 if there are not enough for one."""
    if sizes.sum() >= target_bytes:
        return min(int(np.searchsorted(sizes.cumsum(), target_bytes)) + 1, max_rows)
    return max_rows if len(sizes) >= max_rows else 0


def _headers(found: list[Message]) -> pa.ListArray:
    """The headers of each message; null where a name is not UTF-8, which the client cannot read."""
    read: list[list[tuple[str, bytes | None]] | None] = []
    unreadable: list[int] = []
    remaining: Iterator[Any] = map(Message.headers, found)
    while len(read) < len(found):
        try:
            # Only through map: if headers() is called directly, the interpreter may notice the
            # client's error too late.
            read.extend(remaining)
        except SystemError:
            unreadable.append(len(read))
            read.append(None)
    if not any(read) and not unreadable:
        return pa.ListArray.from_arrays(
            pa.array(np.zeros(len(found) + 1, np.int32)), _EMPTY_HEADERS
        )
    rows: list[list[tuple[str, bytes | None]] | None] = [headers or [] for headers in read]
    for row in unreadable:
        rows[row] = None
    return pa.array(rows, HEADERS)
