"""The auditor: what landed, held against Kafka by somebody who does not believe the writer.

``landfall fsck`` and ``verify`` use the writer's own ledger, layout and formats, so a fault in
those may hide from them. Nothing here imports any of it (``make check`` holds that): the ledger is
read as plain JSON, objects by ``gzip``, ``zlib``, ``zstandard``, ``pyarrow`` and a small
SequenceFile reader, Kafka by a plain consumer, and the output partition of a record is worked out
anew. Shared are only the group file and the way to log in: addresses, credentials, patience.

``book`` writes down what is visible and what the ledger names, on disk. ``inspection`` then goes
through one committed range after the other: ``log`` reads it from Kafka, ``rows`` reads its
objects, ``places`` says where each record belongs, and ``judge`` (pure) compares. In memory is one
range at a time, some 200 bytes a record, and never a payload that was looked at.

What cannot be compared is counted as unchecked, with the reason, and never passed off as good.
"""

from dataclasses import dataclass, field
from enum import StrEnum

RANGES_KEPT = 100
"""Missing ranges kept of a topic partition; the others are only counted."""


class Kind(StrEnum):
    """What is wrong with an object or the ledger; the value is how it is told to a person."""

    LOST = "lost object"
    MOVED = "moved object"
    DAMAGED = "damaged object"
    EXTRA = "extra object"
    LEDGER = "broken ledger"


class Unchecked(StrEnum):
    """Why something could not be compared; the value is how it is told to a person."""

    GONE = "records are not in Kafka any more"
    PAYLOAD = "payloads are not landed as they are"
    PLACE = "output partitions could not be worked out"
    COUNTED = "records were only counted, not compared"
    UNREADABLE = "records are in objects that cannot be parted into rows"
    GENERATION = "records were landed by another generation"
    COMPACTED = "landed records may have been compacted away in Kafka"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong that is not a single record."""

    kind: Kind
    what: str
    """The object's key, or the ledger's slot."""
    message: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}{': ' if self.message else ''}{self.message}"


@dataclass
class PartitionResult:
    """One topic partition.

    Attributes:
        expected: records that Kafka holds of the committed ranges, less those a transform left out.
        found: of these, in an object or a dead letter.
        missing: of these, in none.
        duplicate: rows more than one of a record.
        misplaced: records in another output partition than their own.
        corrupted: records whose row is not what Kafka holds.
        disordered: rows out of the order of their offsets, at least.
        foreign: rows that are no record of their range.
        ranges: offsets ``start <= o < end`` in which every record is missing, the first ones.
        ranges_more: how many missing ranges are not kept.
        unchecked: what could not be compared, by reason.
    """

    expected: int = 0
    found: int = 0
    missing: int = 0
    duplicate: int = 0
    misplaced: int = 0
    corrupted: int = 0
    disordered: int = 0
    foreign: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)
    ranges_more: int = 0
    unchecked: dict[Unchecked, int] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Nothing is wrong in what could be checked."""
        return not any(
            (
                self.missing,
                self.duplicate,
                self.misplaced,
                self.corrupted,
                self.disordered,
                self.foreign,
            )
        )

    def leave(self, records: int, reason: Unchecked) -> None:
        """Note records that something about could not be checked."""
        if records > 0:
            self.unchecked[reason] = self.unchecked.get(reason, 0) + records

    def lacks(self, start: int, end: int) -> None:
        """Note a range in which every record is missing; ranges come in order."""
        if self.ranges and self.ranges[-1][1] == start and not self.ranges_more:
            self.ranges[-1] = (self.ranges[-1][0], end)
        elif len(self.ranges) < RANGES_KEPT:
            self.ranges.append((start, end))
        else:
            self.ranges_more += 1
