"""A slice is read to its end while its leader moves, or while its only broker restarts."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import chain

import pytest

from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.native import HotPath
from landfall.source.reader import KafkaReader
from tests.support.driver.hot_paths import BOTH, running
from tests.support.kafka.second_broker import BrokerPair, broker_pair
from tests.support.waiting import eventually

pytestmark = pytest.mark.xdist_group("leaderless")

RECORDS = 20_000
PAYLOAD = b"x" * 1_000
FEW_AHEAD = {"queued.max.messages.kbytes": 1_024, "max.partition.fetch.bytes": 500_000}
"""A client with these has most of the 20 MB to fetch after the first chunk."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    with broker_pair(tmp_path_factory.mktemp("pair")) as running_pair:
        yield running_pair


@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize("is_replicated", [True, False], ids=["leader-moves", "broker-restarts"])
def test_a_slice_is_read_to_its_end(
    pair: BrokerPair, path: HotPath, *, is_replicated: bool
) -> None:
    topic = pair.create_replicated() if is_replicated else pair.create_topic(2)
    pair.first.produce(topic, [b"%d %s" % (n, PAYLOAD) for n in range(RECORDS)])
    piece = Slice(TopicPartition(topic, 0), OffsetRange(0, RECORDS))
    properties = {"bootstrap.servers": pair.first.bootstrap, "group.id": "g", **FEW_AHEAD}

    with running(path):
        reader = KafkaReader(properties, timedelta(seconds=240))
        try:
            chunks = reader.read(piece)
            first = next(chunks)
            pair.kill_second()
            try:
                if is_replicated:
                    eventually(lambda: pair.leaders(topic), [1].__eq__)
            finally:
                if not is_replicated:
                    pair.start_second()
            read = [records.offsets.tolist() for records in chain([first], chunks)]
        finally:
            reader.close()
            if is_replicated:
                pair.start_second()

    assert len(read) > 1
    assert [offset for some in read for offset in some] == list(range(RECORDS))
