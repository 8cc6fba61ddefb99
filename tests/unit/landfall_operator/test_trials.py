"""Trials of a revision by Shadow and Canary, on a model of a cluster."""

from datetime import timedelta
from typing import Any

import pytest

from landfall_operator.api.reasons import ConditionReason, ConditionType
from landfall_operator.api.status import Stage, TrialResult, TrialStatus
from tests.support.operator.cluster_model import World, group
from tests.support.operator.cluster_model_trials import ROWS

MINUTE = timedelta(minutes=1)
SHADOW = {"strategy": "Shadow"}
CANARY = {"strategy": "Canary"}
HAND_OVER = [Stage.WARMING, Stage.YIELDING, Stage.OPENING, Stage.WATCHING]


@pytest.fixture
def world() -> World:
    """A group that has been landing for five minutes."""
    new = World(group("good", replicas=2))
    new.run(5 * MINUTE)
    new.stages.clear()
    new.events.clear()
    return new


def trial(world: World) -> TrialStatus:
    found = world.status.rollout.trial
    assert found
    return found


def condition(world: World, kind: ConditionType) -> tuple[str, ConditionReason, str]:
    found = {c.type: c for c in world.status.conditions}[kind]
    return found.status, found.reason, found.message


def upgrade(image: str, how: dict[str, Any], **spec: Any) -> Any:
    return group(image, upgrade=how, replicas=2, **spec)


@pytest.mark.parametrize("how", [SHADOW, CANARY], ids=["shadow", "canary"])
def test_a_revision_that_passes_its_trial_takes_over(world: World, how: dict[str, Any]) -> None:
    world.edit(upgrade("better", how))
    world.run(10 * MINUTE)

    assert world.stages == [Stage.TRYING, *HAND_OVER]
    assert (world.landing, trial(world).result) == (["better"], TrialResult.PASSED)
    assert trial(world).message == (
        f"tried: {ROWS} rows and 0 dead letters, and {ROWS} rows and 0 dead letters before"
    )
    assert world.trials.bodies == {}


def test_the_backfill_lands_again_what_was_landed_last_and_is_never_promoted(world: World) -> None:
    world.edit(upgrade("better", SHADOW))
    world.settle()

    (made,) = world.trials.made
    revision = trial(world).revision
    assert made["spec"] == {
        "group": "clicks",
        "revision": revision,
        "last": "1h",
        "into": "Replace",
        "promote": "Never",
        "maxCores": 2,
    }
    assert made["metadata"]["name"].startswith(f"clicks-{revision}-")
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_a_canary_takes_a_share_of_the_topic_partitions_and_of_the_cores(world: World) -> None:
    canary = {"topicPartitions": "12.5%", "window": "10m"}
    executor = {"cores": 8}
    world.edit(upgrade("better", {**CANARY, "canary": canary}, executor=executor))
    world.settle()

    (made,) = world.trials.made
    assert (made["spec"]["share"], made["spec"]["maxCores"]) == ("12.5%", 2)
    assert made["spec"]["last"] == "10m"


def test_the_window_is_as_long_as_the_upload_policy_lets_records_wait(world: World) -> None:
    policy = {"maxAge": "2h", "overrides": [{"topics": "slow", "maxAge": "3h"}]}
    world.edit(upgrade("better", SHADOW, uploadPolicy=policy))
    world.settle()

    (made,) = world.trials.made
    assert made["spec"]["last"] == "3h"


def test_the_active_revision_lands_and_scales_during_a_trial(world: World) -> None:
    pod = next(iter(world.drivers.values())).pod
    world.edit(upgrade("endless", SHADOW))
    world.run(2 * MINUTE)
    assert (world.landing, world.images) == (["good"], ["good"])

    world.edit(group("endless", upgrade=SHADOW, replicas=5))
    world.run(MINUTE)

    assert pod
    assert (pod.executors, len(world.trials.made)) == (5, 1)
    assert condition(world, ConditionType.READY)[0] == "True"
    assert world.status.phase == "Upgrading"
    status, reason, message = condition(world, ConditionType.UPGRADING)
    assert (status, reason) == ("True", ConditionReason.TRYING)
    assert "is Landing, 40% landed" in message
    assert [outcome.outcome for outcome in world.status.history] == ["Pending", "Active"]


def test_a_shadow_whose_rows_differ_never_lands_and_its_rows_are_shown(world: World) -> None:
    world.edit(upgrade("odd", SHADOW))
    world.run(30 * MINUTE)

    assert world.stages == [Stage.TRYING, Stage.WATCHING, Stage.SETTLED]
    assert (world.landing, world.images) == (["good"], ["good"])
    assert trial(world).result is TrialResult.REFUSED
    status, reason, message = condition(world, ConditionType.STALLED)
    assert (status, reason) == ("True", ConditionReason.TRIAL_REFUSED)
    assert "10 of 1000 old and 10 of 1000 new rows differ; none may" in message
    (event,) = (event for event in world.events if event.startswith("Watching: giving up"))
    assert event.endswith("\nold  dt=2026-11-21/hr=12/1_0.json:1  {}")
    assert list(world.trials.bodies) == [trial(world).backfill]


def test_differences_may_be_tolerated(world: World) -> None:
    tolerate = {"rows": "1%"}
    world.edit(upgrade("odd", {**SHADOW, "shadow": {"tolerate": tolerate}}))
    world.run(10 * MINUTE)

    assert world.landing == ["odd"]


def test_a_canary_with_too_many_bad_records_is_refused(world: World) -> None:
    world.edit(upgrade("spoiling", CANARY))
    world.run(10 * MINUTE)

    assert (world.landing, trial(world).result) == (["good"], TrialResult.REFUSED)
    assert trial(world).message == (
        "20.00% of the records are bad (200 of 1000), 0.00% before; 1% may"
    )


def test_another_spec_ends_the_trial_and_begins_another(world: World) -> None:
    world.edit(upgrade("endless", SHADOW))
    world.run(2 * MINUTE)
    former = trial(world).backfill

    world.edit(upgrade("better", SHADOW))
    world.run(10 * MINUTE)

    assert former != trial(world).backfill
    assert (world.landing, world.trials.bodies) == (["better"], {})


def test_a_change_is_withdrawn_during_its_trial(world: World) -> None:
    before = world.group
    world.edit(upgrade("endless", SHADOW))
    world.run(2 * MINUTE)

    world.edit(before)
    world.run(2 * MINUTE)

    assert world.stages == [Stage.TRYING, Stage.WATCHING, Stage.SETTLED]
    assert (world.landing, trial(world).result) == (["good"], TrialResult.ABORTED)
    assert world.trials.bodies == {}


def test_an_invalid_spec_does_not_end_a_trial(world: World) -> None:
    world.edit(upgrade("better", SHADOW))
    world.run(MINUTE)

    world.edit(None, spec_error="not valid")
    world.run(10 * MINUTE)

    assert (world.landing, len(world.trials.made)) == (["better"], 1)


def test_another_strategy_goes_on_without_a_result(world: World) -> None:
    world.edit(upgrade("endless", SHADOW))
    world.run(2 * MINUTE)

    world.edit(group("endless", replicas=2))
    world.run(5 * MINUTE)

    assert world.landing == ["endless"]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"strategy": "HandOver"}, id="no trial"),
        pytest.param({**SHADOW, "shadow": {"tolerate": {"rows": "100%"}}}, id="other terms"),
    ],
)
def test_a_refusal_holds_only_for_what_was_asked_for(world: World, asked: dict[str, Any]) -> None:
    world.edit(upgrade("odd", SHADOW))
    world.run(20 * MINUTE)
    assert world.landing == ["good"]

    world.edit(upgrade("odd", asked))
    world.run(10 * MINUTE)

    assert (world.landing, world.status.rollout.rejected) == (["odd"], None)


def test_a_trial_that_does_not_end_is_given_up(world: World) -> None:
    world.edit(upgrade("endless", {**SHADOW, "trialTimeout": "20m"}))
    world.run(25 * MINUTE)

    assert (world.landing, world.status.rollout.stage) == (["good"], Stage.SETTLED)
    assert condition(world, ConditionType.STALLED)[1] is ConditionReason.TRIAL_TIMED_OUT
    assert "not judged within 20m: Backfill" in trial(world).message
    assert "is Landing, 40% landed" in trial(world).message


def test_a_trial_that_was_kept_from_landing_is_tried_again(world: World) -> None:
    world.away.add("store")
    world.edit(upgrade("better", {**SHADOW, "trialTimeout": "20m"}))
    world.run(25 * MINUTE)
    assert trial(world).result is TrialResult.FAILED
    assert "is Pending: no answer" in trial(world).message

    world.away.clear()
    world.run(40 * MINUTE)

    assert (world.landing, len(world.trials.made)) == (["better"], 2)


def test_a_trial_whose_backfill_is_deleted_is_given_up(world: World) -> None:
    world.edit(upgrade("endless", SHADOW))
    world.run(MINUTE)

    world.trials.delete(trial(world).backfill)
    world.run(MINUTE)

    assert (world.landing, trial(world).result) == (["good"], TrialResult.FAILED)
    assert trial(world).message.endswith("was deleted")


def test_what_the_environment_keeps_from_landing_is_tried_again(world: World) -> None:
    world.trials.status = {"phase": "Failed", "reason": "StoreUnavailable", "message": "503"}
    world.edit(upgrade("better", SHADOW))
    world.run(8 * MINUTE)
    assert (world.landing, trial(world).result) == (["good"], TrialResult.FAILED)

    world.trials.status = None
    world.run(20 * MINUTE)

    assert (world.landing, len(world.trials.made)) == (["better"], 2)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("NothingChosen", "not tried: nothing was landed within 1h"),
        ("DataLoss", "not tried: Kafka does not have the records any more: expired"),
    ],
)
def test_a_revision_takes_over_if_there_is_nothing_to_try_it_by(
    world: World, reason: str, message: str
) -> None:
    world.trials.status = {"phase": "Failed", "reason": reason, "message": "expired"}
    world.edit(upgrade("better", SHADOW))
    world.run(10 * MINUTE)

    assert (world.landing, trial(world).result) == (["better"], TrialResult.SKIPPED)
    assert trial(world).message == message
    assert any(event.endswith(message) for event in world.events)


def test_a_side_lane_that_stops_at_bad_records_speaks_against_the_revision(world: World) -> None:
    world.trials.status = {"phase": "Failed", "reason": "BadRecordsOverLimit", "message": "0.3"}
    world.edit(upgrade("better", CANARY))
    world.run(8 * MINUTE)

    assert (world.landing, trial(world).result) == (["good"], TrialResult.REFUSED)


def test_a_revision_whose_side_lane_crashes_is_not_landed(world: World) -> None:
    world.edit(upgrade("broken", SHADOW))
    world.run(30 * MINUTE)

    assert (world.landing, trial(world).result) == (["good"], TrialResult.FAILED)
    assert condition(world, ConditionType.STALLED)[1] is ConditionReason.TRIAL_FAILED


def test_a_revision_that_passed_is_still_rolled_back_if_it_fails(world: World) -> None:
    world.edit(upgrade("failing", SHADOW))
    world.run(30 * MINUTE)

    assert (world.landing, trial(world).result) == (["good"], TrialResult.PASSED)
    assert condition(world, ConditionType.STALLED)[1] is ConditionReason.ROLLED_BACK


def test_the_revision_that_landed_before_comes_back_without_a_trial(world: World) -> None:
    before = upgrade("good", SHADOW)
    world.edit(before)
    world.edit(upgrade("better", SHADOW))
    world.run(10 * MINUTE)
    assert world.status.rollout.previous

    world.edit(before)
    world.run(5 * MINUTE)

    assert (world.landing, len(world.trials.made)) == (["good"], 1)
    assert trial(world).message == "not tried: it is the revision that landed before"


def test_a_first_revision_is_not_tried() -> None:
    world = World(upgrade("good", SHADOW))
    world.run(5 * MINUTE)

    assert (world.landing, world.trials.made, world.status.rollout.trial) == (["good"], [], None)


def test_a_suspended_group_resumes_as_it_was_and_tries_what_was_asked_for_meanwhile(
    world: World,
) -> None:
    world.edit(group("good", state="Suspended"))
    world.run(2 * MINUTE)
    world.edit(upgrade("odd", SHADOW, state="Suspended"))
    world.run(MINUTE)

    world.edit(upgrade("odd", SHADOW))
    world.run(15 * MINUTE)

    assert (world.landing, trial(world).result) == (["good"], TrialResult.REFUSED)


def test_a_trial_ends_with_its_group(world: World) -> None:
    world.edit(upgrade("endless", SHADOW))
    world.run(MINUTE)

    world.deleting = True
    world.run(5 * MINUTE)

    assert not world.finalizer
