"""What fsck counts of leases, apart from the fold."""

from dataclasses import replace

from landfall.checks.leases import LeaseCounts
from landfall.ledger import Add, Entry, State
from tests.unit.ledger.test_feeds import FEED
from tests.unit.ledger.test_leases import lease, leased, leasing, outcome, with_files
from tests.unit.ledger.test_ledger import header


def counted(state: State) -> LeaseCounts:
    counts = LeaseCounts()
    entry = Entry(FEED, "id", 0, feed=True, external=True)
    counts.count(Add(header=header(state), entries=(entry,)))
    return counts


def problem(counts: LeaseCounts, state: State) -> str:
    return str(counts.check(state.feeds.items()) or "")


def test_a_number_that_a_state_has_lost_is_found() -> None:
    state = with_files(2)
    counts = counted(state)
    counts.count(lease(state, 0, 1))
    state, slot = leased(state, 0, 1)
    assert (problem(counts, state), counts.leases) == ("", 1)

    counts.count(outcome(state, slot, done=(0,), failed=(1,), why="x"))

    assert problem(counts, state) == (
        "files/0: expected 0 leased, 1 parked, 1 done, got 2 leased, 0 parked, 0 done"
    )


def test_a_number_of_two_leases_is_found() -> None:
    state = with_files(2)
    counts = counted(state)
    counts.count(lease(state, 0, 1))
    state, slot = leased(state, 0, 1)

    counts.count(lease(state, 1))

    assert f"got part 1, which lease {slot} has" in problem(counts, state)


def test_an_outcome_of_anothers_part_is_found() -> None:
    state = with_files(2)
    counts = counted(state)
    counts.count(lease(state, 0))
    state, slot = leased(state, 0)

    counts.count(outcome(state, slot + 1, done=(0,)))

    assert "part 0, which is another's" in problem(counts, state)


def test_a_count_that_is_off_is_found() -> None:
    state = with_files(1)
    feed = replace(state.feeds[FEED], leasing=replace(leasing(state), done=1))

    wrong = replace(state, feeds={FEED: feed})

    assert "expected 0 leased, 0 parked, 0 done, got 0 leased" in problem(counted(state), wrong)
