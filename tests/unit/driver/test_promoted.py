"""A driver that records the REPLACE of a backfill: it is undone, and that again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from landfall.api.verbs import Outcome
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.lane import Lane
from landfall.lane.writing import LaneWriter, OpenRequest
from landfall.ledger import Add, Drop, Entry, Purpose, Replace, Yield, decode
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import LandedAgain, MadeBy, ReplacementList, Section
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import ticking
from tests.support.ledger.merged import MergesOnce, current, merged
from tests.unit.driver.test_replacements import Scene, asked, merge_again, slot_of

TP = TopicPartition("a", 0)


class LandsAgain(MergesOnce):
    """Lands all again that is landed, once it may."""

    def take(self) -> PlannedReplacement | None:
        if not self.may:
            return None
        self.may = False
        state, found = current(self.lane)
        by, token = state.applied_through, f"again-{state.applied_through}"
        new = merged(self.store, token, by, found.values())
        landed = new.landed
        section = Section(0, landed.rows, landed.first_offset, landed.last_offset)
        piece = Slice(TP, OffsetRange(0, state.checkpoint[TP]))
        retire = sorted((each for each, _ in found.values()), key=lambda e: e.landed.upload.key)
        listed = ReplacementList(
            tuple(retire),
            (replace(new, sections=(section,)),),
            (LandedAgain(piece, landed.rows, 0, 0, 0, 9),),
            MadeBy(1, ""),
        )
        folders = tuple(sorted(listed.folders))
        return PlannedReplacement(token, Purpose.BACKFILL, listed, by, folders, (piece,))


class Promoted(Scene):
    """A driver that has landed several objects, and lands them again once it may."""

    def start(self, revision: str) -> DriverThread:
        def planner(lane: Lane, _: Callable[[], object]) -> LandsAgain:
            self.planners.append(LandsAgain(self.store, lane))
            return self.planners[-1]  # type: ignore[return-value]  # one was appended

        return DriverThread(self.store, self.log, revision, new_planner=planner).start()

    def record(self, slot: int) -> Replace:
        body = self.lane.read_slot(self.state(), slot)
        assert body is not None
        record = decode(slot, body)
        assert isinstance(record, Replace)
        return record

    def slices(self) -> list[tuple[int, int]]:
        """The slots of the slices that are landed now, and how long each is."""
        landed = read_landed(self.lane).present(TP)
        return [(each.slot, len(each.piece.offsets)) for each in landed]


@pytest.fixture
def scene() -> Promoted:
    return Promoted(MemoryStore())


def test_a_backfill_is_undone_and_that_again(scene: Promoted) -> None:
    driver = scene.landed()
    before = scene.slices()
    slot = scene.merge()
    (again,) = scene.slices()
    assert again == (slot, 25)

    undone = driver.contender.decide(asked(slot))
    scene.until_done()

    assert undone.outcome is Outcome.DONE
    second = int(undone.message.rpartition(" ")[2])
    record = scene.record(second)
    assert (record.undoes, record.purpose) == (slot, Purpose.UNDO)
    assert record.slices == scene.record(slot).slices
    assert scene.slices() == before
    assert scene.is_whole()

    driver.contender.decide(asked(second))
    scene.until_done()

    assert scene.slices() == [again]
    assert scene.is_whole()
    driver.stop()


def test_without_a_driver_a_backfill_is_undone_also_when_the_last_record_is_a_change(
    scene: Promoted,
) -> None:
    formerly = opened(scene, generation=0)
    formerly.append(lambda h: Add(header=h, entries=(Entry(TP, "id", 0),)))
    formerly.append(lambda h: Drop(header=h, topic_partitions=(TP,), reason="recreated"))
    formerly.append(lambda h: Yield(header=h, reason="test"))
    driver = scene.landed()
    before, slot = scene.slices(), scene.merge()
    driver.stop()
    other = Entry(TopicPartition("b", 0), "id", 0)
    opened(scene).append(lambda h: Add(header=h, entries=(other,)))
    assert scene.state().applied_through < scene.state().changed_seq

    undone = scene.session().carry_out(asked(slot), take_over=True)

    assert undone.outcome is Outcome.DONE, undone
    last = scene.start("r3")
    scene.until_done()
    assert scene.slices() == before
    last.stop()


def opened(scene: Promoted, generation: int = 1) -> LaneWriter:
    """Open the lane for records that a driver would append."""
    request = OpenRequest(f"w{generation}", generation, "test")
    return LaneWriter.open(scene.lane, request, ticking())


def test_a_plan_that_does_not_know_another_backfill_is_not_recorded(scene: Promoted) -> None:
    driver = scene.landed()
    stale = LandsAgain(scene.store, scene.lane, may=True).take()
    assert stale is not None
    elsewhere = replace(stale, folders=("a/elsewhere",))
    state = scene.state()
    assert elsewhere.why_not(state, state.applied_through) == ""
    slot = scene.merge()
    state = scene.state()

    assert f"was landed again in slot {slot}" in elsewhere.why_not(state, state.applied_through)
    driver.stop()


def test_a_backfill_is_undone_after_a_merge_and_again_after_it_was_done_again(
    scene: Promoted,
) -> None:
    driver = scene.landed()
    before, slot = scene.slices(), scene.merge()
    planner = scene.planners[-1]
    planner.take = lambda: MergesOnce.take(planner)  # type: ignore[method-assign]
    merged_in = merge_again(scene, driver)
    late = scene.slices()[1:]

    refused = driver.contender.decide(asked(slot))
    back = slot_of(driver.contender.decide(asked(merged_in)))
    scene.until_done()
    first = slot_of(driver.contender.decide(asked(slot)))
    scene.until_done()

    assert f"`landfall undo {merged_in}`" in refused.message
    assert scene.record(back).unmerges == merged_in
    assert scene.slices() == [*before, *late]
    again = slot_of(driver.contender.decide(asked(first)))
    scene.until_done()
    assert scene.slices()[0] == (slot, 25)
    second = slot_of(driver.contender.decide(asked(slot)))
    scene.until_done()
    assert scene.record(second).undoes == again
    assert scene.slices() == [*before, *late]
    assert scene.is_whole()
    driver.stop()
