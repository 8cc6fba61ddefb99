"""What the words of a ``landfall files`` command name."""

import pytest

from landfall.cli.feeds import STATES
from landfall.cli.feeds.file_targets import FileTarget, file_target
from landfall.discovery.inventory import LandingState
from landfall.errors import Stalled


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["group.yaml", "hits", "a", "b"], FileTarget("group.yaml", "hits", ("a", "b"))),
        (["hits", "group.yaml"], FileTarget("", "hits", ("group.yaml",))),
        (["x/g.json", "hits"], FileTarget("x/g.json", "hits", ())),
    ],
)
def test_the_group_comes_first_and_may_be_that_of_the_pod(
    words: list[str], target: FileTarget
) -> None:
    assert file_target(words) == target


def test_only_a_list_needs_no_feed() -> None:
    assert file_target(["group.yaml"], needs_feed=False) == FileTarget("group.yaml", "", ())
    with pytest.raises(Stalled, match="name the feed"):
        file_target(["group.yaml"])


def test_the_states_that_can_be_asked_for_are_those_that_are_shown() -> None:
    assert list(STATES) == [state.value for state in LandingState]
