import numpy as np
import pytest

from landfall.checks.coverage import ReadBack
from landfall.checks.payloads import Comparison, KafkaRecords, compare, payload_hashes
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload

LANDED = LandedObject(Upload("k", "u", (), "t"), ObjectKind.DATA, 1, 0, 0, crc32=0)
PAYLOADS = [b"a", b"b", b"a", b"c"]
KAFKA = KafkaRecords(np.arange(4), payload_hashes(PAYLOADS))


def rows(*payloads: bytes) -> ReadBack:
    return ReadBack(LANDED, payload_hashes(payloads), None)


def rows_at(offsets: list[int], *payloads: bytes) -> ReadBack:
    return ReadBack(LANDED, payload_hashes(payloads), np.array(offsets, np.int64))


@pytest.mark.parametrize(
    ("objects", "comparison"),
    [
        ([rows(b"a", b"a"), rows(b"b", b"c")], Comparison(4)),
        ([rows(b"a", b"b", b"a", b"c"), rows()], Comparison(4)),
        ([rows(b"a", b"a"), rows(b"b")], Comparison(4, missing=1)),
        ([rows(b"a", b"a"), rows(b"b", b"c", b"c")], Comparison(4, foreign=1)),
        ([rows(b"a", b"a"), rows(b"b", b"x")], Comparison(4, missing=1, foreign=1)),
        ([rows(b"a", b"a"), rows(b"c", b"b")], Comparison(4, slices_out_of_order=1)),
    ],
)
def test_without_offsets_every_record_is_the_next_row_of_an_object(
    objects: list[ReadBack], comparison: Comparison
) -> None:
    assert compare(KAFKA, objects) == comparison


@pytest.mark.parametrize(
    ("objects", "comparison"),
    [
        ([rows_at([0, 2], b"a", b"a"), rows_at([1, 3], b"b", b"c")], Comparison(4)),
        ([rows_at([0, 1, 3], b"a", b"b", b"c")], Comparison(4, missing=1)),
        ([rows_at([0, 1, 2, 3], b"a", b"a", b"b", b"c")], Comparison(4, missing=2, foreign=2)),
    ],
)
def test_with_offsets_each_payload_is_the_one_at_its_offset(
    objects: list[ReadBack], comparison: Comparison
) -> None:
    assert compare(KAFKA, objects) == comparison


LOST = LandedObject(Upload("l", "u", (), "t"), ObjectKind.DATA, 1, 1, 2, crc32=0)
"""An object of one record, at offset 1 or 2, that was given up."""


@pytest.mark.parametrize(
    ("objects", "comparison"),
    [
        ([rows(b"a", b"a"), rows(b"c")], Comparison(4, lost=1)),
        ([rows(b"a", b"a")], Comparison(4, missing=1, lost=1)),
        ([rows(b"a", b"c", b"a")], Comparison(4, slices_out_of_order=1, lost=1)),
        ([rows_at([0, 2, 3], b"a", b"a", b"c")], Comparison(4, lost=1)),
        ([rows_at([0, 3], b"a", b"c")], Comparison(4, missing=1, lost=1)),
        ([rows_at([0, 1, 2], b"a", b"b", b"a")], Comparison(4, missing=1)),
    ],
)
def test_records_of_objects_that_were_given_up_are_not_missing(
    objects: list[ReadBack], comparison: Comparison
) -> None:
    assert compare(KAFKA, objects, [LOST]) == comparison


def test_comparisons_add_up() -> None:
    both = Comparison(4, missing=1) + Comparison(2, slices_gone=1)

    assert (both, both.is_same) == (Comparison(6, missing=1, slices_gone=1), False)
