"""Single decisions of the autoscaler; tests/sim simulates whole days."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from landfall.api.spec import Autoscaling
from landfall_operator.core.autoscaler import Scaling, ScalingContext, ScalingReason, load, scale
from landfall_operator.core.samples import DriverSample

NOW = datetime(2026, 11, 21, tzinfo=UTC)
POLICY = Autoscaling(min_replicas=1, max_replicas=10)


def history(
    arriving: float,
    speed: float = 1000.0,
    wanted: int = 4,
    minutes: int = 30,
    overdue: float = 0.0,
    lag: int = 100,
) -> list[DriverSample]:
    """Samples every half minute, under a steady load that is landed as it arrives."""
    return [
        DriverSample(
            time=NOW - timedelta(seconds=30 * (2 * minutes - i)),
            driver="g1/1",
            arrived=int(arriving * 30 * i),
            landed=int(arriving * 30 * i),
            task_seconds=arriving * 30 * i / speed,
            lag_records=lag,
            lag_seconds=300.0 + overdue,
            overdue_seconds=overdue,
            executors=wanted,
            wanted=wanted,
        )
        for i in range(2 * minutes + 1)
    ]


def decided(
    samples: list[DriverSample], hold: ScalingReason | None = None
) -> tuple[int, ScalingReason]:
    scaling: Scaling = scale(samples, POLICY, 1, NOW, ScalingContext(hold))
    return scaling.desired, scaling.reason


def test_a_load_that_fits_changes_nothing() -> None:
    assert decided(history(2800)) == (4, ScalingReason.AS_NEEDED)


def test_too_much_load_scales_up_at_once() -> None:
    assert decided(history(4000)) == (6, ScalingReason.LOAD)


def test_one_step_up_at_most_doubles() -> None:
    assert decided(history(9000, wanted=1)) == (5, ScalingReason.LOAD)


def test_late_records_are_landed_within_catch_up() -> None:
    samples = history(2800, overdue=300.0, lag=3_600_000)

    assert decided(samples) == (5, ScalingReason.BACKLOG)


def test_lag_that_the_upload_policy_explains_is_no_backlog() -> None:
    measured = load(history(2800, lag=3_600_000))

    assert measured
    assert measured.backlog == 0


def test_less_load_scales_down_slowly() -> None:
    assert decided(history(700, wanted=10)) == (6, ScalingReason.LESS_LOAD)


def test_less_load_does_not_scale_down_before_its_window_is_over() -> None:
    assert decided(history(700, wanted=10, minutes=14)) == (10, ScalingReason.AS_NEEDED)


def test_an_idle_group_shrinks() -> None:
    assert decided(history(0, wanted=2, lag=0)) == (1, ScalingReason.IDLE)


@pytest.mark.parametrize("hold", [ScalingReason.HOLD_COMMITS_FAILING, ScalingReason.HOLD_UPGRADING])
def test_a_reason_to_hold_keeps_the_count(hold: ScalingReason) -> None:
    assert decided(history(9000), hold) == (4, hold)


def test_unknown_lag_keeps_the_count() -> None:
    old = [replace(s, time=s.time - timedelta(minutes=10)) for s in history(9000)]

    assert decided(old) == (4, ScalingReason.HOLD_LAG_UNKNOWN)


def test_a_driver_that_has_just_started_keeps_its_count() -> None:
    samples = [*history(9000)[:-2], *(replace(s, driver="g1/2") for s in history(9000)[-2:])]

    assert decided(samples) == (4, ScalingReason.HOLD_STARTING)


def test_no_more_executors_are_requested_while_some_do_not_start() -> None:
    samples = [replace(s, executors=3) for s in history(9000)]

    assert decided(samples) == (4, ScalingReason.HOLD_NO_CAPACITY)


def test_a_surplus_goes_although_some_executors_do_not_start() -> None:
    samples = [replace(s, executors=9) for s in history(700, wanted=10)]

    assert decided(samples) == (6, ScalingReason.LESS_LOAD)


def test_a_change_is_followed_by_a_cooldown() -> None:
    samples = history(9000, wanted=4)
    samples[-1] = replace(samples[-1], wanted=8)

    assert decided(samples) == (8, ScalingReason.COOLING_DOWN)


def test_bounds_apply_at_once() -> None:
    assert decided(history(2800, wanted=12)) == (10, ScalingReason.BOUNDS)


def test_the_maximum_is_reported() -> None:
    assert decided(history(20_000, wanted=10)) == (10, ScalingReason.AT_MAXIMUM)


def test_without_measurements_and_executors_one_is_started() -> None:
    waiting = [replace(s, landed=0, task_seconds=0.0, executors=0, wanted=0) for s in history(100)]
    scaling = scale(waiting, POLICY.model_copy(update={"min_replicas": 0}), 1, NOW)

    assert (scaling.desired, scaling.reason) == (1, ScalingReason.LOAD)
