"""How many random inputs a law is tried with, and which: at a desk, in CI, in a search.

``LANDFALL_EXAMPLES`` names one of these profiles; by default it is ``desk``.

=========== ============== ================= =====================================
profile     inputs         which             used by
=========== ============== ================= =====================================
``desk``    a tenth        always the same   ``make test``, and ``pytest``
``ci``      a quarter      always the same   CI
``full``    all            always the same   ``make test-rest``
``search``  all            others each time  ``make properties``
=========== ============== ================= =====================================

A law that wants another number than Hypothesis' hundred says ``settings(max_examples=share(300))``.
What the crash machine plays is counted by ``schedules``: in CI all, at a desk a tenth. Its tests
carry the marker ``law``, for ``make test-rest`` runs, of the tests that ``make test`` has run, laws
only; CI tries them once, in ``make test``. Tests that break a rule and look for an input that shows
it search as long in every profile, and run once: those that play schedules of the crash machine
carry the marker ``rest``, so ``make test`` leaves them to ``make test-rest``, and so do other tests
that take long and repeat what quicker ones show.
"""

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

VARIABLE = "LANDFALL_EXAMPLES"
FEWEST = 5
"""Inputs that are tried in each profile, if there are as many."""


class Profile(StrEnum):
    """A number and a choice of inputs."""

    DESK = "desk"
    CI = "ci"
    FULL = "full"
    SEARCH = "search"


PARTS = {Profile.DESK: 10, Profile.CI: 4}
"""Of how many equal parts one is tried. Other profiles try all inputs."""


def chosen() -> Profile:
    """The profile of this run."""
    return Profile(os.environ.get(VARIABLE) or Profile.DESK)


def share(inputs: int, profile: Profile | None = None) -> int:
    """How many of these inputs are tried."""
    parts = PARTS.get(profile or chosen(), 1)
    return max(inputs // parts, min(inputs, FEWEST))


def schedules(number: int, profile: Profile | None = None) -> int:
    """How many of these schedules of the crash machine are played: in CI all of them."""
    profile = profile or chosen()
    return number if profile is Profile.CI else share(number, profile)


def settings_of(profile: Profile) -> settings:
    """What Hypothesis does for a law that asks for nothing else."""
    return settings(
        max_examples=share(100, profile),
        derandomize=profile is not Profile.SEARCH,
        # A busy machine is slow, not wrong: pytest's own time limit is enough.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def load() -> None:
    """Let Hypothesis use the profile of this run."""
    settings.register_profile("landfall", settings_of(chosen()))
    settings.load_profile("landfall")


def is_law(test: pytest.Item) -> bool:
    """Whether ``share`` or ``schedules`` decides how many inputs this test tries."""
    function = getattr(test, "function", None)
    is_hypothesis = getattr(function, "is_hypothesis_test", False)
    return is_hypothesis or test.get_closest_marker("law") is not None


def finished(
    tests: Iterable[pytest.Item], paths: Iterable[Path], *, laws_tried: bool = False
) -> list[pytest.Item]:
    """Of the tests below these absolute paths, return those with which ``make test`` is finished.

    These do not carry the marker ``rest``, and are no laws unless these were tried with the same
    inputs.
    """
    below = [path.resolve() for path in paths]
    return [
        test
        for test in tests
        if (laws_tried or not is_law(test))
        and test.get_closest_marker("rest") is None
        and any(test.path.is_relative_to(path) for path in below)
    ]
