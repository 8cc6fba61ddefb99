"""Dead letters expire beside replays, and would not without any of the rules."""

from pathlib import Path

import pytest

from tests.model.expiring import VARIANTS, Rules, search
from tests.model.exploring import unshown

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


def test_nothing_that_expires_seems_lost_or_is_missed_by_a_replay() -> None:
    result = search(Rules())

    assert (result.harm, result.story) == (None, ())
    assert f"{result.states:,} states" in PAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
