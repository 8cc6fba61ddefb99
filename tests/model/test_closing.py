"""A range of files that has ended has all of them, and would not without any one of the rules."""

from pathlib import Path

import pytest

from tests.model.closing import VARIANTS, Rules, search
from tests.model.exploring import unshown

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


def test_a_range_that_has_ended_has_every_file_of_it() -> None:
    result = search(Rules())

    assert (result.harm, result.story) == (None, ())
    assert f"{result.states:,} states" in PAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
