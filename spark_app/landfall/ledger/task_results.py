"""What a task hands back to the driver for each slice: the only things of a task that exist. Pure values."""

from dataclasses import dataclass, field
from enum import StrEnum

from landfall.errors import LandfallError
from landfall.ledger.offsets import Slice
from landfall.objects import Upload


class ObjectKind(StrEnum):
    """What an object is for."""

    DATA = "data"
    DEAD_LETTERS = "dead-letters"


@dataclass(frozen=True, slots=True)
class LandedObject:
    """An object whose parts are uploaded and which nobody can see yet.

    Attributes:
        upload: how to complete it.
        kind: data, or dead letters.
        rows: records inside.
        first_offset: of the first record inside; the name's offset is less or equal.
        last_offset: of the last record inside.
        crc32: of the object's bytes.
    """

    upload: Upload
    kind: ObjectKind
    rows: int
    first_offset: int
    last_offset: int
    crc32: int


@dataclass(frozen=True, slots=True)
class LandedSlice:
    """A slice read to its end. Its counters add up to the length of its range, or it must not be committed.

    Attributes:
        piece: what was read.
        objects: what came of it, data and dead letters, in key order.
        landed: records in data objects.
        filtered: records a transform left out on purpose.
        dead_lettered: records in dead-letter objects.
        invisible: offsets that hold no record: control records, aborted transactions, compacted
            away.
        input_bytes: payload bytes read.
        errors: a few messages of dead-lettered records, for status.
        cpu_seconds: of the worker, user and system, for planning; 0 when nobody measured. No two
            attempts take the same.
        seconds: how long it kept the worker from the next slice, by the clock on the wall, for
            scaling; as above.
    """

    piece: Slice
    objects: tuple[LandedObject, ...]
    landed: int
    filtered: int
    dead_lettered: int
    invisible: int
    input_bytes: int
    errors: tuple[str, ...] = ()
    cpu_seconds: float = field(default=0.0, compare=False)
    seconds: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        counted = self.landed + self.filtered + self.dead_lettered + self.invisible
        in_objects = sum(o.rows for o in self.objects if o.kind is ObjectKind.DATA)
        if counted != len(self.piece.offsets) or in_objects != self.landed:
            raise ValueError(
                f"{self.piece}: {len(self.piece.offsets)} offsets, but landed {self.landed} ({in_objects} in objects) + "
                f"filtered {self.filtered} + dead-lettered {self.dead_lettered} + invisible {self.invisible}"
            )


@dataclass(frozen=True, slots=True)
class FailedSlice:
    """A slice that could not be read or written; everything it uploaded was given up."""

    piece: Slice
    error: LandfallError


SliceResult = LandedSlice | FailedSlice
