"""Load jobs in every order of their steps."""

import pytest

from tests.model.exploring import unshown
from tests.model.loading import DISTURBED, VARIANTS, search
from tests.model.loading_steps import Rules


@pytest.mark.parametrize("name", DISTURBED)
def test_every_object_is_loaded_once_whatever_disturbs(name: str) -> None:
    result = search(Rules(), DISTURBED[name])

    assert not result.harm, "\n".join(result.story)
    assert result.states > 1_000


@pytest.mark.parametrize("name", VARIANTS)
def test_each_rule_of_loads_is_necessary(name: str) -> None:
    variant = VARIANTS[name]

    assert search(variant.rules, variant.left).harm is variant.harm
    assert search(Rules(), variant.left).harm is None


def test_every_rule_of_loads_has_a_variant() -> None:
    assert unshown(Rules, VARIANTS.values()) == {
        "writes_intent_first"  # goes with ids of contents: no number is decided without an intent
    }
