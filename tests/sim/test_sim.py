"""The autoscaler keeps its promises on simulated groups, and does better than KEDA."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall_operator.core.autoscaler import ScalingReason
from tests.sim.group import Scenario
from tests.sim.policies import Landfall
from tests.sim.simulation import HOUR, LIMITS, SCENARIOS, Outcome, policies, simulate
from tests.support.examples import share


def outcomes(name: str) -> dict[str, Outcome]:
    scenario = SCENARIOS[name]
    return {policy: simulate(scenario, asked) for policy, asked in policies(scenario).items()}


@pytest.mark.parametrize("name", ["steady", "step", "spike", "sine", "poison partition", "idle"])
def test_no_record_is_late_if_enough_executors_may_be_started(name: str) -> None:
    assert simulate(SCENARIOS[name], Landfall(LIMITS)).late == 0


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_changes_the_number_of_executors_less_often_than_keda(name: str) -> None:
    results = outcomes(name)

    assert results["landfall"].changes < results["keda"].changes


def test_a_poisoned_partition_causes_no_scaling() -> None:
    results = outcomes("poison partition")

    assert results["landfall"].changes == 0
    assert results["keda"].peak > 2 * results["landfall"].peak


def test_it_catches_up_after_an_outage_as_fast_as_keda() -> None:
    results = outcomes("broker outage")

    assert results["landfall"].late <= 1.05 * results["keda"].late
    assert results["landfall"].late < results["fixed 5"].late


def test_an_idle_group_shrinks_to_its_minimum() -> None:
    assert simulate(SCENARIOS["idle"], Landfall(LIMITS)).last == LIMITS.min_replicas


def test_a_group_scaled_to_zero_starts_again_when_records_arrive() -> None:
    scenario = Scenario(lambda time: 0 if time < 3600 else 3000)
    limits = LIMITS.model_copy(update={"min_replicas": 0})

    outcome = simulate(scenario, Landfall(limits), start=2)

    assert (outcome.late, outcome.last) == (0, 2)


def test_it_does_not_scale_while_the_broker_is_down() -> None:
    policy = Landfall(LIMITS)
    outage = replace(SCENARIOS["broker outage"], seconds=3600 + 1200)

    simulate(outage, policy)

    assert ScalingReason.HOLD_LAG_UNKNOWN in policy.reasons


WIDE = LIMITS.model_copy(update={"max_replicas": 100})
BUSY = Scenario(lambda time: 12_000 if time >= HOUR / 2 else 2_000, seconds=6 * 3600)


@pytest.mark.parametrize("is_driver_bound", [False, True])
def test_a_bound_elsewhere_does_not_drive_the_number_up(is_driver_bound: bool) -> None:
    bound = replace(BUSY, bound=lambda _: 6_000, is_driver_bound=is_driver_bound)
    policy = Landfall(WIDE)

    outcome = simulate(bound, policy)

    assert outcome.peak <= 16
    assert ScalingReason.INEFFECTIVE in policy.reasons
    # For most of six hours it stays at what brings as much.
    assert outcome.executor_seconds < 9 * bound.seconds


def test_the_same_load_without_a_bound_gets_its_executors_at_once() -> None:
    policy = Landfall(WIDE)

    outcome = simulate(BUSY, policy)

    assert (outcome.late, outcome.last) == (0, 9)
    assert ScalingReason.INEFFECTIVE not in policy.reasons


@pytest.mark.parametrize("load", [20_000, 60_000, 120_000])
def test_an_honest_load_still_scales_from_4_to_what_it_needs(load: int) -> None:
    honest = replace(BUSY, arrival=lambda time: load if time >= HOUR / 2 else 2_000)
    policy = Landfall(WIDE)

    outcome = simulate(honest, policy)

    assert outcome.last >= load / 2_000
    assert ScalingReason.INEFFECTIVE not in policy.reasons


def test_it_scales_again_once_the_bound_is_gone() -> None:
    lifted = replace(BUSY, bound=lambda time: 6_000 if time < 3 * HOUR else math.inf)
    policy = Landfall(WIDE)

    outcome = simulate(lifted, policy)

    assert ScalingReason.INEFFECTIVE in policy.reasons
    assert outcome.last >= 6  # 12,000 records per second, and nothing is late any more
    assert policy.samples[-1].overdue_seconds == 0


def test_a_full_cluster_prevents_no_step_down() -> None:
    load = Scenario(lambda time: 30_000 if time < HOUR / 3 else 4_000, available=6)
    policy = Landfall(LIMITS)

    outcome = simulate(load, policy)

    assert ScalingReason.HOLD_NO_CAPACITY in policy.reasons
    assert outcome.last < 6


@settings(max_examples=share(12))
@given(
    load=st.floats(0.05, 18),
    max_age=st.sampled_from([30.0, 60.0, 300.0, 900.0]),
    partitions=st.sampled_from([1, 4, 32]),
    start=st.integers(1, 20),
    noise=st.floats(0, 0.1),
)
def test_the_periodic_swing_of_lag_does_not_make_it_oscillate(
    load: float, max_age: float, partitions: int, start: int, noise: float
) -> None:
    speed = 2000.0
    scenario = Scenario(
        lambda time: load * speed * (1 + noise * math.sin(time / 40)),
        max_age=max_age,
        partitions=partitions,
        speed=speed,
        seconds=5400,
    )

    outcome = simulate(scenario, Landfall(LIMITS), start)

    assert outcome.reversals == 0 or (outcome.reversals == 1 and load >= 0.85 * start)
