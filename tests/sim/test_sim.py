"""The autoscaler keeps its promises on simulated groups, and does better than what people use
today.
"""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall_operator.core.autoscaler import ScalingReason
from tests.sim.group import Setting
from tests.sim.play import LIMITS, SETTINGS, Outcome, play, rivals
from tests.sim.policies import Landfall


def outcomes(name: str) -> dict[str, Outcome]:
    return {rival: play(SETTINGS[name], policy) for rival, policy in rivals(SETTINGS[name]).items()}


@pytest.mark.parametrize("name", ["steady", "step", "spike", "sine", "poison partition", "idle"])
def test_nothing_is_late_where_executors_are_to_be_had(name: str) -> None:
    assert play(SETTINGS[name], Landfall(LIMITS)).late == 0


@pytest.mark.parametrize("name", SETTINGS)
def test_it_changes_its_mind_less_often_than_keda(name: str) -> None:
    seen = outcomes(name)

    assert seen["landfall"].changes < seen["keda"].changes


def test_a_poisoned_partition_scales_nothing() -> None:
    seen = outcomes("poison partition")

    assert seen["landfall"].changes == 0
    assert seen["keda"].most > 2 * seen["landfall"].most


def test_it_catches_up_after_an_outage_as_fast_as_anybody() -> None:
    seen = outcomes("broker outage")

    assert seen["landfall"].late <= 1.05 * seen["keda"].late
    assert seen["landfall"].late < seen["fixed 5"].late


def test_an_idle_group_shrinks_to_its_minimum() -> None:
    assert play(SETTINGS["idle"], Landfall(LIMITS)).last == LIMITS.min_replicas


def test_a_group_without_executors_wakes_up() -> None:
    setting = Setting(lambda time: 0 if time < 3600 else 3000)
    limits = LIMITS.model_copy(update={"min_replicas": 0})

    outcome = play(setting, Landfall(limits), start=2)

    assert (outcome.late, outcome.last) == (0, 2)


def test_it_holds_while_the_broker_is_away() -> None:
    policy = Landfall(LIMITS)
    outage = replace(SETTINGS["broker outage"], seconds=3600 + 1200)

    play(outage, policy)

    assert ScalingReason.HOLD_LAG_UNKNOWN in policy.reasons


@settings(max_examples=12)
@given(
    load=st.floats(0.05, 18),
    max_age=st.sampled_from([30.0, 60.0, 300.0, 900.0]),
    partitions=st.sampled_from([1, 4, 32]),
    start=st.integers(1, 20),
    noise=st.floats(0, 0.1),
)
def test_the_swing_of_lag_never_makes_it_go_back_and_forth(
    load: float, max_age: float, partitions: int, start: int, noise: float
) -> None:
    speed = 2000.0
    setting = Setting(
        lambda time: load * speed * (1 + noise * math.sin(time / 40)),
        max_age=max_age,
        partitions=partitions,
        speed=speed,
        seconds=5400,
    )

    outcome = play(setting, Landfall(LIMITS), start)

    assert outcome.turns == 0 or (outcome.turns == 1 and load >= 0.85 * start)
