"""Objects take the place of others, and no row is lost or doubled, but without any one rule."""

from pathlib import Path

import pytest

from tests.model.exploring import explore, unshown
from tests.model.replacing import STAYING, VARIANTS, WORLD, Harm, Rules, Steps, World, search
from tests.model.replacing_ledgers import LATE, MERGE, MERGES, PLANS, Plan, folded

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


@pytest.mark.rest
def test_each_row_is_there_once_in_the_end() -> None:
    seen = set[Plan]()

    results = [search(Rules(), begin, seen=seen) for begin in (WORLD, STAYING)]

    assert [(result.harm, result.story) for result in results] == [(None, ())] * 2
    assert seen == {*PLANS}, "what is never applied shows nothing"
    assert f"{sum(result.states for result in results):,} states" in PAGE


def test_a_late_row_is_read_before_what_is_decided_again_is_visible() -> None:
    def is_read(world: World) -> Harm | None:
        now = folded(world.slots)
        is_ahead = "late" in now.current and not MERGES.isdisjoint(now.pending)
        comes_later = is_ahead and MERGE.new.isdisjoint(world.was_visible)
        return Harm.GONE if comes_later and slot_of(world, MERGE) < slot_of(world, LATE) else None

    def slot_of(world: World, plan: Plan) -> int:
        return world.slots.index(plan)

    story = explore(WORLD, Steps(Rules()).all, is_read).story

    assert [text for text in story if "records" in text] == [
        "D1 records what is applied",
        "D1 records REPLACE by merged",
        "D1 records COMMIT of a late row",
        "D1 records REPLACE by merged, decided again",
        "D1 records what is applied",
    ]


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules, variant.begin).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
