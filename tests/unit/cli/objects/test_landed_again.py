"""``verify`` and ``locate`` where a backfill has landed ranges again."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from landfall.checks.landed_again import LandedAgainNow
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.locate import look_up
from landfall.cli.objects.verify import VerifyResult, examine
from landfall.landed.locating import OffsetLocation
from landfall.ledger import Decision, Replay
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import ReplayedSlice
from landfall.pipeline.records import Records, filled
from tests.support.ledger.sample_backfill import Again, UndoneBackfill
from tests.support.ledger.sample_replacing import Merge
from tests.unit.cli.conftest import TP, Landed
from tests.unit.cli.objects.test_fsck_backfill import Scene

LETTERS = Again(TP, 0, 12, filtered=[3, 4], directory="dt=2026-11-22")
REST = Again(TP, 12, 20, filtered=[15])


@pytest.fixture(params=["Json", "SequenceFile"])
def scene(landed: Callable[[str], Landed], request: pytest.FixtureRequest) -> Scene:
    return Scene(landed(request.param))


class Log:
    """Kafka with all records."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        offsets = range(slice_.offsets.start, slice_.offsets.end)
        yield filled(TP, [*offsets], [b'{"o":%d}' % o for o in offsets])

    def close(self) -> None:
        """Do nothing."""


def verified(scene: Scene) -> VerifyResult:
    return examine(GroupStore.of(scene.file), reader=Log())


def counted(scene: Scene) -> tuple[int, int, int]:
    result = verified(scene)
    assert (result.is_whole, result.faults, result.comparison.slices_replaced) == (True, [], 0)  # type: ignore[union-attr]  # Kafka is compared
    return result.total.expected, result.total.found, result.total.objects


def done(scene: Scene, merge: Merge) -> None:
    merge.record()
    scene.apply(merge)


def test_what_a_backfill_landed_again_is_verified_as_if_it_were_a_commit(scene: Scene) -> None:
    made = scene.backfill(Again(TP, 0, 12), Again(TP, 12, 20))
    done(scene, made)
    assert counted(scene) == (30, 30, 3)

    merge = Merge.of(scene.sample, [(made.slot, made.listed.objects[1].landed)])
    done(scene, merge)

    result = verified(scene)
    assert (result.is_whole, result.total.expected, result.total.found) == (True, 30, 30)
    assert result.comparison is not None
    assert result.comparison.slices_replaced == 1


def test_what_is_undone_is_verified_as_it_was(scene: Scene) -> None:
    made = scene.backfill(LETTERS, REST)
    done(scene, made)
    result = verified(scene)
    assert (result.total.expected, result.total.found) == (27, 27)

    undo = UndoneBackfill(made)
    done(scene, undo)
    result = verified(scene)
    assert (result.is_whole, result.total.expected, result.total.objects) == (True, 30, 3)

    done(scene, UndoneBackfill(undo))
    result = verified(scene)
    assert (result.total.expected, result.total.objects) == (27, 3)


def test_an_object_that_should_have_retired_is_named(scene: Scene) -> None:
    made = scene.backfill(Again(TP, 0, 20))
    stays = made.retire[1].landed.upload.key
    made.listed = replace(made.listed, retire=made.retire[:1])
    done(scene, made)

    result = verified(scene)

    assert result.faults == [
        f"{stays}: its rows were landed again in slot {made.slot}, and it stays"
    ]


def located(scene: Scene, offset: int) -> OffsetLocation:
    return look_up(GroupStore.of(scene.file), TP, offset)


def test_an_offset_is_found_where_it_was_landed_again(scene: Scene) -> None:
    made = scene.backfill(LETTERS, REST)
    done(scene, made)

    found = located(scene, 14)
    gone = located(scene, 3)

    assert (found.fate in {"landed", "possibly-landed"}, found.slot) == (True, made.slot)
    assert made.listed.objects[0].landed.upload.key in found.objects[0].url
    if scene.landed.sample.extension == ".seq":
        assert gone.fate == "no-record"
        assert "a transform filtered 2 records, and 0 offsets had no visible" in gone.message
    else:
        assert gone.fate == "possibly-landed"

    done(scene, UndoneBackfill(made))
    assert located(scene, 3).fate == "landed"


def test_another_life_of_a_topic_partition_is_not_landed_again() -> None:
    now = LandedAgainNow("shop")

    assert now.replaced_by(3, Slice(TP, OffsetRange(0, 10))) is None
    assert list(now.slices) == []


def test_dead_letters_of_a_backfill_are_located_and_what_a_replay_made_of_them(
    scene: Scene,
) -> None:
    made = scene.backfill(Again(TP, 0, 20, bad=[3, 4]))
    done(scene, made)
    assert located(scene, 3).fate == "dead-lettered"

    letters = made.listed.objects[0].landed
    sample = scene.sample.open(generation=3)
    name = object_names.ObjectName("clicks", "dt=2026-11-21", 3, 0, 0, sample.extension)
    again = sample.upload(name.key, [3, 4])
    piece = Slice(TP, OffsetRange(0, 5))
    replayed = ReplayedSlice(letters.upload.key, piece, letters.rows, (again,), 2, 0, 0)
    decision = Decision("replay", "kim", "mended", "t")
    sample.append(
        lambda h: Replay(header=h, token=again.upload.token, slices=(replayed,), decision=decision)
    )
    sample.store.complete(again.upload)
    sample.shown()

    found = located(scene, 3)
    assert (found.fate, [each.url.rpartition("/")[2] for each in found.objects]) == (
        "landed",
        [name.key.rpartition("/")[2]],
    )
