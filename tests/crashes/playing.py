"""Many schedules, one after the other."""

from landfall.driver.loop import Driver
from tests.crashes.feeds import FeedSchedule
from tests.crashes.machine import Schedule
from tests.crashes.process import Wrong, no_waiting


def play_schedules(count: int) -> None:
    """Play the first ``count`` schedules, without waiting for anything.

    Raises:
        Wrong: one of them found something.
    """
    with no_waiting():
        for seed in range(count):
            Schedule(seed).run()


def play_feeds(first: int, end: int, kind: type[Driver] = Driver) -> None:
    """Play schedules of files, without waiting for anything.

    Raises:
        AssertionError: one of them found something; the message says how to see it.
    """
    with no_waiting():
        for seed in range(first, end):
            try:
                FeedSchedule(seed, kind=kind).run()
            except Wrong as wrong:
                again = f"make crash-hunt FEEDS=1 SEED={seed}"
                raise AssertionError(f"{wrong}\nto see each step: {again}") from wrong
