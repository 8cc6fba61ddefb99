"""The topic partitions that failed, when and with which ones they are retried. Pure.

What failed is not landed together with what did not, until it has landed once: a slice that waits
for a time-out would hold up its whole batch. One batch at a time tries what failed
(``next_groups``), so that failures never take more than one of the group's batches.

=====================================================  =============================================
what happened                                          what is tried again
=====================================================  =============================================
a slice failed while the rest of its batch landed      it, with all that failed as often in a row
nothing of a batch landed, each slice has an error     all of it, and as soon as anything lands, all
of it along with the rest: it was an outage the job of a batch failed as a whole (``BatchFailed``)
one half after the other, then half of the
                                                       half that failed, until the cause is alone
a task gave up before the slice (``NotTried``)         as above, but it does not count as a failure
=====================================================  =============================================

So what an outage has failed is back in one batch, and what one topic partition has failed, after
about twice as many batches as its batch can be halved: 28 for ten thousand topic partitions.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from landfall.errors import BatchFailed, LandfallError, NotTried
from landfall.ledger.offsets import TopicPartition

FIRST_WAIT = timedelta(seconds=1)
MAX_WAIT = timedelta(minutes=2)
"""The wait doubles with each failure in a row, up to this."""
_OFTEN = 4
"""Topic partitions that failed at least this many times in a row are tried together."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A topic partition that has not landed since it failed.

    Attributes:
        failures: how often in a row it failed.
        until: it is not tried before this time.
        part: of a batch that is being halved, to which it belongs; 0 for none.
        is_outage: nothing else landed when it failed, so that the cause is probably elsewhere.
        is_released: it is landed together with the other topic partitions again.
    """

    failures: int
    until: datetime
    part: int = 0
    is_outage: bool = False
    is_released: bool = False


@dataclass(frozen=True, slots=True)
class RetryGroup:
    """Topic partitions to try again in one batch.

    ``is_new`` means that none of them failed more than once, so that most may be without fault.
    """

    topic_partitions: frozenset[TopicPartition]
    is_new: bool


@dataclass
class RetryBackoff:
    """The topic partitions that have not landed since they failed."""

    _suspects: dict[TopicPartition, Suspect] = field(default_factory=dict)
    _empty_batches: int = 0
    """Consecutive batches that landed nothing."""
    _parts: int = 0
    _rest_until: datetime | None = None

    def settle(
        self,
        landed: Collection[TopicPartition],
        failed: Mapping[TopicPartition, LandfallError],
        now: datetime,
        took: timedelta = timedelta(0),
    ) -> None:
        """Take note of a finished batch.

        Args:
            landed: topic partitions with something committed.
            failed: topic partitions to try again, and why they failed.
            now: the time.
            took: how long the batch took, if it was one of ``next_groups``. If nothing of it
                landed, and it is not new that it fails, the next one is not tried before the same
                time has passed again.
        """
        for tp in landed:
            self._suspects.pop(tp, None)
        if landed:
            self._empty_batches = 0
            self._release()
        elif failed:
            self._empty_batches += 1
            if all(self._failures(tp) > 1 for tp in failed):
                self._rest_until = now + min(took, MAX_WAIT)
        if failed and not landed and all(isinstance(e, BatchFailed) for e in failed.values()):
            self._halve(sorted(failed), now)
            return
        for tp, error in failed.items():
            self._suspects[tp] = self._after(tp, error, now, is_outage=not landed)

    def apart(self) -> set[TopicPartition]:
        """Return topic partitions that must not be landed together with other ones now."""
        return {tp for tp, suspect in self._suspects.items() if not suspect.is_released}

    def next_groups(self, now: datetime) -> list[RetryGroup]:
        """Return groups that may be retried now; the first that has work becomes one batch."""
        if self._rest_until and now < self._rest_until:
            return []
        groups: dict[tuple[int, int], set[TopicPartition]] = {}
        since: dict[tuple[int, int], datetime] = {}
        for tp, suspect in self._suspects.items():
            if suspect.until <= now and not suspect.is_released:
                key = suspect.part, 0 if suspect.part else min(suspect.failures, _OFTEN)
                groups.setdefault(key, set()).add(tp)
                since[key] = min(since.get(key, suspect.until), suspect.until)
        return [
            RetryGroup(frozenset(groups[part, failures]), is_new=not part and failures <= 1)
            for part, failures in sorted(groups, key=lambda key: (since[key], key))
        ]

    def forget(self) -> None:
        """Try everything again at once, as if nothing had failed."""
        self._suspects.clear()
        self._empty_batches = 0
        self._rest_until = None

    def _release(self) -> None:
        """Something landed, so that an outage is over."""
        for tp, suspect in self._suspects.items():
            if suspect.is_outage:
                self._suspects[tp] = replace(suspect, is_outage=False, is_released=True)

    def _halve(self, tps: list[TopicPartition], now: datetime) -> None:
        """Let both halves of what failed as a whole be tried, one after the other."""
        middle = (len(tps) + 1) // 2
        for half in (tps[:middle], tps[middle:]):
            self._parts += 1
            for tp in half:
                failures = self._failures(tp) + 1
                # Many halves that fail in a row are an outage: the wait counts them all.
                times = failures if len(tps) == 1 else self._empty_batches
                self._suspects[tp] = Suspect(failures, now + wait_after(times), self._parts)

    def _after(
        self, tp: TopicPartition, error: LandfallError, now: datetime, *, is_outage: bool
    ) -> Suspect:
        before = self._suspects.get(tp)
        # What fails again although something has landed since is the cause of its own failures.
        is_outage = is_outage and (before is None or before.is_outage)
        if isinstance(error, NotTried):
            wait = wait_after(self._empty_batches) if is_outage else timedelta(0)
            return Suspect(self._failures(tp), now + wait, is_outage=is_outage)
        failures = self._failures(tp) + 1
        return Suspect(failures, now + wait_after(failures), is_outage=is_outage)

    def _failures(self, tp: TopicPartition) -> int:
        return self._suspects[tp].failures if tp in self._suspects else 0


def wait_after(times: int) -> timedelta:
    """Return the wait after this many failures in a row."""
    doublings = min(max(times, 1) - 1, 10)
    return min(FIRST_WAIT * (1 << doublings), MAX_WAIT)
