"""Reads files of columns: row groups of Parquet and stripes of ORC, one after the other.

What each step may take is bounded (``memory_limit``), and pages are compared with their checksums.
Arrow would make a batch of several row groups; here, none has rows of two.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from landfall.memory_limit import bounded, steps


@contextmanager
def copied(stream: BinaryIO, begun: bytes = b"") -> Iterator[BinaryIO]:
    """A temporary copy of an object: its footer comes last, and a stream cannot seek.

    ``begun`` was read of the stream before.
    """
    with tempfile.TemporaryFile() as file:
        file.write(begun)
        del begun  # megabytes, not needed while the file is read
        shutil.copyfileobj(stream, file)
        yield file


@dataclass(frozen=True)
class ColumnsReader:
    """A file of columns.

    Attributes:
        what: it is, for messages, such as ``Parquet file``.
        schema: its columns.
        metadata: what its footer holds besides, by key.
        groups: how many row groups, or stripes, it has.
        read: the rows of one of these: its number, the columns or None for all, and how many rows
            a batch may have; a stripe is one batch.
    """

    what: str
    schema: pa.Schema
    metadata: Mapping[bytes, bytes]
    groups: int
    read: Callable[[int, Sequence[str] | None, int], Iterator[pa.RecordBatch]]

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, or these of their columns that the file has.

        Raises:
            ValueError: the file is damaged; the message names the last row that could be read.
        """
        for group in self.by_group(rows, columns):
            yield from group

    def by_group(
        self, rows: int, columns: Sequence[str] | None = None
    ) -> Iterator[Iterator[pa.RecordBatch]]:
        """The same, by row groups; each must be read before the next."""
        wanted, counter = there(columns, self.schema), _RowCounter(self.what)
        for number in range(self.groups):
            yield counter.counted(steps(self.read(number, wanted, rows)))


class _RowCounter:
    """Counts the rows that were read, for messages."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._rows = 0

    def counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            with damage(f"{self._what}, at row {self._rows} or later"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch
            self._rows += len(batch)


def parquet(file: BinaryIO, what: str = "Parquet file") -> ColumnsReader:
    """Open a Parquet file that can be read at any place; raises ValueError if it is damaged."""
    with damage(f"{what}, at row 0 or later"), bounded():
        found = pq.ParquetFile(file, page_checksum_verification=True)

    def read(number: int, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        yield from found.iter_batches(rows, [number], columns)

    metadata = found.metadata.metadata or {}
    return ColumnsReader(what, found.schema_arrow, metadata, found.num_row_groups, read)


_LETTERS: Mapping[str, Callable[[pa.DataType], bool]] = MappingProxyType(
    {
        "partition": pa.types.is_int32,
        "offset": pa.types.is_int64,
        "timestamp": pa.types.is_timestamp,
        "key": pa.types.is_binary,
        "value": pa.types.is_binary,
        "headers": pa.types.is_list,
        "error": pa.types.is_string,
    }
)
"""The columns of dead letters that are read, and their types."""


def dead_letters(file: BinaryIO) -> ColumnsReader:
    """Open dead letters in the same way; raises ValueError also if they lack a column."""
    found = parquet(file, "dead letters")
    check_dead_letters(found.schema)
    return found


def check_dead_letters(schema: pa.Schema) -> None:
    """Return if these are the columns of dead letters; raises ValueError if they are not."""
    for name, is_type in _LETTERS.items():
        at = schema.get_field_index(name)  # -1 for two of this name, too
        if at < 0 or not is_type(schema.field(at).type):
            raise ValueError(f"damaged dead letters: column {name} is not as Landfall writes it")


def orc(file: BinaryIO, what: str = "ORC file") -> ColumnsReader:
    """Open an ORC file in the same way."""
    from pyarrow import orc as arrow_orc  # noqa: PLC0415  # tasks that write none need not load it

    with damage(f"{what}, at row 0 or later"), bounded():
        found = arrow_orc.ORCFile(file)

    def read(number: int, columns: Sequence[str] | None, _: int) -> Iterator[pa.RecordBatch]:
        yield found.read_stripe(number, columns)

    return ColumnsReader(what, found.schema.remove_metadata(), {}, found.nstripes, read)


OPEN: Mapping[str, Callable[[BinaryIO], ColumnsReader]] = MappingProxyType(
    {"Parquet": parquet, "Orc": orc}
)
"""What opens a file, by ``spec.output.format``."""


@contextmanager
def damage(what: str) -> Iterator[None]:
    """Raise what Arrow cannot read as ValueError."""
    try:
        yield
    except FileNotFoundError:  # the object is gone, and not damaged
        raise
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"damaged {what}: {error}") from error


def there(columns: Sequence[str] | None, schema: pa.Schema) -> list[str] | None:
    """The columns that a file has of these; at least one, which gives the number of rows."""
    if columns is None:
        return None
    return [name for name in schema.names if name in columns] or schema.names[:1]
