"""The load of ``make chaos``, and its book held against what landed: on a real broker and a real S3 server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from landfall.contract import ExitCode
from tests.chaos.landed import check
from tests.chaos.load import Load, Progress
from tests.support.landing import Scene, land
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)

SPEC: dict[str, Any] = {"badRecords": {"maxRatio": "0.5"}}
"""Tombstones have no time, so they become dead letters."""


@contextmanager
def loaded(scene: Scene, folder: Path, rate: float = 1500) -> Iterator[Load]:
    load = Load(str(scene.kafka), scene.prefix, rate=rate, seed=1, folder=folder)
    try:
        yield load
    finally:
        load.stop()


def has_had_its_day(progress: Progress) -> bool:
    """Each end a transaction can come to."""
    return len(progress.ends) == 5 and progress.acknowledged > 5000


def test_what_was_acknowledged_landed_once_and_what_was_aborted_never(scene: Scene, tmp_path: Path) -> None:
    with loaded(scene, tmp_path) as load:
        eventually(load.progress, has_had_its_day, 120)
        progress = load.finish()
    assert land(scene.group(**SPEC), None).code is ExitCode.OK

    verdict = check(scene.group(**SPEC), load.book)

    assert verdict.is_exact, str(verdict)
    accounts = verdict.topics.values()
    assert progress.acknowledged == sum(account.acknowledged for account in accounts)
    assert progress.aborted == sum(account.aborted for account in accounts)
    assert progress.sent == progress.acknowledged + progress.aborted + progress.in_doubt
