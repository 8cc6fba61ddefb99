"""What the auditor says of the rows of one range."""

from dataclasses import asdict

import numpy as np
import pytest

from landfall.audit import PartitionResult, Unchecked
from landfall.audit.judge import LETTERS, UNKNOWN, Landed, Logged, Rules, judge

A, B = 0, 1
EVEN_A_ODD_B = Logged(np.arange(10), np.arange(100, 110), np.array([A, B] * 5))


def landed(place: int, *offsets: int, known: bool, hashes: dict[int, int] | None = None) -> Landed:
    """An object with the rows of these offsets, which it stores or not."""
    found = np.array([(hashes or {}).get(offset, 100 + offset) for offset in offsets], np.int64)
    return Landed(place, np.array(offsets, np.int64) if known else None, found)


def told(
    *objects: Landed,
    logged: Logged = EVEN_A_ODD_B,
    rules: Rules = Rules(),  # noqa: B008
) -> dict[str, object]:  # frozen
    """What is not nothing."""
    account = PartitionResult()
    judge(logged, objects, rules, account)
    return {name: value for name, value in asdict(account).items() if value}


@pytest.fixture(params=[True, False], ids=["with offsets", "without offsets"])
def known(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_each_record_once_in_its_place_is_all_there_is_to_say(known: bool) -> None:
    halves = landed(A, 0, 2, known=known), landed(A, 4, 6, 8, known=known)

    assert told(*halves, landed(B, 1, 3, 5, 7, 9, known=known)) == {"expected": 10, "found": 10}


def test_records_in_no_object_are_missing_with_their_ranges(known: bool) -> None:
    found = told(landed(A, 0, 2, 8, known=known), landed(B, 1, 3, 7, 9, known=known))

    assert found == {"expected": 10, "found": 7, "missing": 3, "ranges": [(4, 7)]}


def test_a_row_seen_twice_is_a_duplicate(known: bool) -> None:
    found = told(landed(A, 0, 2, 4, 6, 8, 4, known=known), landed(B, 1, 3, 5, 7, 9, known=known))

    assert found == {"expected": 10, "found": 10, "duplicate": 1}


def test_a_record_among_those_of_another_place_is_misplaced(known: bool) -> None:
    found = told(landed(A, 0, 2, 3, 4, 6, 8, known=known), landed(B, 1, 5, 7, 9, known=known))

    assert found == {"expected": 10, "found": 10, "misplaced": 1}


def test_another_payload_is_corrupted(known: bool) -> None:
    found = told(
        landed(A, 0, 2, 4, 6, 8, known=known, hashes={4: 7}), landed(B, 1, 3, 5, 7, 9, known=known)
    )

    assert found == {"expected": 10, "found": 10, "corrupted": 1}


def test_swapped_rows_are_disordered_wherever_they_stand(known: bool) -> None:
    swapped, far = landed(A, 0, 4, 2, 6, 8, known=known), landed(B, 9, 3, 5, 7, 1, known=known)

    assert told(swapped, far) == {"expected": 10, "found": 10, "disordered": 3}


def test_objects_of_one_place_in_the_wrong_order_are_disordered(known: bool) -> None:
    parts = landed(A, 6, 8, known=known), landed(A, 0, 2, 4, known=known)

    assert told(*parts, landed(B, 1, 3, 5, 7, 9, known=known)) == {
        "expected": 10,
        "found": 10,
        "disordered": 2,
    }


def test_a_row_of_no_record_is_foreign() -> None:
    strangers = landed(A, 0, 2, 4, 6, 8, 50, known=True), landed(A, 0, 2, 4, 6, 8, 50, known=False)

    for stranger, known in zip(strangers, (True, False), strict=True):
        found = told(stranger, landed(B, 1, 3, 5, 7, 9, known=known))
        assert found == {"expected": 10, "found": 10, "foreign": 1}


def test_of_a_compacted_topic_such_a_row_may_have_been_a_record() -> None:
    found = told(
        landed(A, 0, 2, 4, 6, 8, 50, known=False),
        landed(B, 1, 3, 5, 7, 9, known=False),
        rules=Rules(compacted=True),
    )

    assert found == {"expected": 10, "found": 10, "unchecked": {Unchecked.COMPACTED: 1}}


def test_dead_letters_are_found_by_their_offsets(known: bool) -> None:
    letters = landed(LETTERS, 2, 3, known=True)

    found = told(letters, landed(A, 0, 4, 6, 8, known=known), landed(B, 1, 5, 7, 9, known=known))

    assert found == {"expected": 10, "found": 10}


def test_a_record_both_landed_and_dead_lettered_is_a_duplicate(known: bool) -> None:
    found = told(
        landed(LETTERS, 2, known=True),
        landed(A, 0, 2, 4, 6, 8, known=known),
        landed(B, 1, 3, 5, 7, 9, known=known),
    )

    assert found == {"expected": 10, "found": 10, "duplicate": 1}


def test_places_nobody_knows_are_unchecked_and_everything_else_is_not(known: bool) -> None:
    nowhere = Logged(np.arange(6), np.array([100, 101, 102, 103, 104, 104]), np.full(6, UNKNOWN))

    found = told(landed(A, 0, 3, known=known), landed(B, 2, 1, 4, known=known), logged=nowhere)

    assert found == {
        "expected": 6,
        "found": 5,
        "missing": 1,
        "disordered": 1,
        "ranges": [(5, 6)],
        "unchecked": {Unchecked.PLACE: 5},
    }


def test_equal_payloads_stand_for_each_other(known: bool) -> None:
    same = Logged(np.arange(4), np.full(4, 7), np.full(4, A))
    hashes = dict.fromkeys(range(4), 7)

    assert told(landed(A, 0, 1, 2, 3, known=known, hashes=hashes), logged=same) == {
        "expected": 4,
        "found": 4,
    }
    assert told(landed(A, 0, 1, 2, known=known, hashes=hashes), logged=same)["missing"] == 1


def test_rows_that_hold_something_else_than_payloads_are_only_counted() -> None:
    rules = Rules(payloads=False)

    assert told(landed(A, *range(10), known=False), rules=rules) == {
        "expected": 10,
        "found": 10,
        "unchecked": {Unchecked.COUNTED: 10},
    }
    assert told(landed(A, *range(8), known=False), rules=rules)["missing"] == 2
    assert told(landed(A, *range(10), 3, known=False), rules=rules)["duplicate"] == 1


def test_what_a_transform_left_out_is_not_expected() -> None:
    rules = Rules(payloads=False, filtered=2)

    found = told(landed(A, 0, 4, 6, 8, known=True), landed(B, 1, 3, 5, 7, known=True), rules=rules)

    assert found == {"expected": 8, "found": 8, "unchecked": {Unchecked.PAYLOAD: 8}}
    assert (
        told(landed(A, 0, 4, 6, known=True), landed(B, 1, 3, 5, 7, known=True), rules=rules)[
            "missing"
        ]
        == 1
    )


def test_nothing_logged_and_nothing_landed_is_nothing() -> None:
    none = np.empty(0, np.int64)

    assert told(logged=Logged(none, none, none)) == {}
    assert (
        told(Landed(A, None, none), logged=Logged(none, none, none), rules=Rules(payloads=False))
        == {}
    )
