"""What a request about files of a feed records, or why it is refused."""

from collections.abc import Mapping

import pytest

from landfall.api.verbs import IgnoreFilesRequest, RetryFilesRequest
from landfall.discovery.named_files import NamedFiles
from landfall.driver.decide.file_requests import FilesPlan, decide_files
from landfall.driver.decide.requests import Refusal
from landfall.ledger import FeedState, ParkedPart, PartList
from landfall.ledger.feeds import MAX_IGNORED, MAX_LISTED
from landfall.ledger.feeds.part_lists import ListedPart

LISTED = PartList("list", "0" * 64, 0, 10, 10, 80)


def part(name: str, etag: str = "e", **fields: int) -> ListedPart:
    return ListedPart(name, etag, 8, 0, fields.pop("start", 0), fields.pop("end", 8), **fields)


def feed(parked: Mapping[int, int] | None = None, ignored: tuple[int, ...] = ()) -> FeedState:
    """A feed with these parked parts, by number with their attempts, and parts given up."""
    return FeedState(
        10,
        (LISTED,),
        parked={n: ParkedPart(tried, 3, "damaged", LISTED) for n, tried in (parked or {}).items()},
        ignored={n: ParkedPart(1, 0, "damaged", LISTED) for n in ignored},
    )


def retry(known: FeedState, files: NamedFiles, *names: str) -> FilesPlan | Refusal:
    return decide_files(known, RetryFilesRequest(who="kim", topic="hits", names=names), files)


def ignore(known: FeedState, files: NamedFiles, *names: str) -> FilesPlan | Refusal:
    request = IgnoreFilesRequest(who="kim", why="INC-12", topic="hits", names=names)
    return decide_files(known, request, files)


def test_parked_parts_get_other_numbers_without_the_rows_that_are_landed() -> None:
    files = NamedFiles({4: part("a"), 2: part("b")})

    plan = retry(feed({2: 1, 4: 5}), files)

    assert plan == FilesPlan(
        "DISCOVER: hits tries 2 parts again: a, b",
        frozenset("ab"),
        (part("b", former=2, attempt=1, skip=3), part("a", former=4, attempt=5, skip=3)),
        again=(2, 4),
    )


def test_what_was_given_up_is_landed_after_all_if_it_is_named() -> None:
    plan = retry(feed(ignored=(3,)), NamedFiles({}, {3: part("a")}), "a")

    assert isinstance(plan, FilesPlan)
    assert (plan.again, plan.parts) == ((3,), (part("a", former=3, attempt=1),))


def test_a_new_version_takes_the_place_of_what_was_parked_and_given_up() -> None:
    new = (part("a", "new", end=4), part("a", "new", start=4))
    files = NamedFiles({4: part("a")}, {5: part("a")}, {"a": new})

    plan = retry(feed({4: 1}, ignored=(5,)), files, "a")

    text = "DISCOVER: hits lands the new version of a: a"
    assert plan == FilesPlan(text, frozenset("a"), new, replaced=(4, 5))


def test_parked_parts_are_given_up() -> None:
    plan = ignore(feed({4: 1, 7: 1}), NamedFiles({4: part("a"), 7: part("a")}), "a")

    assert plan == FilesPlan("DISCOVER: hits gives up a", frozenset("a"), ignored=(4, 7))


def test_a_version_is_left_out_by_a_part_without_bytes() -> None:
    plan = ignore(feed(), NamedFiles({}, changed={"a": (part("a", "new"),)}), "a")

    assert isinstance(plan, FilesPlan)
    assert plan.parts == (part("a", "new", start=8),)
    assert plan.parts[0].is_left_out
    assert plan.ignored == ()


def test_a_version_after_one_that_could_not_be_read_is_another_matter() -> None:
    files = NamedFiles({4: part("a")}, changed={"a": (part("a", "new"),)})

    plan = ignore(feed({4: 1}), files, "a")

    assert isinstance(plan, FilesPlan)
    assert (plan.parts, plan.ignored) == ((), (4,))


def test_a_large_file_goes_on_with_the_next_look() -> None:
    many = tuple(part("a", "new", start=n % 8, end=8) for n in range(MAX_LISTED + 5))

    plan = retry(feed({1: 1}), NamedFiles({1: part("b")}, changed={"a": many}), "a", "b")

    assert isinstance(plan, FilesPlan)
    assert len(plan.parts) == MAX_LISTED
    assert plan.again == (1,)


@pytest.mark.parametrize(
    ("files", "names", "why"),
    [
        (NamedFiles({}), (), "hits: no file is parked"),
        (NamedFiles({}), ("a",), "nothing is parked of a, and no other version is there"),
        (NamedFiles({}, unknown=["x"]), ("x",), "no file has a number and the name x"),
        (NamedFiles({}, unreadable={"a": "no name for Avro"}), ("a",), "a has a version that"),
        (NamedFiles({1: part("b")}, unknown=["x"]), ("b", "x"), "the name x"),
    ],
)
def test_a_retry_of_what_needs_none_is_refused(
    files: NamedFiles, names: tuple[str, ...], why: str
) -> None:
    refusal = retry(feed({1: 1}), files, *names)

    assert isinstance(refusal, Refusal)
    assert why in refusal.message


def test_what_is_given_up_is_not_given_up_again() -> None:
    refusal = ignore(feed(ignored=(3,)), NamedFiles({}, {3: part("a")}), "a")

    assert isinstance(refusal, Refusal)
    assert "nothing is parked of a" in refusal.message


def test_no_more_is_given_up_than_a_state_can_hold() -> None:
    full = feed({0: 1}, ignored=tuple(range(1, MAX_IGNORED + 1)))

    refusal = ignore(full, NamedFiles({0: part("a")}), "a")

    assert refusal == Refusal(f"hits: more than {MAX_IGNORED} parts would be given up")


def test_only_files_that_are_named_are_given_up() -> None:
    with pytest.raises(ValueError, match="name the files of hits to give up"):
        IgnoreFilesRequest(who="kim", why="INC-12", topic="hits")
