"""Many schedules, one after the other."""

from landfall.driver.loop import Driver
from tests.crashes.expiring import ExpirySchedule
from tests.crashes.feeds import FeedSchedule
from tests.crashes.letters import LettersSchedule
from tests.crashes.losing import LosingSchedule
from tests.crashes.machine import Schedule
from tests.crashes.merging import MergeSchedule
from tests.crashes.process import Wrong, no_waiting
from tests.crashes.promoting import PromotionSchedule


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
    _play(FeedSchedule, "FEEDS", range(first, end), kind)


def play_merges(first: int, end: int, kind: type[Driver] = Driver) -> None:
    """Play schedules in which objects take the place of others, without waiting for anything.

    Raises:
        AssertionError: one of them found something; the message says how to see it.
    """
    _play(MergeSchedule, "MERGES", range(first, end), kind)


def play_promotions(first: int, end: int, kind: type[Driver] = Driver) -> None:
    """Play schedules in which backfills are promoted, without waiting for anything.

    Raises:
        AssertionError: one of them found something; the message says how to see it.
    """
    _play(PromotionSchedule, "PROMOTIONS", range(first, end), kind)


def play_losses(first: int, end: int, kind: type[Driver] = Driver) -> None:
    """Play schedules in which another group has what Kafka loses, without waiting for anything.

    Raises:
        AssertionError: one of them found something; the message says how to see it.
    """
    _play(LosingSchedule, "LOSSES", range(first, end), kind)


def play_expiry(first: int, end: int, kind: type[Driver] = Driver) -> None:
    """Play schedules in which dead letters expire, without waiting for anything.

    Raises:
        AssertionError: one of them found something; the message says how to see it.
    """
    _play(ExpirySchedule, "EXPIRY", range(first, end), kind)


def play_letters(first: int, end: int, kind: type[Driver] = Driver) -> None:
    """Play schedules in which dead letters are in several places, without waiting for anything.

    Raises:
        AssertionError: one of them found something; the message says how to see it.
    """
    _play(LettersSchedule, "LETTERS", range(first, end), kind)


def _play(schedule: type[Schedule], name: str, seeds: range, kind: type[Driver]) -> None:
    with no_waiting():
        for seed in seeds:
            try:
                schedule(seed, kind=kind).run()
            except Wrong as wrong:
                again = f"make crash-hunt {name}=1 SEED={seed}"
                raise AssertionError(f"{wrong}\nto see each step: {again}") from wrong
