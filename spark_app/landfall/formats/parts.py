"""Reads parts of files as records, for files that other programs leave in a bucket. Pure.

A file is cut into parts ``[start, end)`` by its name and size alone, so that discovering a file
costs no read. A record belongs to the part in which it begins, even if it ends in a later one; the
parts of a file together hold each of its records exactly once, and in order:

================  ==================================================================
reader            a record belongs to the part with
================  ==================================================================
``Lines``         the first byte of its line; ``JsonLines`` and ``Csv`` as well
``SequenceFile``  the sync mark before it (Hadoop's ``SequenceFileRecordReader``)
``Avro``          the sync marker before its block (Avro's ``DataFileReader.pastSync``)
``Parquet``       the middle of its row group (parquet-mr's ``ParquetMetadataConverter``)
``Whole``         all of the file, which is one record
================  ==================================================================

A file that is compressed as a whole is one part, for nothing in it can be found from its middle.

Nothing here knows a store, a ledger or a network: bytes come from a ``FileBytes``, which is asked
for ranges. What the chunks of records are depends on the bytes alone, so that a part that is read
again gives exactly the same chunks. ``readers.reader_of`` makes readers by name.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from landfall.pipeline.records import Int64s

PART_BYTES = 128 * 2**20
"""The size of the parts that a file is cut into by default."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much of a file is in memory at once.

    Attributes:
        record_bytes: how large a record may be, below 1 GiB; larger ones make a file unreadable.
        block_bytes: how large a block of Avro or SequenceFile may be, decompressed, below 1 GiB.
        window_bytes: the most bytes of a file that are read at once, if it need not be more.
        chunk_rows: the most records in a chunk.
    """

    record_bytes: int = 64 * 2**20
    block_bytes: int = 256 * 2**20
    window_bytes: int = 4 * 2**20
    chunk_rows: int = 10_000

    def __post_init__(self) -> None:
        # Arrow counts the bytes of a column with 32 bits.
        is_small = self.record_bytes < 2**30 and self.block_bytes < 2**30
        if not is_small or min(astuple(self)) < 1:
            raise ValueError(f"limits out of range: {self}")


DEFAULT_LIMITS = ReadLimits()
"""The limits by default."""
LANDED_LIMITS = ReadLimits(record_bytes=2**30 - 1, block_bytes=2**30 - 1)
"""The limits of landed objects, and of objects of other programs that are read as such.

No record is larger: Kafka's clients take none of a gigabyte. A few megabytes may unpack to any
length.
"""


class UnreadableFileError(ValueError):
    """A file is not in its reader's format, or is damaged: it gives the same error at each attempt.

    Attributes:
        name: the name of the file.
        position: the byte in the file at which reading failed, or before which; for Parquet the
            number of a row, for compressed text a byte of its contents.
        reason: what is wrong there.
    """

    def __init__(self, name: str, position: int, reason: str) -> None:
        super().__init__(f"{name}: at {position}: {reason}")
        self.name = name
        self.position = position
        self.reason = reason

    def __reduce__(self) -> tuple[type["UnreadableFileError"], tuple[str, int, str]]:
        # Spark's workers send exceptions to the driver.
        return UnreadableFileError, (self.name, self.position, self.reason)


@dataclass(frozen=True, slots=True, order=True)
class FilePart:
    """The bytes ``start <= byte < end`` of a file. Only the part of an empty file is empty."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a part of a file: [{self.start}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.start

    def __contains__(self, byte: int) -> bool:
        return self.start <= byte < self.end

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


class FileBytes(Protocol):
    """One version of a file, by ranges of its bytes.

    An implementation makes sure that all ranges are of the same version, with ``If-Match``. Its
    exceptions reach the caller of a reader unchanged.
    """

    @property
    def name(self) -> str:
        """The name of the file, whose suffix determines its compression."""
        ...

    @property
    def size(self) -> int:
        """How many bytes it has."""
        ...

    def read(self, start: int, end: int, /) -> bytes:
        """Return exactly the bytes ``start <= byte < end``, where ``end <= size``."""
        ...


@dataclass(frozen=True)
class FileRecords:
    """Consecutive records of a part of a file, one per row.

    Attributes:
        positions: where each record begins, int64, shape (rows,), never decreasing: the byte in the
            file or, if it is compressed as a whole, in its contents. Records in a block of Avro or
            SequenceFile have the position of the block, rows of Parquet their number in the file.
        make_values: makes ``values``, which costs CPU per record where rows are typed.
        keys: keys, an Arrow binary array, shape (rows,); None if the reader has none.
        columns: the rows as typed columns, exactly as the file has them; None if it has no types.
        errors: what is wrong with single records, by row. Their values are their bytes in the file,
            and the caller makes dead letters of them.
    """

    positions: Int64s
    make_values: Callable[[], pa.BinaryArray] = field(repr=False, compare=False)
    keys: pa.BinaryArray | None = None
    columns: pa.RecordBatch | None = None
    errors: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def values(self) -> pa.BinaryArray:
        """The payloads, an Arrow binary array, shape (rows,); JSON objects where rows are typed."""
        return self.make_values()


class FileReader(Protocol):
    """Cuts files of one kind into parts, and reads these."""

    def parts(self, name: str, size: int, part_bytes: int = PART_BYTES) -> tuple[FilePart, ...]:
        """The parts of a file, in order, which together are all of its bytes.

        Args:
            name: the name of the file.
            size: its size in bytes. An empty file has one part, which is empty.
            part_bytes: how many bytes a part has at most, if the file can be cut.

        Raises:
            ValueError: files with the suffix of this name cannot be read; or ``part_bytes`` is less
                than 1.
        """
        ...

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The records that begin in a part, in order, in chunks of at least one.

        Raises:
            UnreadableFileError: the file is not what the reader reads, or it is damaged. Parts
                before and after the damage may be readable.
            ValueError: the part is not inside the file, or the name has a suffix as in ``parts``.
        """
        ...


def cut(size: int, part_bytes: int) -> tuple[FilePart, ...]:
    """Return adjacent parts of nearly equal size, each of at most ``part_bytes`` bytes.

    Raises:
        ValueError: ``part_bytes`` is less than 1.
    """
    if part_bytes < 1:
        raise ValueError(f"cannot cut a file into parts of {part_bytes} bytes")
    count = max(-(-size // part_bytes), 1)  # rounded up
    return tuple(FilePart(size * i // count, size * (i + 1) // count) for i in range(count))
