"""What one thread of the audit collects about the topic partition that it checks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from landfall.audit import Fault, Kind, PartitionResult, Unchecked
from landfall.audit.corrections import Range
from landfall.audit.feed_log import FeedCursor
from landfall.audit.kafka_log import Cursor
from landfall.audit.route_evaluator import Source
from landfall.audit.rows import Read
from landfall.audit.source_files import CannotCompare

FAULTS_KEPT = 1000
"""How many faults are kept one by one; the others are only counted."""


@dataclass
class KeptFaults:
    """What is wrong.

    Attributes:
        faults: with objects and the ledger; the first ``FAULTS_KEPT``.
        faults_more: how many faults are not kept.
    """

    faults: list[Fault] = field(default_factory=list)
    faults_more: int = 0

    def add_fault(self, fault: Fault) -> None:
        """Keep a fault, or only count it if there are many."""
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(fault)
        else:
            self.faults_more += 1


@dataclass
class PartitionCheck(KeptFaults):
    """What was found in one topic partition, by the one thread that checks it.

    Attributes:
        result: counts of records.
        objects: how many of its objects were read.
        moved: keys of objects that lie where they do not belong.
        waiting: slots of COMMITs whose objects are not visible yet.
    """

    result: PartitionResult = field(default_factory=PartitionResult)
    objects: int = 0
    moved: set[str] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)

    def count(self, key: str, read: Read) -> Read:
        """Count an object that was read, and report it if it is damaged."""
        self.objects += 1
        if read.damage:
            self.add_fault(Fault(Kind.DAMAGED, key, read.damage))
        return read


@dataclass(frozen=True)
class AuditedPartition:
    """A topic partition under audit; ``held`` are the offsets that Kafka holds of it.

    ``truncated`` are landed offsets at which Kafka has other records now, or none.
    """

    source: Source
    check: PartitionCheck
    cursor: Cursor | FeedCursor
    held: tuple[int, int] | None
    compacted: bool
    truncated: Sequence[tuple[int, int]] = ()

    def why_unchecked(self, range_: Range) -> Unchecked | None:
        """Why a range cannot be compared with Kafka, not even in part; None if it can."""
        if any(start < range_.end and range_.start < end for start, end in self.truncated):
            return Unchecked.TRUNCATED
        return None if self.holds(range_.start, range_.end) else Unchecked.GONE

    def holds(self, start: int, end: int) -> bool:
        """Whether Kafka still holds a whole range."""
        return self.held is not None and self.held[0] <= start and end <= self.held[1]


def add_gap(audited: AuditedPartition, start: int, end: int) -> None:
    """Count offsets that no COMMIT and no HOLE covers as missing."""
    result = audited.check.result
    if audited.holds(start, end):
        try:
            records = sum(1 for _ in audited.cursor.take(start, end))
        except CannotCompare:
            records = 0
        result.expected += records
        result.missing += records
    result.add_missing_range(start, end)
