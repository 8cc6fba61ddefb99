"""What one thread of the audit collects about the topic partition that it checks."""

from dataclasses import dataclass, field

from landfall.audit import Fault, Kind, PartitionResult
from landfall.audit.rows import Read

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
