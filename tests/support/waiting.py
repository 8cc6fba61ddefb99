"""Waiting for what another process does in its own time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], enough: Callable[[T], object], seconds: float = 240) -> T:
    """Look until what is seen is enough."""
    deadline = time.monotonic() + seconds
    while not enough(found := look()):
        assert time.monotonic() < deadline, f"after {seconds} s still {found}"[:2000]
        time.sleep(0.05)
    return found
