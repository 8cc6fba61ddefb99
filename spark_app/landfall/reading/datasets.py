"""A scan as a dataset of Arrow: engines push columns, conditions and folders into it.

DuckDB asks a dataset for a scanner with the columns that a query needs and with the conditions of
its ``WHERE`` that Arrow can evaluate. Objects in folders ``name=value`` that no row of the answer
can come from are not opened, only columns that are needed are read, and Arrow leaves out rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import dataset, fs

from landfall.errors import LandfallError
from landfall.reading.files import File
from landfall.reading.scans import LANDED, SOURCE_COLUMN, TAIL, Scan

Condition = Any
"""An expression of Arrow over columns, whose stubs know no such type."""
_AHEAD = 2
"""Batches that are read before they are asked for."""


class ScanDataset(dataset.FileSystemDataset):  # type: ignore[misc]  # Arrow has no types
    """The rows of a scan.

    Arrow opens none of the fragments: each stands for a file, or for the tail, and holds what its
    folders show of its rows.

    Attributes:
        scan: the rows.
        error: why the last ones could not be read, for an engine passes on the text only.
    """

    def __init__(self, scan: Scan) -> None:
        """Read the columns of a scan.

        Raises:
            Stalled, Retry: as ``Scan.schema``.
        """
        self.scan = scan
        self.error: LandfallError | None = None
        self._files = scan.files()
        known = [_values(file, is_landed=scan.tail is not None) for file in self._files]
        if scan.tail is not None:
            known.append({SOURCE_COLUMN: TAIL})
        form, nowhere = dataset.IpcFileFormat(), fs.LocalFileSystem()
        fragments = [
            form.make_fragment(
                str(number),
                filesystem=nowhere,
                partition_expression=_condition(values, scan.schema),
            )
            for number, values in enumerate(known)
        ]
        super().__init__(fragments, scan.schema, form, nowhere)

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition = None,  # noqa: A002  # Arrow's name
        **_: object,
    ) -> dataset.Scanner:
        """Return a scanner of some columns of the rows that meet a condition."""
        found = {int(fragment.path) for fragment in self.get_fragments(filter)}
        files = [file for number, file in enumerate(self._files) if number in found]
        names = list(self.schema.names if columns is None else columns)
        needed = _fields(
            filter, [name for name in self.schema.names if name not in names], self.schema
        )
        read = [*names, *needed] or self.schema.names[:1]
        return dataset.Scanner.from_batches(
            self._batches(files, read, tail=len(self._files) in found),
            schema=pa.schema([self.schema.field(name) for name in read]),
            columns=names,
            filter=filter,
            batch_readahead=_AHEAD,
        )

    def _batches(
        self, files: Sequence[File], columns: Sequence[str], *, tail: bool
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.scan.batches_of(files, columns, tail=tail)
        except LandfallError as error:
            self.error = error
            raise


def _values(file: File, *, is_landed: bool) -> dict[str, str | None]:
    """The values that columns have in all rows of a file."""
    return {**file.partition_values, **({SOURCE_COLUMN: LANDED} if is_landed else {})}


def _condition(values: dict[str, str | None], schema: pa.Schema) -> Condition:
    """Return an expression that is true of all rows in which columns have these values."""
    found = dataset.scalar(True)  # noqa: FBT003  # Arrow's signature
    for name, value in values.items():
        if schema.get_field_index(name) < 0:
            continue
        column = dataset.field(name)
        if value is None:
            found &= column.is_null()
            continue
        try:
            found &= column == pa.scalar(value).cast(schema.field(name).type)
        except pa.ArrowException:
            continue  # reading the rows says which file it is
    return found


def _fields(condition: Condition, names: Sequence[str], schema: pa.Schema) -> list[str]:
    """Return the columns that a condition is about: without one of them Arrow refuses it."""
    if condition is None or not names:
        return []
    left = pa.schema([column for column in schema if column.name not in {*names}])
    try:
        dataset.dataset(left.empty_table()).scanner(filter=condition)
    except pa.ArrowInvalid:
        if len(names) == 1:
            return [*names]
        half = len(names) // 2
        return [
            *_fields(condition, names[:half], schema),
            *_fields(condition, names[half:], schema),
        ]
    return []
