"""Whatever a user edits and whatever fails, each hour of a scheduled group has one run, in order,
and its driver is gone in between.
"""

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from landfall_operator.api.status import Stage
from landfall_operator.core.desired_state import desired_state
from tests.properties.test_operator_properties import (
    FAULTS,
    GROUPS,
    STEPS,
    observations,
    perform,
)
from tests.support.examples import share
from tests.support.operator.cluster_model import World, decided, group
from tests.support.operator.cluster_model_runs import steps as steps_of

HOURLY = {"cron": "5 * * * *", "boundary": "Hour"}
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
BREAKS = st.tuples(st.just("break"), st.booleans())


def scheduled(image: str = "good", **spec: Any) -> Any:
    return group(image, **{"schedule": HOURLY, **spec})


def at_half_past(world: World) -> None:
    """Go to the middle of an hour, and one more: what is due has landed by then."""
    minutes = (90 - world.now.minute) % 60
    world.run(HOUR + minutes * MINUTE, MINUTE)


def hourly(world: World) -> None:
    """Check every run: in order, an hour apart, and repeated only for what had been left."""
    ends = world.ledger.ends
    assert ends == sorted(ends)
    assert steps_of(ends) <= {HOUR, timedelta(0)}
    for run, following in zip(world.ledger.ended, world.ledger.ended[1:], strict=False):
        assert run.until != following.until or run.left


@settings(max_examples=share(10))
@given(GROUPS, st.lists(STEPS, max_size=6), st.lists(st.one_of(FAULTS, BREAKS), max_size=4))
def test_after_any_history_every_hour_is_landed_once_and_the_driver_sleeps(
    first: Any, steps: list[Any], faults: list[Any]
) -> None:
    world = World(first)
    for step in steps:
        perform(world, step)
    world.away.clear()
    world.ledger.ended.clear()
    world.edit(scheduled(route={"pattern": "final={date}"}))
    world.run(4 * HOUR, MINUTE)
    for kind, value in faults:
        if kind == "break":
            until = world.now.replace(minute=0, second=0, microsecond=0) + value * HOUR
            world.ledger.broken.add(until)
        else:
            perform(world, (kind, value))

    world.away.clear()
    world.run(HOUR, MINUTE)
    at_half_past(world)

    hourly(world)
    assert world.ledger.ends[-1] == world.now.replace(minute=0, second=0, microsecond=0)
    assert [(d.image, d.replicas, d.pod) for d in world.drivers.values()] == [("good", 0, None)]
    assert world.status.rollout.stage is Stage.SETTLED
    assert world.status.schedule
    assert world.status.schedule.sleeping
    assert [run.until for run in world.status.runs or ()] == world.ledger.ends[:-11:-1]


@settings(max_examples=share(100))
@given(observations())
def test_a_driver_is_stopped_only_while_no_range_is_due(observed: Any) -> None:
    desired, _ = decided(observed)
    schedule = desired.schedule

    assert desired_state(observed).sleeps == desired.sleeps
    if schedule and schedule.sleeps:
        assert desired.rollout.stage is Stage.SETTLED
        assert not observed.deleting
        assert schedule.due is None
        assert schedule.following
        assert schedule.following.due > observed.now
