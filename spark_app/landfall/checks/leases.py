"""Counts the outcomes of the numbers of external feeds, by the records alone. Pure.

``landfall.ledger.feeds.leases`` folds them; here they are counted again in another way, so that a
fold which loses a number, or gives one to two workers, shows up in ``landfall fsck``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from landfall.checks import Finding, Invariant
from landfall.ledger import Add, Discover, Drop, FeedState, Lease, LeaseOutcome, Record
from landfall.ledger.offsets import TopicPartition


@dataclass
class _Numbers:
    """Of one feed: who holds which numbers, which are free again, and how many are done."""

    held: dict[int, int] = field(default_factory=dict)
    free: set[int] = field(default_factory=set)
    done: int = 0

    def __str__(self) -> str:
        return f"{len(self.held)} leased, {len(self.free)} parked, {self.done} done"


class LeaseCounts:
    """The outcome of the numbers of each external feed, as far as its records were counted.

    Attributes:
        leases: how many LEASEs were counted.
    """

    def __init__(self) -> None:
        """Count from slot 0 on."""
        self.leases = 0
        self._feeds: dict[TopicPartition, _Numbers] = {}
        self._twice: Finding | None = None

    def count(self, record: Record) -> None:
        """Count the next record."""
        match record:
            case Add():
                external = (entry for entry in record.entries if entry.external)
                self._feeds |= {entry.topic_partition: _Numbers() for entry in external}
            case Drop():
                for tp in record.topic_partitions:
                    self._feeds.pop(tp, None)
            case Lease():
                self._lease(record)
            case LeaseOutcome():
                self._end(record)
            case Discover():
                taken = {*record.again, *record.replaced, *record.ignored}
                self._of(record.topic_partition).free -= taken

    def check(self, feeds: Iterable[tuple[TopicPartition, FeedState]]) -> Finding | None:
        """Compare with the feeds in the last state of the ledger."""
        if self._twice:
            return self._twice
        for tp, feed in feeds:
            if (leasing := feed.leasing) is None:
                continue
            held = {n: slot for slot, lease in leasing.open.items() for n in lease.parts}
            counted, found = self._of(tp), _Numbers(held, {*feed.parked}, leasing.done)
            if counted != found:
                return Finding(Invariant.I8, str(counted), str(found), topic_partition=tp)
        return None

    def _of(self, tp: TopicPartition) -> _Numbers:
        return self._feeds.setdefault(tp, _Numbers())

    def _lease(self, record: Lease) -> None:
        self.leases += 1
        tp, slot = record.topic_partition, record.header.seq
        numbers = self._of(tp)
        if both := numbers.held.keys() & {*record.numbers}:
            got = f"part {min(both)}, which lease {numbers.held[min(both)]} has"
            self._twice = self._twice or Finding(
                invariant=Invariant.I8,
                expected="parts of no lease",
                got=got,
                slot=slot,
                topic_partition=tp,
            )
        numbers.held |= dict.fromkeys(record.numbers, slot)
        numbers.free -= {*record.numbers}

    def _end(self, record: LeaseOutcome) -> None:
        numbers = self._of(record.topic_partition)
        free = {*record.failed, *record.returned, *record.expired}
        for number in free.union(record.done):
            if numbers.held.pop(number, -1) != record.lease and not self._twice:
                self._twice = Finding(
                    invariant=Invariant.I8,
                    expected=f"a part of lease {record.lease}",
                    got=f"part {number}, which is another's",
                    slot=record.header.seq,
                    topic_partition=record.topic_partition,
                )
        numbers.free |= free
        numbers.done += len(record.done)
