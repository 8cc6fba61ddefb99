"""Complete output partitions are merged once, and only what is known to be right is planned."""

import json
from datetime import timedelta
from typing import Any

import pytest

from landfall.api.compaction_status import CompactionStatus
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.decide.compaction import MergeRules, plan_merges
from landfall.driver.replacing import compaction_planner
from landfall.driver.replacing.compaction_folders import HINT, LATE_PAUSE
from landfall.driver.replacing.compaction_planner import PlannedReplacement
from landfall.errors import Retry
from landfall.ledger import Decision, Drop, Purpose
from landfall.ledger.names.object_names import ObjectName, renamed
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.replace.merged_objects import Mergeable
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import OpenUpload, Part, Upload
from landfall.publish.cursor import cursor_key
from tests.support.ledger.compaction_scene import CLICKS, SPEC, CompactionScene
from tests.support.ledger.sample_ledger import GROUP, LANE

HOUR_4 = "clicks/dt=2026-11-21/hr=04"

HOURLY: dict[str, Any] = {**SPEC, "route": {"pattern": "dt={date}/hr={hour}"}}


@pytest.fixture
def scene() -> CompactionScene:
    """Two hours, of which the first one is complete."""
    return CompactionScene(dict(HOURLY)).land(4, 10, 5, 7).land(5, 10, 10).finish(4)


def retired(plan: PlannedReplacement) -> list[str]:
    return [each.landed.upload.key.rpartition("/")[2] for each in plan.listed.retire]


def open_uploads(scene: CompactionScene) -> list[OpenUpload]:
    return list(scene.sample.store.open_uploads(""))


def test_small_objects_of_a_complete_hour_are_merged(scene: CompactionScene) -> None:
    plan = scene.plan()

    (new,) = plan.listed.objects
    assert retired(plan) == [f"1_0_{start:020d}.json" for start in (0, 10, 15)]
    applied = scene.sample.state.applied_through
    assert (plan.purpose, plan.read_through) == (Purpose.COMPACT, applied)
    assert plan.slices == (Slice(CLICKS, OffsetRange(0, 22)),)
    assert (plan.folders, plan.duplicates) == ((HOUR_4,), 0)
    assert new.landed.upload.key == f"{HOUR_4}/r{plan.read_through:010d}_1_0_{0:020d}.json"
    assert new.landed.upload.token == plan.token
    assert [each.slot for each in plan.listed.retire] == [2, 3, 4]


def test_nothing_is_merged_before_the_hour_is_complete() -> None:
    assert CompactionScene(dict(HOURLY)).land(4, 10, 5, 7).observe() is None


def test_what_becomes_visible_as_the_hour_is_complete_is_not_late() -> None:
    scene = CompactionScene(dict(HOURLY))
    scene.sample.directory = "dt=2026-11-21/hr=04"
    for rows in (10, 5):
        scene.events.land(CLICKS, rows=rows)

    plan = scene.finish(4).observe()

    assert plan is not None
    assert len(plan.listed.retire) == 2


def test_the_status_says_what_waits_and_what_was_merged(scene: CompactionScene) -> None:
    plan = scene.plan()
    waits = CompactionStatus(waiting_folders=2, waiting_objects=3)
    assert scene.compacting.status == waits

    scene.apply(plan).observe()

    (new,) = plan.uploads
    merged = CompactionStatus(1, 0, merged_objects=3, new_objects=1, merged_bytes=new.size)
    assert scene.compacting.status == merged


def test_what_is_recorded_is_what_the_ledger_takes(scene: CompactionScene) -> None:
    plan = scene.plan()

    scene.apply(plan)

    assert scene.sample.state.replacing == {}
    status = scene.compacting.status
    assert (status.merged_objects, status.new_objects, status.problem) == (3, 1, "")


def test_a_merged_hour_is_not_merged_again(scene: CompactionScene) -> None:
    scene.apply(scene.plan())

    assert [scene.observe(), scene.observe(timedelta(days=1))] == [None, None]
    assert scene.restart().land(5, 3).observe() is None


def test_nothing_is_planned_while_a_replacement_is_not_applied(scene: CompactionScene) -> None:
    scene.record(scene.plan())

    assert [scene.observe(), scene.restart().observe()] == [None, None]


def test_the_next_hour_is_merged_when_it_is_complete(scene: CompactionScene) -> None:
    scene.apply(scene.plan()).finish(5)

    assert scene.plan().folders == ("clicks/dt=2026-11-21/hr=05",)


def test_late_objects_are_merged_once_there_are_two_and_no_more_come(
    scene: CompactionScene,
) -> None:
    scene.apply(scene.plan()).observe()

    assert scene.land(4, 3).observe(LATE_PAUSE * 2) is None
    assert scene.land(4, 2).observe() is None
    plan = scene.observe(LATE_PAUSE)
    assert plan is not None
    assert len(plan.listed.retire) == 2  # the merged one is large beside them


def test_late_objects_that_keep_coming_do_not_wait_for_ever(scene: CompactionScene) -> None:
    scene.apply(scene.plan()).observe()

    plans = [scene.land(4, 1).observe(LATE_PAUSE / 3) for _ in range(6)]

    (plan,) = filter(None, plans)
    assert plans.index(plan) == 3
    assert len(plan.listed.retire) == 4


def test_each_merge_of_late_objects_waits_longer(scene: CompactionScene) -> None:
    scene.apply(scene.plan()).observe()
    scene.land(4, 1, 1).observe()
    late = scene.observe(LATE_PAUSE)
    assert late is not None
    scene.apply(late).observe()

    scene.land(4, 1, 1).observe()

    assert scene.observe(LATE_PAUSE) is None
    assert scene.observe(LATE_PAUSE) is not None


def test_where_duplicates_are_left_out_a_folder_is_not_written_again_and_again() -> None:
    scene = (
        CompactionScene({**HOURLY, "compact": {"dedupe": {"key": "o"}}}).land(4, 10, 5).finish(4)
    )
    scene.sample.body = lambda offsets: b"".join(b'{"o":%d}\n' % offset for offset in offsets)
    scene.apply(scene.plan()).observe()
    merges, left = 0, 0

    for _ in range(4 * 28):  # a row every six hours for four weeks
        scene.land(4, 1)
        left += 1
        if plan := scene.observe(timedelta(hours=6)):
            scene.apply(plan)
            merges, left = merges + 1, 0

    assert merges <= 6 + 28  # one a day, and those of the first day
    assert left <= 8  # no row waits for much longer than a day


def test_a_refused_plan_is_made_anew(scene: CompactionScene) -> None:
    plan = scene.plan()
    assert scene.compacting.protected == {each.upload_id for each in plan.uploads}

    scene.compacting.refused(plan, "older than another one")

    assert scene.compacting.protected == frozenset()
    assert scene.compacting.status.problem == "older than another one"
    assert scene.compacting.status.failures == 1
    assert scene.observe() is None
    again = scene.observe(timedelta(minutes=10))
    assert again is not None
    assert (retired(again), again.token) != (retired(plan), plan.token)
    assert retired(again) == retired(plan)


def test_reserved_folders_are_left_alone(scene: CompactionScene) -> None:
    scene.compacting.reserve(frozenset({HOUR_4}))
    assert scene.observe() is None

    scene.compacting.reserve(frozenset())

    assert scene.plan().folders == (HOUR_4,)


def test_another_process_makes_the_plan_that_was_not_recorded(scene: CompactionScene) -> None:
    plan = scene.plan()

    again = scene.restart().plan()

    assert retired(again) == retired(plan)


def test_a_process_that_ends_gives_back_what_nobody_has_taken(scene: CompactionScene) -> None:
    scene.now += timedelta(minutes=2)
    scene.compacting.observe(scene.sample.state)

    (upload,) = scene.compacting.stop()

    assert upload.key.startswith(HOUR_4)
    assert scene.compacting.take() is None


def test_rows_are_sorted_and_the_ledger_says_so() -> None:
    compact = {"below": "1Ki", "target": "4Ki", "sort": "n"}
    spec = {**HOURLY, "compact": compact}
    scene = CompactionScene(spec).land(4, 3, 2).finish(4)

    scene.apply(first := scene.plan()).land(4, 2, 2).observe()
    late = scene.observe(LATE_PAUSE)

    assert late is not None
    for plan in (first, late):
        (new,) = plan.listed.objects
        assert (new.mixed, new.sorted) == (True, True)


def test_hours_that_were_complete_before_stay_as_they_are() -> None:
    spec = dict(HOURLY)
    scene = CompactionScene({**spec, "compact": None})
    scene.land(4, 10, 5).finish(4).land(5, 4, 4)
    scene.spec = spec

    assert scene.restart().observe() is None
    assert scene.finish(5).plan().folders == ("clicks/dt=2026-11-21/hr=05",)


def test_what_was_taken_back_is_left_alone(scene: CompactionScene) -> None:
    plan = scene.plan()
    scene.apply(plan).observe()

    scene.undo(plan)

    assert [scene.observe(), scene.observe(timedelta(days=1))] == [None, None]
    assert scene.restart().land(5, 2).observe() is None


def test_an_object_that_is_damaged_leaves_its_hour_as_it_is(scene: CompactionScene) -> None:
    scene.finish(5)
    store = scene.sample.store
    key = f"{HOUR_4}/1_0_{10:020d}.json"
    upload_id = store.begin(key, "x")
    part = store.put_part(key, upload_id, 1, b"{}\n")
    upload = scene.sample.upload(f"{HOUR_4}/9_0_{0:020d}.json", range(1)).upload
    store.complete(type(upload)(key, upload_id, (part,), "x"))

    plan = scene.plan()

    assert plan.folders == ("clicks/dt=2026-11-21/hr=05",)
    assert key in scene.compacting.status.problem
    scene.apply(plan)
    assert scene.observe() is None


def test_it_tries_again_when_a_task_has_died(scene: CompactionScene) -> None:
    scene.runner.error = Retry("merging failed: a worker died")
    assert scene.observe() is None
    assert scene.compacting.status.problem == "merging failed: a worker died"

    scene.runner.error = None

    assert scene.observe(timedelta(minutes=10)) is not None


def test_a_quarter_of_the_slots_is_used(scene: CompactionScene) -> None:
    scene.finish(5)
    plan = scene.plan()

    ((one, two),) = scene.runner.given
    assert [len(one.merges), len(two.merges)] == [1, 1]
    assert len(plan.folders) == 2


def test_objects_are_read_by_the_spec_that_they_were_made_by(scene: CompactionScene) -> None:
    digest = store_spec(scene.sample.store, scene.group, LANE)
    scene.sample.open(2, digest)
    scene.land(5, 3, 3)
    scene.spec["output"] = {"url": "s3://bucket/root", "format": "Parquet"}
    scene.restart().finish(5)

    plan = scene.plan()

    ((share, *_),) = scene.runner.given
    assert {merge.output.format for merge in share.merges} == {"Json"}
    assert [name[:2] for name in retired(plan)] == ["2_", "2_"]


def test_a_replacement_is_found_in_a_segment(scene: CompactionScene) -> None:
    scene.apply(scene.plan())
    scene.sample.open(2).shown().open(3).shown().roll()
    scene.sample.store.overwrite(cursor_key(GROUP, LANE, HINT), b"")

    assert scene.restart().observe() is None
    assert scene.compacting.status.problem == ""


def test_a_driver_that_ends_merges_what_is_complete_by_then(scene: CompactionScene) -> None:
    state = scene.sample.state

    assert scene.compacting.finish(state)  # though it has looked just now
    plan = scene.compacting.take()
    assert plan is not None
    scene.apply(plan)

    assert not scene.compacting.finish(scene.sample.state)
    assert not scene.compacting.finish(scene.sample.state)
    assert scene.compacting.take() is None


def test_a_driver_that_ends_does_not_try_again_what_failed(scene: CompactionScene) -> None:
    scene.runner.error = Retry("merging failed: a worker died")

    found = [scene.compacting.finish(scene.sample.state) for _ in range(3)]

    assert found == [False, False, False]
    assert scene.compacting.status.problem == "merging failed: a worker died"


def poisoned() -> CompactionScene:
    """Eight hours, of which the first has a row that no merge can read."""
    scene = CompactionScene(
        {
            **SPEC,
            "route": {"pattern": "dt={date}/hr={hour}"},
            "compact": {"dedupe": {"key": "id"}},
        }
    )
    deep = b'{"x":' + b"[" * 1500 + b"]" * 1500 + b',"id":1}\n'
    scene.runner.slots = 4
    scene.sample.body = lambda offsets: b"".join(
        deep if offset == 3 else b'{"id":%d}\n' % offset for offset in offsets
    )
    for hour in range(4, 12):
        scene.land(hour, 10, 10)
    return scene.finish(11)


def test_a_folder_that_fails_is_in_nobodys_way_and_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction_planner, "SHARE_BYTES", 100)  # one hour fills a plan
    monkeypatch.setattr(compaction_planner, "LONGEST_PAUSE", timedelta(hours=1))
    scene, merged, problem = poisoned(), list[str](), ""

    for _ in range(3 * 16):
        if plan := scene.observe(timedelta(minutes=20)):
            merged += plan.folders
            scene.apply(plan)
        problem = scene.compacting.status.problem or problem

    assert merged == [f"clicks/dt=2026-11-21/hr={hour:02}" for hour in range(5, 12)]
    tries = [m for given in scene.runner.given for share in given for m in share.merges]
    failing = [m for m in tries if m.sources[0].folder.endswith("hr=04")]
    assert len(failing) == compaction_planner.MAX_FAILURES
    assert problem.startswith("given up after 10 attempts: clicks/dt=2026-11-21/hr=04: ")


def test_a_folder_that_failed_comes_after_all_others() -> None:
    scene = poisoned()
    while not scene.compacting.status.failures:
        if plan := scene.observe():
            scene.apply(plan)
    while plan := scene.observe(timedelta(minutes=1)):
        scene.apply(plan)
    scene.land(12, 10, 10).finish(12)

    scene.observe(compaction_planner.LONGEST_PAUSE)

    (share,) = scene.runner.given[-1]
    hours = [merge.sources[0].folder.rpartition("=")[2] for merge in share.merges]
    assert hours == ["12", "04"]


def test_a_folder_that_fails_is_tried_less_and_less_often() -> None:
    scene = poisoned()

    for _ in range(6 * 6):
        if plan := scene.observe(timedelta(minutes=10)):
            scene.apply(plan)

    tries = [m for given in scene.runner.given for share in given for m in share.merges]
    failing = [m for m in tries if m.sources[0].folder.endswith("hr=04")]
    assert 5 <= len(failing) <= 8


def test_a_record_from_a_far_future_pins_nothing() -> None:
    scene = CompactionScene(dict(HOURLY))
    scene.sample.directory = "dt=2199-01-01/hr=00"  # the clock of tests is in 2126
    scene.events.land(CLICKS, rows=1)
    scene.events.settle()

    for hour in range(3):
        scene.land(hour, 3, 3, 3).finish(hour)
        scene.apply(scene.plan()).observe()

    scene.observe()
    at = scene.sample.store.read(cursor_key(GROUP, LANE, HINT)) or b"{}"
    assert json.loads(at)["through"] >= scene.sample.state.seq - 1


def test_another_process_reads_from_the_snapshot_before_the_hour_that_is_not_complete() -> None:
    scene = CompactionScene(dict(HOURLY))
    for hour in range(12):
        scene.land(hour, 3, 3, 3).finish(hour)
        scene.apply(scene.plan()).observe()
    scene.sample.snapshot()
    scene.events.settle()
    scene.observe()
    scene.land(12, 3, 3)
    scene.sample.snapshot()
    scene.events.settle()
    scene.observe()
    slots, before = scene.sample.state.seq, scene.sample.store.requests["read"]

    scene.restart().observe()

    assert scene.compacting.status.waiting_folders == 1
    assert scene.sample.store.requests["read"] - before < slots / 4


def test_rows_that_a_change_of_the_spec_keeps_from_being_compared_are_counted() -> None:
    scene = CompactionScene({**HOURLY, "compact": {"dedupe": {"key": "id"}}})

    def open_(**changed: Any) -> None:
        scene.spec.update(changed)
        scene.sample.open(1, store_spec(scene.sample.store, scene.group, LANE))
        scene.restart()

    scene.sample.body = lambda offsets: b"".join(b'{"id":%d}\n' % (o % 5) for o in offsets)
    open_()
    scene.land(5, 10)
    open_(badRecords={"window": "2h"})
    scene.land(5, 7).finish(5)
    plan = scene.plan()
    assert scene.compacting.status.uncompared == 0

    scene.apply(plan)

    assert plan.duplicates == 10 - 5 + 7 - 5
    assert scene.compacting.status.uncompared == 7


@pytest.mark.parametrize("late", [0, 1, 2])
def test_late_rows_come_after_what_was_merged_in_every_kafka_partition(late: int) -> None:
    def object_of(partition: int, start: int, plan: int = -1) -> Mergeable:
        name = ObjectName("clicks", "dt=2026-11-21/hr=05", 1, partition, start, ".json")
        key = renamed(name.key, plan) if plan >= 0 else name.key
        upload = Upload(key, "u", (Part("e", 1),), "t")
        return Mergeable(1, LandedObject(upload, ObjectKind.DATA, 1, start, start, 0))

    older, newer = object_of(1, 0, plan=90), object_of(0, 5, plan=120)
    objects = [object_of(late, 7), newer, older]

    deduped = plan_merges((GROUP, LANE), objects, MergeRules(1024, 4096, dedupes=True, max_rows=9))
    packed = plan_merges((GROUP, LANE), objects, MergeRules(1024, 4096))

    assert [each.key for each in deduped.merges[0]] == [
        each.key for each in (older, newer, objects[0])
    ]
    by_partition = [(each.name.partition, each.name.start) for each in packed.merges[0]]
    assert by_partition == sorted(by_partition)


@pytest.mark.parametrize("who", ["", "kim"])
def test_what_was_given_up_is_merged_again_unless_somebody_gave_it_up(
    scene: CompactionScene, who: str
) -> None:
    slot = scene.record(scene.plan())

    scene.give_up(slot, Decision("undo", who, "INC-12", "t") if who else None)

    assert scene.observe() is None
    later = scene.observe(LATE_PAUSE)
    assert (later is not None) == (not who)
    if later:
        assert len(later.listed.retire) == 3


def test_a_plan_that_gives_way_is_no_failure_and_is_made_again_once_the_folder_is_free(
    scene: CompactionScene,
) -> None:
    plan = scene.plan()

    scene.compacting.reserve(frozenset(plan.folders))
    scene.compacting.gave_way(plan)

    status = scene.compacting.status
    assert (status.failures, status.problem) == (0, "")
    assert scene.observe(timedelta(0)) is None
    scene.compacting.reserve(frozenset())
    assert scene.observe(timedelta(minutes=2)) is not None  # a failure waits for five


def test_objects_of_a_topic_partition_that_left_are_not_merged() -> None:
    scene = CompactionScene(dict(HOURLY)).land(4, 10, 5, 7)
    scene.sample.append(lambda h: Drop(header=h, topic_partitions=(CLICKS,), reason="recreated"))
    scene.observe()

    scene.sample.open(2).add(CLICKS)
    plan = scene.land(4, 3, 4).finish(4).observe()

    assert plan is not None
    assert [each.landed.rows for each in plan.listed.retire] == [3, 4]


@pytest.mark.parametrize("option", ["startAt", "skip"])
def test_what_a_publisher_leaves_out_of_its_tables_is_merged_apart(option: str) -> None:
    scene = CompactionScene(dict(HOURLY)).land(4, 10, 5)
    root, store = SPEC["output"]["url"], scene.sample.store
    keys = [stat.key for stat in store.list_after("clicks/")]
    options: dict[str, Any] = {
        "startAt": scene.sample.state.seq,
        "skip": [keys[0], f"{root}/{keys[1]}"],
    }
    scene.spec["publish"] = [
        {"name": "lake", "type": "Delta", "options": {option: options[option]}}
    ]
    scene.restart()
    plan = scene.land(4, 7, 6).finish(4).plan()
    scene.apply(plan)

    scene.land(4, 9).observe()
    again = scene.observe(LATE_PAUSE)

    assert sorted(new.landed.rows for new in plan.listed.objects) == [13, 15]
    assert again is not None
    assert [new.landed.rows for new in again.listed.objects] == [13 + 9]


def test_a_publisher_without_such_options_leaves_nothing_out() -> None:
    scene = CompactionScene(dict(HOURLY)).land(4, 10, 5)
    scene.spec["publish"] = [{"name": "lake", "type": "Delta", "options": {"startAt": "Beginning"}}]

    plan = scene.restart().land(4, 7).finish(4).plan()

    assert [new.landed.rows for new in plan.listed.objects] == [22]
