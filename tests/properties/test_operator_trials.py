"""Whatever users ask for and whatever fails, a revision that fails its trial never lands."""

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from landfall_operator.api.revisions import digest_of
from landfall_operator.api.verbs import Verb
from tests.properties.test_operator_properties import FAULTS, perform
from tests.support.examples import share
from tests.support.operator.cluster_model import World, group

MINUTE = timedelta(minutes=1)
WRONG = ("odd", "spoiling", "endless", "broken")
TERMS: dict[str, Any] = {"strategy": "Shadow", "shadow": {"window": "1d"}, "trialTimeout": "30m"}
"""Something was always landed within the window, else there would be nothing to compare with."""
SPECS = st.builds(
    lambda image, replicas, state, tolerated: group(
        image,
        replicas=replicas,
        state=state,
        upgrade={**TERMS, "shadow": {**TERMS["shadow"], "tolerate": {"deadLetters": tolerated}}},
    ),
    st.sampled_from(["good", "better", *WRONG]),
    st.integers(1, 3),
    st.sampled_from(["Running", "Running", "Running", "Suspended"]),
    st.sampled_from(["0%", "1%"]),
)
STEPS = st.one_of(
    st.tuples(st.just("edit"), SPECS),
    st.tuples(st.just("invalidate"), st.none()),
    st.tuples(st.just("request"), st.sampled_from([v for v in Verb if v is not Verb.PROMOTE])),
    FAULTS,
)


@settings(max_examples=share(20))
@given(st.lists(STEPS, max_size=10))
def test_a_revision_that_fails_its_trial_never_lands(steps: list[tuple[str, Any]]) -> None:
    world = World(group("good", upgrade=TERMS))
    world.run(5 * MINUTE)
    wrong = set()
    for kind, value in steps:
        if kind == "request":
            world.request(value)
            world.settle()
        else:
            perform(world, (kind, value))
        if kind == "edit" and value.spec.image in WRONG:
            wrong.add(digest_of(value))
    world.away.clear()
    world.run(90 * MINUTE, MINUTE)

    assert wrong.isdisjoint(world.committed)
    assert set(world.landing) <= {"good", "better"}


@settings(max_examples=share(10))
@given(st.lists(STEPS, max_size=8))
def test_no_backfill_is_left_once_a_revision_has_settled(steps: list[tuple[str, Any]]) -> None:
    world = World(group("good", upgrade=TERMS))
    world.run(5 * MINUTE)
    for step in steps:
        if step[0] != "request":
            perform(world, step)

    world.away.clear()
    world.edit(group("better", route={"pattern": "final={date}"}, upgrade=TERMS))
    world.run(90 * MINUTE, MINUTE)

    assert world.landing == ["better"]
    assert world.trials.bodies == {}
