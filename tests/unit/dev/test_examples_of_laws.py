"""How many random inputs laws are tried with, and which."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import (
    VARIABLE,
    Profile,
    chosen,
    is_law,
    settings_of,
    share,
    without_inputs,
)


@pytest.mark.parametrize(
    ("profile", "inputs", "tried"),
    [
        (Profile.DESK, 300, 75),
        (Profile.DESK, 15, 5),
        (Profile.DESK, 3, 3),
        (Profile.FULL, 300, 300),
        (Profile.SEARCH, 300, 300),
    ],
)
def test_a_desk_tries_a_quarter_and_never_next_to_nothing(
    profile: Profile, inputs: int, tried: int
) -> None:
    assert share(inputs, profile) == tried


def test_only_a_search_tries_other_inputs_each_time() -> None:
    assert {profile for profile in Profile if not settings_of(profile).derandomize} == {
        Profile.SEARCH
    }


@pytest.mark.parametrize(
    ("environment", "profile"),
    [
        ({}, Profile.DESK),
        ({"CI": "true"}, Profile.DESK),
        ({VARIABLE: "search"}, Profile.SEARCH),
        ({VARIABLE: "full"}, Profile.FULL),
    ],
)
def test_the_environment_chooses(
    environment: dict[str, str], profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert chosen() is profile


@pytest.mark.law
def test_what_is_marked_is_a_law_that_the_rest_tries_again(request: pytest.FixtureRequest) -> None:
    assert is_law(request.node)
    assert without_inputs([request.node], [Path(__file__).parent]) == []


@given(st.none())
def test_what_hypothesis_tries_is_a_law(request: pytest.FixtureRequest, nothing: None) -> None:
    assert is_law(request.node)


def test_of_other_tests_the_rest_runs_those_elsewhere(request: pytest.FixtureRequest) -> None:
    assert not is_law(request.node)
    assert without_inputs([request.node], [Path(__file__).parent]) == [request.node]
    assert without_inputs([request.node], [Path(__file__).parents[1] / "audit"]) == []
