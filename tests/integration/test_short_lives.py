"""A driver that is killed every 30 seconds lands something in each life."""

import signal
import time
from itertools import pairwise

import pytest

from landfall.errors import LandfallError
from tests.support.independent_audit import events
from tests.support.landing import Scene, wait_for
from tests.support.processes import Processes

pytestmark = [pytest.mark.xdist_group("drivers"), pytest.mark.slow]

LIFE_SECONDS, LIVES = 30, 3
PARTITIONS, RECORDS, DAYS = 3, 50_000, 400


def epoch(scene: Scene) -> int:
    """How many drivers have opened the lane."""
    try:
        return scene.state().epoch
    except LandfallError:  # there is no ledger yet
        return 0


@pytest.mark.timeout(600)
def test_each_life_of_thirty_seconds_lands_part_of_a_backlog_over_many_dates(
    scene: Scene, processes: Processes
) -> None:
    topic = scene.topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        scene.kafka.produce(topic, events(range(RECORDS), partition, days=DAYS))
    document = scene.document(uploadPolicy={"maxBytes": "256Mi", "maxAge": "1s"})

    landed = [0]
    for life in range(LIVES):
        driver = processes.run(document, "--http-port", "0")
        # Its life begins when it has the lane: on a busy machine, Spark alone may take that long.
        wait_for(lambda life=life: epoch(scene) > life, "the driver has opened the lane", 120)
        time.sleep(LIFE_SECONDS)
        driver.send(signal.SIGKILL)
        driver.end()
        driver.clear()
        landed.append(scene.state().totals.landed)
        print(f"life {life + 1}: {landed[-1]} records landed so far")

    assert all(before < after for before, after in pairwise(landed)), landed
