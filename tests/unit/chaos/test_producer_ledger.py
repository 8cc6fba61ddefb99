"""The producers' ledger compared with what landed: every deviation is named, and nothing else."""

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
    LandedObject,
    ProducerLedger,
    TopicComparison,
    compare,
    ranges_of,
)
from tests.chaos.records import Identity

EXACT = TopicComparison(
    acknowledged=90,
    aborted=5,
    landed=90,
    in_doubt=0,
    missing=[],
    repeated=[],
    aborted_landed=[],
    unknown=[],
)
"""Of the numbers 0 to 99, 90 are acknowledged, then 5 are aborted, and 5 are in doubt."""


@pytest.fixture
def producer_ledger(tmp_path: Path) -> Path:
    ledger = ProducerLedger(tmp_path / "ledger.jsonl")
    assert [ledger.next_number("t") for _ in range(100)] == list(range(100))
    for number in (*range(0, 90, 2), *range(1, 90, 2)):
        ledger.record_fate("t", Fate.ACKNOWLEDGED, [number])
    ledger.flush()
    ledger.record_fate("t", Fate.ABORTED, range(90, 95))
    ledger.close()
    return tmp_path / "ledger.jsonl"


def rows(*numbers: int, topic: str = "t", into: str = "t") -> LandedObject:
    return LandedObject(into, [Identity(topic, number) for number in numbers])


def exact_but(**changes: object) -> Comparison:
    return Comparison(
        {
            "t": TopicComparison(
                **{**{name: getattr(EXACT, name) for name in EXACT.__struct_fields__}, **changes}
            )
        }
    )


def test_everything_landed_as_the_ledger_says_is_exact(producer_ledger: Path) -> None:
    comparison = compare(producer_ledger, [rows(*range(40)), rows(), rows(*range(89, 39, -1))])

    assert comparison == Comparison({"t": EXACT})
    assert comparison.is_exact


@pytest.mark.parametrize(
    ("landed", "expected"),
    [
        ([rows(*range(10), *range(12, 89))], exact_but(landed=87, missing=[(10, 12), (89, 90)])),
        ([], exact_but(landed=0, missing=[(0, 90)])),
        ([rows(*range(90)), rows(7, 8, 30)], exact_but(landed=93, repeated=[(7, 9), (30, 31)])),
        ([rows(*range(90), 7, 7)], exact_but(landed=92, repeated=[(7, 8)])),
        ([rows(*range(90), 92, 93)], exact_but(landed=92, aborted_landed=[(92, 94)])),
        ([rows(*range(90), 10_000)], exact_but(landed=91, unknown=[(10_000, 10_001)])),
        ([rows(*range(90), 97, 97)], exact_but(landed=92, in_doubt=1, repeated=[(97, 98)])),
        ([rows(*range(80)), rows(*range(80, 90), into="u")], exact_but(misfiled=10)),
    ],
)
def test_every_deviation_is_named(
    producer_ledger: Path, landed: Iterable[LandedObject], expected: Comparison
) -> None:
    comparison = compare(producer_ledger, landed)

    assert comparison == expected
    assert not comparison.is_exact


def test_numbers_in_doubt_may_land_once_or_not(producer_ledger: Path) -> None:
    comparison = compare(producer_ledger, [rows(*range(90), 95, 97)])

    assert comparison == exact_but(landed=92, in_doubt=2)
    assert comparison.is_exact


def test_all_rows_of_a_topic_without_numbers_in_the_ledger_are_unknown(
    producer_ledger: Path,
) -> None:
    comparison = compare(producer_ledger, [rows(*range(90)), rows(3, 4, topic="u", into="u")])

    assert comparison.topics["u"].unknown == [(3, 5)]
    assert not comparison.is_exact


def test_a_row_without_a_number_is_counted(producer_ledger: Path) -> None:
    comparison = compare(
        producer_ledger, [LandedObject("t", [None, *rows(*range(90), -1, 1 << 60).rows])]
    )

    assert comparison == Comparison({"t": EXACT}, unidentified=3)
    assert not comparison.is_exact


def test_a_number_that_landed_hundreds_of_times_is_repeated_once(producer_ledger: Path) -> None:
    comparison = compare(producer_ledger, [rows(*range(90)), *[rows(3)] * 600])

    assert comparison.topics["t"].repeated == [(3, 4)]


def test_an_empty_ledger_is_not_exact(tmp_path: Path) -> None:
    ProducerLedger(tmp_path / "ledger.jsonl").close()

    assert not compare(tmp_path / "ledger.jsonl", []).is_exact


def test_a_ledger_is_readable_up_to_where_its_writer_was_killed(producer_ledger: Path) -> None:
    whole = producer_ledger.read_bytes()
    producer_ledger.write_bytes(whole + b'{"topic":"t","fate":"Ackno')

    assert compare(producer_ledger, [rows(*range(90))]).is_exact


def test_a_number_is_begun_in_the_file_before_it_is_returned(tmp_path: Path) -> None:
    ledger = ProducerLedger(tmp_path / "ledger.jsonl")

    for number in range(25_000):
        assert ledger.next_number("t") == number

    assert compare(tmp_path / "ledger.jsonl", [rows(24_999)]).topics["t"].unknown == []


def test_a_printed_comparison_lists_what_is_wrong(producer_ledger: Path) -> None:
    comparison = compare(producer_ledger, [rows(*range(1, 90), 92, 5), LandedObject("t", [None])])

    assert str(comparison) == (
        "t: 90 acknowledged, 91 landed, 0 of them in doubt; missing: 1 (0); repeated: 1 (5);"
        " aborted_landed: 1 (92)\n"
        "rows without a number: 1"
    )


@given(st.lists(st.integers(0, 60)))
def test_ranges_hold_the_same_numbers(numbers: list[int]) -> None:
    ranges = ranges_of(np.array(numbers, np.int64))

    assert [number for start, end in ranges for number in range(start, end)] == sorted(set(numbers))
    assert all(earlier[1] < later[0] for earlier, later in pairwise(ranges))
