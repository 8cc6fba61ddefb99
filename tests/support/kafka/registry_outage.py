"""Orders of two Avro schemas, a registry that a test may break, and drivers that land meanwhile."""

import io
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import fastavro

from dev.servers.server import Server
from landfall.api.contract import ExitCode, Status
from landfall.schemas.cached import registry_at
from landfall.task import worker
from tests.support.audit.independent_audit import data_keys, landed_lines
from tests.support.kafka.broker import Message
from tests.support.kafka.registry import Registry, framed
from tests.support.landing.group import Landing, Scene
from tests.support.payloads.avro import encoded

FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "n", "type": "int"}],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "who", "type": "string"}]}


def register(server: Server, *schemas: dict[str, Any]) -> list[int]:
    """Start the registry and register schemas; returns their ids."""
    registry = Registry(server.up().address or "")
    return [registry.register(f"orders-{i}", schema) for i, schema in enumerate(schemas)]


def spec(server: Server) -> dict[str, Any]:
    """What a group says about the registry; any number of dead letters would land."""
    registry = {"urls": [server.status().address], "timeout": "1s"}
    return {
        "decode": {"format": "Avro", "registry": registry},
        "route": {"pattern": "all"},
        "badRecords": {"maxRatio": "1"},
    }


def orders(numbers: Sequence[int], schema_id: int = 1) -> list[Message]:
    """Orders of the first schema that was registered, or of the second."""
    schema = FIRST if schema_id == 1 else SECOND
    more = {"who": "ann"} if schema_id > 1 else {}
    return [Message(framed(schema_id, encoded(schema, {"n": n} | more))) for n in numbers]


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


def landed_in_containers(scene: Scene) -> Counter[int]:
    """The same of object container files, which fastavro reads."""
    bodies = (io.BytesIO(scene.bucket.read(key)) for key in data_keys(scene.bucket))
    rows: Iterator[Any] = (row for body in bodies for row in fastavro.reader(body))
    return Counter(row["n"] for row in rows)


def once(*ranges: range) -> Counter[int]:
    """Every order of these ranges, once."""
    return Counter(n for each in ranges for n in each)


def is_away(status: Status) -> bool:
    """Whether the driver says that the registry does not answer."""
    failure = status.commits.last_failure
    return failure is not None and failure.reason == "SchemaRegistryUnavailable"


def dead_letters(scene: Scene) -> int:
    return scene.state().totals.dead_lettered
