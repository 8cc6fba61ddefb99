"""A Kafka that asks for a client's certificate, read by both readers."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dev.servers.server import Server
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.native import HotPath
from landfall.source.reader import KafkaReader
from tests.support.driver.hot_paths import BOTH
from tests.support.kafka.broker import Broker
from tests.support.kafka.secured import MUTUAL_KAFKA, PASSWORD

pytestmark = pytest.mark.xdist_group("client-certificates")

TOPIC = "orders"
COUNT = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker that asks for a client's certificate."""
    server = Server(MUTUAL_KAFKA, tmp_path_factory.mktemp("mutual"))
    try:
        server.up()
        yield server
    finally:
        server.down(at_once=True)


@pytest.fixture(scope="module")
def broker(server: Server) -> Broker:
    """The broker, with a hundred records in ``TOPIC``."""
    login = certificate(server.home / "client.p12")
    broker = Broker(f"{server.up().address}", {"log_level": 2, **login})
    broker.create_topic(TOPIC)
    broker.produce(TOPIC, [b"%d" % n for n in range(COUNT)])
    return broker


def certificate(keystore: Path) -> dict[str, str]:
    """The properties of a client with the certificate of a keystore."""
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(keystore.parent / "ca.pem"),
        "ssl.keystore.location": str(keystore),
        "ssl.keystore.password": PASSWORD,
    }


def reader_of(
    broker: Broker, path: HotPath, properties: dict[str, str], seconds: int = 120
) -> KafkaReader:
    named = {"bootstrap.servers": broker.bootstrap, "group.id": "certified", **properties}
    return KafkaReader(named, timedelta(seconds=seconds), path)


def slice_of(end: int) -> Slice:
    return Slice(TopicPartition(TOPIC, 0), OffsetRange(0, end))


@pytest.mark.parametrize("path", BOTH)
def test_a_certificate_of_the_brokers_ca_gives_access(
    server: Server, broker: Broker, path: HotPath
) -> None:
    reader = reader_of(broker, path, certificate(server.home / "client.p12"))
    try:
        found = [v for chunk in reader.read(slice_of(COUNT)) for v in chunk.values.to_pylist()]
    finally:
        reader.close()

    assert found == [b"%d" % n for n in range(COUNT)]


@pytest.mark.parametrize("path", BOTH)
@pytest.mark.parametrize("has_one", [True, False])
def test_no_certificate_or_one_of_another_ca_is_denied(
    server: Server, broker: Broker, path: HotPath, *, has_one: bool
) -> None:
    properties = certificate(server.home / "stranger.p12")
    if not has_one:
        properties = {k: v for k, v in properties.items() if "keystore" not in k}
    reader = reader_of(broker, path, properties, 20)
    try:
        with pytest.raises(Stalled, match=r"(?i)certificate") as stalled:
            list(reader.read(slice_of(COUNT)))
    finally:
        reader.close()

    assert stalled.value.reason is Reason.SOURCE_DENIED
