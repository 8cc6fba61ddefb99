"""Weeks in which people undo and promote and the store refuses: all of it ends, and is bounded."""

import pytest

from tests.sim import asked_year, late_year
from tests.sim.asked_year import an_asked_year
from tests.sim.late_year import DAY, HOUR


@pytest.mark.rest
@pytest.mark.slow
def test_what_is_asked_comes_through_and_what_was_refused_is_deleted_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(late_year, "MONTH_DAYS", 2)
    monkeypatch.setitem(late_year.SPEC, "tuning", {"retainReplaced": "1d", "segmentEvery": 200})
    monkeypatch.setattr(asked_year, "REFUSED_DAY", 3)
    monkeypatch.setattr(asked_year, "UNDO_EVERY", 2 * DAY)
    monkeypatch.setattr(asked_year, "PROMOTE_EVERY", 2 * DAY)
    monkeypatch.setattr(asked_year, "UNDONE_AFTER", DAY / 2)
    monkeypatch.setattr(asked_year, "AGE", 30 * HOUR)

    year, world = an_asked_year(7)

    assert world.refused.refusals > 0
    assert world.answers["promote: done"] > 0
    assert world.answers["undo: done"] > 1
    assert not [each for each in world.answers if "failed" in each]
    first, *_, last = year.months
    assert last.uploads == 0
    assert last.copies <= 2 * max(first.copies, 100)
    assert last.objects <= 6 * last.hours
