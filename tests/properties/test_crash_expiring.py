"""The real loop that deletes old dead letters, under all that may become of it, by any clock.

``tests.model.expiring`` has every order of its steps beside a replay. Here the same rules are those
of drivers, of their stores and of real replays.
"""

import pytest

from landfall.driver.landing.dead_letter_expiry import ExpirySweep
from tests.crashes.playing import play_expiry
from tests.support.examples import schedules

SCHEDULES, CHUNKS = schedules(24), 3
SEARCHED = 100
"""Schedules in one of which a broken rule must show."""
FIRST = 120
"""The search begins shortly before a schedule that shows what a replay needs."""


@pytest.mark.law
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_expires_every_other_record_is_in_one_object(chunk: int) -> None:
    play_expiry(chunk * SCHEDULES // CHUNKS, (chunk + 1) * SCHEDULES // CHUNKS)


@pytest.mark.rest
def test_what_expires_is_said_before_it_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExpirySweep, "_say", lambda _, expired, *__: expired)

    with pytest.raises(AssertionError, match="make crash-hunt EXPIRY=1"):
        play_expiry(0, SEARCHED)


@pytest.mark.rest
def test_what_a_replay_needs_does_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExpirySweep, "_needed", lambda *_: frozenset())

    with pytest.raises(AssertionError, match="make crash-hunt EXPIRY=1"):
        play_expiry(FIRST, FIRST + SEARCHED)
