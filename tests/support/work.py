"""How much work a call does, without a clock: what is counted is the same on every machine."""

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

RUNS = 5


def lines_run(call: Callable[[], object]) -> int:
    """How many lines of Python ``call`` executes: a loop counts by its turns, C counts nothing."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def growth(small: Callable[[], object], large: Callable[[], object]) -> float:
    """How many times the CPU time of ``small`` the call ``large`` takes, copies made by C included.

    Each takes its least of five turns, in alternation and without garbage collection. It tells
    growth by the square from growth in proportion where the sizes differ by a factor of eight or
    more; nothing finer.
    """
    least = [float("inf")] * 2
    gc.disable()
    try:
        for _ in range(RUNS):
            for place, call in enumerate((small, large)):
                began = time.process_time()
                call()
                least[place] = min(least[place], time.process_time() - began)
    finally:
        gc.enable()
    return least[1] / least[0]
