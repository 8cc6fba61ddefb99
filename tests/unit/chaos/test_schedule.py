"""The schedule of ``make chaos``: its order, its kinds of faults, and the calms in between."""

from collections import Counter
from itertools import pairwise

import pytest

from tests.chaos.schedule import (
    CALM,
    DURATIONS,
    GROUPS,
    STORM,
    TRACKS,
    WARM_UP,
    Kind,
    schedule,
    storms,
)

SEEDS = range(20)


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert schedule(7, 30) == schedule(7, 30)
    assert schedule(7, 30) != schedule(8, 30)


@pytest.mark.parametrize("seed", SEEDS)
def test_half_an_hour_has_more_than_enough_faults_of_every_kind(seed: int) -> None:
    counted = Counter(fault.kind for fault in schedule(seed, 30))

    assert counted.keys() == set(Kind)
    assert counted.total() >= 300


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_track_a_fault_ends_before_the_next_begins(seed: int) -> None:
    faults = schedule(seed, 30)

    for number, track in enumerate(TRACKS):
        own = [fault for fault in faults if fault.track == number]
        assert all(
            before.end + track.min_pause <= after.at
            for before, after in pairwise(own)
            if after.at - before.end < CALM
        )
        assert {fault.kind for fault in own} <= track.weights.keys()
        assert {fault.target for fault in own} <= ({track.target} if track.target else set(GROUPS))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_fault_lasts_longer_than_its_kind_or_into_the_calm(seed: int) -> None:
    times = list(storms(30 * 60))

    for fault in schedule(seed, 30):
        assert 0 <= fault.seconds <= DURATIONS.get(fault.kind, (0, 0))[1]
        assert fault.kind is Kind.SUSPENDED or any(
            begin <= fault.at and fault.end <= end for begin, end in times
        )


def test_each_group_is_suspended_once_in_a_run_that_is_long_enough() -> None:
    suspended = [fault.target for fault in schedule(7, 30) if fault.kind is Kind.SUSPENDED]

    assert sorted(suspended) == sorted(GROUPS)
    assert Kind.SUSPENDED not in {fault.kind for fault in schedule(7, 2)}


def test_storms_leave_calm_between_them_and_end_with_the_run() -> None:
    assert list(storms(400)) == [(WARM_UP, WARM_UP + STORM), (WARM_UP + STORM + CALM, 400)]
