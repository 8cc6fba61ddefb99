"""The auditor: compares what landed with Kafka, without trusting the writer.

``landfall fsck`` and ``landfall verify`` use the writer's own ledger, layout and formats, so a bug
in those may hide from them. Nothing here imports Landfall, which ``make check`` enforces:
``group_file`` and ``spec`` read what is needed of the group file, ``login`` makes clients of
stores and Kafka, the ledger is read as plain JSON, objects with ``gzip``, ``zlib``, ``zstandard``,
``pyarrow`` and a small SequenceFile reader, Kafka with a plain consumer, and the output partition
of each record is computed again.

The rooms:

- ``ledger``: ``inventory`` collects what is visible and what the ledger names, on disk. For
  replaced objects, ``replacements`` knows which rows come from which range, by the lists that
  ``replaced_lists`` reads, and ``landed_again`` replaces ranges of COMMITs with a backfill's
  ranges.
- ``feeds``: the files of feeds are read by version, by the ``lists`` of parts that the ledger
  names; ``log`` is what Kafka is for topics. ``readers`` makes rows of the files.
- ``objects``: ``rows`` reads a range's objects. ``merged_rows`` reads each merged object once; rows
  that are mixed are compared with the records in ``mixed_pool`` by ``mixed_rows`` (pure).
- ``checks``: ``inspection`` works through one committed range after the other, several topic
  partitions at once. ``range_check`` compares a range: records of ``kafka_log`` with rows, as
  ``payloads`` decodes them and ``route_evaluator`` places them, by ``judge`` (pure).
  ``wrong_values`` names the column of a wrong row, and ``replacement_check`` looks at objects of
  a REPLACE: old, new and kept.

Memory holds one range of each topic partition, about 200 bytes per record, and no payload except
the ones being hashed.

What cannot be compared is counted as unchecked, with the reason. It never counts as good.
"""

from dataclasses import dataclass, field
from enum import StrEnum

RANGES_KEPT = 100
"""How many missing ranges of a topic partition are kept; the remaining ones are only counted."""


class FaultKind(StrEnum):
    """Kind of fault in an object or the ledger; the value is printed, also in JSON."""

    LOST = "lost object"
    MOVED = "moved object"
    DAMAGED = "damaged object"
    EXTRA = "extra object"
    LEDGER = "broken ledger"
    SCHEMA = "missing or damaged schema"
    SPEC = "missing or damaged spec"
    HORIZON = "unproven horizon"
    LIST = "missing or wrong list of files"
    REPLACED = "missing or wrong list of replaced objects"
    RETIRED = "retired object"
    COPY = "wrong copy of a retired object"
    ROW = "wrong row"
    VALUE = "wrong value"


class Unchecked(StrEnum):
    """Why something could not be compared; the value is a key of the JSON output."""

    GONE = "records are not in Kafka any more"
    TRUNCATED = "Kafka truncated the log below them and wrote other records there"
    PAYLOAD = "payloads are not landed as they are"
    COLUMNS = "some of their columns were not compared"
    PLACE = "output partitions could not be worked out"
    COUNTED = "records were only counted, not compared"
    UNREADABLE = "records are in objects that cannot be parted into rows"
    GENERATION = "records were landed by another generation"
    COMPACTED = "landed records may have been compacted away in Kafka"
    VERSION = "their file is gone, or has another version"
    DEAD_LETTERS_EXPIRED = "their dead letters have expired during the audit"
    LETTERS_UNREACHABLE = "their dead letters are in a place that the spec does not name"
    FILE = "their file is of a kind that the auditor cannot read, or damaged"

    @property
    def is_gone_from_source(self) -> bool:
        """Return whether the source no longer has the records, as is normal for an old group."""
        return self in {Unchecked.GONE, Unchecked.COMPACTED, Unchecked.VERSION}

    @property
    def is_out_of_scope(self) -> bool:
        """Return whether the audit was asked to leave the records out."""
        return self is Unchecked.GENERATION


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with an object or the ledger, as opposed to a single record."""

    kind: FaultKind
    what: str
    """The object's key, the ledger's slot, the feed, file, part and row, or the record."""
    message: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}{': ' if self.message else ''}{self.message}"


@dataclass
class PartitionResult:
    """Findings in one topic partition. The attributes are fields of ``audit --json``.

    Attributes:
        expected: records that Kafka holds in the committed ranges, without filtered ones.
        found: of these, records in an object or a dead letter.
        missing: of these, records in no object.
        duplicate: rows beyond the first of a record.
        misplaced: records in another output partition than their own.
        corrupted: records whose row differs from what Kafka holds.
        disordered: the least number of rows that are out of offset order.
        foreign: rows that match no record of their range.
        lost: records that the ledger records as lost for good, with their objects; not expected.
        dead_letters_expired: records in dead letters that were deleted, as ``badRecords.retain``
            asks for; not expected.
        left_out: records that a merge left out, since another one has the same key; not expected.
        skipped: offsets that the ledger records as skipped; their records are not expected. Of a
            feed, what is left of parts of files that could not be read is not among them.
        ranges: ranges of offsets ``start <= o < end`` in which every record is missing; the first
            ``RANGES_KEPT`` of them.
        ranges_more: how many missing ranges are not kept.
        unchecked: how many records could not be compared, by reason.
    """

    expected: int = 0
    found: int = 0
    missing: int = 0
    duplicate: int = 0
    misplaced: int = 0
    corrupted: int = 0
    disordered: int = 0
    foreign: int = 0
    lost: int = 0
    dead_letters_expired: int = 0
    left_out: int = 0
    skipped: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)
    ranges_more: int = 0
    unchecked: dict[Unchecked, int] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is wrong in what could be checked."""
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

    def add_unchecked(self, records: int, reason: Unchecked) -> None:
        """Count records that could not be checked."""
        if records > 0:
            self.unchecked[reason] = self.unchecked.get(reason, 0) + records

    def add_missing_range(self, start: int, end: int) -> None:
        """Add a range in which every record is missing; ranges are added in offset order."""
        if self.ranges and self.ranges[-1][1] == start and not self.ranges_more:
            self.ranges[-1] = (self.ranges[-1][0], end)
        elif len(self.ranges) < RANGES_KEPT:
            self.ranges.append((start, end))
        else:
            self.ranges_more += 1
