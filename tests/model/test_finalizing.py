"""Nobody takes an hour for complete too early, and would without any one of the rules."""

from pathlib import Path

import pytest

from tests.model.exploring import unshown
from tests.model.finalizing import VARIANTS, Rules, search

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


@pytest.mark.rest
def test_a_topic_that_is_complete_for_a_reader_is_complete() -> None:
    seen: list[int] = []

    result = search(Rules(), max_slots=6, seen=seen)

    assert (result.harm, result.story) == (None, ())
    assert len(seen) > 1_000, "what nobody takes for complete shows nothing"
    assert f"{result.states:,} states" in PAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules, variant.begin).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
