"""The servers of ``dev/`` behave as the tests that use them assume."""

import os
import signal
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from dev.servers.cache import MissingTool
from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.server import Server, ServerKind
from tests.support.kafka.broker import SECONDS, Broker, Message
from tests.support.stores.s3 import Bucket

OwnServer = Callable[[ServerKind], Server]


def test_a_record_is_read_as_it_was_produced(kafka: Broker) -> None:
    topic = kafka.create_topic(partitions=2)
    kafka.produce(
        topic,
        [Message(b"v", b"k", partition=1, timestamp=1_000, headers=[("h", None), ("h", b"2")])],
    )

    consumer = Consumer(
        {"bootstrap.servers": str(kafka), "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 1, 0)])
    (message,) = consumer.consume(1, SECONDS)
    consumer.close()

    assert (message.value(), message.key(), message.timestamp()[1]) == (b"v", b"k", 1_000)
    assert message.headers() == [("h", None), ("h", b"2")]


def test_an_aborted_transaction_takes_offsets(kafka: Broker) -> None:
    topic = kafka.create_topic()

    kafka.produce_transaction(topic, [b"a", b"b"], commit=False)
    kafka.produce_transaction(topic, [b"c"])

    assert kafka.end_offset(topic) == 5


def test_expired_offsets_move_the_log_start(kafka: Broker) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"a", b"b", b"c"])

    kafka.expire_before(topic, 0, 2)

    assert (kafka.log_start(topic), kafka.end_offset(topic)) == (2, 3)


def test_a_bucket_is_empty_and_lists_what_is_written(bucket: Bucket) -> None:
    assert bucket.keys() == []

    bucket.write("a/b=c/d", b"1")

    assert (bucket.keys("a/"), bucket.read("a/b=c/d"), bucket.open_uploads()) == (
        ["a/b=c/d"],
        b"1",
        [],
    )


@pytest.mark.parametrize("kind", [KAFKA, S3], ids=lambda kind: kind.name)
def test_a_killed_server_comes_back_at_the_same_address(
    kind: ServerKind, own_server: OwnServer
) -> None:
    server = own_server(kind)
    first = server.up()
    assert first.pid
    os.kill(first.pid, signal.SIGKILL)
    while server.status().running:
        time.sleep(0.01)

    second = server.up()

    assert (second.address, second.running) == (first.address, True)
    assert second.pid != first.pid


def test_up_leaves_a_running_server_alone(own_server: OwnServer) -> None:
    server = own_server(S3)

    assert server.up() == server.up() == server.status()


def test_another_process_with_the_saved_pid_is_not_the_server(own_server: OwnServer) -> None:
    server = own_server(S3)
    server.up()
    server.down()

    (server.home / "pid").write_text(f'{{"pid": {os.getpid()}, "marker": "{server.home}"}}')

    assert not server.status().running


def test_an_existing_server_is_used_and_none_is_started(
    own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = own_server(S3).up()
    assert running.address
    monkeypatch.setenv("LANDFALL_S3", running.address)

    found = own_server(S3).up()

    assert (found.address, found.pid) == (running.address, None)


def test_a_shell_that_kept_the_address_starts_a_stopped_server_again(
    own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As between two pages that each begin with ``dev/s3 up`` and end with ``dev/s3 down``."""
    server = own_server(S3)
    first = server.up()
    assert first.address
    monkeypatch.setenv("LANDFALL_S3", first.address)
    server.down()
    assert not server.status().running

    second = server.up()

    assert (second.address, second.env) == (first.address, first.env)
    assert second.pid not in {None, first.pid}


def test_an_existing_server_that_does_not_answer_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANDFALL_S3", "http://127.0.0.1:9")

    with pytest.raises(MissingTool, match=r"LANDFALL_S3=http://127\.0\.0\.1:9 does not answer"):
        Server(S3).up()
