"""Deletes replaced objects of a sample ledger as a driver does, at times that a test names."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.replacing.cleaning_up import CleaningUp
from landfall.driver.replacing.grace_period import GracePeriod
from landfall.lane import Lane
from landfall.publish import Publisher
from landfall.store import Store
from tests.support.ledger.compaction_scene import InlineBackground
from tests.support.ledger.sample_ledger import GROUP, LANE


class Cleaner:
    """A driver that has nothing else to do; its clock advances when a test wants it to."""

    def __init__(self, store: Store, publishers: dict[str, Callable[[], Publisher]]) -> None:
        self.now = datetime.now(UTC)
        self._deleted = set[int]()
        nothing: Any = None
        counters = DriverCounters(self.now)
        self._deps = DriverDeps(
            store, nothing, nothing, lambda: self.now, str, counters, InlineBackground()
        )
        self._lane = Lane(store, GROUP, LANE)
        self.grace = GracePeriod(
            deps=self._deps,
            lane=self._lane,
            keep=timedelta(0),
            publishers=publishers,
            wake=lambda: None,
        )

    def advance(self, by: timedelta = timedelta(0)) -> list[int]:
        """Delete what may be deleted a while later; return the slots of its REPLACEs."""
        self.now += by
        state = self._lane.read()
        for _ in range(2 * len(state.retiring) + 1):
            over = self.grace.over(state, self.now)
        over -= self._deleted
        self._deleted |= over
        cleaning = CleaningUp(self._deps, self._lane, lambda: None)
        for slot in over:
            cleaning.begin(slot, state.retiring[slot])
        for _ in range(3):
            cleaning.advance(self.now, dict(state.retiring))
        return sorted(over)
