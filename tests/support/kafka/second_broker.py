"""A second Kafka node, a broker only: once it is killed, its Kafka partitions have no leader."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from confluent_kafka.admin import NewTopic

from dev.servers.kafka import KAFKA
from dev.servers.server import Server, ServerKind
from tests.support.kafka.broker import SECONDS, Broker
from tests.support.waiting import eventually

_FIRST, _SECOND = 1, 2
_PROPERTIES = """\
process.roles=broker
node.id={node}
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port}
"""


def _kind(controller_port: int) -> ServerKind:
    """A broker that joins the cluster whose controller listens on this port."""

    def command(
        programs: Path, home: Path, host: str, ports: tuple[int, ...]
    ) -> tuple[list[str], str]:
        argv, properties = KAFKA.command(programs, home, host, ports)
        with Path(properties).open("a") as file:  # later lines win
            file.write(
                _PROPERTIES.format(
                    host=host, port=ports[0], controller_port=controller_port, node=_SECOND
                )
            )
        _make_second(home / "data" / "meta.properties")
        return argv, properties

    return replace(KAFKA, existing="LANDFALL_SECOND_KAFKA", command=command)


def _make_second(meta: Path) -> None:
    """Make the second node's of a data folder that is copied from the first node's, once.

    Ids must not be used twice in a cluster, so the node draws a folder id of its own at its first
    start. It must keep that: replicas are assigned to a folder, and those of a folder that does not
    come back stay offline, so their Kafka partitions never get a leader again.
    """
    lines = meta.read_text().splitlines()
    if f"node.id={_SECOND}" not in lines:
        kept = [line for line in lines if not line.startswith(("node.id", "directory.id"))]
        meta.write_text("\n".join([*kept, f"node.id={_SECOND}", ""]))


@dataclass(frozen=True)
class BrokerPair:
    """Two brokers of one cluster; ``first`` is also its controller."""

    first: Broker
    _second: Server

    def create_topic(self, *leaders: int, name: str | None = None) -> str:
        """Create a topic with one Kafka partition, without a replica, on each of these brokers."""
        return self._create([[broker] for broker in leaders], name)

    def create_replicated(self) -> str:
        """Create a topic with one Kafka partition that the second broker leads, on both."""
        return self._create([[_SECOND, _FIRST]])

    def _create(self, replicas: list[list[int]], name: str | None = None) -> str:
        topic = NewTopic(
            name or f"topic-{uuid4().hex[:8]}",
            num_partitions=len(replicas),
            replica_assignment=replicas,
        )
        for future in self.first.admin.create_topics([topic]).values():
            future.result(SECONDS)
        self._until_leaders(topic.topic, [leader for leader, *_ in replicas])
        return str(topic.topic)

    def kill_second(self) -> None:
        """Kill the second broker; returns when its Kafka partitions have no leader."""
        self._second.down(at_once=True)

    def start_second(self) -> None:
        """Start the second broker again."""
        self._second.up()

    def leaders(self, topic: str) -> list[int]:
        """The broker that leads each Kafka partition; -1 where none does."""
        found = self.first.admin.list_topics(topic, timeout=SECONDS).topics[topic]
        return [found.partitions[n].leader for n in sorted(found.partitions)]

    def _until_leaders(self, topic: str, leaders: list[int]) -> None:
        eventually(lambda: self.leaders(topic), leaders.__eq__, SECONDS)


@contextmanager
def broker_pair(state: Path) -> Iterator[BrokerPair]:
    """Two brokers, stopped afterwards."""
    first = Server(KAFKA, state / "first")
    try:
        address = first.up().address
        assert address
        controller_port = json.loads((first.home / "ports.json").read_text())[1]
        second = Server(_kind(controller_port), state / "second")
        try:
            second.up()
            yield BrokerPair(Broker(address, {"log_level": 2}), second)
        finally:
            second.down(at_once=True)
    finally:
        first.down(at_once=True)
