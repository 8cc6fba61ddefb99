"""Which feeds cannot be looked at, and since when: each by itself, none stops the others."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from landfall.errors import LandfallError, Reason, Stalled, StoreDenied
from landfall.ledger.offsets import TopicPartition

PATIENCE = timedelta(minutes=2)
"""How long a feed may not be looked at before that is a problem of the group."""


@dataclass(frozen=True, slots=True)
class _Failure:
    since: datetime
    last: datetime
    error: LandfallError


class FeedFailures:
    """The feeds of a group whose last look failed. Used by the driver's thread alone."""

    def __init__(self) -> None:
        self._failures: dict[TopicPartition, _Failure] = {}

    def add(self, tp: TopicPartition, error: LandfallError, now: datetime) -> None:
        """A look at this feed failed."""
        before = self._failures.get(tp, _Failure(now, now, error))
        self._failures[tp] = replace(before, last=now, error=error)

    def clear(self, tp: TopicPartition) -> None:
        """A look at this feed succeeded."""
        self._failures.pop(tp, None)

    def since(self, tp: TopicPartition, now: datetime) -> timedelta | None:
        """How long ago the last look failed; None if it did not."""
        return now - self._failures[tp].last if tp in self._failures else None

    def problems(self) -> dict[TopicPartition, Stalled]:
        """What is wrong with the feeds that have failed for longer than ``PATIENCE``."""
        return {
            tp: _problem(tp, failure.error)
            for tp, failure in sorted(self._failures.items())
            if failure.last - failure.since >= PATIENCE
        }


def _problem(tp: TopicPartition, error: LandfallError) -> Stalled:
    reason = Reason.SOURCE_UNAVAILABLE
    if isinstance(error, StoreDenied):
        reason = Reason.SOURCE_DENIED
    elif isinstance(error, Stalled):
        reason = error.reason
    return Stalled(reason, f"{tp}: new files are not found: {error}")
