"""Publishers publish each object once, and would not without any one of their rules."""

import pytest

from tests.model.exploring import unshown
from tests.model.publishing import VARIANTS, Rules, search
from tests.model.publishing_ledgers import LEDGERS


def test_each_object_is_published_once_in_every_order_of_the_steps() -> None:
    result = search(Rules(), LEDGERS["a lost object"])

    assert (result.harm, result.story) == (None, ())
    assert result.states > 10_000, "too small a world shows nothing"


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    result = search(variant.rules, LEDGERS[variant.ledger], variant.drops)

    assert result.harm is variant.harm
    assert result.story


def test_every_rule_has_a_variant_that_leaves_out_only_this_one() -> None:
    assert unshown(Rules, VARIANTS.values()) == set()
