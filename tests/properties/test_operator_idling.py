"""Whatever a user edits and whatever fails, a group with ``spec.idle`` has a driver when there is
something to land, and none while its topics are quiet, but for looks.
"""

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from landfall_operator.api.status import Stage
from landfall_operator.core.desired_state import desired_state
from tests.properties.test_operator_properties import FAULTS, GROUPS, STEPS, observations, perform
from tests.support.examples import share
from tests.support.operator.cluster_model import World, decided, group

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
IDLE = {"scaleToZero": "30m", "lookEvery": "5m"}
QUIET = st.tuples(st.just("quiet"), st.booleans())


def quiet_group(**spec: Any) -> Any:
    return group("good", **{"idle": IDLE, "route": {"pattern": "final={date}"}, **spec})


def be(world: World, *, quiet: bool) -> None:
    """The topics become quiet, or get records again."""
    world.quiet = (world.quiet or world.now) if quiet else None


@settings(max_examples=share(15))
@given(
    GROUPS,
    st.lists(STEPS, max_size=6),
    st.lists(st.one_of(FAULTS, QUIET), max_size=6),
    st.booleans(),
)
def test_after_any_history_there_is_a_driver_if_there_is_something_to_land(
    first: Any, steps: list[Any], faults: list[Any], quiet: bool
) -> None:
    world = World(first)
    for step in steps:
        perform(world, step)
    world.away.clear()
    world.edit(quiet_group(upgrade={"rollback": {"window": "10m"}}))
    world.run(2 * HOUR, MINUTE)
    for kind, value in faults:
        if kind == "quiet":
            be(world, quiet=value)
        else:
            perform(world, (kind, value))

    world.away.clear()
    be(world, quiet=quiet)
    world.run(2 * HOUR, MINUTE)
    seen = []
    for _ in range(48):
        world.run(MINUTE / 4, MINUTE / 4)
        seen.append([driver.replicas for driver in world.drivers.values()])

    assert world.status.rollout.stage is Stage.SETTLED
    assert world.status.phase == ("Sleeping" if quiet else "Running")
    if quiet:
        # Two looks of less than a minute and a half each.
        assert [0] in seen
        assert 2 <= seen.count([1]) <= 12
    else:
        assert seen == [[1]] * 48


@settings(max_examples=share(100))
@given(observations(), st.booleans())
def test_a_driver_is_stopped_only_by_what_says_when_it_is_started(
    observed: Any, quiet: bool
) -> None:
    desired, _ = decided(observed)
    idle = desired.idle

    assert desired_state(observed).sleeps == desired.sleeps
    if idle and idle.sleeps:
        assert desired.rollout.stage is Stage.SETTLED
        assert not observed.deleting
        assert idle.next_look
        assert idle.next_look > observed.now or observed.paused
