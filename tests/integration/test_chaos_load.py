"""The load of ``make chaos``, and its book held against what landed: on a real broker and a real S3
server.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dev.servers.kafka import KAFKA
from dev.servers.server import Kind, Server
from landfall.api.contract import ExitCode
from tests.chaos.child_process import Refused
from tests.chaos.compare_landed import check
from tests.chaos.load import Load, Progress
from tests.chaos.producer_ledger import Landed, compare
from tests.chaos.records import identity
from tests.support.independent_audit import kafka_messages
from tests.support.kafka import Broker
from tests.support.landing import Scene, land
from tests.support.s3 import S3Server
from tests.support.waiting import eventually

pytestmark = [pytest.mark.timeout(1000), pytest.mark.xdist_group("load")]

PATIENCE = 300
"""Seconds, of which a machine with nothing else to do takes a tenth."""

SPEC: dict[str, Any] = {"badRecords": {"maxRatio": "0.5"}}
"""Tombstones have no time, so they become dead letters."""


@contextmanager
def loaded(broker: Broker, prefix: str, folder: Path) -> Iterator[Load]:
    load = Load(str(broker), prefix, rate=1000, seed=1, folder=folder)
    try:
        yield load
    finally:
        load.stop()


@dataclass(frozen=True)
class Produced:
    """A load that has ended."""

    scene: Scene
    book: Path
    progress: Progress


@pytest.fixture(scope="module")
def produced(
    kafka: Broker, s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Produced]:
    """With every end a transaction can come to."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.env.items():
            patch.setenv(name, value)
        scene = Scene(kafka, s3.create_bucket())
        with loaded(kafka, scene.prefix, tmp_path_factory.mktemp("load")) as load:
            eventually(load.progress, has_had_its_day, PATIENCE)
            progress = load.finish()
        yield Produced(scene, load.book, progress)


def held(broker: Broker, topics: list[str]) -> Iterator[Landed]:
    """What a reader of committed records finds in Kafka."""
    for message in kafka_messages(broker, *topics):
        yield Landed(message.topic() or "", [identity(message.value(), message.key())])


def has_had_its_day(progress: Progress) -> bool:
    """Each end a transaction can come to."""
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
def test_what_was_acknowledged_landed_once_and_what_was_aborted_never(
    produced: Produced, s3: S3Server, spec: dict[str, Any]
) -> None:
    scene = replace(produced.scene, bucket=s3.create_bucket())
    assert land(scene.group(**SPEC, **spec), None).code is ExitCode.OK

    result = check(scene.group(**SPEC, **spec), produced.book)

    assert result.is_exact, str(result)
    accounts = result.topics.values()
    assert produced.progress.acknowledged == sum(account.acknowledged for account in accounts)
    assert produced.progress.aborted == sum(account.aborted for account in accounts)
    assert produced.progress.sent == produced.progress.acknowledged + produced.progress.aborted


def test_what_was_acknowledged_is_there_once_though_the_broker_was_killed_twice(
    own_server: Callable[[Kind], Server], tmp_path: Path
) -> None:
    server = own_server(KAFKA)
    broker = Broker(server.up().address or "")
    with loaded(broker, "x", tmp_path) as load:
        for _ in range(2):
            enough = load.progress().acknowledged + 2000
            eventually(load.progress, lambda now: now.acknowledged > enough, PATIENCE)  # noqa: B023  # called at once
            server.down(at_once=True)
            server.up()
        eventually(load.progress, has_had_its_day, PATIENCE)
        progress = load.finish()

    result = compare(load.book, held(broker, load.topics))

    assert result.is_exact, str(result)
    assert progress.acknowledged == sum(account.acknowledged for account in result.topics.values())


def test_a_load_keeps_the_requested_rate(kafka: Broker, tmp_path: Path) -> None:
    with loaded(kafka, f"t{uuid4().hex[:8]}", tmp_path) as load:
        load.rate(0)
        load.burst(300, 3600)
        assert load.progress().rate == 300
        load.burst(0, 0)
        assert load.progress().rate == 0
        load.rate(200)
        before = load.progress().sent
        eventually(load.progress, lambda now: now.sent > before + 200, PATIENCE)


def test_a_load_that_cannot_start_says_why(kafka: Broker, tmp_path: Path) -> None:
    (tmp_path / "book.jsonl").touch()

    with pytest.raises(Refused, match="FileExistsError"):
        Load(str(kafka), f"t{uuid4().hex[:8]}", rate=1, seed=1, folder=tmp_path)
