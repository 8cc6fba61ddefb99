"""A Backfill of a group that is paused, sleeps between its runs, or changes its revision."""

from typing import Any

import pytest

from landfall_operator.api.verbs import PAUSE
from landfall_operator.core.backfill_snapshot import PromotionAnswer
from tests.support.operator.api_objects import resource
from tests.unit.landfall_operator.test_backfill_pass import (
    COMPARED,
    NAMESPACE,
    POD,
    Scene,
    is_promoted,
)

DONE = PromotionAnswer("done", "recorded in slot 12", 12)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def group_says(scene: Scene, version: int, spec: dict[str, Any], **annotations: str) -> None:
    """The group is changed, and its driver goes on."""
    body = resource(version=version, annotations=annotations)
    scene.has_group({**body, "spec": {**body["spec"], **spec}})


def test_a_backfill_of_a_paused_group_lands_and_waits_with_its_promotion(scene: Scene) -> None:
    """Its side lane is its own; what is live belongs to the group, which nobody may change."""
    group_says(scene, 2, {}, **{PAUSE: "true"})
    scene.drivers.answer = DONE
    is_promoted(scene)
    scene.passes(3)
    held = scene.status

    group_says(scene, 3, {})
    scene.passes(2)

    assert (held["phase"], held["reason"]) == ("Promoting", "PromotionWaits")
    assert held["message"].endswith("reconciliation of the group is paused; it waits")
    assert scene.status["phase"] == "Promoted"
    assert len(scene.drivers.asked) == 1


HOURLY = {"schedule": {"cron": "5 * * * *", "boundary": "Hour"}}


def test_a_backfill_lands_while_its_group_sleeps_and_is_promoted_in_its_next_run(
    scene: Scene,
) -> None:
    scene.cache.forget(NAMESPACE)
    body = resource(version=2, uid="of-the-scheduled-group")
    scene.cache.put("ConsumerGroup", {**body, "spec": {**body["spec"], **HOURLY}})
    scene.drivers.answer = DONE
    scene.apply(promote="Automatic")
    scene.passes(2)
    assert POD in scene.api.objects
    scene.ends(0, COMPARED.as_json())
    scene.passes(4)
    asleep, asked = scene.status, len(scene.drivers.asked)

    scene.has_group(resource(version=9, uid="of-the-scheduled-group"))
    scene.passes(2)

    assert (asleep["phase"], asleep["reason"], asked) == ("Promoting", "PromotionWaits", 0)
    assert asleep["message"].endswith("no driver of the group runs; it waits for one")
    assert scene.status["phase"] == "Promoted"
