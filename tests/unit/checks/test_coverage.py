import numpy as np
import pytest

from landfall.checks.coverage import Coverage, ReadBack, cover
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload

UPLOAD = Upload("k", "u", (Part("e", 1),), "t")
EVEN = LandedObject(UPLOAD, ObjectKind.DATA, 3, 0, 4, crc32=0)
ODD = LandedObject(UPLOAD, ObjectKind.DATA, 2, 1, 3, crc32=0)
SLICE = LandedSlice(
    Slice(TopicPartition("clicks", 0), OffsetRange(0, 6)),
    (EVEN, ODD),
    5,
    0,
    0,
    invisible=1,
    input_bytes=0,
)


def with_offsets(*offsets: int, landed: LandedObject = EVEN) -> ReadBack:
    return ReadBack(landed, np.zeros(len(offsets), np.int64), np.array(offsets, np.int64))


@pytest.mark.parametrize(
    ("even", "coverage"),
    [
        ((0, 2, 4), Coverage(expected=5, found=5, objects=2)),
        ((0, 4), Coverage(expected=5, found=4, missing=1, objects=2)),
        ((0, 2, 3), Coverage(expected=5, found=4, missing=1, duplicate=1, objects=2)),
        ((0, 2, 4, 9), Coverage(expected=5, found=5, foreign=1, objects=2)),
        ((0, 2, 4, 5), Coverage(expected=5, found=6, foreign=1, objects=2)),
    ],
)
def test_offsets_show_what_is_missing_or_duplicate(
    even: tuple[int, ...], coverage: Coverage
) -> None:
    covered = cover(SLICE, [with_offsets(*even), with_offsets(1, 3, landed=ODD)])

    assert covered == coverage
    assert covered.is_whole == (even == (0, 2, 4))


@pytest.mark.parametrize(
    ("rows", "coverage"),
    [
        ((3, 2), Coverage(expected=5, found=5, objects=2, exact=False)),
        ((2, 3), Coverage(expected=5, found=4, missing=1, duplicate=1, objects=2, exact=False)),
        ((4, 2), Coverage(expected=5, found=5, duplicate=1, objects=2, exact=False)),
    ],
)
def test_without_offsets_rows_are_counted_object_by_object(
    rows: tuple[int, int], coverage: Coverage
) -> None:
    even, odd = (
        ReadBack(o, np.zeros(n, np.int64), None) for o, n in zip((EVEN, ODD), rows, strict=True)
    )

    assert cover(SLICE, [even, odd]) == coverage


def test_the_records_of_an_unread_object_are_missing() -> None:
    assert cover(SLICE, [with_offsets(0, 2, 4)]).missing == 2
    assert cover(SLICE, []).missing == 5


def test_coverages_add_up_and_are_exact_only_together() -> None:
    both = Coverage(expected=5, found=4, missing=1, objects=2) + Coverage(
        expected=1, found=1, objects=1, exact=False
    )

    assert both == Coverage(expected=6, found=5, missing=1, objects=3, exact=False)
