"""A clock that approaches a changed wall clock slowly."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from landfall.clock import SteadyClock

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass
class Machine:
    """A wall clock that tests can set, and a monotonic clock."""

    wall: datetime = NOON
    monotonic: float = 5000.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.monotonic)

    def let_pass(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.monotonic += seconds


def test_it_shows_the_time_of_the_wall_clock() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.let_pass(90)
    assert clock() == NOON + timedelta(seconds=90)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_jump_changes_an_interval_by_at_most_a_tenth(jump: timedelta) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += jump
    machine.let_pass(60)
    assert clock() == NOON + timedelta(seconds=60) + (
        timedelta(seconds=6) if jump > timedelta(0) else timedelta(seconds=-6)
    )


def test_it_never_goes_back_though_the_wall_clock_does() -> None:
    machine = Machine()
    clock = machine.clock()
    times = []
    for jump in (-HOUR, HOUR, -HOUR, timedelta(0), -24 * HOUR):
        machine.wall += jump
        times.append(clock())
        machine.let_pass(1)
        times.append(clock())
    assert all(before <= after for before, after in pairwise(times))


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_after_a_while_it_agrees_with_the_wall_clock_again(jump: timedelta) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += jump
    for _ in range(10 * 60 + 1):
        machine.let_pass(60)
        clock()
    assert clock() == machine.wall
