"""What docs/guides/personal-data.md says of rights holds on a real server, which enforces policies.

The server is versitygw. Its rules of lifecycle are AWS's alone, so theirs are only checked in form.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.validate import validate_parameters

from dev.servers.server import Server, ServerKind
from landfall.api.contract import LANE, ExitCode
from landfall.cli import main
from landfall.driver.landing.dead_letter_expiry import ExpirySweep
from landfall.errors import StoreDenied
from landfall.lane import Lane
from landfall.store.urls import open_store
from tests.support.audit.independent_audit import events
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Landing, Scene
from tests.support.stores.limited_users import (
    DRIVER,
    LimitedUser,
    access_of,
    documented_statements,
    grant_all,
    personal_data_policies,
    scene_of_driver,
)

pytestmark = pytest.mark.xdist_group("store_rights")

READER = LimitedUser("reader", "readers-secret")
LETTERS = "_landfall/scene/dead-letters/"


@pytest.fixture
def scene(
    kafka: Broker,
    own_server: Callable[[ServerKind], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    return scene_of_driver(kafka, own_server, tmp_path, monkeypatch, READER)


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


@pytest.mark.parametrize(
    ("title", "reads_ledger"), [("Readers", False), ("Readers of the ledger", True)]
)
def test_readers_see_neither_dead_letters_nor_copies(
    scene: Scene, title: str, reads_ledger: bool
) -> None:
    grant_all(
        scene.bucket,
        {DRIVER.name: documented_statements(), READER.name: personal_data_policies()[title]},
    )
    letters = landed(scene)
    (data,) = [key for key in scene.bucket.keys("") if not key.startswith("_landfall/")]
    ledger = scene.bucket.keys("_landfall/scene/0/")[0]
    hidden = ["0-retired/00000000000000000007/a/b", "side/fix/a/b", f"dead-letters@{'0' * 16}/a/b"]
    for kept in hidden:
        scene.bucket.write(f"_landfall/scene/{kept}", b"kept")

    assert READER.can_read(scene.bucket, data)
    assert READER.can_read(scene.bucket, ledger) is reads_ledger
    assert not READER.can_read(scene.bucket, letters)
    for kept in hidden:
        assert not READER.can_read(scene.bucket, f"_landfall/scene/{kept}")


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

    grant_all(
        scene.bucket, {DRIVER.name: [*documented_statements(), *personal_data_policies()["Driver"]]}
    )
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
        {"Bucket": "logs", "LifecycleConfiguration": personal_data_policies()["Lifecycle"]},
        model.input_shape,
    )
