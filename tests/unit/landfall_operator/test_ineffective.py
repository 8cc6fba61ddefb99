"""Steps up that bring no throughput; tests/sim simulates whole days of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from landfall.api.spec import Autoscaling
from landfall_operator.api.status import IneffectiveScaleUp
from landfall_operator.core.autoscaler import PAUSE, Scaling, ScalingContext, ScalingReason, scale
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.samples import DriverSample
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.reporting.group_status import report
from tests.support.operator.cluster_model import World, group

NOW = datetime(2026, 11, 21, tzinfo=UTC)
POLICY = Autoscaling(min_replicas=1, max_replicas=50)
STEP = 30


def history(counts: list[int], landing: list[float], busy: float = 1.0) -> list[DriverSample]:
    """A sample every half minute, always late; counts and records per second are of the minutes."""
    samples, landed, seconds = [], 0.0, 0.0
    for i in range(2 * len(counts)):
        executors, rate = counts[i // 2], landing[i // 2]
        landed, seconds = landed + STEP * rate, seconds + STEP * executors * busy
        samples.append(
            DriverSample(
                time=NOW - timedelta(seconds=STEP * (2 * len(counts) - 1 - i)),
                driver="g1/1",
                arrived=int(12_000 * STEP * i),
                landed=int(landed),
                task_seconds=seconds,
                lag_records=10_000_000,
                lag_seconds=1000.0,
                overdue_seconds=700.0,
                executors=executors,
                wanted=executors,
            )
        )
    return samples


def decided(
    samples: list[DriverSample], known: IneffectiveScaleUp | None = None, now: datetime = NOW
) -> Scaling:
    return scale(samples, POLICY, 1, now, ScalingContext(ineffective=known))


DOUBLED = [4] * 8 + [8] * 12


def test_a_step_up_that_brought_nothing_is_taken_back() -> None:
    scaling = decided(history(DOUBLED, [6000.0] * 20))

    assert (scaling.desired, scaling.reason) == (4, ScalingReason.INEFFECTIVE)
    assert scaling.message == (
        "4 executors landed 6k records/s, and 8 landed 6k with records overdue; each task became "
        "slower: Kafka, the store or the nodes limit them"
    )


def test_a_step_up_that_brought_throughput_is_followed_by_another() -> None:
    scaling = decided(history(DOUBLED, [6000.0] * 8 + [11_000.0] * 12))

    assert (scaling.desired, scaling.reason) == (16, ScalingReason.BACKLOG)


def test_idle_executors_point_at_the_driver() -> None:
    samples = history(DOUBLED, [6000.0] * 20)
    half = [replace(s, task_seconds=s.landed / 2000) for s in samples]

    assert decided(half).message.endswith("idle half of the time: the driver limits them")


def test_what_the_first_step_brought_is_kept() -> None:
    # 4 executors landed 2,000 records/s, as much as came; 8 land 6,000 and could land 16,000.
    samples = history(DOUBLED, [2000.0] * 8 + [6000.0] * 12, busy=0.25)
    slow = [
        replace(s, task_seconds=s.task_seconds + max(0, i - 16) * STEP * 6.0)
        for i, s in enumerate(samples)
    ]

    scaling = decided(slow)

    assert (scaling.desired, scaling.reason) == (4, ScalingReason.INEFFECTIVE)


def known(**changes: object) -> IneffectiveScaleUp:
    found = IneffectiveScaleUp(
        since=NOW - timedelta(minutes=30), executors=4, landing=6000, message="no more was landed"
    )
    return found.model_copy(update=changes)


def test_no_step_up_follows_for_an_hour() -> None:
    scaling = decided(history([4] * 20, [6000.0] * 20), known())

    assert scaling == Scaling(4, ScalingReason.INEFFECTIVE, "no more was landed", known())


def test_after_an_hour_one_step_is_tried() -> None:
    old = known(since=NOW - PAUSE)

    tried = decided(history([4] * 20, [6000.0] * 20), old)
    waiting = decided(history([4] * 15 + [8] * 5, [6000.0] * 20), old)

    assert (tried.desired, tried.reason, tried.ineffective) == (8, ScalingReason.BACKLOG, old)
    assert (waiting.desired, waiting.reason) == (8, ScalingReason.INEFFECTIVE)


@pytest.mark.parametrize("landing", [4000.0, 8000.0])
def test_another_throughput_ends_it(landing: float) -> None:
    scaling = decided(history([4] * 20, [landing] * 20), known())

    assert (scaling.reason, scaling.ineffective) == (ScalingReason.BACKLOG, None)


def test_it_outlives_a_restart_of_the_operator() -> None:
    world = World(group("good", autoscaling={"minReplicas": 1, "maxReplicas": 50}))
    world.run(timedelta(minutes=5))
    seen: GroupObservation = world.observe()
    desired = desired_state(seen)
    noticed = replace(desired, scaling=replace(desired.scaling, ineffective=known()))
    restarted = replace(seen, status=report(seen, noticed), samples=())

    assert desired_state(restarted).scaling.ineffective == known()
