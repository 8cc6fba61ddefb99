"""A driver that is killed again and again, soon after its start, lands something in each life.

A life counts from the start of the process. How long a driver takes until its first COMMIT depends
on the machine, so that is measured first.
"""

import signal
import time
from itertools import pairwise

import pytest

from landfall.errors import LandfallError
from landfall.ledger import State
from tests.support.independent_audit import events
from tests.support.landing import Scene, wait_for
from tests.support.processes import Process, Processes

pytestmark = [pytest.mark.xdist_group("drivers"), pytest.mark.slow]

LIFE_SECONDS, LIVES = 30.0, 1
PATIENCE_FACTOR = 2.0
"""How much longer than the first COMMIT of the first life a life is, on a machine so busy that 30
seconds are less.
"""
PARTITIONS, RECORDS, DAYS = 3, 50_000, 400


def state(scene: Scene) -> State:
    try:
        return scene.state()
    except LandfallError:  # there is no ledger yet
        return State()


def kill(driver: Process) -> None:
    driver.send(signal.SIGKILL)
    driver.end()
    driver.clear()


@pytest.mark.timeout(900)
def test_each_life_of_thirty_seconds_lands_part_of_a_backlog_over_many_dates(
    scene: Scene, processes: Processes
) -> None:
    topic = scene.topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        scene.kafka.produce(topic, events(range(RECORDS), partition, days=DAYS))
    document = scene.document(uploadPolicy={"maxBytes": "256Mi", "maxAge": "1s"})

    began = time.monotonic()
    driver = processes.run(document, "--http-port", "0")
    wait_for(lambda: state(scene).epoch, "the driver has opened the lane")
    opened = time.monotonic() - began
    wait_for(lambda: state(scene).totals.landed, "the driver has committed something")
    committed = time.monotonic() - began
    kill(driver)
    life = max(LIFE_SECONDS, PATIENCE_FACTOR * committed)
    landed = [0, state(scene).totals.landed]
    print(
        f"OPEN after {opened:.1f} s, first COMMIT after {committed:.1f} s; then {life:.1f} s each"
    )
    for _ in range(LIVES):
        began = time.monotonic()
        driver = processes.run(document, "--http-port", "0")
        time.sleep(began + life - time.monotonic())
        kill(driver)
        landed.append(state(scene).totals.landed)

    print(f"landed so far, by life: {landed[1:]}")
    assert all(before < after for before, after in pairwise(landed)), landed
