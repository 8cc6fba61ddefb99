"""A day of late data, played: what is merged, and how much is written for it."""

import pytest

from tests.sim.late_data import a_day_of_late_data

RULES = {"below": "1Mi", "target": "4Mi"}


@pytest.mark.parametrize("every", [1, 9, 11, 30])
def test_late_objects_are_merged_among_themselves(every: int) -> None:
    day = a_day_of_late_data(every, **RULES)

    assert day.rewritten <= 4 * day.late
    assert day.objects <= 6 * 60 / every + 6  # those of the longest wait, and some merged ones
    assert 5 <= day.merges <= 15


@pytest.mark.parametrize("every", [9, 11])
def test_duplicates_are_looked_for_a_few_times_a_day(every: int) -> None:
    day = a_day_of_late_data(every, **RULES, dedupe={"key": "value"})

    assert 5 <= day.merges <= 15
    assert day.objects <= 6 * 60 / every + 1
