"""Waiting for the work of other processes."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 240.0
"""Seconds to wait for what should happen, before a test fails."""


def eventually(
    look: Callable[[], T], enough: Callable[[T], object], seconds: float = PATIENCE
) -> T:
    """Call ``look`` until ``enough`` holds for its result; returns that result.

    Raises:
        AssertionError: It does not hold in time; the message has the last result.
    """
    deadline = time.monotonic() + seconds
    while not enough(found := look()):
        assert time.monotonic() < deadline, f"after {seconds} s still {found}"[:2000]
        time.sleep(0.05)
    return found


def wait_for(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Return as soon as the condition holds; ``what`` names it in the error.

    Raises:
        TimeoutError: It does not hold in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)
