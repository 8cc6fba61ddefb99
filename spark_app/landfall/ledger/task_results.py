"""Results that a task returns to the driver for each slice. Pure.

Only what a task returns can be committed: the uploads of a task that was lost, retried or run
speculatively are named nowhere, and are aborted as orphans.

A driver unpickles, hashes and compares thousands of these values a second, so they are structs of
msgspec, which do that in C.
"""

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from operator import attrgetter

from msgspec import UNSET, Struct, UnsetType

from landfall.errors import LandfallError
from landfall.ledger.offsets import Slice
from landfall.objects import Upload

_SHA256 = re.compile("[0-9a-f]{64}")


class ObjectKind(StrEnum):
    """The kind of an object: landed records or dead letters."""

    DATA = "data"
    DEAD_LETTERS = "dead-letters"


class LandedObject(Struct, frozen=True, gc=False):
    """An object whose parts are all uploaded; completing the upload makes it visible.

    Attributes:
        upload: what is needed to complete it.
        kind: data or dead letters.
        rows: number of records inside.
        first_offset: offset of the first record inside; at or after the offset in the object's
            name.
        last_offset: offset of the last record inside.
        crc32: CRC-32 of the object's bytes.
    """

    upload: Upload
    kind: ObjectKind
    rows: int
    first_offset: int
    last_offset: int
    crc32: int

    @property
    def key(self) -> str:
        """The object's key."""
        return self.upload.key

    @property
    def folder(self) -> str:
        """The folder that the object is in."""
        return self.key.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class DecidedObject:
    """An object, and the slot of the record that decided it.

    Attributes:
        slot: of the COMMIT, REPLAY, REPAIR or REPLACE that names the object.
        landed: the object as that record, or a later REPAIR, describes it.
    """

    slot: int
    landed: LandedObject

    @property
    def key(self) -> str:
        """The object's key."""
        return self.landed.key

    @property
    def folder(self) -> str:
        """The folder that the object is in."""
        return self.landed.folder


class PartRows(Struct, frozen=True, array_like=True, gc=False):
    """How many records of a part of a file were landed, filtered and dead-lettered.

    A part whose rows are in several slices is in each of them, with the rows of that slice.
    """

    number: int
    landed: int
    filtered: int
    dead_lettered: int

    @property
    def rows(self) -> int:
        """All of them."""
        return self.landed + self.filtered + self.dead_lettered


class LandedSlice(Struct, frozen=True, gc=False):
    """A slice that was read to its end. Its counters add up to the length of its range.

    Attributes:
        piece: the slice that was read.
        objects: its data and dead-letter objects, in key order.
        landed: records in data objects.
        filtered: records that a transform dropped on purpose.
        dead_lettered: records in dead-letter objects.
        invisible: offsets without a record a consumer can see: control records, records of aborted
            transactions, and records removed by compaction.
        input_bytes: payload bytes read.
        errors: a few error messages of dead-lettered records, for the status.
        schemas: SHA-256 (hex) of the stored schemas that its payloads were decoded with, sorted.
        leader_epoch: leader epoch of the last record read, by which a truncated log is recognized;
            -1 if no record was read, or the log has no epochs.
        epoch_offset: offset of that record; -1 without one.
        cpu_seconds: CPU time of the worker, user and system, for planning; 0 if not measured.
            Ignored in comparisons, since it differs between attempts.
        seconds: wall-clock time until the worker could start the next slice, for autoscaling; 0 if
            not measured. Ignored in comparisons.
        latest_ms: the latest event time among the landed records, in milliseconds since 1970-01-01
            UTC; -1 if none is known. A record counts as what is earlier, its event time or its
            Kafka timestamp, and not at all if that is later than when it was read: so one clock
            that is ahead does not make all other records late. If no record was landed, the latest
            Kafka timestamp. Ignored in comparisons.
        read_from: the group whose objects it was read from, if Kafka had lost the records.
        unexpected: how many of the dead letters a bug caused; UNSET if none.
        rules: by which it was cut into objects, see ``landing_rules``; UNSET for the first. Ignored
            in comparisons: the objects show it.
        parts: of a feed, the counters by part, in the order of their numbers; parts without a
            record are left out. UNSET if they were not counted: of Kafka, and by former releases.

    Raises:
        ValueError: the counters do not add up, so that the slice must not be committed; or the
            schemas are no sorted SHA-256s.
    """

    piece: Slice  # the name of the field in the ledger
    objects: tuple[LandedObject, ...]
    landed: int
    filtered: int
    dead_lettered: int
    invisible: int
    input_bytes: int
    errors: tuple[str, ...] = ()
    leader_epoch: int = -1
    epoch_offset: int = -1
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    schemas: tuple[str, ...] = ()
    latest_ms: int = -1
    read_from: str | UnsetType = UNSET
    unexpected: int | UnsetType = UNSET
    rules: int | UnsetType = UNSET
    parts: tuple[PartRows, ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        check_schemas(self.schemas)
        _check_parts(self)
        counted = self.landed + self.filtered + self.dead_lettered + self.invisible
        in_objects = sum(o.rows for o in self.objects if o.kind is ObjectKind.DATA)
        if counted != len(self.piece.offsets) or in_objects != self.landed:
            raise ValueError(
                f"{self.piece}: {len(self.piece.offsets)} offsets, "
                f"but landed {self.landed} ({in_objects} in objects) + "
                f"filtered {self.filtered} + dead-lettered {self.dead_lettered} + "
                f"invisible {self.invisible}"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LandedSlice) and _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))


_IGNORED = ("cpu_seconds", "seconds", "latest_ms", "rules")
_compared = attrgetter(*(name for name in LandedSlice.__struct_fields__ if name not in _IGNORED))


@dataclass(frozen=True, slots=True)
class ReplayedSlice:
    """A dead-letter object whose records were landed again. Its counters add up to ``rows``.

    Attributes:
        dead_letters: key of the dead-letter object that was read.
        piece: from the offset in the object's name to the last record inside.
        rows: records in the dead-letter object.
        objects: the new data and dead-letter objects, in key order.
        landed: records in the new data objects.
        filtered: records that a transform dropped on purpose.
        dead_lettered: records in the new dead-letter objects.
        errors: a few error messages of dead-lettered records, for the status.
        schemas: as of a ``LandedSlice``.
        rules: as of a ``LandedSlice``.
        parts: as of a ``LandedSlice``: the outcome of the dead letters of each part.

    Raises:
        ValueError: as of a ``LandedSlice``.
    """

    dead_letters: str
    piece: Slice  # the name of the field in the ledger
    rows: int
    objects: tuple[LandedObject, ...]
    landed: int
    filtered: int
    dead_lettered: int
    errors: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    rules: int | UnsetType = UNSET
    parts: tuple[PartRows, ...] | UnsetType = UNSET

    def __post_init__(self) -> None:
        check_schemas(self.schemas)
        _check_parts(self)
        rows = dict.fromkeys(ObjectKind, 0)
        for o in self.objects:
            rows[o.kind] += o.rows
        counted = self.landed + self.filtered + self.dead_lettered
        in_objects = (rows[ObjectKind.DATA], rows[ObjectKind.DEAD_LETTERS])
        if counted != self.rows or in_objects != (self.landed, self.dead_lettered):
            raise ValueError(
                f"{self.dead_letters}: {self.rows} dead letters, "
                f"but landed {self.landed} ({in_objects[0]} in objects) + "
                f"filtered {self.filtered} + "
                f"dead-lettered {self.dead_lettered} ({in_objects[1]} in objects)"
            )


@dataclass(frozen=True, slots=True)
class FailedSlice:
    """A slice that could not be read or written. Its uploads are aborted."""

    piece: Slice  # named as in LandedSlice
    error: LandfallError


SliceResult = LandedSlice | FailedSlice


def check_schemas(schemas: tuple[str, ...]) -> None:
    """Return if these are SHA-256s of schemas, sorted and each once.

    Raises:
        ValueError: they are not.
    """
    if any(not _SHA256.fullmatch(digest) for digest in schemas) or sorted({*schemas}) != [*schemas]:
        raise ValueError(f"not sorted SHA-256s of schemas: {', '.join(schemas)}")


def wrong_parts(
    counted: tuple[int, int, int], parts: tuple[PartRows, ...] | UnsetType
) -> str | None:
    """Describe what is wrong with the counters by part; None if nothing is.

    Args:
        counted: records landed, filtered and dead-lettered in the whole slice.
        parts: the counters by part.
    """
    if parts is UNSET:
        return None
    numbers = [part.number for part in parts]
    if numbers != sorted({*numbers}) or (numbers and numbers[0] < 0):
        return f"parts {numbers} are not in order, each once"
    counts = [(part.landed, part.filtered, part.dead_lettered) for part in parts]
    if any(min(counts_of_part) < 0 or not any(counts_of_part) for counts_of_part in counts):
        return "counts a part without records"
    sums = tuple(map(sum, zip(*counts, strict=True))) or (0, 0, 0)
    if sums != counted:
        return f"landed, filtered and dead-lettered are {counted}, but {sums} by part"
    return None


def _check_parts(result: LandedSlice | ReplayedSlice) -> None:
    counted = result.landed, result.filtered, result.dead_lettered
    if why := wrong_parts(counted, result.parts):
        raise ValueError(f"{result.piece}: {why}")


class LandingRules(IntEnum):
    """By which rules a slice is cut into chunks and objects.

    A REPAIR lands a committed slice again and needs the same objects with the same rows. Which rows
    an object has depends on where chunks end, because memory is checked after each, and on what
    memory is counted. So a result names the rules by which it was made, and its slice is landed
    again by these. Results of a version without this number have ``PAYLOADS``.
    """

    PAYLOADS = 1
    """A chunk ends by records and payload bytes; each buffered batch has an overhead of 2 KiB."""
    ALL_BYTES = 2
    """A chunk ends by keys and headers, too, and by cells; buffered rows count as what they cost.
    """
    LARGE_ROWS = 3
    """A large row begins an object of its own if the object before has none, where the format asks
    for it. Small columns of Parquet are packed cheaply, which decides how many bytes memory holds.
    """
    WHOLE_ROWS = 4
    """A block ends by the keys and headers that its format writes, too."""

    @classmethod
    def of(cls, number: int) -> "LandingRules":
        """Return the rules of a result; rules of a later version are not known here.

        The newest rules are the best guess for them: if they give other rows, nothing is replaced.
        """
        return cls(min(number, CURRENT_RULES))


CURRENT_RULES = LandingRules.WHOLE_ROWS
