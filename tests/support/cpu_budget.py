"""A bound on the processor time of a block, for work that must not depend on what outsiders write.

It counts the time of this process alone, so a busy machine does not make a test fail. Regular
expressions are interrupted, too: Python's engine looks for signals.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooSlowError(AssertionError):
    """The block took longer than its budget."""


@contextmanager
def cpu_budget(seconds: float) -> Iterator[None]:
    """Raise TooSlowError in a block that takes more processor time. For the main thread only."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError(f"not done after {seconds} s of processor time")

    former = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
