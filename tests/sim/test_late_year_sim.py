"""Weeks of late data, played with the whole driver: what stays bounded, and what is rewritten."""

from datetime import timedelta

import pytest

from tests.sim import late_year
from tests.sim.late_year import Year, a_year


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that starts each second day, of a group that keeps copies for a day."""
    monkeypatch.setattr(late_year, "MONTH_DAYS", 2)
    monkeypatch.setitem(late_year.SPEC, "tuning", {"retainReplaced": "1d", "segmentEvery": 200})


def check_bounds(year: Year) -> None:
    """The second half of the time leaves no more behind than the first, but for data and lists."""
    half = len(year.months) // 2
    first, second = year.months[:half], year.months[half:]
    for each in year.months:
        assert each.uploads == 0
        assert each.most <= 15
        assert each.objects <= 4 * each.hours
    for name in ("copies", "copied_bytes", "start_requests"):
        before, after = (max(getattr(m, name) for m in months) for months in (first, second))
        assert after <= 1.5 * before, name
    assert year.months[-1].ledger_objects <= 1.5 * max(m.ledger_objects for m in first)


@pytest.mark.rest
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("profile", ["every 9 min", "a batch a day"])
def test_what_is_kept_is_bounded_and_a_byte_is_written_few_times(profile: str) -> None:
    year = a_year(profile, 8)

    check_bounds(year)
    assert year.late_rows > 0
    assert year.merges > 0
    assert year.rewritten <= 2


def test_a_late_row_that_always_comes_to_the_same_hour_does_not_write_it_again_and_again() -> None:
    year = a_year("every 9 min, one hour", 4, {**late_year.COMPACT, "dedupe": {"key": "o"}})

    assert year.late_rows >= timedelta(days=3) // timedelta(minutes=9)
    assert year.rewritten <= 4
