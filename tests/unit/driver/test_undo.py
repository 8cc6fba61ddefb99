"""What counts decides what can be undone, in which output partitions, and what a refusal says."""

from dataclasses import replace

import pytest

from landfall.api.verbs import Outcome
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.ledger.offsets import OffsetRange
from tests.support.ledger.undoable import TPS, Rows, Undoable

ONE, TWO = "clicks/dt=1", "clicks/dt=2"


@pytest.fixture
def scene() -> Undoable:
    """Two objects in each of two output partitions."""
    scene = Undoable()
    for tp in TPS:
        scene.commit(tp, ["dt=1", "dt=2"])
    return scene


def merge(scene: Undoable, *folders: str, leaves_out: int = 0) -> int:
    return scene.merge(*(scene.objects(each) for each in folders), leaves_out=leaves_out)


def _of_before(plan: PlannedReplacement) -> PlannedReplacement:
    return replace(plan, unmerges=-1)


def in_folder(rows: Rows, folder: str) -> Rows:
    return Rows({row: n for row, n in rows.items() if row[0] == folder})


def test_late_objects_of_one_output_partition_leave_the_others_to_be_undone(
    scene: Undoable,
) -> None:
    first = merge(scene, ONE, TWO)
    scene.commit(TPS[0], ["dt=1"])
    second = merge(scene, ONE)

    refused = scene.undo(first)

    assert refused.outcome is Outcome.REFUSED
    assert refused.message == (
        f"objects in {ONE} were replaced again in slot {second}: undo that first "
        f"(`landfall undo {second}`), or name other ones by --output-partition"
    )
    assert scene.undo(first, "dt=2").outcome is Outcome.DONE
    assert [len(scene.objects(each)) for each in (ONE, TWO)] == [1, 2]
    assert scene.undo(second).outcome is Outcome.DONE
    assert scene.undo(first, "dt=1").outcome is Outcome.DONE
    assert [len(scene.objects(each)) for each in (ONE, TWO)] == [3, 2]


def test_a_part_of_a_later_merge_is_enough(scene: Undoable) -> None:
    first = merge(scene, ONE, TWO)
    scene.commit(TPS[0], ["dt=1", "dt=2"])
    second = merge(scene, ONE, TWO)

    refused = scene.undo(first, "dt=1")
    done = scene.undo_all(first, "dt=1")

    assert f"(`landfall undo {second} --output-partition 'dt=1'`)" in refused.message
    assert len(done) == 2
    assert [len(scene.objects(each)) for each in (ONE, TWO)] == [3, 1]


def test_output_partitions_may_be_patterns_and_must_be_of_the_merge(scene: Undoable) -> None:
    slot = merge(scene, ONE, TWO)

    unknown = scene.undo(slot, "dt=3")
    assert unknown.outcome is Outcome.REFUSED
    assert unknown.message.endswith("nothing in these output partitions, but in dt=1 and 1 more")
    assert scene.undo(slot, "dt=*").records == ("REPLACE: 4 objects back, instead of 2 objects",)


def test_a_backfill_is_undone_as_a_whole(scene: Undoable) -> None:
    slot = scene.backfill({TPS[0]: OffsetRange(0, 2)}, ["dt=2", "dt=1"])

    refused = scene.undo(slot, "dt=1")

    assert (refused.outcome, "undo it as a whole" in refused.message) == (Outcome.REFUSED, True)


def test_a_backfill_of_merged_objects_and_the_merge_come_back(scene: Undoable) -> None:
    before, merged = scene.rows, merge(scene, ONE, TWO, leaves_out=1)
    scene.commit(TPS[0], ["dt=1"])
    late = scene.rows
    backfilled = scene.backfill({TPS[0]: OffsetRange(0, 1)}, ["dt=3", "dt=3"])
    again = scene.merge(scene.objects("clicks/dt=3"))

    done = scene.undo_all(merged)

    assert len(done) == 3
    assert {merged, backfilled, again} == {each for each in scene.replaces if each not in {*done}}
    assert in_folder(scene.rows, TWO) == in_folder(before, TWO)
    assert sum(scene.rows.values()) == sum(late.values()) + 1


def test_a_change_elsewhere_with_nothing_landed_after_it_is_no_obstacle(scene: Undoable) -> None:
    tp, other = TPS
    scene.sample.drop(tp).open(2).add(tp)
    scene.at[tp], scene.generation = 0, 2
    scene.commit(tp, ["dt=1"])
    slot = scene.backfill({tp: OffsetRange(0, 1)}, ["dt=3", "dt=3"])
    scene.sample.drop(other)

    assert scene.sample.state.applied_through < scene.sample.state.changed_seq
    assert scene.undo(slot).outcome is Outcome.DONE


def test_what_was_undone_by_software_of_before_counts_as_undone(
    scene: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = merge(scene, ONE)
    record = scene._record
    monkeypatch.setattr(scene, "_record", lambda plan, decision: record(_of_before(plan), decision))
    assert scene.undo(first).outcome is Outcome.DONE
    monkeypatch.undo()

    last = scene.replaces[-1]

    assert f"(`landfall undo {last}`)" in scene.undo(first).message
    scene.undo_all(first)
    assert len(scene.objects(ONE)) == 2
