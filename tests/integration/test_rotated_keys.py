"""A store whose keys are changed under a running driver."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dev.servers import s3 as dev_s3
from dev.servers.s3 import S3
from dev.servers.server import Kind, Server
from landfall.api.contract import ExitCode
from tests.support.independent_audit import EXACT, events
from tests.support.kafka import Broker
from tests.support.landing import Landing, Scene
from tests.support.s3 import Bucket, S3Server


@pytest.fixture
def server(own_server: Callable[[Kind], Server]) -> Server:
    return own_server(S3)


def use_keys(monkeypatch: pytest.MonkeyPatch, access_key: str) -> None:
    """Let the server, when it starts, and everything else of this test use another access key."""
    monkeypatch.setattr(dev_s3, "ACCESS_KEY", access_key)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", dev_s3.SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", dev_s3.REGION)


def write_secret(folder: Path) -> None:
    (folder / "s3").mkdir(exist_ok=True)
    (folder / "s3" / "AWS_ACCESS_KEY_ID").write_text(dev_s3.ACCESS_KEY)
    (folder / "s3" / "AWS_SECRET_ACCESS_KEY").write_text(dev_s3.SECRET_KEY)


def test_a_group_lands_again_when_its_secret_has_the_new_keys(
    kafka: Broker, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keys(monkeypatch, "first")
    monkeypatch.setenv("LANDFALL_SECRETS", str(tmp_path))
    write_secret(tmp_path)
    endpoint = server.up().address
    assert endpoint
    scene = Scene(kafka, S3Server(endpoint, dev_s3._env(endpoint)).create_bucket())
    topic = scene.topic()
    s3 = {"endpoint": endpoint, "pathStyle": True, "credentialsSecretRef": {"name": "s3"}}
    group = scene.group(output={"s3": {**s3, "maxAttempts": 1}})
    kafka.produce(topic, events(range(1000)))
    running = Landing(group, None, until_caught_up=False).start()
    running.wait_until_landed()

    server.down()
    use_keys(monkeypatch, "second")
    server.up()
    kafka.produce(topic, events(range(1000, 1500)))
    running.wait_until(
        lambda s: s.commits.last_failure and s.commits.last_failure.reason == "StoreDenied",
        "the refusal is said",
    )
    write_secret(tmp_path)
    running.wait_until_landed()

    assert running.stop() is ExitCode.OK
    renamed = Bucket(S3Server(endpoint, dev_s3._env(endpoint)), scene.bucket.name)
    afterwards = Scene(kafka, renamed, scene.prefix)
    assert afterwards.audit() == EXACT
    assert afterwards.faults() == []
