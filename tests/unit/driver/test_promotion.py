"""What a backfill landed, under live names; and when it must not take the place of anything."""

import pytest

from landfall.driver.decide.counting import CountingObject
from landfall.driver.decide.landed_now import LandedNow
from landfall.driver.decide.promotion import Promotion, promotion, why_too_large
from landfall.errors import Stalled
from landfall.ledger import Purpose
from landfall.ledger.offsets import OffsetRange, Slice
from tests.support.ledger.landed_history import TOPIC, History, tp

SLICES = (Slice(tp(0), OffsetRange(2, 6)),)
IDS = [(tp(0), "id")]


def live() -> History:
    history = History().add(0).commit(0, ["a"] * 2).commit(0, ["a", "a", "-"]).commit(0, ["a"])
    history.applied()
    return history


def side(*commits: list[str], topic_id: str = "id") -> LandedNow:
    history = History().open(2).add(0, start=2, topic_id=topic_id)
    for folders in commits or (["b"] * 3, ["-"]):
        history.commit(0, folders)
    return history.applied()


def promoted(of_live: History, of_side: LandedNow, planned_at: int = 99) -> Promotion:
    return promotion(of_live.applied(), of_side, SLICES, IDS, planned_at)


def test_objects_get_live_names_with_the_slot_up_to_which_all_was_applied() -> None:
    history = live()
    found = promoted(history, side())
    slot = history.now.applied_through

    assert [each.key for each in found.promoted] == [
        f"_landfall/shop/dead-letters/{TOPIC}/r{slot:010}_2_0_{5:020}.parquet",
        f"{TOPIC}/dt=b/r{slot:010}_2_0_{2:020}.json",
    ]
    assert [each.key for each in found.retire] == [
        f"_landfall/shop/dead-letters/{TOPIC}/1_0_{2:020}.parquet",
        f"{TOPIC}/dt=a/1_0_{2:020}.json",
        f"{TOPIC}/dt=a/1_0_{5:020}.json",
    ]
    assert found.folders == (
        f"_landfall/shop/dead-letters/{TOPIC}",
        f"{TOPIC}/dt=a",
        f"{TOPIC}/dt=b",
    )
    assert found.slices == SLICES


def test_a_merge_since_the_plan_is_no_obstacle() -> None:
    history = live()
    planned_at = history.now.slot
    merged = history.merge(f"{TOPIC}/dt=a/1_0_{start:020}.json" for start in (2, 5))

    found = promoted(history, side(), planned_at)

    assert merged in {each.key for each in found.retire}


def refusal(of_live: History, of_side: LandedNow, planned_at: int = 99) -> str:
    with pytest.raises(Stalled) as refused:
        promoted(of_live, of_side, planned_at)
    return str(refused.value)


def test_an_object_that_was_merged_across_the_edge_is_cut() -> None:
    history = live()
    planned_at = history.now.slot
    merged = history.merge(f"{TOPIC}/dt=a/1_0_{start:020}.json" for start in (0, 2))

    found = promoted(history, side(), planned_at)

    assert [each.key for each in found.cut] == [merged]
    assert merged not in {each.key for each in found.retire}
    assert dict(found.replaced)[found.cut[0]] == 2
    assert f"{TOPIC}/dt=a" in found.folders


def test_a_merge_across_the_edge_is_refused_if_rows_were_sorted() -> None:
    history = live()
    history.merge((f"{TOPIC}/dt=a/1_0_{start:020}.json" for start in (0, 2)), mixed=True)

    assert "cannot be distinguished from the ranges of" in refusal(history, side())


def test_another_replacement_since_the_plan_is_refused() -> None:
    history = live()
    planned_at = history.now.slot
    history.merge([f"{TOPIC}/dt=a/1_0_{5:020}.json"], Purpose.BACKFILL)

    assert "after the plan" in refusal(history, side(), planned_at)


def test_another_replacement_is_refused_also_once_it_is_merged() -> None:
    history = live()
    planned_at = history.now.slot
    key = history.merge([f"{TOPIC}/dt=a/1_0_{5:020}.json"], Purpose.BACKFILL)
    history.applied()
    history.merge([key])

    assert "after the plan" in refusal(history, side(), planned_at)


def test_what_a_replay_landed_since_the_plan_is_refused_also_once_it_is_merged() -> None:
    history = live()
    planned_at = history.now.slot
    letters = f"_landfall/shop/dead-letters/{TOPIC}/1_0_{2:020}.parquet"
    history.replay(letters, "a").applied()
    history.merge([f"{TOPIC}/dt=a/2_0_{2:020}.json"])

    assert "after the plan" in refusal(history, side(), planned_at)


def test_what_was_replaced_and_undone_since_the_plan_is_no_obstacle() -> None:
    history = live()
    planned_at, before = history.now.slot, f"{TOPIC}/dt=a/1_0_{5:020}.json"
    put = history.merge([before], Purpose.BACKFILL)
    undone = history.now.slot
    assert history.applied().promotions.of("fix") == undone
    back = history.merge([put], Purpose.UNDO, undone)

    found = promoted(history, side(), planned_at)

    assert back in {each.key for each in found.retire}
    assert history.now.promotions.of("fix") == -1


def test_what_a_replacement_before_an_undone_one_changed_is_refused() -> None:
    history = live()
    planned_at = history.now.slot
    first = history.merge([f"{TOPIC}/dt=a/1_0_{5:020}.json"], Purpose.BACKFILL)
    history.applied()
    second = history.merge([first], Purpose.BACKFILL)
    undone = history.now.slot
    history.applied()
    history.merge([second], Purpose.UNDO, undone)

    assert "after the plan" in refusal(history, side(), planned_at)


def test_what_neither_has_objects_of_cannot_be_promoted() -> None:
    history = History().add(0, start=2).commit(0, [""] * 4)

    assert "neither it nor the live group" in why_too_large(promoted(history, side([""] * 4)))


def of_range(of_live: History) -> list[str]:
    return [key for key, each in of_live.now.objects.items() if promoting(each)]


def promoting(each: CountingObject) -> bool:
    (slice_,) = each.slices
    return slice_.offsets.start in SLICES[0].offsets


def other_side() -> History:
    return History().open(3).add(0, start=2).commit(0, ["c"] * 3).commit(0, [""])


def test_a_backfill_of_the_same_ranges_since_the_plan_is_refused() -> None:
    history = live()
    planned_at = history.now.slot
    history.backfill(other_side(), of_range(history))

    assert "after the plan" in refusal(history, side(), planned_at)


def test_a_backfill_since_the_plan_may_have_landed_no_row() -> None:
    history = live()
    planned_at = history.now.slot
    other = History().open(3).add(0, start=2).commit(0, [""] * 4)
    history.backfill(other, of_range(history))

    assert "clicks/0[2, 6) was landed in slot" in refusal(history, side(), planned_at)


def test_what_was_promoted_and_undone_is_promoted_again() -> None:
    history = live()
    planned_at = history.now.slot
    slot = history.backfill(other_side(), of_range(history))
    history.applied()
    history.undo(slot)

    found = promoted(history, side(), planned_at)

    assert {each.landed.rows for each in found.retire} == {1, 2}
    assert found.slices == SLICES


def test_a_promotion_has_the_counts_of_the_slices() -> None:
    found = promoted(live(), side())

    assert [
        (each.piece.offsets.start, each.landed, each.dead_lettered) for each in found.landed_again
    ] == [(2, 3, 0), (5, 0, 1)]


def test_a_backfill_whose_dead_letters_were_replayed_is_refused() -> None:
    history = History().open(2).add(0, start=2).commit(0, ["b"] * 3).commit(0, ["-"])
    history.applied()
    history.replay(f"_landfall/shop/dead-letters/{TOPIC}/2_0_{5:020}.parquet", "b")

    assert "dead letters of it were replayed" in refusal(live(), history.applied())


def test_a_topic_that_was_created_again_is_refused() -> None:
    assert "its id was id and is new" in refusal(live(), side(topic_id="new"))


def test_a_topic_partition_that_left_is_refused() -> None:
    history = live().drop(0)

    assert "has left the group" in refusal(history, side())


@pytest.mark.parametrize(
    ("commits", "why"),
    [
        ([["b"] * 3], "what follows 5 is not landed"),
        ([["b"] * 5], "what follows 7 is not landed"),
    ],
)
def test_only_exactly_what_is_planned_is_promoted(commits: list[list[str]], why: str) -> None:
    assert why in refusal(live(), side(*commits))


def test_a_hole_in_a_backfill_is_refused() -> None:
    history = History().open(2).add(0, start=2).commit(0, ["b"]).hole(0, 1).commit(0, ["b"] * 2)

    assert "a HOLE skipped [3, 4)" in refusal(live(), history.applied())


def test_what_two_specs_landed_is_refused() -> None:
    history = History().open(2).add(0, start=2).commit(0, ["b"]).open(3).commit(0, ["b"] * 3)

    assert "more than one spec" in refusal(live(), history.applied())
