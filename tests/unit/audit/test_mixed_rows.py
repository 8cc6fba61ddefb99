"""What the auditor finds in rows that are mixed."""

import numpy as np
import pytest

from landfall_audit.objects.mixed_rows import MixedRecords, MixedResult, MixedRules, compare_mixed

RECORDS = MixedRecords(np.array([0, 0, 0, 1]), np.array([1, 2, 3, 1]), np.array([11, 12, 13, 21]))


def found(
    rows: list[tuple[int, int]], *, known: bool = True, rules: MixedRules | None = None
) -> MixedResult:
    """What is found in rows of these offsets and hashes."""
    offsets, hashes = np.array(rows, np.int64).reshape(-1, 2).T
    return compare_mixed(RECORDS, offsets if known else None, hashes, rules or MixedRules())


def numbers(result: MixedResult) -> tuple[int, int, int, int]:
    """Records that are missing and corrupted, rows that are twice and of nobody."""
    return result.missing, int(result.corrupted.sum()), result.duplicate, result.foreign


@pytest.mark.parametrize("known", [True, False])
def test_rows_are_found_in_any_order(known: bool) -> None:
    assert numbers(found([(1, 21), (3, 13), (1, 11), (2, 12)], known=known)) == (0, 0, 0, 0)


def test_rows_of_one_offset_in_two_topic_partitions_are_not_confused() -> None:
    result = found([(1, 21), (3, 13), (2, 12)])

    assert result.absent.tolist() == [True, False, False, False]


@pytest.mark.parametrize("known", [True, False])
def test_a_changed_row_is_corrupted(known: bool) -> None:
    assert numbers(found([(1, 21), (3, 99), (1, 11), (2, 12)], known=known)) == (0, 1, 0, 0)


@pytest.mark.parametrize("known", [True, False])
def test_a_second_row_is_a_duplicate(known: bool) -> None:
    rows = [(1, 21), (3, 13), (3, 13), (1, 11), (2, 12)]

    assert numbers(found(rows, known=known)) == (0, 0, 1, 0)


def test_a_row_of_nobody_is_foreign() -> None:
    rows = [(1, 21), (3, 13), (9, 99), (1, 11), (2, 12)]

    assert numbers(found(rows)) == (0, 0, 0, 1)
    assert numbers(found(rows, rules=MixedRules(unchecked=1))) == (0, 0, 0, 0)


@pytest.mark.parametrize("known", [True, False])
def test_as_many_records_may_be_absent_as_were_left_out(known: bool) -> None:
    rows = [(1, 21), (3, 13)]

    assert numbers(found(rows, known=known)) == (2, 0, 0, 0)
    assert numbers(found(rows, known=known, rules=MixedRules(left_out=1))) == (1, 0, 0, 0)
    assert numbers(found(rows, known=known, rules=MixedRules(left_out=2))) == (0, 0, 0, 0)
    assert numbers(found(rows, known=known, rules=MixedRules(filtered=2))) == (0, 0, 0, 0)


def test_fewer_records_that_are_absent_than_were_left_out_are_wrong() -> None:
    rows = [(1, 21), (3, 13), (1, 11)]

    assert found(rows, rules=MixedRules(left_out=2)).too_few == 1
    assert found(rows, rules=MixedRules(left_out=2, unchecked=1)).too_few == 0


def test_payloads_that_cannot_be_compared_leave_the_offsets() -> None:
    rows = [(1, 0), (3, 0), (1, 0), (2, 0)]

    assert numbers(found(rows, rules=MixedRules(payloads=False))) == (0, 0, 0, 0)
