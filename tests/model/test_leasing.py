"""Every file is done once, whoever leases it, and would not be without any of the rules."""

from pathlib import Path

import pytest

from tests.model.exploring import unshown
from tests.model.leasing import VARIANTS, WORLDS, search
from tests.model.leasing_ledger import Rules

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


@pytest.mark.rest
def test_every_file_is_done_once_or_given_up() -> None:
    results = [search(Rules(), world) for world in WORLDS]

    assert [(result.harm, result.story) for result in results] == [(None, ())] * len(WORLDS)
    assert f"{sum(result.states for result in results):,} states" in PAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules, variant.world).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
