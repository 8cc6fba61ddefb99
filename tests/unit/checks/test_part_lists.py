"""A list of parts that is gone, or not what the DISCOVER names, is a finding."""

from landfall.checks import Invariant
from landfall.checks.stored import check_list
from landfall.ledger.feeds.part_lists import ListedPart, encode_list

PART = ListedPart("in/a.json", "e1", 10, 1_763_700_000_000, 0, 10)
NAMED, BODY = encode_list("g", "0", "feed", 7, (PART,))


def test_a_list_as_it_was_written_is_no_finding() -> None:
    assert check_list("feed", NAMED, 3, BODY) is None


def test_a_list_that_is_gone_is_named_with_the_slot_that_names_it() -> None:
    found = check_list("feed", NAMED, 3, None)

    assert found is not None
    assert (found.invariant, found.slot, found.key) == (Invariant.I12, 3, NAMED.key)
    assert "list missing" in str(found)


def test_a_list_with_other_bytes_is_a_finding() -> None:
    found = check_list("feed", NAMED, 3, BODY[:-1] + b"x")

    assert found is not None
    assert found.invariant is Invariant.I12
    assert NAMED.key in str(found)
