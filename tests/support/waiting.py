"""Waiting for the work of other processes."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], enough: Callable[[T], object], seconds: float = 240) -> T:
    """Call ``look`` until ``enough`` holds for its result; returns that result.

    Raises:
        AssertionError: It does not hold in time; the message has the last result.
    """
    deadline = time.monotonic() + seconds
    while not enough(found := look()):
        assert time.monotonic() < deadline, f"after {seconds} s still {found}"[:2000]
        time.sleep(0.05)
    return found
