"""The load of ``make chaos`` on a real broker, its ledger compared with what landed in real S3."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dev.servers.kafka import KAFKA
from dev.servers.server import Server, ServerKind
from landfall.api.contract import ExitCode
from tests.chaos.child_process import Refused
from tests.chaos.compare_landed import check
from tests.chaos.load import Load, Progress
from tests.chaos.producer_ledger import LandedObject, compare
from tests.chaos.records import identity
from tests.support.audit.independent_audit import kafka_messages
from tests.support.kafka.broker import Broker
from tests.support.landing.group import Scene, land
from tests.support.stores.s3 import S3Server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.timeout(1000), pytest.mark.xdist_group("load")]

TIMEOUT = 300
"""Seconds; an idle machine needs a tenth of them."""

SPEC: dict[str, Any] = {"badRecords": {"maxRatio": "0.5"}}
"""Tombstones have no event time, so they become dead letters."""


@contextmanager
def running_load(broker: Broker, prefix: str, folder: Path) -> Iterator[Load]:
    load = Load(str(broker), prefix, rate=1000, seed=1, folder=folder)
    try:
        yield load
    finally:
        load.stop()


@dataclass(frozen=True)
class FinishedLoad:
    """A load that has ended."""

    scene: Scene
    producer_ledger: Path
    progress: Progress


@pytest.fixture(scope="module")
def produced(
    kafka: Broker, s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FinishedLoad]:
    """A load with transactions that ended in every way."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.env.items():
            patch.setenv(name, value)
        scene = Scene(kafka, s3.create_bucket())
        with running_load(kafka, scene.prefix, tmp_path_factory.mktemp("load")) as load:
            eventually(load.progress, has_every_transaction_end, TIMEOUT)
            progress = load.finish()
        yield FinishedLoad(scene, load.ledger, progress)


def committed_records(broker: Broker, topics: list[str]) -> Iterator[LandedObject]:
    """What a consumer with isolation level read_committed finds in Kafka, once it sees all."""
    for topic, metadata in broker.admin.list_topics(timeout=TIMEOUT).topics.items():
        for partition in metadata.partitions if topic in topics else ():
            broker.wait_for_markers(topic, partition)
    for message in kafka_messages(broker, *topics):
        yield LandedObject(message.topic() or "", [identity(message.value(), message.key())])


def has_every_transaction_end(progress: Progress) -> bool:
    """Whether transactions have ended in every way."""
    return len(progress.ends) == 5 and progress.acknowledged > 5000


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"output": {"format": "Parquet"}},
        {
            "decode": {"format": "Raw"},
            "output": {"format": "SequenceFile", "options": {"keyMode": "MessagePack"}},
        },
    ],
    ids=["Json", "Parquet", "SequenceFile"],
)
def test_acknowledged_records_land_once_and_aborted_ones_never(
    produced: FinishedLoad, s3: S3Server, spec: dict[str, Any]
) -> None:
    scene = replace(produced.scene, bucket=s3.create_bucket())
    assert land(scene.group(**SPEC, **spec), None).code is ExitCode.OK

    comparison = check(scene.group(**SPEC, **spec), produced.producer_ledger)

    assert comparison.is_exact, str(comparison)
    topics = comparison.topics.values()
    assert produced.progress.acknowledged == sum(topic.acknowledged for topic in topics)
    assert produced.progress.aborted == sum(topic.aborted for topic in topics)
    assert produced.progress.sent == produced.progress.acknowledged + produced.progress.aborted


@pytest.mark.full
def test_acknowledged_records_are_in_kafka_once_after_the_broker_was_killed_twice(
    own_server: Callable[[ServerKind], Server], tmp_path: Path
) -> None:
    server = own_server(KAFKA)
    broker = Broker(server.up().address or "")
    with running_load(broker, "x", tmp_path) as load:
        for _ in range(2):
            enough = load.progress().acknowledged + 2000
            eventually(load.progress, lambda now: now.acknowledged > enough, TIMEOUT)  # noqa: B023  # called at once
            server.down(at_once=True)
            server.up()
        eventually(load.progress, has_every_transaction_end, TIMEOUT)
        progress = load.finish()

    comparison = compare(load.ledger, committed_records(broker, load.topics))

    assert comparison.is_exact, str(comparison)
    assert progress.acknowledged == sum(topic.acknowledged for topic in comparison.topics.values())


def test_a_load_holds_the_rate_that_a_command_sets(kafka: Broker, tmp_path: Path) -> None:
    with running_load(kafka, f"t{uuid4().hex[:8]}", tmp_path) as load:
        load.rate(0)
        load.burst(300, 3600)
        assert load.progress().rate == 300
        load.burst(0, 0)
        assert load.progress().rate == 0
        load.rate(200)
        before = load.progress().sent
        eventually(load.progress, lambda now: now.sent > before + 200, TIMEOUT)


def test_a_load_that_cannot_start_says_why(kafka: Broker, tmp_path: Path) -> None:
    (tmp_path / "producer-ledger.jsonl").touch()

    with pytest.raises(Refused, match="FileExistsError"):
        Load(str(kafka), f"t{uuid4().hex[:8]}", rate=1, seed=1, folder=tmp_path)
