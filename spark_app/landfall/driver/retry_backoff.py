"""Exponential backoff per topic partition.

A topic partition that failed waits, and is then tried in a batch of its own, so that it holds up no
other.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.ledger.offsets import TopicPartition

FIRST_WAIT = timedelta(seconds=1)
MAX_WAIT = timedelta(minutes=2)
"""The wait doubles with each failure in a row, up to this."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often in a row a topic partition failed, and until when it waits."""

    failures: int
    until: datetime


@dataclass
class RetryBackoff:
    """The topic partitions whose last attempt failed."""

    _by_tp: dict[TopicPartition, Backoff] = field(default_factory=dict)

    def failed(self, tp: TopicPartition, now: datetime) -> None:
        """Let the topic partition wait, twice as long as after the failure before."""
        failures = self._by_tp[tp].failures + 1 if tp in self._by_tp else 1
        wait = min(FIRST_WAIT * 2 ** min(failures - 1, 10), MAX_WAIT)
        self._by_tp[tp] = Backoff(failures, now + wait)

    def landed(self, tp: TopicPartition) -> None:
        """Forget the topic partition's failures."""
        self._by_tp.pop(tp, None)

    def waiting(self, now: datetime) -> set[TopicPartition]:
        """Topic partitions that must not be tried yet."""
        return {tp for tp, backoff in self._by_tp.items() if backoff.until > now}

    @property
    def isolated(self) -> set[TopicPartition]:
        """Topic partitions to be tried each in a batch of its own."""
        return set(self._by_tp)
