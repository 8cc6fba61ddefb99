"""What the load's records look like: each says by itself which one it is.

Its value is ``{"id": 7, "p": 2, "ts": 1767225600000, "topic": "x.clicks", "pad": "…"}``: a number
that no other record of the topic has, its Kafka partition, and the time of the event. A tombstone
has no value, so its key says it. ``ts`` jumps, as events of phones do that were offline, or have no
idea what time it is: days back and ahead, and around midnight.
"""

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

DAY = 86_400_000
"""In milliseconds, as event times are."""
BIG_BYTES = 1_000_000
"""Just below what a broker takes unless told otherwise."""
BIG, TOMBSTONE, HEADERS, KEYLESS = 0.0002, 0.002, 0.1, 0.1
"""How many of the records are such."""
_PRINTABLE = (string.ascii_letters + string.digits).encode()
_STOCK = bytes(random.Random(5).choices(_PRINTABLE, k=2 * BIG_BYTES))
"""Payloads are cut from this: to make each anew would cost more than all else."""
_TOMBSTONE = b"tombstone "


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the load.

    Attributes:
        name: without the load's prefix.
        partitions: Kafka's.
        share: of all records.
        hot: share of the topic's records that go to Kafka partition 0 before the rest is spread
            evenly.
        plain: whether a producer without transactions writes into it.
        transactional: producers with transactions that do.
    """

    name: str
    partitions: int
    share: float
    hot: float = 0.0
    plain: bool = True
    transactional: int = 0


TOPICS: Sequence[Topic] = (
    Topic(name="clicks", partitions=4, share=0.6, hot=0.85),
    Topic(name="views", partitions=3, share=0.15),
    Topic(name="orders", partitions=3, share=0.15, plain=False, transactional=2),
    Topic(name="bills", partitions=2, share=0.1, transactional=1),
)
"""More than half of all goes to one Kafka partition; one topic has transactions only, one has both.
"""


class Identity(msgspec.Struct, frozen=True):
    """Which record it is."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class Record:
    """What is produced."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return len(self.value or b"")

    def arguments(self) -> dict[str, Any]:
        """For ``Producer.produce``."""
        return {
            "value": self.value,
            "key": self.key,
            "headers": self.headers,
            "partition": self.partition,
        }


def record(identity: Identity, topic: Topic, dice: random.Random, now: int) -> Record:
    """A record with this number; ``now`` in milliseconds."""
    partition = 0 if dice.random() < topic.hot else dice.randrange(topic.partitions)
    headers: list[tuple[str, bytes | None]] = []
    if dice.random() < HEADERS:
        headers = [("trace", b"%x" % dice.getrandbits(64)), ("empty", b""), ("null", None)]
    if dice.random() < TOMBSTONE:
        return Record(
            None, _TOMBSTONE + f"{identity.topic} {identity.number}".encode(), headers, partition
        )
    key = None if dice.random() < KEYLESS else b"user-%d" % dice.randrange(5000)
    return Record(_value(identity, partition, dice, now), key, headers, partition)


def _value(identity: Identity, partition: int, dice: random.Random, now: int) -> bytes:
    head = b'{"id":%d,"p":%d,"ts":%d,"topic":"%s","pad":"' % (
        identity.number,
        partition,
        _event_time(dice, now),
        identity.topic.encode(),
    )
    size = BIG_BYTES if dice.random() < BIG else int(min(100 * dice.paretovariate(1.1), 8000))
    begin = dice.randrange(len(_STOCK) - size)
    return head + _STOCK[begin : begin + max(0, size - len(head) - 2)] + b'"}'


def _event_time(dice: random.Random, now: int) -> int:
    kind = dice.random()
    if kind < 0.85:
        return now - dice.randrange(5000)
    if kind < 0.92:
        return now - dice.randrange(3 * DAY)
    if kind < 0.95:
        return now + dice.randrange(2 * DAY)
    midnight = now - now % DAY + dice.randrange(-1, 2) * DAY
    return midnight + dice.randrange(-3, 3)


def identity(value: bytes | None, key: bytes | None) -> Identity | None:
    """Which record this is; None if it is none of the load's."""
    if not value:  # a SequenceFile keeps a tombstone as an empty value
        if key is None or not key.startswith(_TOMBSTONE):
            return None
        topic, _, number = key.removeprefix(_TOMBSTONE).decode().rpartition(" ")
        return Identity(topic, int(number))
    try:
        found = orjson.loads(value)
        return Identity(found["topic"], found["id"])
    except (ValueError, TypeError, KeyError):
        return None
