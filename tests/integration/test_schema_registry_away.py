"""A real registry that hangs while a driver lands, which is killed: exactly once, no dead letters.

``test_schema_registry_kills`` has the longer cases.
"""

import signal
from collections.abc import Callable

import pytest

from dev.servers.schema_registry import SCHEMA_REGISTRY
from dev.servers.server import Server, ServerKind
from tests.support.kafka.registry_outage import (
    FIRST,
    SECOND,
    dead_letters,
    forget,
    hanging,
    is_away,
    landed,
    once,
    orders,
    register,
    running,
    spec,
)
from tests.support.landing.group import Scene
from tests.support.landing.processes import Processes

pytestmark = pytest.mark.xdist_group("drivers")


@pytest.fixture
def server(own_server: Callable[[ServerKind], Server]) -> Server:
    """A registry of the test's own, with both schemas: 1 and 2."""
    made = own_server(SCHEMA_REGISTRY)
    register(made, FIRST, SECOND)
    return made


def test_a_registry_hangs_and_the_driver_is_killed(
    scene: Scene, server: Server, processes: Processes
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, orders(range(100)))
    with running(scene, server) as driver:
        driver.wait_until_landed()

    with hanging(server):
        scene.kafka.produce(topic, orders(range(100, 200)))
        killed = processes.struck(scene.document(**spec(server)), "KILL after create COMMIT")
        assert killed.end() == -signal.SIGKILL, killed.said
        with running(scene, server) as driver:
            driver.wait_until_landed()
            assert landed(scene) == once(range(200))
            forget()  # as if executors had been replaced
            scene.kafka.produce(topic, orders(range(200, 250), 2))
            driver.wait_until(is_away, "the registry is away")
            assert landed(scene) == once(range(200))
    with running(scene, server) as driver:
        driver.wait_until_landed()

    assert landed(scene) == once(range(250))
    assert dead_letters(scene) == 0
    assert scene.findings(**spec(server)) == []
