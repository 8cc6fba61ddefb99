"""A driver that is killed again and again, soon after its start, lands something in each life.

That needs a first COMMIT that comes soon. How soon depends on the machine; what is counted is the
work before it.
"""

import signal

import pytest

from landfall.driver.decide.batch_size import FIRST_BATCH_OFFSETS, FIRST_SLICE_OBJECTS
from landfall.errors import LandfallError
from landfall.ledger import Commit, Open, decode
from tests.support.audit.independent_audit import events
from tests.support.landing.group import Scene
from tests.support.landing.processes import Process, Processes
from tests.support.waiting import wait_for

pytestmark = pytest.mark.full

LIVES, PARTITIONS, RECORDS, DAYS = 2, 3, 50_000, 400


def first_commits(scene: Scene) -> list[Commit]:
    """The first COMMIT of each life that has one."""
    found: dict[int, Commit] = {}
    lives = 0
    try:
        for seq, body in scene.lane().bodies():
            match decode(seq, body):
                case Open():
                    lives += 1
                case Commit() as commit:
                    found.setdefault(lives, commit)
                case _:
                    pass
    except LandfallError:  # there is no ledger yet
        return []
    return [*found.values()]


def kill(driver: Process) -> None:
    driver.send(signal.SIGKILL)
    driver.end()
    driver.clear()


def test_each_life_lands_part_of_a_backlog_over_many_dates_before_anything_large(
    scene: Scene, processes: Processes
) -> None:
    topic = scene.topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        scene.kafka.produce(topic, events(range(RECORDS), partition, days=DAYS))
    document = scene.document(uploadPolicy={"maxBytes": "256Mi", "maxAge": "1s"})

    for life in range(1, LIVES + 1):
        driver = processes.run(document, "--http-port", "0")
        wait_for(
            lambda lives=life: len(first_commits(scene)) == lives,  # type: ignore[misc]
            f"life {life} has committed something",
        )
        kill(driver)

    for commit in first_commits(scene):
        assert 0 < sum(len(each.piece.offsets) for each in commit.slices) <= FIRST_BATCH_OFFSETS
        assert all(0 < len(each.objects) <= FIRST_SLICE_OBJECTS for each in commit.slices)
