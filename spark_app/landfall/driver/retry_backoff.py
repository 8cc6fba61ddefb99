"""Topic partitions that failed and wait before they are tried again, alone, so that they hold nobody up."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.ledger.offsets import TopicPartition

FIRST = timedelta(seconds=1)
MOST = timedelta(minutes=2)
"""The wait doubles with each failure in a row, up to this."""


@dataclass(frozen=True, slots=True)
class Setback:
    """How often in a row it failed, and until when it waits."""

    tries: int
    until: datetime


@dataclass
class RetryBackoff:
    """Who failed and how often in a row."""

    _by_tp: dict[TopicPartition, Setback] = field(default_factory=dict)

    def failed(self, tp: TopicPartition, now: datetime) -> None:
        """Let it wait, longer than the last time."""
        tries = self._by_tp[tp].tries + 1 if tp in self._by_tp else 1
        self._by_tp[tp] = Setback(tries, now + min(FIRST * 2 ** min(tries - 1, 10), MOST))

    def landed(self, tp: TopicPartition) -> None:
        """Forget its failures."""
        self._by_tp.pop(tp, None)

    def waiting(self, now: datetime) -> set[TopicPartition]:
        """Those that are not to be tried yet."""
        return {tp for tp, setback in self._by_tp.items() if setback.until > now}

    @property
    def isolated(self) -> set[TopicPartition]:
        """Those to be tried in a round of their own."""
        return set(self._by_tp)
