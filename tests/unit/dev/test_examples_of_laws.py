"""How many random inputs laws are tried with, and which."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import (
    VARIABLE,
    Profile,
    chosen,
    finished,
    is_law,
    schedules,
    settings_of,
    share,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("profile", "inputs", "tried"),
    [
        (Profile.DESK, 300, 30),
        (Profile.DESK, 15, 5),
        (Profile.DESK, 3, 3),
        (Profile.CI, 300, 75),
        (Profile.CI, 15, 5),
        (Profile.FULL, 300, 300),
        (Profile.SEARCH, 300, 300),
    ],
)
def test_a_profile_tries_its_part_and_never_next_to_nothing(
    profile: Profile, inputs: int, tried: int
) -> None:
    assert share(inputs, profile) == tried


def test_ci_plays_all_schedules_and_a_desk_a_tenth() -> None:
    assert {profile: schedules(300, profile) for profile in Profile} == {
        Profile.DESK: 30,
        Profile.CI: 300,
        Profile.FULL: 300,
        Profile.SEARCH: 300,
    }


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
        ({VARIABLE: "ci"}, Profile.CI),
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
    folder = Path(__file__).parent

    assert is_law(request.node)
    assert finished([request.node], [folder]) == []
    assert finished([request.node], [folder], laws_tried=True) == [request.node]


@given(st.none())
def test_what_hypothesis_tries_is_a_law(request: pytest.FixtureRequest, nothing: None) -> None:
    assert is_law(request.node)


@pytest.mark.rest
def test_what_is_marked_as_rest_is_left_to_the_rest(request: pytest.FixtureRequest) -> None:
    folder = Path(__file__).parent

    assert not is_law(request.node)
    assert finished([request.node], [folder]) == []
    assert finished([request.node], [folder], laws_tried=True) == []


def make(*args: str) -> str:
    """What make prints of this repository, by itself and not as a part of a running one."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-s", *args]
    return subprocess.run(
        command, cwd=ROOT, env=env, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("tried", ["", "1"])
def test_the_rest_runs_every_file_with_a_test_that_is_marked(tried: str) -> None:
    files = make("--eval", "laws: ; @echo $(LAWS)", "laws", f"LAWS_TRIED={tried}").split()
    marked = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^@pytest\.mark\.rest$", path.read_text(), re.MULTILINE)
    ]

    assert len(marked) > 1
    assert set(marked) <= set(files)


def test_make_test_leaves_out_what_is_marked() -> None:
    commands = [line for line in make("-n", "test").splitlines() if " tests/unit " in line]

    assert len(commands) == 1
    assert '-m "not full and not rest"' in commands[0]


def test_ci_tries_each_law_once_with_a_quarter_of_its_inputs() -> None:
    script = (ROOT / ".ci/run").read_text()
    steps = [line for line in script.splitlines() if line.startswith(("export", "make", "exec"))]
    rest = make("-n", "test-rest", "LAWS_TRIED=1").splitlines()[-1]

    assert steps[-3:] == [
        f"export {VARIABLE}=ci",
        "make test",
        "exec make test-rest LAWS_TRIED=1",
    ]
    assert " --laws-tried " in rest


def test_of_other_tests_the_rest_runs_those_elsewhere(request: pytest.FixtureRequest) -> None:
    assert not is_law(request.node)
    assert finished([request.node], [Path(__file__).parent]) == [request.node]
    assert finished([request.node], [Path(__file__).parents[1] / "audit"]) == []
