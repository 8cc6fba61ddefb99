"""The protocol holds in every state of its worlds, and does not without any one of its rules."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tests.model.rules import Rules
from tests.model.search import search
from tests.model.stories import story
from tests.model.variants import VARIANTS, WORLDS

RIGHT = Rules()
PAGE = (Path(__file__).parents[2] / "docs/evidence/model.md").read_text()


@pytest.mark.parametrize("name", WORLDS)
def test_the_protocol_holds_in_every_order_of_its_steps(name: str) -> None:
    result = search(RIGHT, WORLDS[name])

    print(f"{name}: {result.states:,} states, {result.chains} ledgers")
    assert not [*story(result)]
    assert result.states > 10_000, "too small a world shows nothing"
    assert f"| {name} | {result.states:,} |" in PAGE.splitlines()


def test_the_page_adds_up_the_states_of_all_worlds() -> None:
    rows = re.findall(r"^\| ([\w -]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    states = {world: int(number.replace(",", "")) for world, number in rows}

    assert states.pop("all") == sum(states.values())
    assert {*states} == {*WORLDS}


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    result = search(variant.rules, variant.scope, [variant.harm])

    assert result.counterexample, f"no harm without the rule: {variant.rule}"
    assert result.counterexample.harm is variant.harm
    print("\n".join(story(result)))


@pytest.mark.parametrize("name", VARIANTS)
def test_what_harms_without_the_rule_does_not_with_it(name: str) -> None:
    variant = VARIANTS[name]

    assert search(RIGHT, variant.scope, [variant.harm]).counterexample is None


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    left_out = {
        tuple(f.name for f in fields(Rules) if getattr(v.rules, f.name) != getattr(RIGHT, f.name))
        for v in VARIANTS.values()
    }

    assert {(f.name,) for f in fields(Rules)} <= left_out


def test_a_shortest_counterexample_is_printed_step_by_step() -> None:
    variant = VARIANTS["plans-before-recovery"]

    event = [*story(search(variant.rules, variant.scope, [variant.harm]))]

    assert event[4] == "   5  D1  appends COMMIT, slot 3, of upload 1 (1_0_0 with [0, 2))"
    assert event[-1].startswith("  => a record is never landed: offset 0, 1 in no visible object")
