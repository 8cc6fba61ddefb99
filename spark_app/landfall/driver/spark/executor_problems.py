"""Finds in Spark's log why executors end or do not come.

Spark reports it nowhere else: a pod that the API server refuses never exists, and Spark deletes the
pod of an executor that was killed. ``log4j2.properties`` lets these lines through.
"""

import re
import time
from collections.abc import Callable

from landfall.api.contract import ExecutorProblem

CURRENT_SECONDS = 600.0
"""How long a problem is reported after Spark spoke of it last."""
MAX_MESSAGE_LENGTH = 300
"""Characters of a message."""

_REFUSED = re.compile(r"Failure executing: POST at: \S*/pods\S* Message: (?P<why>.+)")
_RECEIVED = re.compile(r"\.? Received status: .*")
_POD_NAME = re.compile(r'\b(pods) "[^"]+"')
_KILLED = re.compile(r"termination reason: OOMKilled")


def executor_problem(line: str) -> ExecutorProblem | None:
    """Return the problem that a line of Spark's log is about; None for any other line."""
    if found := _REFUSED.search(line):
        # Each pod has another name, and a message that keeps changing is written again and again.
        why = _POD_NAME.sub(r"\1", _RECEIVED.sub("", found["why"]).strip())
        return ExecutorProblem("PodRefused", why[:MAX_MESSAGE_LENGTH])
    if _KILLED.search(line):
        return ExecutorProblem("OutOfMemory", "an executor was killed at its memory limit")
    return None


class ExecutorProblems:
    """Keeps the last problem; lines come from one thread, and any may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """There is no problem."""
        self._clock = clock
        self._last: tuple[float, ExecutorProblem] | None = None

    def read(self, line: str) -> None:
        """Keep the problem that a line of Spark's log is about, if it is about one."""
        if problem := executor_problem(line):
            self._last = self._clock(), problem

    @property
    def latest(self) -> ExecutorProblem | None:
        """The last problem; None if Spark has not spoken of one for ``CURRENT_SECONDS``."""
        last = self._last
        return last[1] if last and self._clock() - last[0] < CURRENT_SECONDS else None
