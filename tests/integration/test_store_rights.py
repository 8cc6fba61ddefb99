"""What a group may do in its bucket: the documented policy is enough, and no right is for nothing.

The server is versitygw, whose policies deny single keys of a DeleteObjects as AWS does.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dev.servers.server import Server, ServerKind
from landfall.api.contract import ExitCode
from landfall.api.spec import S3
from landfall.cli import main
from landfall.errors import Stalled, StoreDenied
from landfall.objects import Upload, UploadLost
from landfall.store.copying import copied
from landfall.store.probe import probe
from landfall.store.urls import open_store
from tests.support.audit.independent_audit import events
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Landing, Scene
from tests.support.stores.every_store import content, uploaded
from tests.support.stores.limited_users import (
    DRIVER,
    access_of,
    documented_statements,
    scene_of_driver,
    without,
)
from tests.support.waiting import wait_for

pytestmark = pytest.mark.xdist_group("store_rights")

DELETE = "s3:DeleteObject"
SLOTS = "_landfall/scene/0/"


@pytest.fixture
def scene(
    kafka: Broker,
    own_server: Callable[[ServerKind], Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    return scene_of_driver(kafka, own_server, tmp_path, monkeypatch)


def spec(scene: Scene) -> dict[str, Any]:
    s3 = access_of(scene.bucket)
    return {"output": {"s3": s3}, "tuning": {"segmentEvery": 3}}


def land_one_after_the_other(scene: Scene, running: Landing, topic: str, ids: range) -> None:
    for n in ids:
        scene.kafka.produce(topic, events(range(n * 10, n * 10 + 10)))
        running.wait_until_landed()


def test_the_documented_rights_are_enough(scene: Scene, tmp_path: Path) -> None:
    DRIVER.grant(scene.bucket, documented_statements())
    topic = scene.topic()
    running = Landing(scene.group(**spec(scene)), None, until_caught_up=False).start()

    land_one_after_the_other(scene, running, topic, range(12))
    wait_for(lambda: len(scene.bucket.keys(SLOTS)) <= scene.state().seq, "slots are deleted")

    assert running.stop() is ExitCode.OK
    file = str(scene.file(tmp_path, **spec(scene)))
    drop = ["drop", file, f"{topic}/0", "--why", "moved"]
    checks = [["fsck", file, "--deep"], ["audit", file], ["verify", file], ["status", file]]
    assert [main(words) for words in (*checks, drop, ["fsck", file])] == [ExitCode.OK] * 6


def test_without_the_right_to_delete_it_lands_on_and_says_so_once(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("landfall.driver.landing.segment_rolling.RETRY_INTERVAL", timedelta(0))
    DRIVER.grant(scene.bucket, without(documented_statements(), DELETE))
    topic = scene.topic()
    running = Landing(scene.group(**spec(scene)), None, until_caught_up=False).start()

    with caplog.at_level(logging.WARNING, "landfall.driver.landing.segment_rolling"):
        land_one_after_the_other(scene, running, topic, range(12))
        wait_for(lambda: caplog.records, "it is said")
        land_one_after_the_other(scene, running, topic, range(12, 20))
    (said,) = caplog.records
    assert said.message == "old slots not deleted: the ledger grows"
    assert "AccessDenied" in said.__dict__["why"]
    slots = scene.bucket.keys(SLOTS)
    assert len(slots) == scene.state().seq + 1

    DRIVER.grant(scene.bucket, documented_statements())
    wait_for(lambda: len(scene.bucket.keys(SLOTS)) < len(slots), "the right is back")
    land_one_after_the_other(scene, running, topic, range(20, 22))
    assert running.stop() is ExitCode.OK
    assert scene.faults() == []


@pytest.mark.parametrize(
    "action",
    [
        name
        for statement in documented_statements()
        for name in statement["Action"]
        if isinstance(statement["Action"], list) and name != "s3:GetLifecycleConfiguration"
    ],
)
def test_each_other_right_is_needed(scene: Scene, action: str) -> None:
    DRIVER.grant(scene.bucket, without(documented_statements(), action))

    with pytest.raises((StoreDenied, Stalled)) as denied:
        use(scene)

    assert "AccessDenied" in str(denied.value)


def use(scene: Scene) -> None:
    """Everything that a driver asks of a store, as far as landing needs it."""
    store = open_store(scene.group(**spec(scene)).spec.output)
    probe(store)
    upload = store.begin("a/b", "token")
    part = store.put_part("a/b", upload, 1, b"x")
    store.complete(Upload("a/b", upload, (part,), "token"))
    lost = store.begin("a/c", "token")
    part = store.put_part("a/c", lost, 1, b"x")
    store.abort("a/c", lost)
    with suppress(UploadLost):  # which it can tell only from the parts of the upload
        store.complete(Upload("a/c", lost, (part,), "token"))


def test_tags_need_a_right_that_the_refusal_names(scene: Scene) -> None:
    action = "s3:PutObjectTagging"
    DRIVER.grant(scene.bucket, documented_statements())
    s3 = {**spec(scene)["output"]["s3"], "tags": {"team": "logs"}}
    output = scene.group(**spec(scene)).spec.output.model_copy(update={"s3": S3.model_validate(s3)})

    with pytest.raises(StoreDenied, match=rf"it needs {action} for output\.s3\.tags$"):
        open_store(output).begin("a/b", "token")

    more = {"Effect": "Allow", "Action": action, "Resource": "arn:aws:s3:::logs/*"}
    DRIVER.grant(scene.bucket, [*documented_statements(), more])
    probe(open_store(output))


def test_only_the_retirement_of_an_object_needs_a_right_to_delete_it(scene: Scene) -> None:
    DRIVER.grant(scene.bucket, documented_statements())
    store = open_store(scene.group(**spec(scene)).spec.output)
    upload = uploaded(store, "a/b")
    store.complete(upload)
    kept = "_landfall/scene/0-retired/00000000000000000007/a/b"

    store.complete(copied(store, "a/b", 4, kept, "token-2"))
    with pytest.raises(StoreDenied, match=r"^retire .*AccessDenied"):
        store.retire(upload)
    assert (content(store, "a/b"), content(store, kept)) == (b"body", b"body")

    more = {"Effect": "Allow", "Action": DELETE, "Resource": "arn:aws:s3:::logs/*"}
    DRIVER.grant(scene.bucket, [*documented_statements(), more])
    store.retire(upload)
    assert (store.stat("a/b"), content(store, kept)) == (None, b"body")


def test_commands_that_only_read_need_no_more_than_is_said(scene: Scene, tmp_path: Path) -> None:
    DRIVER.grant(scene.bucket, documented_statements())
    scene.kafka.produce(topic := scene.topic(), events(range(100)))
    landing = Landing(scene.group(**spec(scene)), None).start()
    assert landing.end() is ExitCode.OK
    statements = documented_statements()
    for action in (
        "s3:PutObject",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
        DELETE,
    ):
        statements = without(statements, action)
    DRIVER.grant(scene.bucket, statements)

    file = str(scene.file(tmp_path, **spec(scene)))
    found = [main([name, file]) for name in ("status", "fsck", "verify", "audit")]
    found.append(main(["locate", file, topic, "0", "7"]))

    assert found == [ExitCode.OK] * 5
