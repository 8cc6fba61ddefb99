"""The input: JSON messages of one size in eight Kafka partitions.

Event time spans three hours, and one message in a hundred is up to two hours late.
Seeded, so every broker gets the same records. The text of a message is a random slice of 24 MB of
made-up words: repeats are rarer than a compressor's window, so ratios are honest.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from confluent_kafka import Producer

from tests.support.kafka.broker import Broker

PARTITIONS = 8
START_MS = 1_763_683_200_000  # 2025-11-21 00:00 UTC
SPAN_MS = 3 * 3_600_000
LATE_MS = 2 * 3_600_000
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Load:
    """A topic of ``records`` messages of ``size`` bytes in so many Kafka partitions."""

    topic: str
    records: int
    size: int
    partitions: int = PARTITIONS


LOADS = (Load("t250", 4_000_000, 250), Load("t1k", 1_000_000, 1000))
Messages: TypeAlias = Callable[[Load], Iterator[tuple[int, bytes]]]
"""Makes the messages of a topic: timestamps in milliseconds, and payloads."""


def ensure(broker: Broker, load: Load, messages: Messages | None = None) -> float:
    """Load the topic unless the broker has it; the seconds that took, 0 if the broker had it.

    Args:
        broker: where to.
        load: the topic, and how many messages of which size.
        messages: makes them; JSON of the size of ``load`` if None.
    """
    if load.topic in broker.admin.list_topics(timeout=30).topics:
        found = sum(
            broker.end_offset(load.topic, partition) for partition in range(load.partitions)
        )
        if found == load.records:
            return 0.0
        raise SystemExit(
            f"topic {load.topic} has {found} records instead of {load.records}: "
            "delete it, then try again"
        )
    broker.create_topic(load.topic, load.partitions)
    begun = time.monotonic()
    producer = broker.producer(
        compression_type="lz4", linger_ms=50, batch_size=524_288, queue_buffering_max_kbytes=524_288
    )
    _produce(producer, load, (messages or make_messages)(load))
    broker.flush(producer)
    return time.monotonic() - begun


def _produce(producer: Producer, load: Load, messages: Iterator[tuple[int, bytes]]) -> None:
    for n, (timestamp, value) in enumerate(messages):
        while True:
            try:
                key = b"%08d" % (n % 1_000_000)
                partition = n % load.partitions
                producer.produce(load.topic, value, key, partition, timestamp=timestamp)
                break
            except BufferError:
                producer.poll(0.05)
        if n % 5000 == 0:
            producer.poll(0)


def make_messages(load: Load) -> Iterator[tuple[int, bytes]]:
    dice = random.Random(7)
    words = [f"w{dice.getrandbits(28):x}" for _ in range(3000)]
    text = _text(dice, words)
    heads = [_head(dice, words) for _ in range(20_000)]
    state = 88_172_645_463_325_252
    for n in range(load.records):
        timestamp = (
            START_MS + n * SPAN_MS // load.records - (n * 7919 % LATE_MS if n % 100 == 7 else 0)
        )
        state ^= (state << 13) & _MASK
        state ^= state >> 7
        state ^= (state << 17) & _MASK
        ids = f'"id":"{state:016x}","user":{state % 1_000_003}'
        head = f'{{"ts":{timestamp},{ids},{heads[state % 20_000]}"msg":"'
        at = state % (len(text) - 4096)
        yield timestamp, (head + text[at : at + load.size - len(head) - 2] + '"}').encode()


def _text(dice: random.Random, words: list[str]) -> str:
    chosen, size = [], 0
    while size < 24_000_000:
        chosen.append(dice.choice(words))
        size += len(chosen[-1]) + 1
    return " ".join(chosen)


def _head(dice: random.Random, words: list[str]) -> str:
    event, ok = dice.choice(["click", "view", "purchase", "scroll"]), dice.choice(["true", "false"])
    page = "/".join(dice.choice(words) for _ in range(3))
    return f'"event":"{event}","page":"/{page}","ok":{ok},'
