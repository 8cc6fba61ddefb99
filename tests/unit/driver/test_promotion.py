"""What a backfill landed, under live names; and when it must not take the place of anything."""

import pytest

from landfall.driver.decide.landed_now import LandedNow
from landfall.driver.decide.promotion import Promotion, promotion
from landfall.errors import Stalled
from landfall.ledger import Purpose
from landfall.ledger.offsets import OffsetRange, Slice
from tests.support.landed_history import TOPIC, History, tp

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
        f"_landfall/shop/dead-letters/{TOPIC}/2_0_{5:020}.r{slot}.parquet",
        f"{TOPIC}/dt=b/2_0_{2:020}.r{slot}.json",
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


def test_a_merge_across_the_edge_is_refused() -> None:
    history = live()
    history.merge(f"{TOPIC}/dt=a/1_0_{start:020}.json" for start in (0, 2))

    assert "share objects with others" in refusal(history, side())


def test_another_replacement_since_the_plan_is_refused() -> None:
    history = live()
    planned_at = history.now.slot
    history.merge([f"{TOPIC}/dt=a/1_0_{5:020}.json"], Purpose.BACKFILL)

    assert "after the plan" in refusal(history, side(), planned_at)


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
