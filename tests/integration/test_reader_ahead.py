"""Short slices that ``KafkaReader`` fetches at once are read as if each was fetched alone."""

from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pytest

from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source.reader import KafkaReader
from tests.support.driver.hot_paths import BOTH
from tests.support.kafka.broker import Broker, Message

PARTITIONS = 40
"""More than are fetched at once."""


@pytest.fixture(params=BOTH)
def reader(kafka: Broker, request: pytest.FixtureRequest) -> Iterator[KafkaReader]:
    properties = {"bootstrap.servers": kafka.bootstrap, "group.id": "reader"}
    opened = KafkaReader(properties, timedelta(seconds=60), request.param)
    yield opened
    opened.close()


def produced(kafka: Broker, records: int = 5, size: int = 1) -> list[Slice]:
    """A topic with some records in each Kafka partition; slices that leave out the outermost."""
    topic = kafka.create_topic(partitions=PARTITIONS)
    bodies = np.random.default_rng(7).integers(0, 256, (records, size), np.uint8)
    kafka.produce(
        topic, [Message(body.tobytes(), partition=p) for p in range(PARTITIONS) for body in bodies]
    )
    return [Slice(TopicPartition(topic, p), OffsetRange(1, records - 1)) for p in range(PARTITIONS)]


def read(reader: KafkaReader, slices: list[Slice]) -> list[tuple[list[int], list[bytes], int]]:
    """Offsets, values and leader epoch of every chunk."""
    return [
        (records.offsets.tolist(), records.values.to_pylist(), records.leader_epoch)
        for slice_ in slices
        for records in reader.read(slice_)
    ]


def test_slices_fetched_at_once_are_the_same_as_slices_fetched_alone(
    kafka: Broker, reader: KafkaReader
) -> None:
    slices = produced(kafka)
    alone = read(reader, slices)

    reader.expect(slices)

    assert read(reader, slices) == alone
    assert [offsets for offsets, _, _ in alone] == [[1, 2, 3]] * PARTITIONS


def test_the_first_slice_that_is_read_brings_the_next_with_it(
    kafka: Broker, reader: KafkaReader
) -> None:
    first, second, *_ = slices = produced(kafka)
    reader.expect(slices)
    read(reader, [first])

    kafka.expire_before(second.topic_partition.topic, second.topic_partition.partition, 4)

    ((offsets, _, _),) = read(reader, [second])
    assert offsets == [1, 2, 3]


def test_another_task_fetches_anew(kafka: Broker, reader: KafkaReader) -> None:
    first, second, *_ = slices = produced(kafka)
    reader.expect(slices)
    read(reader, [first])
    kafka.expire_before(second.topic_partition.topic, second.topic_partition.partition, 4)

    reader.expect([second])

    with pytest.raises(Stalled) as raised:
        read(reader, [second])
    assert raised.value.reason is Reason.DATA_LOSS


def test_a_slice_that_cannot_be_read_fails_alone(kafka: Broker, reader: KafkaReader) -> None:
    slices = produced(kafka)
    lost = slices.pop(3)
    kafka.expire_before(lost.topic_partition.topic, lost.topic_partition.partition, 2)
    reader.expect([*slices[:3], lost, *slices[3:]])

    landed = read(reader, slices[:3])
    with pytest.raises(Stalled) as raised:
        read(reader, [lost])
    landed += read(reader, slices[3:])

    assert raised.value.reason is Reason.DATA_LOSS
    assert str(lost.topic_partition) in str(raised.value)
    assert [offsets for offsets, _, _ in landed] == [[1, 2, 3]] * (PARTITIONS - 1)


def test_slices_of_large_records_are_read_whole(kafka: Broker, reader: KafkaReader) -> None:
    slices = produced(kafka, records=4, size=300_000)  # 19 MB of which 8 are fetched at once
    alone = read(reader, slices)

    reader.expect(slices)

    assert read(reader, slices) == alone


def test_invisible_records_end_slices_that_are_fetched_at_once(
    kafka: Broker, reader: KafkaReader
) -> None:
    slices = []
    for _ in range(3):
        topic = kafka.create_topic()
        kafka.produce_transaction(topic, [b"x"] * 3, commit=True)
        kafka.produce_transaction(topic, [b"y"] * 3, commit=False)
        slices.append(Slice(TopicPartition(topic, 0), OffsetRange(1, 8)))
    reader.expect(slices)

    assert [offsets for offsets, _, _ in read(reader, slices)] == [[1, 2]] * 3
