"""How many files of a feed are pending, landed and parked."""

from landfall.api import spec
from landfall.api.feed_status import FeedStatus
from landfall.driver.feeds.feed_status import feed_status, pending
from landfall.ledger import FeedState, LeasedPart, Leasing, OpenLease, ParkedPart, PartList
from landfall.ledger.feeds import SPAN
from landfall.ledger.feeds.part_lists import ListedPart

ONE = spec.Feed(topic="hits", url="s3://logs/in", max_attempts=3)


def listed(first: int, end: int, files: int, size: int) -> PartList:
    return PartList(f"list-{first}", "0" * 64, first, end, files, size)


FIRST, SECOND = listed(0, 4, 3, 40), listed(4, 9, 5, 100)
PARTS = (
    ListedPart("a", "e", 10, 0, 0, 10),
    ListedPart("b", "e", 20, 0, 0, 10),
    ListedPart("b", "e", 20, 0, 10, 20),
    ListedPart("c", "e", 10, 0, 0, 10),
)


def nothing(_: PartList) -> None:
    return None


def test_what_is_pending_counts_by_the_list_that_is_landed_in_part() -> None:
    feed = FeedState(9, (FIRST, SECOND))

    assert pending(feed, 0, nothing) == (8, 140)
    assert pending(feed, 2 * SPAN + 5, {FIRST: PARTS}.get) == (7, 120)
    assert pending(feed, 4 * SPAN, nothing) == (5, 100)
    assert pending(feed, 9 * SPAN, nothing) == (0, 0)


def test_without_the_parts_of_that_list_their_share_counts() -> None:
    assert pending(FeedState(9, (FIRST, SECOND)), 3 * SPAN, nothing) == (6, 110)


def test_a_feed_says_what_is_parked_and_what_waits_for_somebody() -> None:
    parked = {
        2: ParkedPart(3, 0, "c: damaged", FIRST),
        1: ParkedPart(1, 0, "b: damaged", FIRST),
    }
    feed = FeedState(9, (FIRST, SECOND), None, parked, {0: ParkedPart(1, 0, "", FIRST)}, holes=3)

    assert feed_status(ONE, feed, 4 * SPAN, nothing, file="g.yaml") == FeedStatus(
        topic="hits",
        pending_files=5,
        pending_bytes=100,
        landed_parts=1,
        parked_parts=2,
        undecided_parts=1,
        ignored_parts=1,
        error="b: damaged",
        next_step="landfall files retry g.yaml hits --why '…'",
    )


def test_files_that_others_process_count_by_their_leases() -> None:
    open_leases = {7: OpenLease("kim", 1, {3: LeasedPart(0, FIRST), 5: LeasedPart(1, SECOND)})}
    parked = {0: ParkedPart(0, 0, "given back by kim", FIRST), 1: ParkedPart(1, 0, "why", FIRST)}
    leasing = Leasing(leased_to=6, done=2, open=open_leases)

    found = feed_status(
        ONE, FeedState(9, (FIRST, SECOND), parked=parked, leasing=leasing), 0, nothing
    )

    assert (found.pending_files, found.taken_parts, found.landed_parts) == (3 + 1, 2, 2)
    assert (found.parked_parts, found.undecided_parts, found.error) == (1, 0, "why")
