"""Work in steps: a generator yields what it waits for, and the thread that appends records runs it.

The driver's loop sends each result when it exists. ``run`` waits: a session of the command line has
no loop.
"""

from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from landfall.api.verbs import Answer

Steps = Generator["Future[Any]", Any, Answer]
"""Yields a future, is sent its result, and returns the answer."""


def run(steps: Steps) -> Answer:
    """Wait for every step, and return the answer.

    Raises:
        LandfallError: what a step raises.
    """
    try:
        waited_for = next(steps)
        while True:
            waited_for = steps.send(waited_for.result())
    except StopIteration as end:
        answer: Answer = end.value
        return answer
