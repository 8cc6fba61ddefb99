"""A keyed table has the newest row of each key, and would not without any one of the rules."""

from pathlib import Path

import pytest

from tests.model.exploring import unshown
from tests.model.keyed import VARIANTS, Rules, search

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


def test_each_version_has_the_newest_row_of_each_key() -> None:
    result = search(Rules())

    assert (result.harm, result.story) == (None, ())
    assert f"{result.states:,} states" in PAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
