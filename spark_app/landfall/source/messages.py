"""Runs of Kafka messages: what is asked of each one, asked of all at once.

Everything here is ``map`` over C functions of the client: per message a handful of calls and no
Python.
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

_STAMP = itemgetter(1)
_EMPTY_HEADERS = pa.array([], HEADERS).values


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one topic partition, none of them an error.

    Attributes:
        found: the messages.
        offsets: theirs, shape (messages,).
        sizes: bytes of their payloads, shape (messages,).
    """

    found: list[Message]
    offsets: Int64s
    sizes: Int64s

    @classmethod
    def of(cls, found: list[Message]) -> "Messages":
        """Look at some messages."""
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
        """The same as columns."""
        found = self.found
        columns = Columns(
            timestamps=lambda: np.fromiter(
                map(_STAMP, map(Message.timestamp, found)), np.int64, len(found)
            ),
            keys=lambda: pa.array(list(map(Message.key, found)), pa.binary()),
            # once: of a message with a header that cannot be read, the client's second answer is
            # broken memory
            headers=cache(lambda: _headers(found)),
        )
        return Records(
            tp, self.offsets, pa.array(list(map(Message.value, found)), pa.binary()), columns
        )


def chunks(answers: Iterable[Messages], most_rows: int, enough_bytes: int) -> Iterator[Messages]:
    """The same messages cut anew: after ``most_rows``, or after the one that makes it ``enough_bytes``."""
    pending = Messages.of([])
    for answer in answers:
        pending += answer
        while rows := _full(pending.sizes, most_rows, enough_bytes):
            yield pending[:rows]
            pending = pending[rows:]
    if len(pending):
        yield pending


def _full(sizes: Int64s, most_rows: int, enough_bytes: int) -> int:
    """How many rows make the next chunk; 0 if these are not enough for one."""
    if sizes.sum() >= enough_bytes:
        return min(int(np.searchsorted(sizes.cumsum(), enough_bytes)) + 1, most_rows)
    return most_rows if len(sizes) >= most_rows else 0


def _headers(found: list[Message]) -> pa.ListArray:
    """Headers of each; null where a name is not UTF-8: those the client cannot tell."""
    told: list[list[tuple[str, bytes | None]] | None] = []
    unreadable: list[int] = []
    asked: Iterator[Any] = map(Message.headers, found)
    while len(told) < len(found):
        try:
            told.extend(asked)
        except (
            SystemError
        ):  # by map alone: called by name, the interpreter may notice the error too late
            unreadable.append(len(told))
            told.append(None)
    if not any(told) and not unreadable:
        return pa.ListArray.from_arrays(
            pa.array(np.zeros(len(found) + 1, np.int32)), _EMPTY_HEADERS
        )
    rows: list[list[tuple[str, bytes | None]] | None] = [headers or [] for headers in told]
    for row in unreadable:
        rows[row] = None
    return pa.array(rows, HEADERS)
