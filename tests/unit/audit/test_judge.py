"""What the auditor finds in the rows of one range."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from landfall_audit import PartitionResult, Unchecked
from landfall_audit.checks.judge import (
    DEAD_LETTERS,
    ELSEWHERE,
    UNKNOWN,
    ObjectRows,
    RangeRules,
    ReferenceRecords,
    judge,
)

A, B = 0, 1
EVEN_A_ODD_B = ReferenceRecords(np.arange(10), np.arange(100, 110), np.array([A, B] * 5))


def landed(
    place: int, *offsets: int, known: bool, hashes: dict[int, int] | None = None
) -> ObjectRows:
    """An object with the rows of these offsets; ``known`` says whether it stores the offsets."""
    found = np.array([(hashes or {}).get(offset, 100 + offset) for offset in offsets], np.int64)
    return ObjectRows(place, np.array(offsets, np.int64) if known else None, found)


def found_in(
    *objects: ObjectRows,
    records: ReferenceRecords = EVEN_A_ODD_B,
    rules: RangeRules = RangeRules(),  # noqa: B008  # frozen
) -> dict[str, object]:
    """What the auditor finds, without zeros."""
    result = PartitionResult()
    judge(records, objects, rules, result)
    return {name: value for name, value in asdict(result).items() if value}


@pytest.fixture(params=[True, False], ids=["with offsets", "without offsets"])
def known(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_records_that_are_there_once_in_their_place_are_found(known: bool) -> None:
    halves = landed(A, 0, 2, known=known), landed(A, 4, 6, 8, known=known)

    assert found_in(*halves, landed(B, 1, 3, 5, 7, 9, known=known)) == {"expected": 10, "found": 10}


def test_records_in_no_object_are_missing_with_their_ranges(known: bool) -> None:
    found = found_in(landed(A, 0, 2, 8, known=known), landed(B, 1, 3, 7, 9, known=known))

    assert found == {"expected": 10, "found": 7, "missing": 3, "ranges": [(4, 7)]}


def test_a_record_that_may_be_elsewhere_is_named_and_not_missing(known: bool) -> None:
    elsewhere = np.isin(np.arange(10), [4, 6, 8])
    records = replace(EVEN_A_ODD_B, elsewhere=elsewhere)
    objects = landed(A, 0, 6, known=known), landed(B, 1, 3, 5, 7, 9, known=known)
    result = PartitionResult()

    wrong = judge(records, objects, RangeRules(), result)

    assert wrong[ELSEWHERE].tolist() == [4, 8]
    assert (result.expected, result.found, result.missing) == (8, 7, 1)
    assert result.ranges == [(2, 3)]


def test_a_second_row_of_a_record_is_a_duplicate(known: bool) -> None:
    found = found_in(
        landed(A, 0, 2, 4, 6, 8, 4, known=known), landed(B, 1, 3, 5, 7, 9, known=known)
    )

    assert found == {"expected": 10, "found": 10, "duplicate": 1}


def test_a_record_in_another_output_partition_is_misplaced(known: bool) -> None:
    found = found_in(landed(A, 0, 2, 3, 4, 6, 8, known=known), landed(B, 1, 5, 7, 9, known=known))

    assert found == {"expected": 10, "found": 10, "misplaced": 1}


def test_another_payload_is_corrupted(known: bool) -> None:
    found = found_in(
        landed(A, 0, 2, 4, 6, 8, known=known, hashes={4: 7}), landed(B, 1, 3, 5, 7, 9, known=known)
    )

    assert found == {"expected": 10, "found": 10, "corrupted": 1}


def test_swapped_rows_are_disordered_near_or_far(known: bool) -> None:
    swapped, far = landed(A, 0, 4, 2, 6, 8, known=known), landed(B, 9, 3, 5, 7, 1, known=known)

    assert found_in(swapped, far) == {"expected": 10, "found": 10, "disordered": 3}


def test_objects_of_one_output_partition_in_the_wrong_order_are_disordered(known: bool) -> None:
    parts = landed(A, 6, 8, known=known), landed(A, 0, 2, 4, known=known)

    assert found_in(*parts, landed(B, 1, 3, 5, 7, 9, known=known)) == {
        "expected": 10,
        "found": 10,
        "disordered": 2,
    }


def test_a_row_that_matches_no_record_is_foreign() -> None:
    foreign = landed(A, 0, 2, 4, 6, 8, 50, known=True), landed(A, 0, 2, 4, 6, 8, 50, known=False)

    for with_foreign_row, known in zip(foreign, (True, False), strict=True):
        found = found_in(with_foreign_row, landed(B, 1, 3, 5, 7, 9, known=known))
        assert found == {"expected": 10, "found": 10, "foreign": 1}


def test_a_row_that_matches_no_record_of_a_compacted_topic_is_unchecked() -> None:
    found = found_in(
        landed(A, 0, 2, 4, 6, 8, 50, known=False),
        landed(B, 1, 3, 5, 7, 9, known=False),
        rules=RangeRules(compacted=True),
    )

    assert found == {"expected": 10, "found": 10, "unchecked": {Unchecked.COMPACTED: 1}}


def test_dead_letters_are_found_by_their_offsets(known: bool) -> None:
    letters = landed(DEAD_LETTERS, 2, 3, known=True)

    found = found_in(
        letters, landed(A, 0, 4, 6, 8, known=known), landed(B, 1, 5, 7, 9, known=known)
    )

    assert found == {"expected": 10, "found": 10}


def test_a_record_both_landed_and_dead_lettered_is_a_duplicate(known: bool) -> None:
    found = found_in(
        landed(DEAD_LETTERS, 2, known=True),
        landed(A, 0, 2, 4, 6, 8, known=known),
        landed(B, 1, 3, 5, 7, 9, known=known),
    )

    assert found == {"expected": 10, "found": 10, "duplicate": 1}


def test_only_the_place_is_unchecked_if_output_partitions_are_unknown(known: bool) -> None:
    nowhere = ReferenceRecords(
        np.arange(6), np.array([100, 101, 102, 103, 104, 104]), np.full(6, UNKNOWN)
    )

    found = found_in(landed(A, 0, 3, known=known), landed(B, 2, 1, 4, known=known), records=nowhere)

    assert found == {
        "expected": 6,
        "found": 5,
        "missing": 1,
        "disordered": 1,
        "ranges": [(5, 6)],
        "unchecked": {Unchecked.PLACE: 5},
    }


def test_equal_payloads_match_in_any_order(known: bool) -> None:
    same = ReferenceRecords(np.arange(4), np.full(4, 7), np.full(4, A))
    hashes = dict.fromkeys(range(4), 7)

    assert found_in(landed(A, 0, 1, 2, 3, known=known, hashes=hashes), records=same) == {
        "expected": 4,
        "found": 4,
    }
    assert found_in(landed(A, 0, 1, 2, known=known, hashes=hashes), records=same)["missing"] == 1


def test_rows_without_offsets_and_payloads_are_only_counted() -> None:
    rules = RangeRules(payloads=False)

    assert found_in(landed(A, *range(10), known=False), rules=rules) == {
        "expected": 10,
        "found": 10,
        "unchecked": {Unchecked.COUNTED: 10},
    }
    assert found_in(landed(A, *range(8), known=False), rules=rules)["missing"] == 2
    assert found_in(landed(A, *range(10), 3, known=False), rules=rules)["duplicate"] == 1


def test_filtered_records_are_not_expected() -> None:
    rules = RangeRules(payloads=False, filtered=2)

    found = found_in(
        landed(A, 0, 4, 6, 8, known=True), landed(B, 1, 3, 5, 7, known=True), rules=rules
    )

    assert found == {"expected": 8, "found": 8, "unchecked": {Unchecked.PAYLOAD: 8}}
    assert (
        found_in(landed(A, 0, 4, 6, known=True), landed(B, 1, 3, 5, 7, known=True), rules=rules)[
            "missing"
        ]
        == 1
    )


def test_dead_letters_are_compared_where_other_rows_cannot_be() -> None:
    """They hold what Kafka holds, whatever the group makes of its payloads."""
    rules = RangeRules(payloads=False)
    rows = landed(A, 0, 4, 6, 8, known=True, hashes={4: 7}), landed(B, 1, 5, 7, 9, known=True)
    whole, damaged = (
        landed(DEAD_LETTERS, 2, 3, known=True, hashes=hashes) for hashes in ({}, {3: 7})
    )

    found = {"expected": 10, "found": 10, "unchecked": {Unchecked.PAYLOAD: 8}}
    assert found_in(*rows, whole, rules=rules) == found
    assert found_in(*rows, damaged, rules=rules) == {**found, "corrupted": 1}


def test_an_empty_range_has_no_findings() -> None:
    none = np.empty(0, np.int64)

    assert found_in(records=ReferenceRecords(none, none, none)) == {}
    assert (
        found_in(
            ObjectRows(A, None, none),
            records=ReferenceRecords(none, none, none),
            rules=RangeRules(payloads=False),
        )
        == {}
    )


def test_objects_of_different_schemas_interleave() -> None:
    evens, rest = landed(A, 0, 4, 8, known=True), landed(A, 2, 6, known=True)
    odds = landed(B, 1, 3, 5, 7, 9, known=True)

    assert found_in(evens, rest, odds)["disordered"]
    of_other = replace(rest, schema="other")
    assert found_in(evens, of_other, odds) == {"expected": 10, "found": 10}


def test_rows_that_are_sorted_by_a_column_have_no_order() -> None:
    evens, odds = landed(A, 8, 0, 6, 2, 4, known=True), landed(B, 1, 3, 5, 7, 9, known=True)

    assert found_in(evens, odds)["disordered"]
    assert found_in(replace(evens, is_sorted=True), odds) == {"expected": 10, "found": 10}
