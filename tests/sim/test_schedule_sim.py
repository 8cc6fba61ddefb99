"""Two days of a group that lands every hour: each hour has one run, and no driver in between.

Meanwhile the operator restarts and is away, a driver crashes, a topic cannot be landed for an hour,
and the store is away for three.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from landfall_operator.api.status import GroupStatus
from tests.support.operator.cluster_model import START, World, group

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
HOURS = 48
BROKEN = START + 20 * HOUR
"""The end of the hour of which a topic is left out; somebody decides about it an hour later."""


@dataclass
class TwoDays:
    """What was seen in each minute.

    Attributes:
        world: the model of the cluster.
        replicas: of the driver.
        reasons: the reason of ``OnSchedule``.
        is_away: whether the operator makes no passes now.
    """

    world: World = field(
        default_factory=lambda: World(
            group("good", schedule={"cron": "5 * * * *", "boundary": "Hour"})
        )
    )
    replicas: dict[datetime, int] = field(default_factory=dict)
    reasons: dict[datetime, str] = field(default_factory=dict)
    is_away: bool = False

    def run(self) -> "TwoDays":
        """Play all of it, minute by minute."""
        world = self.world
        while world.now < START + HOURS * HOUR + 50 * MINUTE:
            if happens := EVENTS.get(world.now - START):
                happens(self)
            if not self.is_away:
                world.settle()
            self._look()
            world.now += MINUTE
            world.advance()
        return self

    def _look(self) -> None:
        world = self.world
        self.replicas[world.now] = sum(driver.replicas for driver in world.drivers.values())
        for each in world.status.conditions:
            if each.type == "OnSchedule":
                self.reasons[world.now] = str(each.reason)
        # The status never says more than the ledger.
        known = {(run.until, run.ended) for run in world.ledger.ended}
        for run in world.status.runs or ():
            assert (run.until.isoformat(), run.ended.isoformat()) in known

    def restart_operator(self) -> None:
        """An operator knows of a former one what is in the resource's status."""
        stored = self.world.status.model_dump_json(by_alias=True, exclude_none=True)
        self.world.status = GroupStatus.model_validate_json(stored)

    def awake(self, hour: int) -> list[int]:
        """Minutes past the full hour in which there is a driver."""
        begin = START + hour * HOUR
        return [minute for minute in range(60) if self.replicas[begin + minute * MINUTE]]


def _crash(days: TwoDays) -> None:
    for driver in days.world.drivers.values():
        driver.pod = None


EVENTS: Mapping[timedelta, Callable[[TwoDays], object]] = {
    4 * HOUR + 30 * MINUTE: TwoDays.restart_operator,
    6 * HOUR + 6 * MINUTE: TwoDays.restart_operator,
    10 * HOUR + 7 * MINUTE: _crash,
    13 * HOUR + 50 * MINUTE: lambda days: setattr(days, "is_away", True),
    15 * HOUR + 40 * MINUTE: lambda days: setattr(days, "is_away", False),
    15 * HOUR + 41 * MINUTE: TwoDays.restart_operator,
    20 * HOUR: lambda days: days.world.ledger.broken.add(BROKEN),
    21 * HOUR: lambda days: days.world.ledger.broken.clear(),
    30 * HOUR: lambda days: days.world.away.add("store"),
    33 * HOUR: lambda days: days.world.away.clear(),
    40 * HOUR + 20 * MINUTE: lambda days: setattr(days.world, "status", GroupStatus()),
}


@pytest.fixture(scope="module")
def days() -> TwoDays:
    """Both days."""
    return TwoDays().run()


def test_every_hour_has_one_run_in_order(days: TwoDays) -> None:
    ends = days.world.ledger.ends
    again = ends.index(BROKEN) + 1

    assert ends[again] == BROKEN
    del ends[again]
    assert ends == [START + hour * HOUR for hour in range(-1, HOURS + 1)]


def test_an_hour_is_marked_only_when_it_is_over_and_landed(days: TwoDays) -> None:
    for run in days.world.ledger.ended:
        began, ended = (datetime.fromisoformat(time) for time in (run.began, run.ended))
        assert datetime.fromisoformat(run.until) + 5 * MINUTE <= began < ended


def test_there_is_a_driver_for_some_minutes_of_an_hour(days: TwoDays) -> None:
    usual = [hour for hour in range(1, HOURS) if hour not in {10, 13, 14, 15, 30, 31, 32, 33, 40}]

    assert {tuple(days.awake(hour)) for hour in usual} - {tuple(days.awake(21))} == {
        (5, 6, 7, 8, 9)
    }
    assert max(days.awake(10)) < 20


def test_what_was_missed_is_caught_up(days: TwoDays) -> None:
    assert days.awake(14) == []
    assert days.awake(15)[0] == 40
    assert days.awake(33)[-1] < 40
    assert days.awake(40) != days.awake(41)


def test_late_and_incomplete_hours_are_reported_until_they_are_landed(days: TwoDays) -> None:
    bad = {time: why for time, why in days.reasons.items() if why != "AsExpected"}
    incomplete = [time for time, why in bad.items() if why == "RunIncomplete"]
    late = [time for time, why in bad.items() if why == "RunLate"]

    assert set(bad.values()) == {"RunIncomplete", "RunLate"}
    assert START + 20 * HOUR < incomplete[0] < incomplete[-1] < START + 21 * HOUR + 20 * MINUTE
    assert START + 31 * HOUR < late[-1] < START + 33 * HOUR + 20 * MINUTE
