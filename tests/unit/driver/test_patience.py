"""A run with an end does not wait for ever for a server that does not answer."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from landfall.api.contract import CommitStatus, DriverPhase, ExitCode, Failure, Rates, Status
from landfall.api.spec import parse_group
from landfall.driver.core.in_process import InProcessRunner
from landfall.driver.process.run import Patience, RunOptions, drive
from landfall.lane.stores import open_stores
from tests.support.kubernetes.groups import changed, document

LIMIT = timedelta(minutes=10)


def status(minute: float, *, commits: int = 0, failing: bool = True) -> Status:
    time = datetime.fromisoformat("2026-11-21T05:00:00+00:00") + timedelta(minutes=minute)
    last = Failure(time.isoformat(), "SourceUnavailable", "kafka: connection refused")
    counted = CommitStatus(commits, 1, int(failing), None, last, 0)
    return Status(
        version="0",
        group="shop",
        namespace="tests",
        generation=1,
        epoch=1,
        lane="0",
        phase=DriverPhase.RUNNING,
        time=time.isoformat(),
        started="2026-11-21T05:00:00+00:00",
        lag_records=0,
        lag_seconds=0.0,
        overdue_seconds=0.0,
        rounds=0,
        commits=counted,
        rates=Rates(0, 0, 0, 0, 0.0, 0.0),
        partitions=(),
    )


def exceeded(*statuses: Status, limit: timedelta | None = LIMIT) -> list[int]:
    patience = Patience(limit)
    return [number for number, each in enumerate(statuses) if patience.is_exceeded(each)]


def test_it_ends_once_when_nothing_was_committed_for_the_limit() -> None:
    assert exceeded(*(status(minute) for minute in range(13))) == [11]


def test_a_commit_or_a_moment_without_failures_begins_again() -> None:
    committed = [status(minute, commits=minute // 6) for minute in range(30)]
    healed = [status(minute, failing=minute % 8 != 0) for minute in range(30)]

    assert exceeded(*committed) == exceeded(*healed) == []


def test_a_run_without_an_end_has_no_limit() -> None:
    assert exceeded(*(status(minute) for minute in range(10_000)), limit=None) == []


@pytest.mark.slow
def test_a_run_whose_source_is_away_ends_as_unavailable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = {"topics": ["clicks"], "bootstrapServers": "127.0.0.1:9"}
    made = changed(document(), "spec.output.url", f"file://{tmp_path}/landed")
    group = parse_group(changed(made, "spec.source.kafka", kafka))
    options = RunOptions(until_caught_up=True, http_port=0, max_wait=timedelta(seconds=2))

    code = drive(group, open_stores(group.spec), InProcessRunner(), options)

    assert code is ExitCode.UNAVAILABLE
    assert "nothing could be landed for 2s: run it again to land the rest" in caplog.messages
