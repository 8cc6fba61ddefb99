"""Drivers that die at a COMMIT, and committed uploads that are aborted before completion."""

import json
from typing import Any

import pytest
from pyspark import SparkContext

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.driver.process.loop import Driver
from landfall.store import Created
from landfall.store.s3.store import S3Store
from landfall.store.urls import open_store
from tests.support.audit.independent_audit import (
    EXACT,
    events,
)
from tests.support.driver.driver_mutants import CompletesFirst
from tests.support.landing.group import Landing, Scene, land

pytestmark = pytest.mark.xdist_group("spark")


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, and later calls of the driver have no effect."""


class DiesAtCommit:
    """A store whose driver dies just before it writes a COMMIT, or just after."""

    def __init__(self, group: ConsumerGroup, *, written: bool) -> None:
        self._store, self._written, self._dead = open_store(group.spec.output), written, False

    def __getattr__(self, name: str) -> Any:
        if self._dead:
            raise Killed
        return getattr(self._store, name)

    def create(self, key: str, body: bytes) -> Created:
        self._dead = b'"COMMIT"' in body
        if self._dead and not self._written:
            raise Killed
        return self._store.create(key, body)


def die_at_commit(
    group: ConsumerGroup, context: SparkContext, *, written: bool, kind: type[Driver] = Driver
) -> None:
    store = DiesAtCommit(group, written=written)
    killed = Landing(group, context, store, kind)  # type: ignore[arg-type]  # the rest is __getattr__'s
    with pytest.raises(Killed):
        killed.start().end()


@pytest.mark.parametrize(("kind", "holds"), [(Driver, True), (CompletesFirst, False)])
def test_a_driver_that_completes_uploads_before_its_commit_is_detected(
    scene: Scene, context: SparkContext, kind: type[Driver], holds: bool
) -> None:
    """It is killed before its COMMIT; more records arrive, and its successor plans other slices."""
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(1000)))
    finely = scene.group(uploadPolicy={"maxBytes": "100k", "maxAge": "1s"})
    die_at_commit(finely, context, written=False, kind=kind)
    scene.kafka.produce(topic, events(range(1000, 1300)))

    assert land(scene.group(), context).code is ExitCode.OK

    found = scene.audit()
    assert found.missing == {}
    assert (len(found.too_many) == 0, scene.faults() == []) == (holds, holds)


# -------------------------------------------------------------- committed uploads that were aborted


def lose_an_upload(scene: Scene, context: SparkContext) -> str:
    """Die with 1,000 records committed and none visible; then a lifecycle rule aborts one upload.

    Returns the topic.
    """
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(1000)))
    die_at_commit(scene.group(), context, written=True)
    client, name = scene.bucket.server.client, scene.bucket.name
    upload = client.list_multipart_uploads(Bucket=name)["Uploads"][1]
    client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    return topic


def recover(scene: Scene, context: SparkContext) -> Landing:
    """Land everything with a store that hardly waits before it takes an upload for lost."""
    group = scene.group()
    fail_fast = S3Store(scene.bucket.name, "", group.spec.output.s3, pauses=(0.1,))
    recovering = Landing(group, context, fail_fast).start()
    recovering.end()
    return recovering


def test_the_records_of_a_lost_committed_upload_are_landed_again(
    scene: Scene, context: SparkContext
) -> None:
    topic = lose_an_upload(scene, context)
    scene.kafka.produce(topic, events(range(1000, 1200)))

    assert recover(scene, context).code is ExitCode.OK

    slots = scene.bucket.keys("_landfall/scene/0/")
    types = [json.loads(scene.bucket.read(slot))["type"] for slot in slots]
    # The lost object is made again beside landing, so either may be recorded first.
    assert types[:4] == ["OPEN", "ADD", "COMMIT", "OPEN"]
    assert (sorted(types[4:6]), types[6:]) == (["COMMIT", "REPAIR"], ["YIELD"])
    assert scene.audit() == EXACT
    assert scene.faults() == []


def test_a_lost_committed_upload_whose_records_expired_stops_only_its_topic_partition(
    scene: Scene, context: SparkContext
) -> None:
    topic = lose_an_upload(scene, context)
    other = scene.topic("b")
    scene.kafka.produce(other, events(range(200)))
    scene.kafka.expire_before(topic, 0, 10)

    stalled = recover(scene, context)

    assert stalled.code is ExitCode.STALLED
    assert stalled.now.message.startswith(f"ObjectLost: the store lost the uploads of {topic}/dt=")
    assert (
        f"cannot be made again: {topic}/0: offsets [0, 1000) are not all there"
        in stalled.now.message
    )
    landed = {p.topic: p.checkpoint for p in stalled.now.partitions}
    assert (landed[topic], landed[other]) == (1000, 200)
    # The ledger and every other object are sound; the auditor says what is missing.
    (fault,) = scene.faults()
    assert fault.count("lost object") == 1
