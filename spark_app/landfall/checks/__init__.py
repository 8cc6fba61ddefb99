"""Judges the content of a store: records and objects in, findings out. Pure: no I/O, no clock.

``chain`` checks a ledger slot by slot, ``objects`` compares the objects that it names with the
visible ones, ``stored`` the schemas, the specs and the lists of files that it names with their
hashes, ``replacements`` checks REPLACEs, ``leases`` counts what workers of other programs do,
``load_records`` checks what publishers keep, ``coverage`` and ``payloads`` compare what
was read back with what was committed and with Kafka, and ``locate`` finds the outcome of one
offset. The invariants are checked here a second time on purpose, instead of by the code that
writes: a bug in ``ledger.fold`` should show up, not be repeated. ``landfall.cli`` reads the store
and prints.
"""

from dataclasses import dataclass
from enum import StrEnum

from landfall.ledger.offsets import OffsetRange, TopicPartition


class Invariant(StrEnum):
    """A rule that every ledger and its objects satisfy; the value is printed."""

    I1 = "slots have no gap, are hash-chained and never deleted"
    I2 = "committed ranges are contiguous and disjoint"
    I3 = "only uploads named in a COMMIT, REPLAY or REPAIR were completed"
    I4 = "an object key belongs to one COMMIT"
    I5 = "a visible object never changes"
    I6 = "all objects of applied COMMITs exist"
    I7 = "only the driver of the last OPEN writes"
    I8 = "counters add up"
    I9 = "schemas that a COMMIT names are stored, unchanged"
    I10 = "specs that an OPEN names are stored, unchanged"
    I11 = "records of publishers' loads are whole"
    I12 = "lists of files that a DISCOVER names are stored, unchanged"
    I13 = "what a REPLACE retires was visible, and retires once"


@dataclass(frozen=True, slots=True)
class Finding:
    """A violated invariant, with its coordinates as far as they are known."""

    invariant: Invariant
    expected: str
    got: str
    slot: int | None = None
    topic_partition: TopicPartition | None = None
    offsets: OffsetRange | None = None
    key: str | None = None

    def __str__(self) -> str:
        coordinates = (
            f"slot {self.slot}" if self.slot is not None else "",
            str(self.topic_partition or ""),
            f"offsets {self.offsets}" if self.offsets is not None else "",
            self.key or "",
        )
        where = ", ".join(text for text in coordinates if text) or "ledger"
        return f"{where}: expected {self.expected}, got {self.got}"
