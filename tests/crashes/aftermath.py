"""What happens while nothing goes wrong, and the end of a schedule's trouble.

Once faults cease, a driver may live on. It must land everything by itself, or say why it cannot
(``Schedule.stuck``). Kafka partitions without a leader stay so for a while: first the
others must land, then, with their leaders, these. Where no driver of the live lane lives on, they
have leaders again after ``LEADERLESS`` steps: a driver of a trial may wait for one, and does not
end before.
"""

from functools import partial
from typing import TYPE_CHECKING

from landfall.api.contract import ExitCode
from tests.crashes.process import Process

if TYPE_CHECKING:
    from tests.crashes.machine import Schedule

PATIENCE = 10_000
"""Steps within which the driver that lives on must have landed what it can."""
LEADERLESS = 2_000
"""Steps after which a Kafka partition has a leader again, for who does nothing but wait for one."""
GLANCE = 10
"""Steps between two looks at it."""


class Aftermath:
    """What happens from the moment at which nothing new goes wrong.

    Attributes:
        survivor: the driver that lives on, until it has landed everything.
        late: what is stuck though the survivor had the time to land it.
    """

    def __init__(self, schedule: "Schedule") -> None:
        """Decide the fate of every driver that is alive."""
        self._schedule = schedule
        self.survivor: Process | None = None
        self.late: list[str] = []
        self._deadline = schedule.steps + PATIENCE
        self._leaderless_until = schedule.steps + LEADERLESS
        for process in schedule.processes:
            if not (process.dead or process.ended):
                self._settle(process)

    def _settle(self, process: Process) -> None:
        schedule = self._schedule
        may_live = self.survivor is None and process.is_endless
        fates = ("killed", "frozen", "stopped") + ("spared",) * may_live
        fate = schedule.dice.choice(fates)
        if fate == "killed":
            schedule.kill(process)
            return
        process.frozen = fate == "frozen"
        if fate == "spared":
            self.survivor = process
            schedule.send(process, process.contender.take_over, "take over, and lives on")
        else:
            stop = partial(process.contender.stop, "SIGTERM")
            schedule.send(process, stop, f"stop, and is {fate}")

    def happen(self) -> None:
        """What happens between two steps."""
        one, schedule = self.survivor, self._schedule
        if schedule.steps % GLANCE:
            return
        if one is None:
            if schedule.steps > self._leaderless_until:
                elect_leaders(schedule)
            return
        if one.dead or one.ended:
            self.survivor = None
            return
        found = [*schedule.stuck(one)]
        if found and schedule.steps <= self._deadline:
            return
        if not found and schedule.log.unavailable:
            elect_leaders(schedule)
            self._deadline = schedule.steps + PATIENCE
            return
        # One that another driver has fenced finds out when it appends, and may have nothing to.
        with schedule.judging():
            is_owner = schedule.lane.read().writer.startswith(f"{one.name}-")
        self.late, self.survivor = found if is_owner else [], None
        stop = partial(one.contender.stop, "SIGTERM")
        schedule.send(one, stop, "stop, as nothing is left")


def land_letters(schedule: "Schedule") -> None:
    """Land dead letters without trouble: otherwise few schedules came as far as a replay."""
    schedule.calm = True
    schedule.land_the_rest()
    schedule.calm, schedule.steps = False, 0
    schedule.generations += 1
    schedule.say("the next generation decodes more")


def land_without_leaders(schedule: "Schedule") -> list[str]:
    """Land the rest of Kafka partitions that have leaders, then elect the others' leaders.

    Returns:
        What is stuck before that.
    """
    driver = schedule.land_the_rest()
    if not schedule.log.unavailable:  # it took so long that leaders were elected meanwhile
        driver.must_end_with(schedule.last_code())
        return []
    driver.must_end_with(ExitCode.STALLED)
    found = [*schedule.stuck(driver)]
    elect_leaders(schedule)
    return found


def elect_leaders(schedule: "Schedule") -> None:
    """Let every Kafka partition have a leader again."""
    if schedule.log.unavailable:
        schedule.log.unavailable.clear()
        schedule.say("every Kafka partition has a leader again")
