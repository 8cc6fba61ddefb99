"""The common base of the column formats, ``Parquet`` and ``Orc``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, ClassVar

import pyarrow as pa

from landfall.formats import Block, Row, text, unreadable
from landfall.formats.column_reading import ColumnsReader, copied, damage
from landfall.formats.columns import (
    ENVELOPE,
    Convert,
    as_leaf,
    envelope,
    sort_keys,
    table,
    wrong_timestamps,
)
from landfall.formats.options import SortKey
from landfall.formats.typed_rows import batch_rows
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import UNREADABLE_HEADERS, BadRows, Records

_READ_ROWS = 1024
"""Rows that are read back at once, each as a value of Python."""


class ColumnFiles:
    """A format that writes the envelope as columns, or typed columns.

    Attributes:
        envelope: whether typed columns are followed by the coordinates of the record.
        sort_by: the columns that sort the rows of each block.
        is_typed: whether columns are typed, so that neither keys nor headers are needed.
        wrong: which times readers of the format cannot hold.
        error: the error for such a time.
        open: opens a file that can be read at any place.
        leaf: makes a column without inner types storable.
    """

    envelope: bool
    sort_by: Sequence[SortKey]
    is_typed: bool
    wrong: ClassVar[unreadable.Wrong]
    error: ClassVar[str]
    open: ClassVar[Callable[[BinaryIO], ColumnsReader]]
    leaf: ClassVar[Convert] = as_leaf

    @property
    def keeps_order(self) -> bool:
        """Return whether the rows of an object are in the order of their offsets."""
        return not self.sort_by

    @property
    def wanted(self) -> Wanted:
        """The whole envelope, or typed columns; the registry adds the schema of these."""
        if self.is_typed:
            return Wanted(columns=True, timestamps=self.envelope)
        return Wanted(columns=True, timestamps=True, keys=True, headers=True)

    def refuse(self, records: Records) -> BadRows:
        """Return records whose headers or whose Kafka timestamp cannot be read back."""
        wrong, headers = None, None
        if self.wanted.timestamps:
            wrong = wrong_timestamps(records, type(self).wrong)
        if self.wanted.headers and records.headers.null_count:
            headers = records.headers.is_null()
        return text.bad_rows(
            (wrong, f"Kafka timestamp: {self.error}"), (headers, UNREADABLE_HEADERS)
        )

    def refuse_columns(self, columns: pa.RecordBatch) -> Mapping[int, str]:
        """Return errors by row for rows with values that readers cannot hold."""
        return unreadable.refused(columns, type(self).wrong, self.error)

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back; raises ValueError if it is damaged.

        A row of typed columns is given as JSON, with binary values in base64.
        """
        with copied(stream) as file:
            found = type(self).open(file)
            with damage(found.what):
                for batch in found.batches(_READ_ROWS):
                    yield from batch_rows(batch)

    def table(self, block: Block) -> pa.Table:
        """Return a block as the columns of the file, sorted if that is asked for."""
        records, typed = block.records, block.columns
        if typed is None:
            made = pa.Table.from_arrays(envelope(records), schema=ENVELOPE)
        else:
            is_own = block.schema is not None
            leaf = type(self).leaf
            made = table(records, typed, is_enveloped=self.envelope, own=is_own, convert=leaf)
        return self.in_order(made)

    def in_order(self, made: pa.Table) -> pa.Table:
        """Return the rows of a block, sorted if that is asked for."""
        keys = sort_keys(self.sort_by, made.schema)
        # Arrow's sort keeps rows with equal keys in the order of their offsets.
        return made.sort_by([(key.column, key.order) for key in keys]) if keys else made


class Buffer:
    """The file Arrow writes to; ``take`` returns what was written since the last call."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        """Take the next bytes. Arrow calls it."""
        self._written.append(bytes(data))

    def flush(self) -> None:
        """Does nothing: nothing is buffered elsewhere. Arrow calls it."""

    def close(self) -> None:
        """Signal that nothing follows. Arrow calls it."""
        self.closed = True

    def take(self) -> bytes:
        """Return what was written since the last call."""
        written = self._written
        self._written = []
        return b"".join(written)
