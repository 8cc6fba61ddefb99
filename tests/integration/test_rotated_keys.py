"""A store whose keys are changed under a running driver."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dev.servers.s3 import S3
from dev.servers.server import Server, ServerKind
from landfall.api.contract import ExitCode
from tests.support.audit.independent_audit import EXACT, events
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Landing
from tests.support.stores.rotated_keys import RotatedKeys


def test_a_group_lands_again_when_its_secret_has_the_new_keys(
    kafka: Broker,
    own_server: Callable[[ServerKind], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = RotatedKeys.start(kafka, own_server(S3), tmp_path, monkeypatch)
    topic = keys.scene.topic()
    kafka.produce(topic, events(range(1000)))
    running = Landing(keys.scene.group(output=keys.output), None, until_caught_up=False).start()
    running.wait_until_landed()

    keys.rotate()
    kafka.produce(topic, events(range(1000, 1500)))
    keys.wait_until_denied(running)
    keys.write_secret()
    running.wait_until_landed()

    assert running.stop() is ExitCode.OK
    afterwards = keys.afterwards()
    assert afterwards.audit() == EXACT
    assert afterwards.faults() == []
