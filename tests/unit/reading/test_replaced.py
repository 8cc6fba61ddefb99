"""A scan of a slot has the rows of that slot, also where others took the place of objects."""

import json
from pathlib import Path
from typing import Any

import pytest

import landfall
from landfall.errors import LandfallError, Reason, Stalled
from landfall.ledger.names import object_names
from landfall.ledger.task_results import DecidedObject
from landfall.reading import LandedGroup, manifests, objects
from tests.support.ledger.carried_out import WholeMerge
from tests.support.ledger.readable import CLICKS, Readable, Row
from tests.support.ledger.sample_ledger import GROUP, LANE

HOUR = "dt=2026-11-21/hr=04"


def rows(first: int, end: int) -> list[Row]:
    return [{"id": i} for i in range(first, end)]


def ids(scan: Any) -> list[int]:
    return [json.loads(value)["id"] for value in scan.to_arrow()["value"].to_pylist()]


class Scene:
    """Three objects of an hour, of which the first two are merged."""

    def __init__(self, root: Path) -> None:
        self.landed = Readable(root, format="Json")
        self.landed.ledger.extension = ".json.gz"
        for start in (0, 10, 20):
            self.landed.land(CLICKS, (HOUR, rows(start, start + 10)))
        self.before = self.landed.settle()
        found = {o.upload.key: o for o in self.decided()}
        self.old = [found[key] for key in sorted(found)[:2]]
        retire = tuple(DecidedObject(2 + i, o) for i, o in enumerate(self.old))
        self.merge = WholeMerge(
            self.landed.ledger, retire, self.landed.ledger.state.applied_through
        )
        self.merge.record().complete()
        self.pending = self.landed.ledger.state.seq

    def decided(self) -> list[Any]:
        lane = LandedGroup(self.landed.store, self.landed.group.spec.output, (GROUP, LANE))
        (stretch,) = lane._follower.stretches(-1)
        return [each.landed for each in stretch.objects]

    def retire(self, *, is_kept: bool = True) -> int:
        self.merge.retired(is_kept=is_kept)
        return self.landed.ledger.state.seq

    def open(self) -> LandedGroup:
        return landfall.open(self.landed.url)

    def copies(self) -> list[str]:
        return [object_names.retired_key(GROUP, LANE, self.pending, o.upload.key) for o in self.old]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_slot_has_the_old_objects_before_and_the_new_ones_afterwards(scene: Scene) -> None:
    goes_on, new = scene.open(), scene.merge.new.landed.upload.key
    assert sorted(ids(goes_on.scan("clicks"))) == [*range(30)]
    applied = scene.retire()

    for opened in (goes_on, scene.open()):
        now, then = opened.scan("clicks"), opened.scan("clicks", slot=scene.pending)

        assert sorted(ids(now)) == sorted(ids(then)) == [*range(30)]
        assert [file.key for file in now.files()][1:] == [new]
        assert [file.slot for file in now.files()] == [scene.before, applied]
        assert len(then.files()) == 3
        assert then.urls()[:2] == [f"{scene.landed.url}/{key}" for key in scene.copies()]
        assert now.rows == then.rows == 30


@pytest.mark.parametrize("small", [0, objects.SMALL_BYTES])
def test_a_scan_that_was_made_before_reads_on_in_the_copies(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(objects, "SMALL_BYTES", small)
    scan = scene.open().scan("clicks")
    scene.landed.land(CLICKS, (HOUR, rows(30, 40))).settle()
    scene.retire()
    # Another REPLACE has copies, too.
    other = object_names.retired_key(GROUP, LANE, scene.pending + 7, "clicks/x")
    scene.landed.store.create(other, b"")

    assert ids(scan) == [*range(30)]


def test_copies_expire_and_the_error_says_so(scene: Scene) -> None:
    scan = scene.open().scan("clicks")
    applied = scene.retire(is_kept=False)
    opened = scene.open()

    for gone, why in (
        (scan, "there is no copy of it from a REPLACE"),
        (opened.scan("clicks", slot=scene.pending), "another object has replaced it, and its copy"),
    ):
        with pytest.raises(LandfallError, match=why) as caught:
            gone.to_arrow()
        assert isinstance(caught.value, Stalled)
        assert caught.value.reason is Reason.OBJECT_LOST
    assert sorted(ids(opened.scan("clicks", slot=applied))) == [*range(30)]


def test_who_reads_what_is_new_gets_each_row_once(scene: Scene) -> None:
    applied = scene.retire()
    scene.landed.land(CLICKS, (HOUR, rows(30, 40)))
    last = scene.landed.settle()
    opened = scene.open()

    for slot in (scene.before, scene.pending, applied):
        whole, new = opened.scan("clicks", slot=slot), opened.scan("clicks", after=slot)
        assert sorted(ids(whole)) == [*range(30)]
        assert ids(new) == [*range(30, 40)]
    assert ids(opened.scan("clicks", after=0, slot=last)) == [*range(40)]


@pytest.mark.parametrize("most", [1, 100])
def test_who_follows_gets_each_row_once_wherever_it_begins(scene: Scene, most: int) -> None:
    applied = scene.retire()
    scene.landed.land(CLICKS, (HOUR, rows(30, 40)))
    last = scene.landed.settle()

    for after, expected in ((-1, 0), (scene.before, 30), (scene.pending, 30), (applied, 30)):
        followed = scene.open()
        found = [*followed.follow("clicks", after, most)]
        files = tuple(file for _, some in found for file in some)
        assert ids(followed.scan_of("clicks", files, last)) == [*range(expected, 40)]
        assert found[-1][0] == last


def test_manifests_have_what_is_there_at_their_slot(scene: Scene) -> None:
    opened = scene.open()
    before = [*manifests.symlinks(opened.scan("clicks")).values()]
    scene.retire()

    (after,) = manifests.symlinks(opened.scan("clicks")).values()

    assert [len(body.splitlines()) for body in before] == [3]
    new = scene.merge.new.landed.upload.key
    assert after.decode().splitlines()[1:] == [f"{scene.landed.url}/{new}"]
    described = manifests.described(opened.scan("clicks"))
    assert (described["rows"], len(described["files"])) == (30, 2)  # type: ignore[arg-type]
