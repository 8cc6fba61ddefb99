"""The load's book, held against what landed: whatever is wrong is named, and nothing else."""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.producer_ledger import (
    Comparison,
    Fate,
    Landed,
    ProducerLedger,
    TopicComparison,
    compare,
    ranges_of,
)
from tests.chaos.records import Identity

FINE = TopicComparison(
    acknowledged=90,
    aborted=5,
    landed=90,
    in_doubt=0,
    missing=[],
    repeated=[],
    aborted_landed=[],
    unknown=[],
)
"""Of numbers 0 to 99 the first 90 are acknowledged, then five aborted, and five in doubt."""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    book = ProducerLedger(tmp_path / "book.jsonl")
    assert [book.number("t") for _ in range(100)] == list(range(100))
    for number in (*range(0, 90, 2), *range(1, 90, 2)):
        book.tell("t", Fate.ACKNOWLEDGED, [number])
    book.flush()
    book.tell("t", Fate.ABORTED, range(90, 95))
    book.close()
    return tmp_path / "book.jsonl"


def rows(*numbers: int, topic: str = "t", into: str = "t") -> Landed:
    return Landed(into, [Identity(topic, number) for number in numbers])


def changed(**faults: object) -> Comparison:
    return Comparison(
        {
            "t": TopicComparison(
                **{**{name: getattr(FINE, name) for name in FINE.__struct_fields__}, **faults}
            )
        }
    )  # type: ignore[arg-type]  # its fields


def test_what_landed_as_the_book_says_is_exact(written: Path) -> None:
    verdict = compare(written, [rows(*range(40)), rows(), rows(*range(89, 39, -1))])

    assert verdict == Comparison({"t": FINE})
    assert verdict.is_exact


@pytest.mark.parametrize(
    ("landed", "expected"),
    [
        ([rows(*range(10), *range(12, 89))], changed(landed=87, missing=[(10, 12), (89, 90)])),
        ([], changed(landed=0, missing=[(0, 90)])),
        ([rows(*range(90)), rows(7, 8, 30)], changed(landed=93, repeated=[(7, 9), (30, 31)])),
        ([rows(*range(90), 7, 7)], changed(landed=92, repeated=[(7, 8)])),
        ([rows(*range(90), 92, 93)], changed(landed=92, aborted_landed=[(92, 94)])),
        ([rows(*range(90), 10_000)], changed(landed=91, unknown=[(10_000, 10_001)])),
        ([rows(*range(90), 97, 97)], changed(landed=92, in_doubt=1, repeated=[(97, 98)])),
        ([rows(*range(80)), rows(*range(80, 90), into="u")], changed(misfiled=10)),
    ],
)
def test_what_is_wrong_is_named(
    written: Path, landed: Iterable[Landed], expected: Comparison
) -> None:
    verdict = compare(written, landed)

    assert verdict == expected
    assert not verdict.is_exact


def test_numbers_in_doubt_may_land_once_or_not(written: Path) -> None:
    verdict = compare(written, [rows(*range(90), 95, 97)])

    assert verdict == changed(landed=92, in_doubt=2)
    assert verdict.is_exact


def test_a_topic_of_which_the_book_knows_nothing_is_all_unknown(written: Path) -> None:
    verdict = compare(written, [rows(*range(90)), rows(3, 4, topic="u", into="u")])

    assert verdict.topics["u"].unknown == [(3, 5)]
    assert not verdict.is_exact


def test_a_row_without_a_number_is_counted(written: Path) -> None:
    verdict = compare(written, [Landed("t", [None, *rows(*range(90), -1, 1 << 60).rows])])

    assert verdict == Comparison({"t": FINE}, nameless=3)
    assert not verdict.is_exact


def test_a_repetition_of_hundreds_is_one(written: Path) -> None:
    verdict = compare(written, [rows(*range(90)), *[rows(3)] * 600])

    assert verdict.topics["t"].repeated == [(3, 4)]


def test_an_empty_book_proves_nothing(tmp_path: Path) -> None:
    ProducerLedger(tmp_path / "book.jsonl").close()

    assert not compare(tmp_path / "book.jsonl", []).is_exact


def test_a_book_is_readable_up_to_where_its_writer_was_killed(written: Path) -> None:
    whole = written.read_bytes()
    written.write_bytes(whole + b'{"topic":"t","fate":"Ackno')

    assert compare(written, [rows(*range(90))]).is_exact


def test_a_number_is_begun_in_the_file_before_it_is_given_out(tmp_path: Path) -> None:
    book = ProducerLedger(tmp_path / "book.jsonl")

    for number in range(25_000):
        assert book.number("t") == number

    assert compare(tmp_path / "book.jsonl", [rows(24_999)]).topics["t"].unknown == []


def test_a_verdict_tells_a_person_what_is_wrong(written: Path) -> None:
    verdict = compare(written, [rows(*range(1, 90), 92, 5), Landed("t", [None])])

    assert str(verdict) == (
        "t: 90 acknowledged, 91 landed, 0 of them in doubt; missing: 1 (0); repeated: 1 (5); aborted_landed: 1 (92)\n"
        "1 rows without a number"
    )


@given(st.lists(st.integers(0, 60)))
def test_ranges_hold_the_same_numbers(numbers: list[int]) -> None:
    ranges = ranges_of(np.array(numbers, np.int64))

    assert [number for start, end in ranges for number in range(start, end)] == sorted(set(numbers))
    assert all(earlier[1] < later[0] for earlier, later in pairwise(ranges))
