"""LEASE, EXTEND and OUTCOME: whose the files of an external feed are."""

from dataclasses import replace

import pytest

from landfall.ledger import (
    Add,
    Decision,
    Discover,
    Drop,
    Entry,
    Extend,
    FeedState,
    Lease,
    LeasedPart,
    LeaseOutcome,
    Leasing,
    OpenLease,
    ParkedPart,
    State,
)
from landfall.ledger.feeds import SPAN
from landfall.ledger.feeds.leases import KEPT_REQUESTS, MAX_TAKEN, MAX_UNFINISHED, find
from landfall.ledger.snapshot import decode_state, encode_state
from tests.unit.ledger.test_completeness import folded
from tests.unit.ledger.test_feeds import FEED, discover, hole, known, landed, listed
from tests.unit.ledger.test_ledger import committed, entered, header, refused


def with_files(count: int, *more: int) -> State:
    """An external feed with so many files, in one list for each of the counts."""
    state = entered()
    entry = Entry(FEED, "id", 0, feed=True, external=True)
    state = folded(state, Add(header=header(state), entries=(entry,)))
    for each in (count, *more):
        first = state.feeds[FEED].end
        state = folded(state, discover(state, listed=listed(first, first + each)))
    return state


def lease(state: State, *numbers: int, **fields: object) -> Lease:
    own = {"holder": "kim", "until": 1000, **fields}
    return Lease(header=header(state), topic_partition=FEED, numbers=numbers, **own)  # type: ignore[arg-type]  # of any field


def outcome(state: State, slot: int, **fields: object) -> LeaseOutcome:
    own = {"at": 500, **fields}
    return LeaseOutcome(header=header(state), topic_partition=FEED, lease=slot, **own)  # type: ignore[arg-type]


def extend(state: State, slot: int, until: int, **fields: str) -> Extend:
    return Extend(header=header(state), topic_partition=FEED, lease=slot, until=until, **fields)


def leased(state: State, *numbers: int, **fields: object) -> tuple[State, int]:
    """The state after a LEASE, and its slot."""
    after = folded(state, lease(state, *numbers, **fields))
    return after, after.seq


def leasing(state: State) -> Leasing:
    found = state.feeds[FEED].leasing
    assert found
    return found


def test_a_lease_has_the_next_numbers() -> None:
    state, slot = leased(with_files(3, 2), 0, 1, 2, 3, request="r1")

    parts = {n: LeasedPart(0, listed(0, 3)) for n in range(3)} | {3: LeasedPart(0, listed(3, 5))}
    assert leasing(state) == Leasing(4, 0, {slot: OpenLease("kim", 1000, parts, "r1")}, ("r1",))
    assert find(state.feeds, slot) == FEED


@pytest.mark.parametrize("numbers", [(1,), (0, 2), (0, 1, 2, 3), ()])
def test_numbers_are_leased_in_order(numbers: tuple[int, ...]) -> None:
    state = with_files(3)

    assert "files/0: leases" in refused(state, lease(state, *numbers))


def test_a_number_is_leased_once() -> None:
    state, _ = leased(with_files(3), 0, 1)

    assert "leases [1], which are not free: the next one is 2" in refused(state, lease(state, 1))
    assert folded(state, lease(state, 2))


def test_numbers_are_named_once_and_in_order() -> None:
    state = with_files(3)

    assert "leases 2 parts" in refused(state, lease(state, 1, 0))
    assert "leases 2 parts" in refused(state, lease(state, 0, 0))


@pytest.mark.parametrize("wrong", [{"holder": ""}, {"until": 0}])
def test_a_lease_has_a_holder_and_an_end(wrong: dict[str, object]) -> None:
    state = with_files(1)

    assert "leases to" in refused(state, lease(state, 0, **wrong))


def test_a_lease_is_bounded() -> None:
    state = with_files(MAX_TAKEN + 1)

    too_many = lease(state, *range(MAX_TAKEN + 1))
    assert f"leases {MAX_TAKEN + 1} parts, which are not 1 to" in refused(state, too_many)


def test_what_is_leased_or_parked_is_bounded() -> None:
    state = with_files(3)
    parked = dict.fromkeys(range(10, 10 + MAX_UNFINISHED), ParkedPart(1, 0, "x", listed(0, 3)))
    full = replace(state, feeds={FEED: replace(state.feeds[FEED], parked=parked)})

    assert "would be leased or parked" in refused(full, lease(full, 0))
    again = folded(full, lease(full, 10, 11))
    assert len(again.feeds[FEED].parked) == MAX_UNFINISHED - 2, "parked ones may be leased"


def test_what_is_done_is_done_for_good() -> None:
    state, slot = leased(with_files(3), 0, 1)
    state = folded(state, outcome(state, slot, done=(0,)))
    assert (leasing(state).done, [*leasing(state).open[slot].parts]) == (1, [1])

    state = folded(state, outcome(state, slot, done=(1,)))

    assert state.feeds[FEED] == FeedState(3, (listed(0, 3),), leasing=Leasing(2, 2))
    assert "which are not free" in refused(state, lease(state, 1))


def test_what_failed_may_be_leased_again_after_an_attempt() -> None:
    state, slot = leased(with_files(3), 0, 1)

    state = folded(state, outcome(state, slot, failed=(0,), done=(1,), why="not JSON"))
    assert state.feeds[FEED].parked == {0: ParkedPart(1, 0, "not JSON", listed(0, 3), 500)}

    state, slot = leased(state, 0, 2)
    assert leasing(state).open[slot].parts[0] == LeasedPart(1, listed(0, 3))
    assert not state.feeds[FEED].parked


def test_a_failure_says_why() -> None:
    state, slot = leased(with_files(1), 0)

    assert "without a reason" in refused(state, outcome(state, slot, failed=(0,)))


def test_what_is_given_back_costs_no_attempt() -> None:
    state, slot = leased(with_files(1), 0)

    state = folded(state, outcome(state, slot, returned=(0,)))

    assert state.feeds[FEED].parked == {0: ParkedPart(0, 0, "given back by kim", listed(0, 1))}


def test_a_lease_expires_as_a_whole_and_never_early() -> None:
    state, slot = leased(with_files(3), 0, 1)

    early = outcome(state, slot, expired=(0, 1), at=999)
    assert "expires at 999 with 2 of its 2 parts, but it holds until 1000" in refused(state, early)
    part = outcome(state, slot, expired=(0,), at=1000)
    assert "with 1 of its 2 parts" in refused(state, part)
    state = folded(state, outcome(state, slot, expired=(0, 1), at=1000))

    parked = ParkedPart(1, 0, "the lease of kim expired", listed(0, 3), 1000)
    assert (state.feeds[FEED].parked, leasing(state).open) == ({0: parked, 1: parked}, {})


def test_an_outcome_of_a_lease_that_is_over_is_refused() -> None:
    state, slot = leased(with_files(1), 0)
    state = folded(state, outcome(state, slot, expired=(0,), at=1000))

    late = f"lease {slot} is over, or there never was one"
    assert late in refused(state, outcome(state, slot, done=(0,)))
    assert late in refused(state, extend(state, slot, 9999))
    state, other = leased(state, 0)
    assert late in refused(state, outcome(state, slot, done=(0,)))
    assert folded(state, outcome(state, other, done=(0,)))


@pytest.mark.parametrize(
    "wrong", [{}, {"done": (2,)}, {"done": (0, 0)}, {"done": (0,), "failed": (0,), "why": "x"}]
)
def test_an_outcome_is_of_the_parts_of_its_lease(wrong: dict[str, object]) -> None:
    state, slot = leased(with_files(3), 0, 1)

    assert f"lease {slot} has the parts [0, 1]" in refused(state, outcome(state, slot, **wrong))


def test_a_lease_is_extended_ahead_only() -> None:
    state, slot = leased(with_files(1), 0)

    assert "not after 1000" in refused(state, extend(state, slot, 1000))
    state = folded(state, extend(state, slot, 2000))
    assert leasing(state).open[slot].until == 2000
    assert "holds until 2000" in refused(state, outcome(state, slot, expired=(0,), at=1500))


def test_a_request_is_carried_out_once() -> None:
    state, slot = leased(with_files(2), 0, request="r1")

    for again in (
        lease(state, 1, request="r1"),
        extend(state, slot, 2000, request="r1"),
        outcome(state, slot, done=(0,), request="r1"),
    ):
        assert "request r1 was carried out before" in refused(state, again)
    full = replace(leasing(state), requests=tuple(map(str, range(KEPT_REQUESTS))))
    state = replace(state, feeds={FEED: replace(state.feeds[FEED], leasing=full)})
    state = folded(state, outcome(state, slot, done=(0,), request="r2"))
    assert leasing(state).requests == (*map(str, range(1, KEPT_REQUESTS)), "r2")


def test_nothing_of_an_external_feed_is_landed() -> None:
    state = with_files(2)

    with pytest.raises(Exception, match="processed externally, and not landed"):
        committed(state, landed(0, SPAN))
    parked = hole(state, 0, SPAN, attempt=1)
    assert "processed externally, and not landed" in refused(state, parked)


def test_only_external_feeds_are_leased() -> None:
    state = entered()
    state = folded(state, Add(header=header(state), entries=(Entry(FEED, "id", 0, feed=True),)))
    state = folded(state, discover(state, listed=listed(0, 2)))

    assert "is no external feed" in refused(state, lease(state, 0))
    wrong = Entry(FEED, "id", 0, external=True)
    again = entered()
    assert "is external, but no feed" in refused(again, Add(header=header(again), entries=(wrong,)))


def test_lists_are_named_until_all_of_their_parts_were_leased() -> None:
    state, slot = leased(with_files(2, 2), 0, 1, 2)
    state = folded(state, outcome(state, slot, failed=(0,), why="x"))

    state = folded(state, discover(state, known=known(4)))

    assert state.feeds[FEED].lists == (listed(2, 4),)
    state, slot = leased(state, 0, 3)
    assert leasing(state).open[slot].parts == {
        0: LeasedPart(1, listed(0, 2)),
        3: LeasedPart(0, listed(2, 4)),
    }


def test_parked_parts_of_other_versions_are_taken_out() -> None:
    state, slot = leased(with_files(2), 0, 1)
    state = folded(state, outcome(state, slot, failed=(0, 1), why="x"))
    asked = Decision("ignore", "kim", "broken", "t", "r9")

    state = folded(state, discover(state, replaced=(0,), ignored=(1,), decision=asked))

    assert state.feeds[FEED].parked == {}
    assert "which are not free" in refused(state, lease(state, 0))


def test_a_feed_that_leaves_ends_its_leases() -> None:
    state, slot = leased(with_files(1), 0)
    state = folded(state, Drop(header=header(state), topic_partitions=(FEED,), reason="x"))

    assert find(state.feeds, slot) is None
    assert "is no external feed" in refused(state, outcome(state, slot, done=(0,)))


def test_leases_are_in_snapshots() -> None:
    state, slot = leased(with_files(4), 0, 1, 2, request="r1")
    state = folded(state, outcome(state, slot, failed=(0,), done=(1,), why="x", request="r2"))

    assert decode_state(encode_state(state)) == state


def test_a_snapshot_of_leases_has_the_same_bytes_whatever_their_order() -> None:
    state, slot = leased(with_files(4), 0, 1, 2)
    state, _ = leased(state, 3)
    feed, own = state.feeds[FEED], leasing(state)
    other = replace(own, open=dict(reversed(own.open.items())))
    again = replace(state, feeds={FEED: replace(feed, leasing=other)})

    assert slot in own.open
    assert encode_state(again) == encode_state(state)


def test_discover_names_no_leased_part() -> None:
    state, _ = leased(with_files(2), 0)

    taken = Discover(header=header(state), topic_partition=FEED, replaced=(0,))
    assert "takes parts that are not parked" in refused(state, taken)
