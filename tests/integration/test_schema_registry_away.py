"""A real registry that hangs while a driver lands: exactly once, and no dead letters."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from dev.servers.schema_registry import SCHEMA_REGISTRY
from dev.servers.server import Kind, Server
from landfall.api.contract import ExitCode, Status
from landfall.schemas.cached import registry_at
from landfall.task import worker
from tests.support.avro import encoded
from tests.support.independent_audit import landed_lines
from tests.support.kafka import Message
from tests.support.landing import Landing, Scene
from tests.support.registry import Registry, framed

pytestmark = pytest.mark.full

FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "n", "type": "int"}],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "who", "type": "string"}]}


@pytest.fixture
def server(own_server: Callable[[Kind], Server]) -> Server:
    """A registry of the test's own, with both schemas: 1 and 2."""
    made = own_server(SCHEMA_REGISTRY)
    register(made, FIRST, SECOND)
    return made


def register(server: Server, *schemas: dict[str, Any]) -> list[int]:
    registry = Registry(server.up().address or "")
    return [registry.register(f"orders-{i}", schema) for i, schema in enumerate(schemas)]


def spec(server: Server) -> dict[str, Any]:
    registry = {"urls": [server.status().address], "timeout": "1s"}
    return {
        "decode": {"format": "Avro", "registry": registry},
        "route": {"pattern": "all"},
        "badRecords": {"maxRatio": "1"},
    }


def orders(numbers: Sequence[int], schema_id: int = 1) -> list[Message]:
    schema = FIRST if schema_id == 1 else SECOND
    return [
        Message(
            framed(schema_id, encoded(schema, {"n": n} | ({"who": "ann"} if schema_id > 1 else {})))
        )
        for n in numbers
    ]


def forget() -> None:
    """Let the next task be that of a new worker process."""
    registry_at.cache_clear()
    while worker._cached:
        worker._cached.pop().reader.close()


@contextmanager
def running(scene: Scene, server: Server) -> Iterator[Landing]:
    """A driver that lands until the block ends."""
    forget()
    made = Landing(scene.group(**spec(server)), None, until_caught_up=False).start()
    try:
        yield made
    finally:
        code = made.stop()
    assert code is ExitCode.OK, made.now


@contextmanager
def hanging(server: Server) -> Iterator[None]:
    """The registry takes connections and answers nothing."""
    pid = server.status().pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def landed(scene: Scene) -> Counter[int]:
    """How often each order is in a landed object."""
    return Counter(json.loads(line)["n"] for _, line in landed_lines(scene.bucket))


def once(*ranges: range) -> Counter[int]:
    return Counter(n for each in ranges for n in each)


def is_away(status: Status) -> bool:
    failure = status.commits.last_failure
    return failure is not None and failure.reason == "SchemaRegistryUnavailable"


def dead_letters(scene: Scene) -> int:
    return scene.state().totals.dead_lettered


def test_a_registry_that_hangs_holds_back_only_schemas_that_nobody_has_seen(
    scene: Scene, server: Server
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, orders(range(100)))
    with running(scene, server) as driver:
        driver.wait_until_landed()
        with hanging(server):
            forget()  # as if executors had been replaced
            scene.kafka.produce(topic, orders(range(100, 200)))
            driver.wait_until_landed()
            assert landed(scene) == once(range(200))
            scene.kafka.produce(topic, orders(range(200, 250), 2))
            driver.wait_until(is_away, "the registry is away")
            assert landed(scene) == once(range(200))
        driver.wait_until_landed()

    assert landed(scene) == once(range(250))
    assert dead_letters(scene) == 0
    assert scene.faults(**spec(server)) == []
