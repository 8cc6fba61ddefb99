"""``landfall fsck`` with objects that take the place of others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from landfall.checks import Invariant
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import FsckReport, examine
from landfall.ledger import Retired
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedObject
from tests.support.ledger.sample_replacing import Cut, Merge
from tests.unit.cli.conftest import TP, Landed


class Scene:
    """Two objects, visible and known to be so."""

    def __init__(self, landed: Landed) -> None:
        self.landed = landed
        second = landed.sample.land(TP, 10, 20)
        landed.sample.commit(second).shown()
        self.objects = [(2, landed.first.objects[0]), (3, second.objects[0])]

    def merge(self) -> Merge:
        return Merge.of(self.landed.sample, self.objects)

    def path(self, landed: LandedObject) -> Path:
        return self.landed.root / landed.upload.key

    def delete_old(self) -> None:
        for _, landed in self.objects:
            self.path(landed).unlink()

    def report(self) -> FsckReport:
        return examine(GroupStore.of(Path(self.landed.file)), deep=True)

    def broken(self) -> list[tuple[Invariant, str]]:
        return [(finding.invariant, str(finding)) for finding in self.report().findings]


@pytest.fixture
def scene(landed: Callable[[str], Landed]) -> Scene:
    return Scene(landed("Json"))


def test_a_merge_is_sound_at_every_step(scene: Scene) -> None:
    merge = scene.merge()
    assert scene.broken() == []

    merge.record()
    assert scene.broken() == []
    merge.complete()
    assert scene.broken() == []
    scene.path(scene.objects[0][1]).unlink()
    assert scene.broken() == []
    scene.path(scene.objects[1][1]).unlink()
    assert scene.broken() == []
    merge.sample.shown()

    report = scene.report()

    assert report.findings == []
    assert (report.named, report.visible, report.chain.replaces) == (1, 1, 1)


def test_a_merged_object_that_is_cut_is_sound(scene: Scene) -> None:
    merge = scene.merge().record().complete()
    scene.delete_old()
    scene.landed.sample.shown()
    cut = Cut(merge, Slice(TP, OffsetRange(10, 20))).record()
    assert scene.broken() == []

    cut.complete()
    scene.path(merge.new.landed).unlink()
    scene.landed.sample.shown()
    assert scene.broken() == []

    one, two = (new.landed for new in cut.listed.objects)
    assert (one.rows, two.rows) == (10, 10)
    scene.path(two).unlink()
    assert [invariant for invariant, _ in scene.broken()] == [Invariant.I6]


def test_an_object_that_should_have_retired_is_found(scene: Scene) -> None:
    scene.merge().record().complete()
    scene.path(scene.objects[0][1]).unlink()
    scene.landed.sample.shown()

    ((invariant, text),) = scene.broken()

    assert invariant is Invariant.I3
    assert scene.objects[1][1].upload.key in text


def test_what_retires_later_may_be_there_or_gone_until_retired(scene: Scene) -> None:
    merge = scene.merge().record(retires_later=True).complete()
    merge.sample.shown()
    assert scene.broken() == []

    scene.path(scene.objects[0][1]).unlink()
    assert scene.broken() == []

    merge.sample.append(lambda h: Retired(header=h, slots=(merge.slot,)))
    ((invariant, text),) = scene.broken()
    assert invariant is Invariant.I3
    assert scene.objects[1][1].upload.key in text


def test_what_is_decided_again_is_one_replacement(scene: Scene) -> None:
    merge = scene.merge().record(retires_later=True)
    first = merge.slot
    assert scene.broken() == []

    merge.record(retires_later=True, instead=first, again=True)

    assert scene.broken() == []
    merge.complete()
    merge.sample.shown()
    assert scene.broken() == []
    scene.delete_old()
    merge.sample.append(lambda h: Retired(header=h, slots=(merge.slot,)))
    assert scene.broken() == []
    scene.path(merge.new.landed).unlink()
    assert [invariant for invariant, _ in scene.broken()] == [Invariant.I6]


def test_what_is_decided_again_concerns_the_folders_of_its_list(scene: Scene) -> None:
    merge = scene.merge().record(retires_later=True)
    folders = (*merge._folders(), "z/other")

    merge.record(retires_later=True, instead=merge.slot, again=True, folders=folders)

    ((invariant, text),) = scene.broken()
    assert (invariant, "z/other" in text) == (Invariant.I13, True)


def test_what_is_given_up_leaves_the_old_objects(scene: Scene) -> None:
    merge = scene.merge().record(retires_later=True)
    new = merge.new.landed

    slot = merge.give_up()
    merge.sample.shown()

    assert scene.broken() == []
    merge.sample.store.complete(new.upload)
    assert scene.broken() == []
    merge.sample.append(lambda h: Retired(header=h, slots=(slot,)))
    assert new.upload.key in str(scene.broken())
    scene.path(new).unlink()
    assert scene.broken() == []
    scene.path(scene.objects[0][1]).unlink()
    assert [invariant for invariant, _ in scene.broken()] == [Invariant.I6]


def test_the_new_objects_of_what_retires_later_must_be_there(scene: Scene) -> None:
    merge = scene.merge().record(retires_later=True).complete()
    merge.sample.shown()
    scene.path(merge.new.landed).unlink()

    assert [invariant for invariant, _ in scene.broken()] == [Invariant.I6]


def test_a_new_object_that_is_missing_is_found(scene: Scene) -> None:
    merge = scene.merge().record()
    scene.delete_old()
    scene.landed.sample.shown()

    ((invariant, text),) = scene.broken()

    assert invariant is Invariant.I6
    assert merge.new.landed.upload.key in text


def test_what_was_not_known_to_be_visible_may_not_retire(scene: Scene) -> None:
    sample = scene.landed.sample
    third = sample.land(TP, 20, 30)
    sample.commit(third, complete=False)
    merge = scene.merge()
    late = replace(merge.listed.retire[0], slot=sample.state.seq + 1)
    merge.listed = replace(merge.listed, retire=(late, *merge.listed.retire[1:]))

    merge.record()

    (found,) = (text for invariant, text in scene.broken() if invariant is Invariant.I13)
    assert late.landed.upload.key in found
    assert "expected an object visible by slot 3, got one of slot 6" in found


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_list_is_stored_as_the_ledger_names_it(scene: Scene, damage: str) -> None:
    merge = scene.merge().record()
    path = scene.landed.root / merge.stored().key
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"other")

    ((invariant, text),) = scene.broken()

    assert invariant is Invariant.I13
    assert ("which is not there" if damage == "gone" else "not the list") in text


def test_an_object_retires_once(scene: Scene) -> None:
    first = scene.merge().record().complete()
    first.sample.shown()
    Merge(first.sample, first.retire, first.sample.state.applied_through).record()

    found = [text for invariant, text in scene.broken() if invariant is Invariant.I13]

    assert len(found) == 2
    assert "an object that may retire" in found[0]


def test_another_merge_takes_the_place_of_one_whose_upload_is_lost(scene: Scene) -> None:
    first = scene.merge().record()
    lost = first.new.landed.upload
    first.sample.store.abort(lost.key, lost.upload_id)

    second = Merge(first.sample, first.retire, first.slot)
    second.record(instead=first.slot)
    assert scene.broken() == []
    second.complete()
    scene.delete_old()
    assert scene.broken() == []
    second.sample.shown()

    assert scene.broken() == []


def test_what_was_given_up_is_not_visible(scene: Scene) -> None:
    first = scene.merge().record()
    second = Merge(first.sample, first.retire, first.slot)
    second.record(instead=first.slot).complete()
    scene.delete_old()
    first.complete()
    assert scene.broken() == []
    first.sample.shown()

    ((invariant, text),) = scene.broken()

    assert invariant is Invariant.I3
    assert first.new.landed.upload.key in text


@pytest.mark.parametrize(
    ("fields", "expected", "message"),
    [
        ({"token": "other"}, Invariant.I3, "expected token other, got merge-3"),
        ({"read_through": 2}, Invariant.I4, "expected a name with slot 2"),
        ({"folders": ("clicks/dt=1",)}, Invariant.I13, "other ones, such as clicks/dt=1"),
    ],
)
def test_the_record_agrees_with_its_list(
    scene: Scene, fields: dict[str, object], expected: Invariant, message: str
) -> None:
    scene.merge().record(**fields)

    ((invariant, text),) = scene.broken()

    assert invariant is expected
    assert message in text
