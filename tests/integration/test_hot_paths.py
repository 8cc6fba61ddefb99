"""Pure Python and the extension land the same bytes of the same random records.

``make hot-path-suite`` does it with a million records in every format that one of them writes.

Both paths give the same blocks to the same compressor. Here that is zlib instead of ISA-L: see
``formats.codecs`` for how equal the bytes of that are.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from random import Random

import pytest

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.formats import codecs
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.native import HotPath
from landfall.source.reader import KafkaReader
from landfall.store.memory import MemoryStore
from landfall.task import Batch, landing
from tests.support.driver.hot_paths import NATIVE, PYTHON, needs_native, running
from tests.support.kafka.broker import Broker, Message

NOON = 1_763_683_200_000
DAY = 86_400_000


@dataclass(frozen=True)
class Size:
    """How many records, in how many Kafka partitions."""

    records: int
    partitions: int


SMALL, LARGE = Size(25_000, 1), Size(int(os.environ.get("LANDFALL_RECORDS", "1000000")), 4)
KEYED = {"format": "SequenceFile", "options": {"keyMode": "MessagePack"}}
ENVELOPES = {"format": "Parquet"}  # with keys, timestamps and headers
OUTPUTS = ({"format": "Json", "codec": "Gzip"}, KEYED, ENVELOPES)
MORE_OUTPUTS = (
    {"format": "Json", "codec": "Zstd", "options": {"tombstones": "Null"}},
    {"format": "SequenceFile"},
    {"format": "SequenceFile", "options": {"keyMode": "MessagePack", "compression": "Record"}},
    {"format": "Text", "codec": "None", "options": {"tombstones": "Empty", "delimiter": "--"}},
)
CASES = (
    *(pytest.param(SMALL, output, id=f"small-{output['format']}") for output in OUTPUTS),
    *(
        pytest.param(LARGE, output, id=f"large-{output['format']}-{n}", marks=[pytest.mark.full])
        for n, output in enumerate((*OUTPUTS, *MORE_OUTPUTS))
    ),
)


def records(count: int, partition: int, dice: Random) -> Iterator[Message]:
    """JSON of late dates and with line breaks, other payloads, tombstones, keys, headers.

    Among them are payloads larger than most.
    """
    for n in range(count):
        kind = dice.random()
        size = dice.choice((0, 1, 30, 200, 1_000, 40_000 if kind > 0.999 else 0))
        text = dice.choice(("x", "é", "\N{SNOWMAN}", "\\n", "\\ud83d\\ude00")).encode()
        at = NOON + n - (dice.randrange(2 * DAY) if kind > 0.98 else 0)
        body: bytes | None = b'{"ts":%d,"text":"%s"}' % (at, text * (size // len(text)))
        if kind < 0.02:
            body = None
        elif kind < 0.05:
            body = dice.randbytes(size)
        elif kind < 0.1:
            body = b'{\r\n  "ts": %d\n}' % at
        key = dice.choice(
            (None, b"", b"\xff\x00key", b"%d" % n, dice.randbytes(dice.choice((40, 300))))
        )
        headers = dice.choice(((), (("trace", dice.randbytes(3)), ("trace", None), ("", b""))))
        yield Message(body, key, partition, dice.randrange(NOON), headers)


@pytest.fixture(scope="module")
def topic(request: pytest.FixtureRequest, kafka: Broker) -> str:
    size: Size = request.param
    name, dice = kafka.create_topic(partitions=size.partitions), Random(61)
    for partition in range(size.partitions):
        made = iter(records(size.records // size.partitions, partition, Random(16 + partition)))
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
    """The result of a slice, without times, and the digests of its objects' bytes."""
    store = MemoryStore()
    with running(path):
        reader = KafkaReader(
            {"bootstrap.servers": kafka.bootstrap, "group.id": "g"}, timedelta(seconds=120)
        )
        batch = Batch(group(kafka, output), "token")
        (result,) = landing.land(batch, [slice_], reader, store)
        reader.close()
    assert isinstance(result, LandedSlice), result
    for found in result.objects:
        store.complete(found.upload)
    objects = [
        (
            found.upload.key,
            found.rows,
            found.crc32,
            hashlib.sha256(store.read(found.upload.key)).hexdigest(),
        )
        for found in result.objects
    ]
    return (
        objects,
        result.landed,
        result.dead_lettered,
        result.invisible,
        result.errors,
        result.leader_epoch,
    )


@needs_native
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("topic", "output"), CASES, indirect=["topic"])
def test_both_paths_land_the_same_bytes(
    kafka: Broker, topic: str, output: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecs, "isal_zlib", zlib)
    dice = Random(7)
    for partition in range(len(kafka.admin.list_topics(topic).topics[topic].partitions)):
        tp, end = TopicPartition(topic, partition), kafka.end_offset(topic, partition)
        start = dice.randrange(end)
        for offsets in (
            OffsetRange(0, end),
            OffsetRange(start, dice.randrange(start, end + 1)),
        ):
            slice_ = Slice(tp, offsets)
            python = landed(kafka, PYTHON, slice_, output)

            assert landed(kafka, NATIVE, slice_, output) == python
