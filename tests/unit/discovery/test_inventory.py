"""What has become of the files of a feed."""

from datetime import UTC, datetime

import pytest

from landfall.discovery import index, part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.inventory import FeedInventory, FileStatus, LandingState
from landfall.ledger import FeedState, LeasedPart, Leasing, OpenLease, ParkedPart, PartList
from landfall.ledger.feeds import SPAN
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.objects import ListedFile
from landfall.store.memory import MemoryStore

KEYS = FeedKeys("shop", "0", "hits")
MODIFIED = datetime(2026, 11, 21, tzinfo=UTC)
CHANGED = FileStatus("", 0, LandingState.ERROR, error="was written again after it was landed")


def part(name: str, etag: str = "e", **fields: int) -> ListedPart:
    return ListedPart(name, etag, 8, 0, fields.pop("start", 0), fields.pop("end", 8), **fields)


class Known:
    """A feed of these lists."""

    def __init__(self, *lists: list[ListedPart]) -> None:
        self.store, self.lists = MemoryStore(), list[PartList]()
        for parts in lists:
            first = self.lists[-1].end if self.lists else 0
            self.lists.append(part_lists.write(self.store, KEYS, first, parts))
        self.feed = FeedState(self.lists[-1].end, tuple(self.lists))

    def left(self, number: int, attempt: int = 1, skip: int = 0) -> dict[int, ParkedPart]:
        listed = next(each for each in self.lists if each.first <= number < each.end)
        return {number: ParkedPart(attempt, skip, "damaged", listed)}

    def inventory(self, checkpoint: int, **of_feed: object) -> FeedInventory:
        fields = {f: getattr(self.feed, f) for f in ("end", "lists", "known")}
        return FeedInventory(self.store, KEYS, FeedState(**(fields | of_feed)), checkpoint)  # type: ignore[arg-type]  # of any field

    def states(self, checkpoint: int, **of_feed: object) -> dict[str, str]:
        return {f.name: f.state.value for f in self.inventory(checkpoint, **of_feed).files()}


@pytest.mark.parametrize(
    ("checkpoint", "state"),
    [
        (0, "Pending"),
        (1 * SPAN, "Pending"),
        (1 * SPAN + 5, "InProgress"),
        (2 * SPAN, "InProgress"),
        (3 * SPAN, "Success"),
    ],
)
def test_a_file_is_landed_when_its_last_part_is(checkpoint: int, state: str) -> None:
    known = Known([part("a"), part("b", end=4), part("b", start=4)])

    assert known.states(checkpoint)["b"] == state


def test_what_is_parked_is_an_error_with_its_attempts() -> None:
    known = Known([part("a"), part("b")])

    found = known.inventory(2 * SPAN, parked=known.left(1, attempt=3)).find("b")

    assert found == FileStatus("b", 8, LandingState.ERROR, 1, 1, 3, "damaged")


@pytest.mark.parametrize(("skip", "state"), [(0, "Pending"), (7, "InProgress")])
def test_what_is_tried_again_is_not_landed_yet(skip: int, state: str) -> None:
    known = Known([part("a")], [part("a", former=0, attempt=2, skip=skip)])

    assert known.states(SPAN) == {"a": state}
    assert known.states(2 * SPAN) == {"a": "Success"}
    found = known.inventory(SPAN).find("a")
    assert found
    assert found.attempts == 2


def test_what_is_given_up_or_left_out_is_ignored() -> None:
    known = Known([part("a"), part("b")], [part("b", "new", start=8)])

    states = known.states(3 * SPAN, ignored=known.left(0))

    assert states == {"a": "Ignored", "b": "Ignored"}


def test_a_file_with_parts_that_have_no_number_yet_is_not_landed() -> None:
    known = Known([part("a", end=4)])

    assert known.states(SPAN) == {"a": "InProgress"}


def test_the_same_is_said_with_and_without_an_index() -> None:
    known = Known([part("c"), part("a", end=4)], [part("a", start=4), part("b")])
    before = list(known.inventory(SPAN).files())

    merged = index.merge(known.store, KEYS, None, known.lists[:1])

    assert list(known.inventory(SPAN, known=merged).files()) == before
    assert [(f.name, f.first, f.last) for f in before] == [("a", 1, 2), ("b", 3, 3), ("c", 0, 0)]


def test_a_listing_shows_what_has_no_number_and_what_was_written_anew() -> None:
    known = Known([part("b"), part("c"), part("d")])
    there = [ListedFile(n, e, 8, MODIFIED) for n, e in (("a", "e"), ("b", "new"), ("d", "new"))]

    found = list(known.inventory(2 * SPAN).with_listing(there, CHANGED))

    assert found == [
        FileStatus("a", 8, LandingState.PENDING, error="has no number yet"),
        FileStatus("b", 8, LandingState.ERROR, 0, 0, error=CHANGED.error),
        FileStatus("c", 8, LandingState.SUCCESS, 1, 1),
        FileStatus("d", 8, LandingState.PENDING, 2, 2, error="was written again"),
    ]


def test_files_that_others_process_have_the_state_of_their_leases() -> None:
    known = Known([part(name) for name in "abcdef"])
    taken = {3: OpenLease("kim", 1, {1: LeasedPart(0, known.lists[0])})}
    parked = {**known.left(2, attempt=0), **known.left(3, attempt=2)}

    states = known.states(0, leasing=Leasing(leased_to=5, done=2, open=taken), parked=parked)

    expected = ("Success", "InProgress", "Pending", "Error", "Success", "Pending")
    assert states == dict(zip("abcdef", expected, strict=True))
