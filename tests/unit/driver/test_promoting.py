"""What a backfill has landed takes the place of live objects, comes back, and takes it again."""

from datetime import timedelta
from typing import Any

import pytest

from landfall.api.verbs import Answer, Outcome, PromoteRequest, UndoRequest
from landfall.driver.backfill.landed_ledger import read_landed
from landfall.driver.backfill.side_lane import DISCARDED, read_plan, side_group
from landfall.driver.core.planned_replacement import NoPlanner
from landfall.errors import Reason, Stalled
from landfall.ledger import Purpose, Replace, decode
from landfall.store.memory import CallFault, Operation, Scripted
from landfall.task.merging import MergeResult, NotMerged
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import FakeRunner, landed_offsets, written_offsets
from tests.support.driver.side_landing import NAME, BackfillScene

BY: dict[str, Any] = {"who": "kim", "why": "INC-12"}


@pytest.fixture
def scene() -> BackfillScene:
    return BackfillScene()


def asked(**fields: Any) -> PromoteRequest:
    return PromoteRequest(**{**BY, "name": NAME, **fields})


def slot_of(answer: Answer) -> int:
    """The slot in which something was recorded."""
    assert answer.outcome is Outcome.DONE, answer
    return int(answer.message.partition("slot ")[2].partition(";")[0])


def is_whole(scene: BackfillScene) -> bool:
    return landed_offsets(scene.store) == written_offsets(scene.log)


def replaces(scene: BackfillScene) -> list[Replace]:
    records = (decode(seq, body) for seq, body in scene.lane.bodies())
    return [record for record in records if isinstance(record, Replace)]


def until_ready(scene: BackfillScene) -> DriverThread:
    """A driver of generation 2, once it has the lane."""
    driver = scene.start()
    driver.until_landed()
    return driver


def merged_across(slices: int = 1) -> BackfillScene:
    """All is in one merged object, and some slices of it are landed again."""
    return BackfillScene(slices=slices).merge().land()


@pytest.mark.parametrize("where", ["a driver", "no driver"])
def test_a_merged_object_is_cut_before_some_of_its_rows_are_replaced(where: str) -> None:
    scene = merged_across()
    (before,) = scene.objects()

    if where == "a driver":
        driver = until_ready(scene)
        answer = driver.contender.decide(asked())
    else:
        answer = scene.session().carry_out(asked(), take_over=False)
        driver = scene.start()
    scene.until_done()

    merge, cut, promoted = replaces(scene)
    assert [each.purpose for each in (merge, cut)] == [Purpose.COMPACT] * 2
    assert (cut.listed.retired, cut.listed.objects, cut.decision) == (1, 2, None)
    assert cut.listed.rows == cut.listed.retired_rows == 25
    assert promoted.header.seq == slot_of(answer)
    rows = promoted.listed.retired_rows
    assert 0 < rows < 25
    assert answer.records[0].startswith(f"REPLACE in slot {cut.header.seq}: 1 merged object with")
    assert answer.records[1].endswith(f"{rows} rows, instead of {rows}")
    assert scene.generations() == {1, 2}
    assert before not in scene.objects()
    assert is_whole(scene)
    driver.stop()


def test_a_promotion_after_a_cut_is_undone_and_then_the_cut() -> None:
    scene = merged_across()
    driver = until_ready(scene)
    slot = slot_of(driver.contender.decide(asked()))
    scene.until_done()

    for each in (slot, replaces(scene)[1].header.seq):
        slot_of(driver.contender.decide(UndoRequest(**BY, slot=each)))
        scene.until_done()
        assert is_whole(scene)

    assert scene.generations() == {1}
    assert len(scene.objects()) == 1
    driver.stop()


def test_a_dry_run_says_what_is_cut_and_cuts_nothing() -> None:
    scene = merged_across()
    driver = until_ready(scene)

    answer = driver.contender.decide(asked(dry_run=True))

    assert answer.outcome is Outcome.DRY_RUN
    assert answer.records[0].endswith("; 1 merged object with rows of other ranges cut first")
    assert len(replaces(scene)) == 1
    driver.stop()


def test_what_cannot_be_cut_is_said_and_nothing_is_recorded() -> None:
    class Damaged(FakeRunner):
        def merge(self, shares: object) -> list[MergeResult]:  # noqa: ARG002  # of the protocol
            return [NotMerged("a", Stalled(Reason.OBJECT_LOST, "all: damaged"))]

    scene = merged_across()
    runner = Damaged(scene.store)
    driver = DriverThread(scene.store, scene.log, "r2", scene.group, runner).start()
    driver.until_landed()

    answer = driver.contender.decide(asked())

    assert (answer.outcome, "all: damaged" in answer.message) == (Outcome.REFUSED, True)
    assert len(replaces(scene)) == 1
    driver.stop()


@pytest.mark.parametrize("where", ["a driver", "no driver"])
def test_a_backfill_takes_the_place_of_what_was_live(scene: BackfillScene, where: str) -> None:
    scene.land()
    before = scene.objects()

    if where == "a driver":
        driver = until_ready(scene)
        answer = driver.contender.decide(asked())
    else:
        answer = scene.session().carry_out(asked(), take_over=False)
        driver = scene.start()
    scene.until_done()

    assert scene.generations() == {2}
    assert is_whole(scene)
    assert len(scene.kept()) == len(before)
    (record,) = replaces(scene)
    assert answer.records[0].startswith(f"REPLACE: {record.listed.objects} object")
    assert answer.records[0].endswith("25 rows, instead of 25")
    assert (record.header.seq, record.purpose) == (slot_of(answer), Purpose.BACKFILL)
    assert (record.backfill, record.undoes) == (NAME, -1)
    assert record.decision is not None
    assert (record.decision.verb, record.decision.who) == ("promote", "kim")
    driver.stop()


def test_nothing_is_merged_in_the_folders_of_a_promotion_while_it_copies(
    scene: BackfillScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[tuple[frozenset[str], int]]()

    def reserve(_: NoPlanner, folders: frozenset[str]) -> None:
        seen.append((folders, scene.store.requests[Operation.PUT_COPY]))

    monkeypatch.setattr(NoPlanner, "reserve", reserve)
    driver = until_ready(scene.land())
    folders = {key.rpartition("/")[0] for key in scene.objects()}
    copies = scene.store.requests[Operation.PUT_COPY]

    slot_of(driver.contender.decide(asked()))

    (reserved, at_first), *_, (released, at_last) = seen
    assert (reserved, at_first) == (folders, copies)
    assert (released, at_last > copies) == (frozenset(), True)
    driver.stop()


def test_a_promotion_is_undone_and_made_again(scene: BackfillScene) -> None:
    driver = until_ready(scene.land())
    first = slot_of(driver.contender.decide(asked()))
    scene.until_done()

    undone = slot_of(driver.contender.decide(UndoRequest(**BY, slot=first)))
    scene.until_done()

    assert scene.generations() == {1}
    assert is_whole(scene)
    assert read_landed(scene.lane).promotions.of(NAME) == -1
    again = slot_of(driver.contender.decide(asked()))
    scene.until_done()
    assert scene.generations() == {2}
    assert is_whole(scene)
    assert [(r.backfill, r.undoes) for r in replaces(scene)] == [
        (NAME, -1),
        ("", first),
        (NAME, -1),
    ]
    assert read_landed(scene.lane).promotions.of(NAME) == again > undone
    driver.stop()


def test_a_promotion_that_is_brought_back_by_undoing_counts_again(scene: BackfillScene) -> None:
    driver = until_ready(scene.land())
    slot = slot_of(driver.contender.decide(asked()))
    for _ in range(2):
        scene.until_done()
        slot = slot_of(driver.contender.decide(UndoRequest(**BY, slot=slot)))
    scene.until_done()

    assert scene.generations() == {2}
    assert read_landed(scene.lane).promotions.of(NAME) == slot
    driver.stop()


def test_who_asks_twice_gets_the_same_promotion(scene: BackfillScene) -> None:
    driver = until_ready(scene.land())
    slot = slot_of(driver.contender.decide(asked(id="x")))

    assert driver.contender.decide(asked(id="y")) == Answer(
        Outcome.DONE, message=f"{NAME} is promoted already, in slot {slot}"
    )
    scene.until_done()
    assert slot_of(driver.contender.decide(asked())) == slot
    assert len(replaces(scene)) == 1
    driver.stop()


def test_a_dry_run_records_and_copies_nothing(scene: BackfillScene) -> None:
    driver = until_ready(scene.land())
    seq, begun = scene.state().seq, scene.store.requests[Operation.BEGIN]

    answer = driver.contender.decide(asked(dry_run=True))

    assert answer.outcome is Outcome.DRY_RUN
    assert answer.records[0].endswith("25 rows, instead of 25")
    assert (scene.state().seq, scene.store.requests[Operation.BEGIN]) == (seq, begun)
    driver.stop()


def test_what_is_not_landed_or_not_planned_is_refused(scene: BackfillScene) -> None:
    driver = until_ready(scene)

    def refusal(**fields: Any) -> str:
        answer = driver.contender.decide(asked(**fields))
        assert answer.outcome is Outcome.REFUSED
        return answer.message

    assert refusal() == f"backfill: {NAME} is not planned"
    assert "not a name" in refusal(name="A/b")
    scene.plan()
    assert "is not landed: run it first" in refusal()
    scene.root.create(DISCARDED, b"{}")
    assert "was discarded" in refusal()
    assert replaces(scene) == []
    driver.stop()


def test_the_live_group_must_run_the_generation_that_landed_it(scene: BackfillScene) -> None:
    before = DriverThread(scene.store, scene.log, "r1").start()
    scene.land()
    before.until_landed()

    answer = before.contender.decide(asked())

    assert answer.outcome is Outcome.REFUSED
    assert "no driver of the live group has run generation 2 yet" in answer.message
    assert [*scene.store.open_uploads("")] == []
    before.stop()


def test_a_store_that_is_away_is_asked_again_later(scene: BackfillScene) -> None:
    driver = until_ready(scene.land())
    scene.store._plan = Scripted({Operation.PUT_COPY: [CallFault.REQUEST_LOST]})

    answer = driver.contender.decide(asked())

    assert answer.outcome is Outcome.FAILED
    assert replaces(scene) == []
    assert slot_of(driver.contender.decide(asked())) > 0
    driver.stop()


def test_what_somebody_has_overwritten_is_not_retired(scene: BackfillScene) -> None:
    driver = until_ready(scene.land())
    key = scene.objects()[0]
    scene.store.overwrite(key, b"another")

    refused = driver.contender.decide(asked())

    assert refused.outcome is Outcome.REFUSED
    assert f"{key} was overwritten: it has 7 bytes" in refused.message
    scene.store.delete(key)
    assert driver.contender.decide(asked()).outcome is Outcome.DONE
    scene.until_done()
    assert scene.generations() == {2}
    driver.stop()


def test_a_group_whose_tables_cannot_follow_is_refused(scene: BackfillScene) -> None:
    scene.land()
    scene.spec = {"publish": [{"name": "lake", "type": "BigQuery", "options": {}}]}

    answer = scene.session().carry_out(asked(), take_over=False)

    assert answer.outcome is Outcome.REFUSED
    assert "publish[0].type: BigQuery cannot follow" in answer.message


def test_a_side_lane_keeps_its_dead_letters_until_they_are_promoted() -> None:
    """One that takes longer than `badRecords.retain` would have deleted what is to be promoted."""
    scene = BackfillScene().land()
    scene.spec = {"badRecords": {"retain": "1h"}}
    plan = read_plan(scene.root, NAME)

    assert scene.group.spec.bad_records.retain == timedelta(hours=1)
    assert side_group(scene.group, plan).spec.bad_records.retain is None
    driver = until_ready(scene)
    slot_of(driver.contender.decide(asked()))
    scene.until_done()
    assert scene.generations() == {2}
    driver.stop()
