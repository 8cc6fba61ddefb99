"""An hour is called complete once it is merged, or a while later."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from landfall.driver.core.merged_first import DEADLINE
from landfall.driver.replacing.compaction_folders import HINT, LATE_PAUSE
from landfall.errors import Retry
from landfall.ledger import Retired
from landfall.publish.cursor import cursor_key
from tests.support.ledger.compaction_scene import CLICKS, SPEC, CompactionScene
from tests.support.ledger.sample_ledger import GROUP, LANE

HOURS: dict[str, Any] = {**SPEC, "route": {"pattern": "dt={date}/hr={hour}"}}


def end(hour: int) -> int:
    """When an hour is over, in milliseconds."""
    return int(datetime(2026, 11, 21, hour + 1, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def scene() -> CompactionScene:
    """Two hours with small objects, of which the ledger calls none complete."""
    return CompactionScene(HOURS).land(3, 1).finish(3).land(4, 10, 5, 7).land(5, 10, 10)


def ready(scene: CompactionScene, hour: int = 4, *, ends: bool = False) -> Mapping[str, int]:
    """What may be called complete now, of what is complete up to the end of an hour."""
    wanted = {"clicks": end(hour)}
    return scene.compacting.merged_first(scene.sample.state, wanted, ends=ends)


def test_an_hour_is_complete_once_its_merge_is_applied(scene: CompactionScene) -> None:
    assert ready(scene) == {}
    plan = scene.plan()
    assert [len(plan.listed.retire), ready(scene)] == [3, {}]
    slot = scene.record(plan)
    assert scene.sample.state.replacing.keys() == {slot}
    assert ready(scene) == {}

    for upload in plan.uploads:
        scene.sample.store.complete(upload)
    scene.events.settle()
    assert ready(scene) == {}  # until the ledger was read again
    assert scene.observe() is None

    assert ready(scene) == {"clicks": end(4)}
    waits = scene.compacting.status
    assert (waits.unmerged, waits.awaited_topics) == (0, 1)
    scene.finish(4)
    assert not scene.compacting.merged_first(scene.sample.state, {})
    assert scene.compacting.status.awaited_topics == 0
    assert not scene.compacting.is_awaited


def test_an_hour_is_complete_once_its_old_objects_are_deleted(scene: CompactionScene) -> None:
    scene.retires_later = True
    assert ready(scene) == {}
    scene.apply(scene.plan())
    assert [scene.observe(), ready(scene)] == [None, {}]
    (slot,) = scene.sample.state.retiring

    wanted, state = {"clicks": end(4)}, scene.sample.state
    assert scene.compacting.merged_first(state, wanted, until_deleted=False) == wanted
    scene.sample.append(lambda header: Retired(header=header, slots=(slot,)))

    assert ready(scene) == wanted
    assert scene.compacting.status.unmerged == 0


def test_old_objects_of_an_hour_that_is_complete_hold_up_no_other(scene: CompactionScene) -> None:
    scene.retires_later = True
    scene.finish(4).apply(scene.plan()).observe()
    assert scene.sample.state.retiring

    assert ready(scene, 5) == {}
    scene.apply(scene.plan()).observe()
    first, second = scene.sample.state.retiring
    scene.sample.append(lambda header: Retired(header=header, slots=(second,)))

    assert first in scene.sample.state.retiring
    assert ready(scene, 5) == {"clicks": end(5)}


def test_old_objects_that_nobody_can_delete_are_waited_for_until_the_deadline(
    scene: CompactionScene,
) -> None:
    scene.retires_later = True
    assert ready(scene) == {}
    scene.apply(scene.plan()).observe()

    scene.now += DEADLINE  # the grace period is on top of it
    assert ready(scene) == {}
    scene.now += timedelta(minutes=10)

    assert [ready(scene), scene.compacting.status.unmerged] == [{"clicks": end(4)}, 1]


def test_an_hour_with_nothing_to_merge_waits_for_a_look_only() -> None:
    scene = CompactionScene(HOURS).land(3, 1).finish(3).land(4, 10)

    assert ready(scene) == {}
    assert scene.observe(timedelta(seconds=1)) is None

    assert ready(scene) == {"clicks": end(4)}


def test_objects_that_are_not_known_to_be_visible_are_waited_for() -> None:
    scene = CompactionScene(HOURS).land(3, 1).finish(3)
    scene.sample.directory = "dt=2026-11-21/hr=04"
    scene.events.land(CLICKS, rows=3)
    assert ready(scene) == {}
    assert [scene.observe(), ready(scene)] == [None, {}]

    scene.events.settle()

    assert ready(scene) == {}
    assert [scene.observe(), ready(scene)] == [None, {"clicks": end(4)}]


def test_a_merge_that_fails_is_waited_for_until_the_deadline(scene: CompactionScene) -> None:
    scene.runner.error = Retry("no executor")
    assert ready(scene) == {}
    assert scene.observe() is None

    scene.now += timedelta(minutes=10) + DEADLINE - timedelta(minutes=3)
    assert [ready(scene), scene.compacting.status.unmerged] == [{}, 0]
    scene.now += timedelta(minutes=3)

    assert [ready(scene), ready(scene)] == [{"clicks": end(4)}] * 2
    assert scene.compacting.status.unmerged == 1


def test_a_driver_that_ends_waits_for_nothing(scene: CompactionScene) -> None:
    assert ready(scene, ends=True) == {"clicks": end(4)}
    assert scene.compacting.status.unmerged == 1


@pytest.mark.parametrize(
    "spec",
    [
        {**HOURS, "compact": {"readers": "Tables"}},
        {
            **{name: value for name, value in HOURS.items() if name != "compact"},
            "topics": [{"pattern": "orders", "compact": {}}],
        },
    ],
    ids=["tables", "another topic"],
)
def test_where_nobody_lists_what_is_merged_nothing_waits(spec: dict[str, Any]) -> None:
    scene = CompactionScene(spec).land(3, 1).finish(3).land(4, 10, 5)

    assert ready(scene) == {"clicks": end(4)}
    assert not scene.compacting.is_awaited


def test_what_comes_while_an_hour_is_merged_is_late(scene: CompactionScene) -> None:
    assert ready(scene) == {}
    plan = scene.plan()
    scene.apply(plan).land(4, 2, 2)
    assert scene.observe() is None

    assert ready(scene) == {"clicks": end(4)}
    late = scene.finish(4).observe(LATE_PAUSE)
    assert late is not None
    assert [each.landed.rows for each in late.listed.retire] == [2, 2]


def test_an_hour_that_ends_while_another_is_merged_waits_by_itself(scene: CompactionScene) -> None:
    assert ready(scene, 4) == {}
    scene.apply(scene.plan())
    assert scene.observe() is None

    assert ready(scene, 5) == {"clicks": end(4)}
    assert ready(scene, 5) == {}
    scene.finish(4).apply(scene.plan())
    assert scene.observe() is None
    assert ready(scene, 5) == {"clicks": end(5)}


def test_hours_of_before_the_first_look_stay_as_they_are() -> None:
    """Also if another one is complete at once, which is merged."""
    scene = CompactionScene(HOURS).land(3, 4, 4).finish(3).land(4, 10, 5)
    scene.sample.store.overwrite(cursor_key(GROUP, LANE, HINT), b"")
    scene.restart()

    assert ready(scene) == {}
    plan = scene.plan()

    assert {each.landed.upload.key.split("/")[2] for each in plan.listed.retire} == {"hr=04"}
