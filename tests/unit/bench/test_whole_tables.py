"""The arithmetic of whole runs, and their tables."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.whole_tables import (
    Pair,
    WholeRun,
    floor_table,
    output_table,
    paragraph,
    ratio_table,
    speed_table,
    with_range,
)

SMALL = WholeRun("A", 1_000_000, 250_000_000, 15.0, 9.4, 700.0, 90_000_000, 8, 70)
LARGE = WholeRun("A", 4_000_000, 1_000_000_000, 22.5, 15.0, 810.0, 400_000_000, 16, 1_166)


def pair(name: str, more_cpu: float = 0.0) -> Pair:
    large = replace(LARGE, contender=name, cpu_seconds=LARGE.cpu_seconds + more_cpu)
    return Pair(replace(SMALL, contender=name), large)


def test_total_counts_everything_and_marginal_only_what_more_input_takes() -> None:
    measured = Pair(SMALL, LARGE)

    assert measured.total == pytest.approx(1000 / 22.5)
    assert measured.marginal == pytest.approx(750 / 7.5)
    assert measured.fixed_cpu_seconds == pytest.approx(15.0 - 250 / 100)


@given(
    fixed=st.floats(0, 100),
    speed=st.floats(1, 500),
    small_mb=st.integers(10, 500),
    more_mb=st.integers(100, 2000),
)
def test_a_fixed_cost_and_a_speed_are_found_again(
    fixed: float, speed: float, small_mb: int, more_mb: int
) -> None:
    def run(mb: int) -> WholeRun:
        return replace(SMALL, input_bytes=mb * 1_000_000, cpu_seconds=fixed + mb / speed)

    measured = Pair(run(small_mb), run(small_mb + more_mb))

    assert measured.marginal == pytest.approx(speed, rel=1e-6)
    assert measured.fixed_cpu_seconds == pytest.approx(fixed, abs=1e-6)
    assert measured.total <= measured.marginal * (1 + 1e-6)


def test_a_large_run_that_used_no_more_cpu_has_no_marginal_speed() -> None:
    measured = Pair(SMALL, replace(LARGE, cpu_seconds=15.0))

    with pytest.raises(ValueError, match="no more CPU"):
        _ = measured.marginal


@pytest.mark.parametrize(
    ("small", "large"), [(LARGE, SMALL), (SMALL, replace(LARGE, contender="B")), (SMALL, SMALL)]
)
def test_only_a_small_and_a_large_run_of_one_contender_are_a_pair(
    small: WholeRun, large: WholeRun
) -> None:
    with pytest.raises(ValueError, match="not a small and a large run"):
        Pair(small, large)


def test_a_median_stands_with_its_range_unless_all_values_read_the_same() -> None:
    assert with_range([3.0, 1.0, 2.04]) == "2.0 (1.0\u20133.0)"
    assert with_range([1234.4], 0) == "1,234"
    assert with_range([1234.4, 1233.6], 0) == "1,234"


def test_the_speed_table_has_a_row_for_each_contender_in_order() -> None:
    pairs = [pair("B"), pair("A"), pair("B", more_cpu=2.5), pair("A")]

    assert speed_table(pairs) == (
        "| contender | total, MB per CPU-s (4 M) | marginal, MB per CPU-s | fixed, CPU-s "
        "| CPU-s (4 M) | wall s (4 M) | peak MB (4 M) |\n"
        "|---|---|---|---|---|---|---|\n"
        "| B | **42.2 (40.0\u201344.4)** | **87.5 (75.0\u2013100.0)** "
        "| 12.1 (11.7\u201312.5) | 23.8 (22.5\u201325.0) | 15 | 810 |\n"
        "| A | **44.4** | **100.0** "
        "| 12.5 | 22.5 | 15 | 810 |"
    )


def test_the_ratio_table_compares_medians_with_those_of_the_reference() -> None:
    twice = replace(LARGE, contender="B", cpu_seconds=45.0, landed_bytes=500_000_000)
    slow = Pair(replace(SMALL, contender="B", cpu_seconds=30.0), twice)

    assert ratio_table([Pair(SMALL, LARGE), slow], "B") == (
        "| times B | total | marginal | MB landed |\n|---|---|---|---|\n| A | 2.0 | 2.0 | 0.80 |"
    )
    with pytest.raises(ValueError, match="nothing to compare with"):
        ratio_table([slow], "A")


def test_the_floor_table_compares_runs_of_one_repetition() -> None:
    busy = replace(LARGE, cpu_seconds=45.0)
    runs = [Pair(SMALL, LARGE), pair("B"), Pair(replace(SMALL, cpu_seconds=30.0), busy)]

    assert floor_table([*runs, pair("B", 22.5)], "A") == (
        "| of the floor's speed | total | marginal |\n"
        "|---|---|---|\n"
        "| B | 1.00 | 0.75 (0.50\u20131.00) |"
    )
    with pytest.raises(ValueError, match="shorter"):
        floor_table([*runs, pair("B"), pair("B")], "A")


def test_the_output_table_says_what_was_written_and_that_all_of_it_was_found() -> None:
    unknown = replace(LARGE, contender="B", requests=None)

    assert output_table([Pair(SMALL, LARGE), Pair(replace(SMALL, contender="B"), unknown)]) == (
        "| contender | MB landed | MB in per MB landed | objects | S3 requests "
        "| records found again |\n"
        "|---|---|---|---|---|---|\n"
        "| A | 400 | 2.50 | 16 | 1,166 | 4,000,000 of 4,000,000 |\n"
        "| B | 400 | 2.50 | 16 | not known | 4,000,000 of 4,000,000 |"
    )


def test_notes_are_wrapped_and_items_of_a_list_stay_items() -> None:
    lines = paragraph("- **A**: " + "word " * 40).splitlines()

    assert len(lines) == 2
    assert all(len(line) <= 118 for line in lines)
    assert lines[1].startswith("  word")
