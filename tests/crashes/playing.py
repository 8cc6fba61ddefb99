"""Many schedules, one after the other."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from landfall.driver.process.loop import Driver
from tests.crashes.expiring import ExpirySchedule
from tests.crashes.feeds import FeedSchedule
from tests.crashes.letters import LettersSchedule
from tests.crashes.losing import LosingSchedule
from tests.crashes.machine import Schedule
from tests.crashes.merging import MergeSchedule
from tests.crashes.pairs import PairSchedule, meeting
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


def play_pairs(first: int, end: int, kind: type[Driver] = Driver) -> Iterator[PairSchedule]:
    """Play schedules in which features meet, without waiting for anything; yields each at its end.

    Raises:
        AssertionError: one of them found something; the message says how to see it.
    """
    return _played(meeting, "PAIRS", range(first, end), kind)


def _play(schedule: type[Schedule], name: str, seeds: range, kind: type[Driver]) -> None:
    for _ in _played(schedule, name, seeds, kind):
        pass


S = TypeVar("S", bound=Schedule)


def _played(schedule: Callable[..., S], name: str, seeds: range, kind: type[Driver]) -> Iterator[S]:
    for seed in seeds:
        with no_waiting():
            try:
                found = schedule(seed, kind=kind)
                found.run()
            except Wrong as wrong:
                again = f"make crash-hunt {name}=1 SEED={seed}"
                raise AssertionError(f"{wrong}\nto see each step: {again}") from wrong
        yield found
