"""What users may ask of a trial, and what is tried at all."""

from datetime import timedelta
from typing import Any

import pytest

from landfall_operator.api.reasons import ConditionReason
from landfall_operator.api.status import TrialResult, TrialStatus
from landfall_operator.api.verbs import Verb
from landfall_operator.core.trials import needless
from tests.support.operator.cluster_model import World, group
from tests.support.operator.cluster_model_trials import compared

MINUTE = timedelta(minutes=1)
SHADOW = {"strategy": "Shadow"}
CANARY = {"strategy": "Canary"}


@pytest.fixture
def world() -> World:
    """A group that has been landing for five minutes."""
    new = World(group("good", replicas=2))
    new.run(5 * MINUTE)
    return new


def trial(world: World) -> TrialStatus:
    found = world.status.rollout.trial
    assert found
    return found


def upgrade(image: str, how: dict[str, Any], **spec: Any) -> Any:
    return group(image, upgrade=how, replicas=2, **spec)


def test_promote_goes_on_without_a_result(world: World) -> None:
    world.edit(upgrade("endless", SHADOW))
    world.run(MINUTE)

    world.request(Verb.PROMOTE)
    world.run(5 * MINUTE)

    assert (world.landing, trial(world).result) == (["endless"], TrialResult.OVERRULED)
    assert world.trials.bodies == {}


def test_promote_goes_on_with_a_revision_that_was_refused(world: World) -> None:
    world.edit(upgrade("odd", SHADOW))
    world.run(30 * MINUTE)
    assert world.landing == ["good"]

    world.request(Verb.PROMOTE)
    world.run(5 * MINUTE)

    assert (world.landing, len(world.trials.made)) == (["odd"], 1)
    assert world.status.rollout.rejected is None


def test_abort_gives_a_trial_up(world: World) -> None:
    world.edit(upgrade("endless", SHADOW))
    world.run(MINUTE)

    world.request(Verb.ABORT)
    world.run(30 * MINUTE)

    assert (world.landing, trial(world).result) == (["good"], TrialResult.ABORTED)
    assert (world.status.reason, world.trials.bodies) == (ConditionReason.ROLLED_BACK, {})


def test_retry_tries_a_refused_revision_again(world: World) -> None:
    world.edit(upgrade("odd", SHADOW))
    world.run(30 * MINUTE)

    world.trials.status = compared()
    world.request(Verb.RETRY)
    world.run(10 * MINUTE)

    assert (world.landing, len(world.trials.made)) == (["odd"], 2)


@pytest.mark.parametrize("verb", [Verb.ROLLBACK, Verb.RESTART])
def test_other_requests_wait_for_the_trial(world: World, verb: Verb) -> None:
    world.edit(upgrade("endless", SHADOW))
    world.run(MINUTE)

    world.request(verb)
    world.run(MINUTE)

    assert world.status.last_request
    assert not world.status.last_request.accepted
    assert "is being tried; abort gives it up" in world.status.last_request.message


# ----------------------------------------------------------------------------------- what is tried


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"executor": {"cores": 3}}, "concerns nothing", id="size"),
        pytest.param({"generation": 2}, "concerns nothing", id="name"),
        pytest.param({"uploadPolicy": {"maxAge": "1m"}}, "concerns nothing", id="when"),
        pytest.param({"route": {"pattern": "day={date}"}}, "", id="where"),
        pytest.param({"decode": {"timestamp": {"field": "seen"}}}, "", id="how"),
        pytest.param(
            {"schedule": {"cron": "5 * * * *", "boundary": "Hour"}}, "by a schedule", id="schedule"
        ),
    ],
)
def test_shadow_tries_what_may_change_rows(world: World, change: dict[str, Any], why: str) -> None:
    observed = world.observe()
    found = needless(observed, observed.status.rollout, upgrade("good", SHADOW, **change))

    assert why in found
    assert bool(found) is bool(why)


def test_canary_tries_what_may_change_the_speed(world: World) -> None:
    observed = world.observe()
    faster = upgrade("good", CANARY, executor={"cores": 3})

    assert needless(observed, observed.status.rollout, faster) == ""


def test_nothing_is_tried_if_nothing_was_landed_lately(world: World) -> None:
    world.quiet = world.now
    world.run(90 * MINUTE, 5 * MINUTE)
    world.edit(upgrade("better", SHADOW))
    world.run(5 * MINUTE)

    assert (world.landing, trial(world).result) == (["better"], TrialResult.SKIPPED)
    assert trial(world).message == "not tried: nothing was landed within 1h"
