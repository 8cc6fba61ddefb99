"""``landfall fsck`` with ranges that a backfill landed again."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from landfall.checks import Invariant
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import FsckReport, examine
from landfall.ledger import Purpose
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.replace.replacement_lists import MadeBy
from tests.support.ledger.sample_backfill import Again, Backfill, UndoneBackfill
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.ledger.sample_replacing import Merge
from tests.unit.cli.conftest import TP, Landed

BODY = b"{}"
SPEC = hashlib.sha256(BODY).hexdigest()
AGAIN = (Again(TP, 0, 12, bad=[3], directory="dt=2026-11-22"), Again(TP, 12, 20, filtered=[15]))


class Scene:
    """Three objects, of offsets 0 to 10, 10 to 20 and 20 to 30, visible and known to be so."""

    def __init__(self, landed: Landed) -> None:
        self.landed, self.sample = landed, landed.sample
        self.sample.store.create(object_names.spec_key(GROUP, LANE, SPEC), BODY)
        self.objects = [(2, landed.first.objects[0])]
        for start in (10, 20):
            made = self.sample.land(TP, start, start + 10)
            self.sample.commit(made)
            self.objects.append((self.sample.state.seq, made.objects[0]))
        self.sample.shown()

    def backfill(self, *again: Again) -> Backfill:
        """A backfill of the first two objects."""
        return Backfill(self.sample, self.objects[:2], *(again or AGAIN), generation=2, spec=SPEC)

    def apply(self, merge: Merge) -> None:
        """Do all that a REPLACE says which is recorded."""
        merge.complete().keep_copies()
        for each in merge.listed.retire:
            (self.landed.root / each.landed.upload.key).unlink()
        self.sample.shown()

    @property
    def file(self) -> Path:
        """The group file."""
        return Path(self.landed.file)

    def report(self) -> FsckReport:
        return examine(GroupStore.of(self.file), deep=True)

    def broken(self) -> list[tuple[Invariant, str]]:
        return [(finding.invariant, str(finding)) for finding in self.report().findings]


@pytest.fixture
def scene(landed: Callable[[str], Landed]) -> Scene:
    return Scene(landed("Json"))


def test_a_backfill_and_its_undoing_are_sound_at_every_step(scene: Scene) -> None:
    backfill = scene.backfill()
    assert scene.broken() == []
    backfill.record()
    assert scene.broken() == []
    backfill.complete()
    assert scene.broken() == []
    scene.apply(backfill)
    assert scene.broken() == []

    undone = UndoneBackfill(backfill)
    undone.record()
    assert scene.broken() == []
    scene.apply(undone)
    assert scene.broken() == []
    again = UndoneBackfill(undone)
    again.record()
    scene.apply(again)

    report = scene.report()
    assert (report.findings, report.specs) == ([], {SPEC: backfill.slot})


def test_an_object_whose_rows_were_landed_again_must_retire(scene: Scene) -> None:
    backfill = scene.backfill()
    stays = backfill.retire[1]
    backfill.listed = replace(backfill.listed, retire=backfill.retire[:1])
    backfill.record()
    scene.apply(backfill)

    ((invariant, text),) = scene.broken()

    assert invariant is Invariant.I13
    assert f"retires by slot {backfill.slot}" in text
    assert stays.landed.upload.key in text


def test_what_retires_stays_until_its_grace_period_is_over(scene: Scene) -> None:
    backfill = scene.backfill()
    backfill.record(retires_later=True)
    backfill.complete()
    scene.sample.shown()

    assert [*scene.sample.state.retiring] == [backfill.slot]
    assert scene.broken() == []


def test_only_what_was_landed_again_retires(scene: Scene) -> None:
    backfill = Backfill(scene.sample, scene.objects, *AGAIN, generation=2, spec=SPEC)
    backfill.record()

    ((invariant, text),) = scene.broken()

    assert invariant is Invariant.I13
    assert "expected only rows that were landed again, got offsets 20 to 29" in text


def test_ranges_have_no_gap(scene: Scene) -> None:
    backfill = scene.backfill(Again(TP, 0, 10), Again(TP, 11, 20))
    backfill.record()

    ((invariant, text),) = scene.broken()

    assert invariant is Invariant.I13
    assert "without a gap" in text


def test_the_record_names_the_ranges(scene: Scene) -> None:
    backfill = scene.backfill()
    backfill.record(slices=(Slice(TP, OffsetRange(0, 30)),))

    (text,) = (text for _, text in scene.broken() if "without a gap" in text)

    assert "clicks/0" in text


def test_a_merge_lands_nothing_again(scene: Scene) -> None:
    backfill = scene.backfill()
    backfill.record(purpose=Purpose.UNDO)

    assert "got 2 of them, for Undo" in scene.broken()[0][1]


def test_schemas_and_specs_that_a_backfill_names_are_stored(scene: Scene) -> None:
    backfill = scene.backfill()
    schema = "c" * 64
    first, second = backfill.listed.landed_again
    backfill.listed = replace(
        backfill.listed,
        landed_again=(replace(first, schemas=(schema,)), second),
        made_by=MadeBy(2, "d" * 64),
    )
    backfill.record()

    assert [(invariant, "missing" in text) for invariant, text in scene.broken()] == [
        (Invariant.I9, True),
        (Invariant.I10, True),
    ]
