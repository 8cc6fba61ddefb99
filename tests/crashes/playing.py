"""Many schedules, one after the other."""

from tests.crashes.machine import Schedule
from tests.crashes.process import no_waiting


def play_schedules(count: int) -> None:
    """Play the first ``count`` schedules, without waiting for anything.

    Raises:
        Wrong: one of them found something.
    """
    with no_waiting():
        for seed in range(count):
            Schedule(seed).run()
