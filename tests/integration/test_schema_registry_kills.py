"""A registry that is away for long, forgets or changes, and drivers that die: exactly once.

What takes longer than the other tests may: ``make registry-suite`` runs it.
"""

import json
import signal
import time
from collections.abc import Callable

import pytest

from dev.servers.schema_registry import SCHEMA_REGISTRY
from dev.servers.server import Server, ServerKind
from landfall_audit.checks.inspection import Findings
from tests.support.audit.independent_audit import landed_lines
from tests.support.kafka.registry import Registry
from tests.support.kafka.registry_outage import (
    FIRST,
    SECOND,
    dead_letters,
    forget,
    hanging,
    landed,
    landed_in_containers,
    once,
    orders,
    register,
    running,
    spec,
)
from tests.support.landing.group import Scene
from tests.support.landing.processes import Processes
from tests.support.waiting import wait_for

pytestmark = pytest.mark.full

AWAY_SECONDS = 120.0
WRONG = ("missing", "duplicate", "misplaced", "corrupted", "disordered", "foreign", "lost")


@pytest.fixture
def server(own_server: Callable[[ServerKind], Server]) -> Server:
    """A registry of the test's own, with both schemas: 1 and 2."""
    made = own_server(SCHEMA_REGISTRY)
    register(made, FIRST, SECOND)
    return made


def counts(found: Findings) -> dict[str, int]:
    """What the auditor has found, over all topic partitions."""
    names = ("expected", "found", *WRONG)
    sums = {name: sum(getattr(r, name) for r in found.results.values()) for name in names}
    unchecked = sum(sum(r.unchecked.values()) for r in found.results.values())
    return {**sums, "unchecked": unchecked}


def test_the_registry_is_away_for_two_minutes_and_drivers_are_killed(
    scene: Scene, server: Server, processes: Processes
) -> None:
    """``known`` has payloads whose schema was seen before, ``new`` those that nobody has seen."""
    known, new = scene.topic("known"), scene.topic("new")
    of = {**spec(server), "output": {"format": "Avro"}}
    document = scene.document(**of)
    scene.kafka.produce(known, orders(range(100)))
    first = processes.run(document, "--http-port", "0")
    wait_for(lambda: landed_in_containers(scene) == once(range(100)), "landing has begun")

    with hanging(server):
        back = time.monotonic() + AWAY_SECONDS
        scene.kafka.produce(new, orders(range(1000, 1100), 2))
        wait_for(lambda: "schema registry: " in first.said, "the driver misses the registry")
        scene.kafka.produce(known, orders(range(100, 200)))
        first.send(signal.SIGKILL)
        assert first.end() == -signal.SIGKILL

        second = processes.run(document, "--http-port", "0")
        scene.kafka.produce(known, orders(range(200, 300)))
        wait_for(lambda: landed_in_containers(scene) == once(range(300)), "known schemas land")
        while time.monotonic() < back:
            scene.kafka.produce(new, orders([1000 + scene.kafka.end_offset(new)], 2))
            time.sleep(2)
        assert landed_in_containers(scene) == once(range(300)), "only what is known has landed"
    second.send(signal.SIGKILL)
    assert second.end() == -signal.SIGKILL
    third = processes.struck(scene.document(**of), "KILL after create COMMIT")
    assert third.end() == -signal.SIGKILL, third.said
    scene.kafka.produce(known, orders(range(300, 400), 2))
    fourth = processes.struck(scene.document(**of))
    assert fourth.end() == 0, fourth.said

    late = range(1000, 1000 + scene.kafka.end_offset(new))
    produced = 400 + len(late)
    assert landed_in_containers(scene) == once(range(400), late)
    assert dead_letters(scene) == 0
    found = counts(scene.audited(**of))
    print("landfall audit:", found)
    assert found == {**dict.fromkeys(found, 0), "expected": produced, "found": produced}
    assert scene.findings(**of) == []


def test_the_latest_schema_is_the_same_until_the_driver_starts_anew(
    scene: Scene, server: Server, processes: Processes
) -> None:
    """A schema that is registered meanwhile does not change how a driver's workers read."""
    topic = scene.topic()
    registry = Registry(server.status().address or "")
    registry.register(f"{topic}-value", FIRST)
    of = spec(server)
    of["decode"]["options"] = {"readerSchema": "Latest"}
    scene.kafka.produce(topic, orders(range(10), 2))
    first = processes.run(scene.document(**of), "--http-port", "0")
    wait_for(lambda: landed(scene) == once(range(10)), "the first orders land")

    registry.register(f"{topic}-value", SECOND)
    for worker in first.workers():
        worker.kill()  # Spark starts others, which know nothing
    scene.kafka.produce(topic, orders(range(10, 20), 2))
    wait_for(lambda: landed(scene) == once(range(20)), "new workers land")
    first.send(signal.SIGKILL)
    first.end()
    with hanging(server):
        second = processes.run(scene.document(**of), "--http-port", "0")
        scene.kafka.produce(topic, orders(range(20, 30), 2))
        wait_for(lambda: "schema registry: " in second.said, "a new driver asks the registry")
        assert landed(scene) == once(range(20))
    wait_for(lambda: landed(scene) == once(range(30)), "the new driver lands")

    rows = [json.loads(line) for _, line in landed_lines(scene.bucket)]
    assert {row["n"] for row in rows if "who" not in row} == {*range(20)}
    assert {row["n"]: row["who"] for row in rows if "who" in row} == dict.fromkeys(
        range(20, 30), "ann"
    )
    assert dead_letters(scene) == 0
    second.send(signal.SIGTERM)
    assert second.end() == 0, second.said
    assert scene.faults(**of) == []


def test_a_registry_that_has_forgotten_all_makes_dead_letters_only_of_what_is_new(
    scene: Scene, server: Server
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, orders(range(100)))
    with running(scene, server) as driver:
        driver.wait_until_landed()
        server.down(at_once=True)
        scene.kafka.produce(topic, orders(range(100, 150)))
        forget()
        driver.wait_until_landed()
        server.up()
        scene.kafka.produce(topic, orders(range(150, 200)))
        forget()
        scene.kafka.produce(topic, orders([1000], 2))
        driver.wait_until_landed()

    assert landed(scene) == once(range(200))
    assert dead_letters(scene) == 1
    assert scene.faults(**spec(server)) == []


def test_another_registry_at_the_same_address_lands_nothing(scene: Scene, server: Server) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, orders(range(100)))
    with running(scene, server) as driver:
        driver.wait_until_landed()
    server.down(at_once=True)
    register(server, SECOND, FIRST)

    scene.kafka.produce(topic, orders(range(100, 150)))
    with running(scene, server) as driver:
        status = driver.wait_until(lambda s: s.commits.failures, "a failure")

    assert status.commits.last_failure is not None
    assert status.commits.last_failure.reason == "SchemaRegistryChanged"
    assert landed(scene) == once(range(100))
    assert dead_letters(scene) == 0


@pytest.mark.parametrize("step", ["before create COMMIT", "after complete 1"])
def test_a_driver_that_is_killed_while_the_registry_is_away(
    scene: Scene, server: Server, processes: Processes, step: str
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, orders(range(100)))
    with running(scene, server) as driver:
        driver.wait_until_landed()
    scene.kafka.produce(topic, orders(range(100, 200)))
    with hanging(server):
        killed = processes.struck(scene.document(**spec(server)), f"KILL {step}")
        assert killed.end() == -signal.SIGKILL, killed.said

        with running(scene, server) as driver:
            driver.wait_until_landed()

    assert landed(scene) == once(range(200))
    assert dead_letters(scene) == 0
    assert scene.findings(**spec(server)) == []
