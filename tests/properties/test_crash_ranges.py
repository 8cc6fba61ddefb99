"""Closed ranges without their rule: the crash machine notices that one ends too early."""

from collections.abc import Collection

import pytest

from landfall.driver.landing.closed_ranges import ClosedRanges
from landfall.ledger import State, runs
from landfall.ledger.offsets import TopicPartition
from tests.crashes.playing import play_schedules
from tests.crashes.process import Wrong

SCHEDULES = 400


@pytest.mark.rest
def test_a_range_must_not_end_before_all_of_it_is_visible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    advance = ClosedRanges.advance

    def eager(
        self: ClosedRanges,
        state: State,
        stalled: Collection[TopicPartition],
        waiting: Collection[str] = (),
        *,
        is_landed: bool,
    ) -> None:
        del is_landed
        advance(self, state, stalled, waiting, is_landed=True)

    monkeypatch.setattr(ClosedRanges, "advance", eager)
    monkeypatch.setattr(ClosedRanges, "_wrong", lambda *_: {})
    monkeypatch.setattr(runs, "_check_visible", lambda *_: None)

    with pytest.raises(Wrong, match=r"slot \d+ ends a run, and .* was not visible"):
        play_schedules(SCHEDULES)
