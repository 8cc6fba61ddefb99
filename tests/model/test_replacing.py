"""Objects take the place of others, and no row is lost or doubled, but without any one rule."""

from pathlib import Path

import pytest

from tests.model.exploring import unshown
from tests.model.replacing import STAYING, VARIANTS, WORLD, Rules, search
from tests.model.replacing_ledgers import PLANS, Plan

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


def test_each_row_is_there_once_in_the_end() -> None:
    seen = set[Plan]()

    results = [search(Rules(), begin, seen=seen) for begin in (WORLD, STAYING)]

    assert [(result.harm, result.story) for result in results] == [(None, ())] * 2
    assert seen == {*PLANS}, "what is never applied shows nothing"
    assert f"{sum(result.states for result in results):,} states" in PAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules, variant.begin).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
