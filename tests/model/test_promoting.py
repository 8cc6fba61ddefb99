"""Backfills that overlap are promoted and undone beside replays, and no row counts twice."""

from pathlib import Path

import pytest

from tests.model.exploring import unshown
from tests.model.promoting import (
    FIRST,
    INSTEAD,
    SECOND,
    VARIANTS,
    WORLDS,
    Rules,
    World,
    search,
)

PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()
APPLIED = {
    FIRST,
    SECOND,
    INSTEAD,
    *(f"the undoing of {name}" for name in (FIRST, SECOND)),
    *(f"the undoing of the undoing of {name}" for name in (FIRST, SECOND)),
    "the replay of letters A",
    "the replay of first letters A",
    "the replay of letters' A",
    "the replay of letters* A",
}


def test_each_row_counts_once() -> None:
    seen = set[str]()

    results = [search(Rules(), begin, seen=seen) for begin in WORLDS.values()]

    assert [(result.harm, result.story) for result in results] == [(None, ())] * len(WORLDS)
    assert seen >= APPLIED, "what is never applied shows nothing"
    assert f"{sum(result.states for result in results):,} states" in PAGE


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules, World(variant.second)).harm is variant.harm


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
