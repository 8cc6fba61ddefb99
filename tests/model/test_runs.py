"""A range that has ended is landed and visible, and would not be without any one of the rules."""

from pathlib import Path

import pytest

from tests.model.exploring import unshown
from tests.model.runs import RANGES, VARIANTS, Rules, search

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


@pytest.mark.rest
def test_a_range_that_has_ended_is_landed_and_visible() -> None:
    seen: list[int] = []

    result = search(Rules(), seen=seen)

    assert (result.harm, result.story) == (None, ())
    assert set(seen) == {1, len(RANGES)}, "a run that never ends shows nothing"
    assert f"{result.states:,} states" in PAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules, variant.begin).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
