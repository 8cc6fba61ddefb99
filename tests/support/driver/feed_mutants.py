"""Drivers of feeds with one rule broken; see ``driver_mutants``."""

from collections.abc import Mapping
from functools import partial

from landfall import ledger
from landfall.discovery.looker import Look
from landfall.driver.feeds.feeds import Feeds
from landfall.driver.feeds.open_feeds import OpenFeed
from landfall.driver.process.loop import Driver
from landfall.errors import PartUnreadable
from landfall.ledger import Decision, State
from landfall.ledger.feeds import number_of, part_offsets
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition

DECISION = Decision("skip", "nobody", "", "2126-11-21T12:00:00Z")


class AdoptsUnrecorded(Driver):
    """A look is adopted while there is enough to land, and no DISCOVER names what it found."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._feeds.__class__ = _AdoptsUnrecorded


class _AdoptsUnrecorded(Feeds):
    def _adopt(self, tp: TopicPartition, opened: OpenFeed, state: State, seen: Look) -> State:
        if state.feeds[tp].end > number_of(state.checkpoint[tp]):
            opened.looker.adopt(seen)
            return state
        return super()._adopt(tp, opened, state, seen)


class ParksAndForgets(Driver):
    """The checkpoint moves past what cannot be read, and nobody remembers it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._feeds.__class__ = _ParksAndForgets
        self._committer.park = self._feeds.park


class _ParksAndForgets(Feeds):
    def park(self, state: State, unreadable: Mapping[TopicPartition, PartUnreadable]) -> State:
        for tp, error in sorted(unreadable.items()):
            at = state.checkpoint[tp]
            hole = Slice(tp, OffsetRange(at, part_offsets(number_of(at)).end))
            skipped = partial(ledger.Hole, piece=hole, reason=str(error), decision=DECISION)
            state = self._append(skipped)
        return state
