"""What docs/guides/personal-data.md says of rights holds on a real server, which enforces policies.

The server is versitygw. Its rules of lifecycle are AWS's alone, so theirs are only checked in form.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters

from dev.servers.server import Kind, Server
from landfall.api.contract import LANE, ExitCode
from landfall.cli import main
from landfall.driver.dead_letter_expiry import ExpirySweep
from landfall.errors import StoreDenied
from landfall.lane import Lane
from landfall.store.urls import open_store
from tests.support.independent_audit import events
from tests.support.kafka import Broker
from tests.support.landing import Landing, Scene
from tests.support.limited_users import (
    S3_WITH_USERS,
    LimitedUser,
    access_of,
    documented_statements,
    grant_all,
    server_with,
)
from tests.support.markdown import DOCS, code

pytestmark = pytest.mark.xdist_group("store_rights")

PAGE = DOCS / "guides" / "personal-data.md"
DRIVER = LimitedUser("driver", "drivers-secret")
READER = LimitedUser("reader", "readers-secret")
LETTERS = "_landfall/scene/dead-letters/"


SHOWN = ["Readers", "Readers of the ledger", "Driver", "Lifecycle"]
"""The documents of the page, in its order."""


def shown(title: str) -> Any:
    """A document of the page."""
    texts = [block.text for block in code(PAGE, "json")]
    return json.loads(dict(zip(SHOWN, texts, strict=True))[title])


@pytest.fixture
def scene(
    kafka: Broker,
    own_server: Callable[[Kind], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    """A bucket whose group is ``DRIVER``; the test's own requests are the administrator's."""
    endpoint = own_server(S3_WITH_USERS).up().address
    assert endpoint
    READER.create(endpoint)
    server = server_with(DRIVER, endpoint, tmp_path, monkeypatch)
    return Scene(kafka, server.create_bucket())


def spec(scene: Scene) -> dict[str, Any]:
    s3 = access_of(scene.bucket)
    bad = {"maxRatio": "1", "retain": "30d"}
    return {"output": {"s3": s3}, "decode": {"format": "Json"}, "badRecords": bad}


def landed(scene: Scene) -> str:
    """Land records of which one is bad; returns the key of its dead letters."""
    topic = scene.topic()
    scene.kafka.produce(topic, [*events(range(20)), b"no JSON"])
    assert Landing(scene.group(**spec(scene)), None).start().end() is ExitCode.OK
    (key,) = scene.bucket.keys(LETTERS)
    return key


def can_read(scene: Scene, user: LimitedUser, key: str) -> bool:
    client = boto3.client(
        "s3",
        endpoint_url=str(scene.bucket.server),
        region_name="us-east-1",
        aws_access_key_id=user.name,
        aws_secret_access_key=user.secret,
    )
    try:
        client.get_object(Bucket=scene.bucket.name, Key=key)["Body"].read()
    except ClientError as error:
        if error.response["Error"]["Code"] != "AccessDenied":
            raise
        return False
    return True


@pytest.mark.parametrize(
    ("title", "reads_ledger"), [("Readers", False), ("Readers of the ledger", True)]
)
def test_readers_see_neither_dead_letters_nor_copies(
    scene: Scene, title: str, reads_ledger: bool
) -> None:
    grant_all(scene.bucket, {DRIVER.name: documented_statements(), READER.name: shown(title)})
    letters = landed(scene)
    (data,) = [key for key in scene.bucket.keys("") if not key.startswith("_landfall/")]
    ledger = scene.bucket.keys("_landfall/scene/0/")[0]
    for kept in ("0-retired/00000000000000000007/a/b", "side/fix/a/b"):
        scene.bucket.write(f"_landfall/scene/{kept}", b"kept")

    assert can_read(scene, READER, data)
    assert can_read(scene, READER, ledger) is reads_ledger
    assert not can_read(scene, READER, letters)
    assert not can_read(scene, READER, "_landfall/scene/0-retired/00000000000000000007/a/b")
    assert not can_read(scene, READER, "_landfall/scene/side/fix/a/b")


def test_a_driver_with_the_rights_that_are_shown_deletes_what_has_expired(
    scene: Scene, tmp_path: Path
) -> None:
    grant_all(scene.bucket, {DRIVER.name: documented_statements()})
    landed(scene)
    store = open_store(scene.group(**spec(scene)).spec.output)
    lane, now = Lane(store, "scene", LANE), datetime.now(UTC)

    with pytest.raises(StoreDenied, match="AccessDenied"):
        ExpirySweep(store, lane).run(lane.read(), now)
    assert len(scene.bucket.keys(LETTERS)) == 1

    grant_all(scene.bucket, {DRIVER.name: [*documented_statements(), *shown("Driver")]})
    assert ExpirySweep(store, lane).run(lane.read(), now) == 1
    assert scene.bucket.keys(LETTERS) == []
    file = str(scene.file(tmp_path, **spec(scene)))
    # The commands of the page, and the audit.
    assert [main([name, file]) for name in ("fsck", "verify", "audit")] == [ExitCode.OK] * 3


def test_the_rules_of_lifecycle_are_some() -> None:
    client = boto3.client("s3", region_name="us-east-1")
    model = client.meta.service_model.operation_model("PutBucketLifecycleConfiguration")

    assert model.input_shape is not None
    validate_parameters(
        {"Bucket": "logs", "LifecycleConfiguration": shown("Lifecycle")}, model.input_shape
    )
