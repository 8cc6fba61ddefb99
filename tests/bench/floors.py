"""What each stage costs alone, in one process. No sink made of them can cost less."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import zstandard
from confluent_kafka import Consumer, TopicPartition
from isal import isal_zlib

from landfall.api.spec import Output
from landfall.store.urls import open_store
from tests.bench.topics import PARTITIONS, Load
from tests.support.kafka.broker import Broker

SAMPLE_BYTES = 100_000_000
PART_BYTES = 16 * 2**20
REPEATS = 3


@dataclass(frozen=True)
class Floor:
    """Input MB per CPU-second of each stage alone.

    Attributes:
        consume: librdkafka, messages counted.
        compress: by codec, payloads joined before.
        ratio: by codec, input bytes per compressed byte.
        upload: compressed MB per CPU-second.
    """

    consume: float
    compress: dict[str, float]
    ratio: dict[str, float]
    upload: float

    def sink(self, codec: str) -> float:
        """Input MB per CPU-second of reading, compressing and uploading alone."""
        seconds = 1 / self.consume + 1 / self.compress[codec] + 1 / self.ratio[codec] / self.upload
        return 1 / seconds


def measure(broker: Broker, load: Load, output: Output) -> Floor:
    """The floor for messages of this load."""
    payloads = _payloads(broker, load)
    joined = b"\n".join(payloads)
    mb = len(joined) / 1e6
    codecs: dict[str, Callable[[bytes], bytes]] = {
        "gzip": _gzip,
        "zstd": zstandard.ZstdCompressor(3).compress,
    }
    compressed = {name: compress(joined) for name, compress in codecs.items()}
    return Floor(
        consume=len(payloads)
        * load.size
        / 1e6
        / _cpu(lambda: _consume(broker, load, len(payloads))),
        compress={name: mb / _cpu(partial(compress, joined)) for name, compress in codecs.items()},
        ratio={name: len(joined) / len(body) for name, body in compressed.items()},
        upload=_upload(output, compressed["gzip"]),
    )


def _cpu(work: Callable[[], object]) -> float:
    def once() -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    # A worker collects garbage rarely. With Python's defaults the floor could be below the sink.
    gc.disable()
    try:
        return median(once() for _ in range(REPEATS))
    finally:
        gc.enable()


def _consume(broker: Broker, load: Load, count: int, values: list[bytes] | None = None) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "floor",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.queue.backoff.ms": 10,
            "queued.max.messages.kbytes": 65536,
        }
    )
    consumer.list_topics(load.topic)
    consumer.assign([TopicPartition(load.topic, 0, 0)])
    got = 0
    while got < count:
        messages = consumer.consume(min(10_000, count - got), 1.0)
        got += len(messages)
        if values is not None:
            values += [value for message in messages if (value := message.value()) is not None]
    consumer.close()


def _payloads(broker: Broker, load: Load) -> list[bytes]:
    values: list[bytes] = []
    _consume(broker, load, min(SAMPLE_BYTES // load.size, load.records // PARTITIONS), values)
    return values


def _gzip(body: bytes) -> bytes:
    compressor = isal_zlib.compressobj(2, isal_zlib.DEFLATED, 31)
    return compressor.compress(body) + compressor.flush()


def _upload(output: Output, body: bytes) -> float:
    store = open_store(output)
    part = (body * (PART_BYTES // len(body) + 1))[:PART_BYTES]
    upload_id = store.begin("floor", "floor")

    def parts() -> None:
        for number in range(1, 9):
            store.put_part("floor", upload_id, number, part)

    speed = 8 * len(part) / 1e6 / _cpu(parts)
    store.abort("floor", upload_id)
    return speed
