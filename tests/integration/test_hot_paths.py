"""Pure Python and the extension land the same bytes of the same random records."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from random import Random

import pytest

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.native import HotPath
from landfall.source.reader import KafkaReader
from landfall.store.memory import MemoryStore
from landfall.task import Batch, landing
from tests.support.hot_paths import NATIVE, PYTHON, needs_native, running
from tests.support.kafka import Broker, Message

RECORDS = 25_000
OUTPUTS = (
    {"format": "Json", "codec": "Gzip"},
    {"format": "SequenceFile", "options": {"keyMode": "MessagePack"}},
    {"format": "Parquet"},  # with keys, timestamps and headers
)


def records(dice: Random) -> Iterator[Message]:
    """JSON and other payloads, tombstones, keys, headers; among them payloads larger than most."""
    for n in range(RECORDS):
        kind = dice.random()
        size = dice.choice((0, 1, 30, 200, 1_000, 40_000 if kind > 0.999 else 0))
        body: bytes | None = b'{"ts":%d,"text":"%s"}' % (1_763_683_200_000 + n, b"x" * size)
        if kind < 0.02:
            body = None
        elif kind < 0.05:
            body = dice.randbytes(size)
        elif kind < 0.1:
            body = b'{\r\n  "ts": %d\n}' % n
        key = dice.choice((None, b"", b"\xff\x00key", b"%d" % n))
        headers = dice.choice(((), (("trace", dice.randbytes(3)), ("trace", None), ("", b""))))
        yield Message(body, key, timestamp=dice.randrange(1_763_683_200_000), headers=headers)


@pytest.fixture(scope="module")
def topic(kafka: Broker) -> str:
    name, made, dice = kafka.create_topic(), iter(records(Random(16))), Random(61)
    # Transactions leave offsets out that no reader sees.
    while some := list(islice(made, dice.randrange(1_000, 9_000))):
        kafka.produce_transaction(name, some, commit=dice.random() < 0.8)
    return name


def group(kafka: Broker, output: dict[str, object]) -> ConsumerGroup:
    head = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "g"},
    }
    spec = {
        "source": {"kafka": {"bootstrapServers": kafka.bootstrap, "topicPattern": ".*"}},
        "decode": {"format": "Json", "timestamp": {"field": "ts"}},
        "route": {"pattern": "dt={date}/hr={hour}"},
        "badRecords": {"policy": "DeadLetter"},
        "output": {"url": "s3://bucket/out", **output},
    }
    return parse_group({**head, "spec": spec})


def landed(kafka: Broker, path: HotPath, slice_: Slice, output: dict[str, object]) -> object:
    """The result of a slice, without times, and the bytes of its objects."""
    reader = KafkaReader(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "g"}, timedelta(seconds=120), path
    )
    store = MemoryStore()
    batch = Batch(group(kafka, output), "token")
    with running(path):
        (result,) = landing.land(batch, [slice_], reader, store)
    reader.close()
    assert isinstance(result, LandedSlice), result
    for found in result.objects:
        store.complete(found.upload)
    objects = [
        (found.upload.key, found.rows, found.crc32, store.read(found.upload.key))
        for found in result.objects
    ]
    return objects, result.landed, result.invisible, result.errors, result.leader_epoch


@needs_native
@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: str(output["format"]))
def test_both_paths_land_the_same_bytes(
    kafka: Broker, topic: str, output: dict[str, object]
) -> None:
    tp = TopicPartition(topic, 0)
    end, dice = kafka.end_offset(topic), Random(7)
    whole = OffsetRange(0, end)
    start = dice.randrange(end)
    for offsets in (whole, OffsetRange(start, dice.randrange(start, end + 1))):
        slice_ = Slice(tp, offsets)
        python = landed(kafka, PYTHON, slice_, output)

        assert landed(kafka, NATIVE, slice_, output) == python
