"""``KafkaReader`` on a real Kafka: every visible record of a range once, and a certain end."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from landfall.errors import Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandingRules
from landfall.native import HotPath
from landfall.pipeline.records import Records
from landfall.source import LastRead
from landfall.source.clients import Client, open_client
from landfall.source.messages import Fetch
from landfall.source.progress import CHUNK_BYTES, CHUNK_ROWS
from landfall.source.reader import KafkaReader
from tests.support.driver.hot_paths import BOTH
from tests.support.kafka.broker import SECONDS, Broker, Message
from tests.support.waiting import eventually

LARGE = 10_000_000
LONG_TIMEOUT, SHORT_TIMEOUT = timedelta(seconds=120), timedelta(seconds=8)
"""Read timeouts for records that exist and for records that do not; a busy broker takes seconds."""


@pytest.fixture(params=BOTH)
def path(request: pytest.FixtureRequest) -> HotPath:
    found: HotPath = request.param
    return found


@pytest.fixture
def reader(kafka: Broker, path: HotPath) -> Iterator[KafkaReader]:
    opened = reader_of(kafka, path)
    yield opened
    opened.close()


@pytest.fixture
def impatient_reader(kafka: Broker, path: HotPath) -> Iterator[KafkaReader]:
    """A reader that times out before the test does."""
    opened = reader_of(kafka, path, timeout=SHORT_TIMEOUT)
    yield opened
    opened.close()


def reader_of(
    kafka: Broker, path: HotPath, timeout: timedelta = LONG_TIMEOUT, **properties: str
) -> KafkaReader:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return KafkaReader(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "reader", **named}, timeout, path
    )


def slice_of(topic: str, start: int, end: int, partition: int = 0) -> Slice:
    return Slice(TopicPartition(topic, partition), OffsetRange(start, end))


def offsets(chunks: Iterator[Records]) -> list[int]:
    return [offset for records in chunks for offset in records.offsets.tolist()]


def shape(chunks: Iterator[Records]) -> list[tuple[int, int, int]]:
    return [(int(r.offsets[0]), int(r.offsets[-1]), len(r)) for r in chunks]


# ------------------------------------------------------------------------------------ what is there


def test_a_range_inside_the_log_is_read_exactly(kafka: Broker, reader: KafkaReader) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"%d" % n for n in range(1000)])

    chunks = list(reader.read(slice_of(topic, 400, 777)))

    assert [value for r in chunks for value in r.values.to_pylist()] == [
        b"%d" % n for n in range(400, 777)
    ]
    assert offsets(iter(chunks)) == list(range(400, 777))


def test_an_empty_range_yields_nothing(reader: KafkaReader) -> None:
    assert list(reader.read(slice_of("never-read", 5, 5))) == []


def test_keys_timestamps_headers_and_tombstones_arrive(kafka: Broker, reader: KafkaReader) -> None:
    topic = kafka.create_topic()
    twice = [("trace", b"\xff\x00"), ("trace", None), ("", b"")]
    kafka.produce(
        topic,
        [
            Message(None, b"k", 0, 1_000),
            Message(b"", b"", 0, 2_000, twice),
            Message(b"v", None, 0, 3_000),
        ],
    )

    (records,) = reader.read(slice_of(topic, 0, 3))

    assert records.values.to_pylist() == [None, b"", b"v"]
    assert records.keys.to_pylist() == [b"k", b"", None]
    assert records.timestamps.tolist() == [1_000, 2_000, 3_000]
    assert records.headers.to_pylist() == [
        [],
        [{"key": name, "value": value} for name, value in twice],
        [],
    ]


def test_a_message_of_10_mb_is_read_among_small_ones(kafka: Broker, reader: KafkaReader) -> None:
    topic = kafka.create_topic()
    large = bytes(np.random.default_rng(7).integers(0, 256, LARGE, np.uint8))
    kafka.produce(topic, [b"before", large, b"after", large], message_max_bytes=LARGE + 1000)

    assert [
        value for r in reader.read(slice_of(topic, 0, 4)) for value in r.values.to_pylist()
    ] == [
        b"before",
        large,
        b"after",
        large,
    ]


# --------------------------------------------------------------------------------------------- gaps


@pytest.mark.parametrize(
    "limits",
    [
        {"message_max_bytes": "100000000"},
        {"fetch_max_bytes": "300000000"},
        {"receive_message_max_bytes": "1000512"},
    ],
)
def test_large_records_are_read_with_each_limit_that_a_user_sets(
    kafka: Broker, path: HotPath, limits: dict[str, str]
) -> None:
    topic = kafka.create_topic(max_message_bytes=12_000_000)
    size = LARGE if "receive_message_max_bytes" not in limits else 900_000
    sent = [bytes([n]) * size for n in range(3)]
    kafka.produce(topic, sent, message_max_bytes=LARGE + 1000)
    reader = reader_of(kafka, path, **limits)

    read = [value for r in reader.read(slice_of(topic, 0, 3)) for value in r.values.to_pylist()]
    reader.close()

    assert read == sent


def transactions(kafka: Broker) -> str:
    """Committed 0..9, marker 10, aborted 11..20, marker 21, committed 22..31, marker 32, aborted
    33..42, marker 43.
    """
    topic = kafka.create_topic()
    for commit in (True, False, True, False):
        kafka.produce_transaction(topic, [b"x"] * 10, commit=commit)
    return topic


@pytest.mark.parametrize(
    ("start", "end", "visible"),
    [
        (0, 44, [*range(10), *range(22, 32)]),
        (5, 25, [5, 6, 7, 8, 9, 22, 23, 24]),
        (10, 22, []),
        (12, 15, []),
        (32, 44, []),
        (43, 44, []),
        (31, 32, [31]),
    ],
)
def test_aborted_records_and_markers_are_invisible(
    kafka: Broker, reader: KafkaReader, start: int, end: int, visible: list[int]
) -> None:
    assert offsets(reader.read(slice_of(transactions(kafka), start, end))) == visible


def test_records_of_an_open_transaction_are_not_skipped(
    kafka: Broker, impatient_reader: KafkaReader
) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"a"] * 5)
    producer = kafka.transaction()
    kafka.send(producer, topic, [b"open"] * 5)
    kafka.flush(producer)

    assert offsets(impatient_reader.read(slice_of(topic, 0, 5))) == [0, 1, 2, 3, 4]
    with pytest.raises(Retry, match=r"no progress for 8 s at offset 5, its log ends at 5"):
        list(impatient_reader.read(slice_of(topic, 0, 10)))

    producer.abort_transaction(SECONDS)
    eventually(
        lambda: kafka.end_offset(topic), (11).__eq__
    )  # the marker is written after the response
    assert offsets(impatient_reader.read(slice_of(topic, 0, 10))) == [0, 1, 2, 3, 4]


def test_a_compacted_topic_is_read_to_its_end(kafka: Broker, reader: KafkaReader) -> None:
    """Also ranges that start, end, or lie entirely within offsets removed by compaction."""
    topic = compacted(kafka)
    end = kafka.end_offset(topic)

    left = eventually(
        lambda: offsets(reader.read(slice_of(topic, 0, end))), lambda found: len(found) == 52
    )

    assert (left[0], left[-1]) == (0, end - 1)
    assert left[1] > 10_000
    assert offsets(reader.read(slice_of(topic, 0, 500))) == [0]
    assert offsets(reader.read(slice_of(topic, 500, 1000))) == []
    assert offsets(reader.read(slice_of(topic, left[1] - 500, left[1] + 1))) == [left[1]]


def compacted(kafka: Broker) -> str:
    config = {
        "cleanup_policy": "compact",
        "segment_bytes": 1_048_576,
        "min_cleanable_dirty_ratio": 0.01,
    }
    topic = kafka.create_topic(**config, max_compaction_lag_ms=1, segment_ms=1000)
    kafka.produce(
        topic, (Message(b"x" * 200, b"%d" % (n % 50 if n else 99)) for n in range(20_000))
    )
    # The active segment is never compacted: it must be a second old when the next record rolls it.
    time.sleep(1.1)
    kafka.produce(topic, [Message(b"y", b"last")])
    return topic


# -------------------------------------------------------------------------------- what is not there


def test_expired_offsets_are_data_loss(kafka: Broker, reader: KafkaReader) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x"] * 100)
    kafka.expire_before(topic, 0, 60)

    with pytest.raises(Stalled, match=rf"{topic}/0: offsets \[10, 100\)") as stalled:
        list(reader.read(slice_of(topic, 10, 100)))

    assert stalled.value.reason is Reason.DATA_LOSS
    assert offsets(reader.read(slice_of(topic, 60, 100))) == list(range(60, 100))


def test_an_expired_record_before_the_slice_is_met_before_the_client_seeks(
    kafka: Broker, reader: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine; the client then refuses to seek, and says why only to who fetches."""
    opened: list[SeeksLate] = []

    def open_late(*of: Any) -> SeeksLate:
        opened.append(SeeksLate(open_client(*of)))
        return opened[-1]

    monkeypatch.setattr("landfall.source.reader.open_client", open_late)
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x"] * 20)
    kafka.expire_before(topic, 0, 10)
    reader.last_read = {TopicPartition(topic, 0): LastRead(4, 0)}

    assert offsets(reader.read(slice_of(topic, 10, 20))) == list(range(10, 20))
    assert [client.has_met for client in opened] == [True]


class SeeksLate:
    """A client that seeks only after it has met an error, which its next fetch returns."""

    def __init__(self, client: Client) -> None:
        self._client, self.has_met, self._met = client, False, Fetch()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def seek(self, position: Any) -> None:
        if not self.has_met:
            self._met = eventually(lambda: self._client.fetch(1), lambda fetch: fetch.errors)
            self.has_met = True
        self._client.seek(position)

    def fetch(self, max_messages: int) -> Fetch:
        met, self._met = self._met, Fetch()
        return met or self._client.fetch(max_messages)


def test_a_missing_topic_stalls(impatient_reader: KafkaReader) -> None:
    with pytest.raises(Stalled, match="nowhere/0") as stalled:
        list(impatient_reader.read(slice_of("nowhere", 0, 10)))

    assert stalled.value.reason is Reason.TOPIC_MISSING


def test_a_missing_kafka_partition_stalls(kafka: Broker, impatient_reader: KafkaReader) -> None:
    topic = kafka.create_topic(partitions=2)

    with pytest.raises(Stalled, match=rf"{topic}/7: the topic has 2 Kafka partitions") as stalled:
        list(impatient_reader.read(slice_of(topic, 0, 10, partition=7)))

    assert stalled.value.reason is Reason.TOPIC_MISSING


def test_a_range_beyond_the_log_is_retried(kafka: Broker, impatient_reader: KafkaReader) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x"] * 10)

    with pytest.raises(Retry, match=r"at offset 10, its log ends at 10"):
        list(impatient_reader.read(slice_of(topic, 5, 20)))


def test_no_broker_is_a_retry(path: HotPath) -> None:
    reader = KafkaReader(
        {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, timedelta(seconds=1), path
    )

    with pytest.raises(Retry, match=r"clicks/0\[0, 1\)"):
        list(reader.read(slice_of("clicks", 0, 1)))


# ------------------------------------------------------------------------------- the same each time


def test_chunks_are_cut_by_the_data_alone(kafka: Broker, path: HotPath) -> None:
    """By rows, by bytes, and by a single message larger than a chunk, however they are fetched."""
    topic = kafka.create_topic()
    sizes = [10] * (CHUNK_ROWS + 5) + [3_000_000] * 7 + [CHUNK_BYTES + 1] + [10] * 20
    kafka.produce(topic, [b"x" * size for size in sizes], message_max_bytes=LARGE)
    read_in = [
        shape(reader_of(kafka, path, **fetching).read(slice_of(topic, 3, len(sizes))))
        for fetching in (
            {},
            {"fetch_message_max_bytes": "1000"},
            {"queued_min_messages": "1"},
            {"fetch_message_max_bytes": "50000000", "queued_max_messages_kbytes": "100000"},
        )
    ]

    n = CHUNK_ROWS
    assert read_in == 4 * [
        [
            (3, n + 2, n),
            (n + 3, n + 7, 5),
            (n + 8, n + 10, 3),
            (n + 11, n + 12, 2),
            (n + 13, n + 32, 20),
        ]
    ]


@pytest.mark.parametrize("is_key", [True, False], ids=["keys", "headers"])
def test_large_keys_and_headers_end_chunks(kafka: Broker, path: HotPath, is_key: bool) -> None:
    topic, large = kafka.create_topic(), b"x" * (CHUNK_BYTES // 100)
    small = Message(b"1")
    one = Message(b"1", large) if is_key else Message(b"1", headers=[("h", large)])
    kafka.produce(topic, [one] * 250 + [small] * 50, message_max_bytes=LARGE)
    reader = reader_of(kafka, path)

    by_all_bytes = shape(reader.read(slice_of(topic, 0, 300)))
    reader.rules = LandingRules.PAYLOADS
    by_payloads = shape(reader.read(slice_of(topic, 0, 300)))

    assert by_all_bytes == [(0, 99, 100), (100, 199, 100), (200, 299, 100)]
    assert by_payloads == [(0, 299, 300)]


def test_one_reader_reads_slice_after_slice(kafka: Broker, reader: KafkaReader) -> None:
    """Back and forth over topic partitions: nothing fetched for one slice appears in another."""
    topic = kafka.create_topic(partitions=3)
    for partition in range(3):
        kafka.produce(topic, [Message(b"%d" % partition, partition=partition)] * 1000)
    ranges = [
        (900, 1000, 0),
        (0, 900, 0),
        (990, 1000, 1),
        (0, 10, 1),
        (500, 501, 2),
        (999, 1000, 0),
        (0, 1000, 0),
    ]

    for start, end, partition in ranges * 5:
        chunks = list(reader.read(slice_of(topic, start, end, partition)))
        assert offsets(iter(chunks)) == list(range(start, end))
        assert {value for r in chunks for value in r.values.to_pylist()} == {b"%d" % partition}


def test_a_slice_abandoned_half_way_does_not_affect_the_next(
    kafka: Broker, reader: KafkaReader
) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x"] * (3 * CHUNK_ROWS))
    abandoned = reader.read(slice_of(topic, 0, 3 * CHUNK_ROWS))
    next(abandoned)

    begun = reader.read(slice_of(topic, 100, 2 * CHUNK_ROWS))
    first = next(begun)
    del abandoned

    assert [*first.offsets.tolist(), *offsets(begun)] == list(range(100, 2 * CHUNK_ROWS))
