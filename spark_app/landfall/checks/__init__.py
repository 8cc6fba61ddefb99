"""Judging what stands in a store: records and objects in, findings out. Pure: no I/O, no clock, no logging.

``chain`` follows a ledger slot by slot, ``objects`` compares what it names with what is visible,
``coverage`` what was read back with what was committed, and ``place`` says what became of one
offset. Deliberately not the code that writes: a fault in ``ledger.fold`` should show here, not be
repeated. Who reads the store and prints is ``landfall.cli``.
"""

from dataclasses import dataclass
from enum import StrEnum

from landfall.ledger.offsets import OffsetRange, TopicPartition


class Invariant(StrEnum):
    """What always holds; the value is how it is told to a person."""

    I1 = "slots have no gap, are hash-chained and never deleted"
    I2 = "committed ranges are contiguous and disjoint"
    I3 = "only uploads named in a COMMIT or REPAIR were completed"
    I4 = "an object key belongs to one COMMIT"
    I5 = "a visible object never changes"
    I6 = "all objects of applied COMMITs exist"
    I7 = "only the driver of the last OPEN writes"
    I8 = "counters add up"


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken invariant, with its coordinates as far as they are known."""

    invariant: Invariant
    expected: str
    got: str
    slot: int | None = None
    topic_partition: TopicPartition | None = None
    offsets: OffsetRange | None = None
    key: str | None = None

    def __str__(self) -> str:
        where = (
            f"slot {self.slot}" if self.slot is not None else "",
            str(self.topic_partition or ""),
            f"offsets {self.offsets}" if self.offsets is not None else "",
            self.key or "",
        )
        return f"{', '.join(part for part in where if part) or 'ledger'}: expected {self.expected}, got {self.got}"
