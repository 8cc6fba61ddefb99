"""Takers of files beside the real loop: each rule of leases is needed.

Some schedules of ``tests.properties.test_crash_feeds`` have takers. Here they meet drivers,
sessions and a ledger without one of the rules of docs/adr/0028.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from landfall.api.verbs import Answer, LeaseAnswer, LeaseRequest, Outcome, TakeFilesRequest
from landfall.driver.decide import leases as decide_leases
from landfall.driver.decide.requests import PlannedRecord
from landfall.driver.feeds import leases as driver_leases
from landfall.driver.requests import lease_sessions
from landfall.errors import Fenced
from landfall.ledger import Lease, LeaseOutcome, Leasing, ParkedPart, State, snapshot
from landfall.ledger.feeds import leases
from landfall.ledger.offsets import TopicPartition
from tests.crashes.playing import play_feeds

Patch = pytest.MonkeyPatch
SEARCHED = 100
"""Schedules in one of which a broken rule must show."""


def _with(state: State, tp: TopicPartition, **fields: Any) -> State:
    """The state, in which the leases of a feed are others."""
    feed = state.feeds[tp]
    assert feed.leasing
    changed = replace(feed, leasing=replace(feed.leasing, **fields))
    return replace(state, feeds={**state.feeds, tp: changed})


def _takes_what_is_leased(patch: Patch) -> None:
    """A file that was taken is offered again."""
    lease = leases._lease

    def offered_again(state: State, record: Lease) -> State:
        tp = record.topic_partition
        before = state.feeds[tp].leasing
        assert before
        return _with(lease(state, record), tp, leased_to=before.leased_to)

    patch.setattr(leases, "_lease", offered_again)


def _counts_late_outcomes(patch: Patch) -> None:
    """A lease that has expired is as good as any other to those who end it."""
    end = leases._end

    def kept(state: State, record: LeaseOutcome) -> State:
        tp, after = record.topic_partition, end(state, record)
        before = state.feeds[tp].leasing
        assert before
        expired = replace(before.open[record.lease], until=2**47)
        opened = {**before.open, record.lease: expired}
        return _with(after, tp, open=opened) if record.expired else after

    patch.setattr(leases, "_end", kept)


def _ends_by_the_clock(patch: Patch) -> None:
    """A lease is ended before its time is over."""
    expirations = decide_leases.expirations

    def early(state: State, now: datetime) -> Iterator[PlannedRecord]:
        for planned in expirations(state, now + timedelta(hours=1)):
            make = partial(planned.make, at=decide_leases.millis(now))
            yield PlannedRecord(planned.text, make)

    patch.setattr(leases, "_check_ended", lambda *_: None)
    for module in (driver_leases, lease_sessions):
        patch.setattr(module, "expirations", early)


def _never_ends(patch: Patch) -> None:
    """No record ends a lease that is too late."""
    for module in (driver_leases, lease_sessions):
        patch.setattr(module, "expirations", lambda *_: iter(()))


def _loses_expired(patch: Patch) -> None:
    """What an expired lease had is free for nobody."""
    end = leases._end

    def lost(state: State, record: LeaseOutcome) -> State:
        after, tp = end(state, record), record.topic_partition
        feed = after.feeds[tp]
        left = {n: part for n, part in feed.parked.items() if n not in record.expired}
        return replace(after, feeds={**after.feeds, tp: replace(feed, parked=left)})

    patch.setattr(leases, "_end", lost)


def _counts_no_expiry(patch: Patch) -> None:
    """A lease that expires is no attempt."""
    parked = leases._parked

    def untried(ended: Any, number: int, record: LeaseOutcome) -> ParkedPart:
        part = parked(ended, number, record)
        return replace(part, attempt=part.attempt - 1) if number in record.expired else part

    patch.setattr(leases, "_parked", untried)


def _returning_is_an_attempt(patch: Patch) -> None:
    """What is given back was tried."""
    parked = leases._parked

    def tried(ended: Any, number: int, record: LeaseOutcome) -> ParkedPart:
        part = parked(ended, number, record)
        return replace(part, attempt=part.attempt + (number in record.returned))

    patch.setattr(leases, "_parked", tried)


def _forgets_requests(patch: Patch) -> None:
    """The ledger does not remember which requests were carried out."""
    patch.setattr(leases, "_requested", lambda _, leasing, __: leasing)


def _forgets_who_asked(patch: Patch) -> None:
    """The ledger does not remember which request a lease answers."""
    lease = leases._lease

    def nameless(state: State, record: Lease) -> State:
        tp, after = record.topic_partition, lease(state, record)
        leasing = after.feeds[tp].leasing
        assert leasing
        opened = {slot: replace(each, request="") for slot, each in leasing.open.items()}
        return _with(after, tp, open=opened)

    patch.setattr(leases, "_lease", nameless)


def _refuses_when_fenced(patch: Patch) -> None:
    """A driver refuses by what it knows, without a look whether it still has the lane."""
    answer = driver_leases.Leases.answer

    def blind(self: Any, request: LeaseRequest, state: State, now: datetime, *of: Any) -> Answer:
        return answer(self, request, state, now, of[0])

    patch.setattr(driver_leases.Leases, "answer", blind)


def _answers_before_recording(patch: Patch) -> None:
    """A taker gets the answer that its request is carried out before that is recorded."""
    answer = driver_leases.Leases.answer

    def hasty(self: Any, request: LeaseRequest, *of: Any) -> Answer:
        try:
            return answer(self, request, *of)
        except Fenced:
            if isinstance(request, TakeFilesRequest):
                raise
            return LeaseAnswer(Outcome.DONE)

    patch.setattr(driver_leases.Leases, "answer", hasty)


def _starts_without_leases(patch: Patch) -> None:
    """A driver that starts knows of no lease that was open."""
    store = snapshot._stored_leasing

    def stored(leasing: Leasing | None) -> Any:
        return store(leasing and replace(leasing, open={}))

    patch.setattr(snapshot, "_stored_leasing", stored)


FIRST_SEEDS: Mapping[Callable[[Patch], None], int] = {
    _answers_before_recording: 70,
    _counts_late_outcomes: 9,
    _ends_by_the_clock: 75,
    _forgets_requests: 16,
    _forgets_who_asked: 15,
    _refuses_when_fenced: 70,
}
"""Where the search begins for a rule that few schedules need; else at 5, the first with takers."""


@pytest.mark.rest
@pytest.mark.parametrize(
    "without",
    [
        _takes_what_is_leased,
        _counts_late_outcomes,
        _ends_by_the_clock,
        _never_ends,
        _loses_expired,
        _counts_no_expiry,
        _returning_is_an_attempt,
        _forgets_requests,
        _forgets_who_asked,
        _refuses_when_fenced,
        _answers_before_recording,
        _starts_without_leases,
    ],
)
def test_each_rule_of_leases_is_needed(
    without: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    without(monkeypatch)
    first = FIRST_SEEDS.get(without, 5)

    with pytest.raises(AssertionError, match="make crash-hunt"):
        play_feeds(first, first + SEARCHED)
