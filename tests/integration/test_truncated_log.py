"""A log that was truncated below what is landed, as an unclean leader election leaves it.

The partition's directory is replaced by an older copy while its broker is stopped: the broker then
has what an out-of-date replica has that became the leader.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from dev.servers.kafka import KAFKA
from dev.servers.server import Server
from landfall.errors import LogTruncated
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import LastRead
from landfall.source.reader import KafkaReader
from tests.support.kafka.broker import Broker

pytestmark = pytest.mark.xdist_group("truncated")  # one fixture for all

TP = TopicPartition("t", 0)
KEPT, LOST, AGAIN = 100, 100, 150
"""Records that both copies of the log have, that only the first has, and that only the second."""


@dataclass(frozen=True)
class Truncated:
    """A broker whose log of ``TP`` was truncated at ``KEPT`` and has grown past its former end."""

    broker: Broker
    last_read: LastRead
    """The last record of the log before it was truncated."""


@pytest.fixture(scope="module")
def truncated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Truncated]:
    server = Server(KAFKA, tmp_path_factory.mktemp("truncated"))
    copy = server.state / "copy"
    try:
        broker = started(server)
        broker.create_topic(TP.topic)
        broker.produce(TP.topic, [b"kept"] * KEPT)
        server.down()
        (folder,) = server.home.rglob(f"{TP.topic}-0")
        shutil.copytree(folder, copy)
        broker = started(server)
        broker.produce(TP.topic, [b"lost"] * LOST)
        last_read = read(broker, 0, KEPT + LOST)
        server.down()
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        broker = started(server)
        broker.produce(TP.topic, [b"again"] * AGAIN)
        yield Truncated(broker, last_read)
    finally:
        server.down(at_once=True)


def started(server: Server) -> Broker:
    address = server.up().address
    assert address
    return Broker(address, {"log_level": 2})


def read(broker: Broker, start: int, end: int, after: LastRead | None = None) -> LastRead:
    """Read a slice to its end; returns its last record."""
    reader = KafkaReader(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g"}, timedelta(seconds=60)
    )
    reader.last_read = {TP: after} if after else {}
    try:
        chunks = list(reader.read(Slice(TP, OffsetRange(start, end))))
    finally:
        reader.close()
    assert [o for chunk in chunks for o in chunk.offsets.tolist()] == list(range(start, end))
    return LastRead(int(chunks[-1].offsets[-1]), chunks[-1].leader_epoch)


def test_a_truncated_log_is_noticed_after_it_has_grown_past_what_is_landed(
    truncated: Truncated,
) -> None:
    with pytest.raises(LogTruncated, match=r"t/0: the log was truncated at offset 100") as raised:
        read(truncated.broker, KEPT + LOST, KEPT + AGAIN, truncated.last_read)

    assert raised.value.diverges_at == KEPT
    assert "holds in [100, 200) is not what was landed" in str(raised.value)


def test_what_was_read_before_the_truncation_and_is_kept_is_no_fault(truncated: Truncated) -> None:
    kept = read(truncated.broker, 0, KEPT)

    assert kept.leader_epoch < truncated.last_read.leader_epoch
    assert read(truncated.broker, KEPT, KEPT + AGAIN, kept).leader_epoch > kept.leader_epoch


def test_an_expired_record_before_the_slice_needs_no_epoch(truncated: Truncated) -> None:
    topic = truncated.broker.create_topic("expired")
    truncated.broker.produce(topic, [b"x"] * 20)
    truncated.broker.expire_before(topic, 0, 10)
    reader = KafkaReader(
        {"bootstrap.servers": truncated.broker.bootstrap, "group.id": "g"}, timedelta(seconds=60)
    )
    tp = TopicPartition(topic, 0)
    reader.last_read = {tp: LastRead(4, 0)}
    try:
        chunks = list(reader.read(Slice(tp, OffsetRange(10, 20))))
    finally:
        reader.close()

    assert [o for chunk in chunks for o in chunk.offsets.tolist()] == list(range(10, 20))


def test_a_truncated_log_is_noticed_among_slices_that_are_fetched_at_once(
    truncated: Truncated,
) -> None:
    topic = truncated.broker.create_topic()
    truncated.broker.produce(topic, [b"x"] * 20)
    whole = Slice(TopicPartition(topic, 0), OffsetRange(0, 20))
    cut = Slice(TP, OffsetRange(KEPT + LOST, KEPT + LOST + 20))
    reader = KafkaReader(
        {"bootstrap.servers": truncated.broker.bootstrap, "group.id": "g"}, timedelta(seconds=60)
    )
    reader.last_read = {TP: truncated.last_read}
    reader.expect([whole, cut])
    try:
        (chunk,) = reader.read(whole)
        with pytest.raises(LogTruncated, match=r"t/0: the log was truncated at offset 100"):
            list(reader.read(cut))
    finally:
        reader.close()
    assert len(chunk) == 20
