"""An S3 server whose keys are changed while a group lands into it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dev.servers import s3 as dev_s3
from dev.servers.server import Server
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Landing, Scene
from tests.support.stores.s3 import Bucket, S3Server
from tests.support.waiting import wait_for


@dataclass(frozen=True)
class RotatedKeys:
    """A server of the test's own, the group's Secret in a folder, and what the group lands.

    Attributes:
        server: the server.
        secrets: the folder of Secrets.
        scene: broker, bucket and topics.
        monkeypatch: of the test.
    """

    server: Server
    secrets: Path
    scene: Scene
    monkeypatch: pytest.MonkeyPatch

    @classmethod
    def start(
        cls, kafka: Broker, server: Server, secrets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> "RotatedKeys":
        """Start the server with a first key, which the Secret has, too."""
        monkeypatch.setenv("LANDFALL_SECRETS", str(secrets))
        _use_key(monkeypatch, "first")
        endpoint = server.up().address
        assert endpoint
        scene = Scene(kafka, S3Server(endpoint, dev_s3._env(endpoint)).create_bucket())
        made = cls(server, secrets, scene, monkeypatch)
        made.write_secret()
        return made

    @property
    def output(self) -> dict[str, Any]:
        """The group's output, which finds the key in the Secret."""
        s3 = {
            "endpoint": str(self.scene.bucket.server),
            "pathStyle": True,
            "credentialsSecretRef": {"name": "s3"},
            "maxAttempts": 1,
        }
        return {"s3": s3}

    def write_secret(self) -> None:
        """Put the server's present key into the Secret."""
        (self.secrets / "s3").mkdir(exist_ok=True)
        (self.secrets / "s3" / "AWS_ACCESS_KEY_ID").write_text(dev_s3.ACCESS_KEY)
        (self.secrets / "s3" / "AWS_SECRET_ACCESS_KEY").write_text(dev_s3.SECRET_KEY)

    def rotate(self) -> None:
        """Restart the server with another key; the Secret still has the first one."""
        self.server.down()
        _use_key(self.monkeypatch, "second")
        self.server.up()

    def wait_until_denied(self, running: Landing) -> None:
        """Wait until the driver reports that the store refuses it, or return if it has done so.

        While it waits for the store, it reports nothing more.
        """
        wait_for(
            lambda: any(
                status.commits.last_failure and status.commits.last_failure.reason == "StoreDenied"
                for status in running.statuses
            ),
            "the refusal is reported",
        )

    def afterwards(self) -> Scene:
        """The same scene, for somebody who has the present key."""
        endpoint = str(self.scene.bucket.server)
        bucket = Bucket(S3Server(endpoint, dev_s3._env(endpoint)), self.scene.bucket.name)
        return Scene(self.scene.kafka, bucket, self.scene.prefix)


def _use_key(monkeypatch: pytest.MonkeyPatch, access_key: str) -> None:
    """Let the server, when it starts, and everything else of the test use another access key."""
    monkeypatch.setattr(dev_s3, "ACCESS_KEY", access_key)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", dev_s3.SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", dev_s3.REGION)
