"""Dead letters in places of their own are neither lost, repeated nor misplaced, by seven rules."""

from pathlib import Path

import pytest

from tests.model.exploring import unshown
from tests.model.letters import VARIANTS, Rules, search

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


def test_wherever_specs_put_them_dead_letters_are_visible_once_in_their_place() -> None:
    result = search(Rules())

    assert (result.harm, result.story) == (None, ())
    assert f"{result.states:,} states" in PAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
