"""Collects the findings of one thread of the audit about its topic partition."""

from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from landfall_audit import Fault, FaultKind, PartitionResult, Unchecked
from landfall_audit.buckets import CannotCompare
from landfall_audit.checks.judge import Int64s
from landfall_audit.feeds.log import FeedCursor
from landfall_audit.kafka_log import LogCursor
from landfall_audit.ledger.corrections import Range
from landfall_audit.objects.rows import Read
from landfall_audit.route_evaluator import Source

FAULTS_KEPT = 1000
"""How many faults are kept one by one; the remaining ones are only counted."""

REASONS_KEPT = 20
"""How many reasons for records that could not be compared are kept apart, per topic partition."""


@dataclass
class KeptFaults:
    """Faults, and how many there are beyond the limit.

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
    """The findings in one topic partition, by the one thread that checks it.

    Attributes:
        result: counts of records.
        objects: how many of its objects were read.
        moved: keys of objects that lie where they do not belong.
        waiting: slots of COMMITs whose objects are not visible yet.
        named: how many wrong records are among the faults.
        undecided: how many records could not be compared for a reason of their own, by reason.
    """

    result: PartitionResult = field(default_factory=PartitionResult)
    objects: int = 0
    moved: set[str] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)
    named: int = 0
    undecided: dict[str, int] = field(default_factory=dict)

    def count(self, key: str, read: Read) -> Read:
        """Count an object that was read, and report it if it is damaged."""
        self.objects += 1
        if read.damage:
            self.add_fault(Fault(FaultKind.DAMAGED, key, read.damage))
        if read.order.why_opaque:
            self.add_undecided(read.order.why_opaque, len(read.hashes))
        return read

    def add_undecided(self, why: str, records: int = 1) -> None:
        """Count records that could not be compared, by reason; there are few reasons."""
        known = (
            why if why in self.undecided or len(self.undecided) < REASONS_KEPT else "other reasons"
        )
        self.undecided[known] = self.undecided.get(known, 0) + records


@dataclass(frozen=True)
class AuditedPartition:
    """A topic partition under audit; ``held`` are its offsets that Kafka holds.

    ``truncated`` are landed offsets at which Kafka has other records now, or none.
    """

    source: Source
    check: PartitionCheck
    cursor: LogCursor | FeedCursor
    held: tuple[int, int] | None
    compacted: bool
    truncated: Sequence[tuple[int, int]] = ()

    def why_unchecked(self, range_: Range) -> Unchecked | None:
        """Return why a range cannot be compared with Kafka, not even in part; None if it can."""
        if any(start < range_.end and range_.start < end for start, end in self.truncated):
            return Unchecked.TRUNCATED
        return None if self.holds(range_.start, range_.end) else Unchecked.GONE

    def add_wrong(self, offsets: Mapping[str, Int64s]) -> None:
        """Report rows of files by name, given their offsets by fault.

        Records of Kafka are only counted.
        """
        if not isinstance(self.cursor, FeedCursor):
            return
        for wrong, rows in offsets.items():
            for offset in rows[:FAULTS_KEPT].tolist():
                self.check.add_fault(Fault(FaultKind.ROW, self.cursor.row_name(offset), wrong))
            self.check.faults_more += len(rows[FAULTS_KEPT:])

    @property
    def name(self) -> str:
        """Topic and Kafka partition, for people."""
        return f"{self.source[0]}/{self.source[1]}"

    def holds(self, start: int, end: int) -> bool:
        """Return whether Kafka still holds a whole range."""
        return self.held is not None and self.held[0] <= start and end <= self.held[1]


def add_gap(audited: AuditedPartition, start: int, end: int) -> None:
    """Count offsets that no COMMIT and no HOLE covers as missing."""
    result = audited.check.result
    if audited.holds(start, end):
        offsets = array("q")
        with suppress(CannotCompare):
            offsets.extend(record.offset() for record in audited.cursor.take(start, end))
        result.expected += len(offsets)
        result.missing += len(offsets)
        audited.add_wrong({"missing": np.array(offsets, np.int64)})
    result.add_missing_range(start, end)
