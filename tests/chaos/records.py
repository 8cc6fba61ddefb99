"""The records of the load. Each one names itself, so that it is recognized wherever it landed.

The value is ``{"id": 7, "p": 2, "ts": 1767225600000, "topic": "x.clicks", "pad": "…"}``: a number
that no other record of the topic has, the Kafka partition, and the event time in milliseconds. A
tombstone has no value, so its key holds topic and number. Event times jump as those of phones do
that were offline or have a wrong clock: days back, days ahead, and around midnight.
"""

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

DAY = 86_400_000
"""Milliseconds, the unit of event times."""
SPEED = 720
"""How much faster event times pass than the time of the run: a day each two minutes."""
DAYS_BACK = 90
"""How many days before the run's beginning they begin, so that they stay in the past.

Kafka's own timestamps are of the present: by older ones, a broker that starts forgets what its
idempotent producers have sent.
"""
BIG_BYTES = 1_000_000
"""Just below the largest record that a broker accepts by default."""
BIG, TOMBSTONE, HEADERS, KEYLESS = 0.0002, 0.002, 0.1, 0.1
"""Shares of the records that are big, tombstones, with headers, without a key."""
_PRINTABLE = (string.ascii_letters + string.digits).encode()
_PADDING = bytes(random.Random(5).choices(_PRINTABLE, k=2 * BIG_BYTES))
"""Payloads are slices of this: random bytes for each record would cost more than all the rest."""
_TOMBSTONE = b"tombstone "


def event_now(began: float, now: float) -> int:
    """The event time, in milliseconds, at a moment of a run; both in seconds since 1970."""
    return int((began + (now - began) * SPEED) * 1000) - DAYS_BACK * DAY


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the load.

    Attributes:
        name: without the load's prefix.
        partitions: number of Kafka partitions.
        share: share of all records of the load.
        hot: share of the topic's records that go to Kafka partition 0; the rest is spread evenly
            over all Kafka partitions.
        plain: whether a producer without transactions writes to the topic.
        transactional: number of producers with transactions that write to the topic.
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
"""More than half of all records go to one Kafka partition.

One topic has only records of transactions, one has records with and without.
"""


class Identity(msgspec.Struct, frozen=True):
    """What names a record: its topic in full, and its number in the topic."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record to be produced."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int

    @property
    def size(self) -> int:
        """Bytes of the value."""
        return len(self.value or b"")

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments for ``Producer.produce``."""
        return {
            "value": self.value,
            "key": self.key,
            "headers": self.headers,
            "partition": self.partition,
        }


def record(identity: Identity, topic: Topic, rng: random.Random, now: int) -> Record:
    """Make the record with this identity; ``now`` is in milliseconds."""
    partition = 0 if rng.random() < topic.hot else rng.randrange(topic.partitions)
    headers: list[tuple[str, bytes | None]] = []
    if rng.random() < HEADERS:
        headers = [("trace", b"%x" % rng.getrandbits(64)), ("empty", b""), ("null", None)]
    if rng.random() < TOMBSTONE:
        key = _TOMBSTONE + f"{identity.topic} {identity.number}".encode()
        return Record(None, key, headers, partition)
    user = None if rng.random() < KEYLESS else b"user-%d" % rng.randrange(5000)
    return Record(_value(identity, partition, rng, now), user, headers, partition)


def _value(identity: Identity, partition: int, rng: random.Random, now: int) -> bytes:
    head = b'{"id":%d,"p":%d,"ts":%d,"topic":"%s","pad":"' % (
        identity.number,
        partition,
        _event_time(rng, now),
        identity.topic.encode(),
    )
    # Most payloads are small, with a long tail, as in real topics.
    size = BIG_BYTES if rng.random() < BIG else int(min(100 * rng.paretovariate(1.1), 8000))
    begin = rng.randrange(len(_PADDING) - size)
    return head + _PADDING[begin : begin + max(0, size - len(head) - 2)] + b'"}'


def _event_time(rng: random.Random, now: int) -> int:
    kind = rng.random()
    if kind < 0.85:
        return now - rng.randrange(5000)
    if kind < 0.92:
        return now - rng.randrange(3 * DAY)
    if kind < 0.95:
        return now + rng.randrange(2 * DAY)
    midnight = now - now % DAY + rng.randrange(-1, 2) * DAY
    return midnight + rng.randrange(-3, 3)


def identity(value: bytes | None, key: bytes | None) -> Identity | None:
    """Identify a record by value and key; None if the load did not produce it."""
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
