"""Step ``Lookup``: adds columns of a table, found by a key, such as what is known of a device.

| option | default | meaning |
|---|---|---|
| ``file`` | | a Parquet or CSV file, where drivers and executors have it |
| ``sha256`` | | its checksum; a file with another one is refused |
| ``key`` | | the field or column that holds the key |
| ``match`` | as ``key`` | the column of the table that holds it |
| ``columns`` | the rest | the columns of the table that are added |
| ``missing`` | ``Null`` | the result for a row without a match: ``Null``, ``Drop`` or ``Reject`` |

A key occurs once in the table. All columns of a CSV file are text, types are not inferred; the step
``Cast`` changes them. A column of the record that has the name of one that is added is an error of
the spec; in JSON such a field is replaced. Without a match JSON gets no fields, and columns null.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.pinned import PinnedFile, read_pinned
from landfall.pipeline.records import Int64s
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.documents import (
    Documents,
    find,
    put,
    python_values,
    read_documents,
    with_documents,
)
from landfall.pipeline.transforms.names import column_of, columns_by_name, path_of, with_columns
from landfall.pipeline.transforms.payloads import json_texts


class MissingMatch(StrEnum):
    """The outcome for a row without a match."""

    NULL = "Null"
    DROP = "Drop"
    REJECT = "Reject"


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Lookup``."""

    file: str
    sha256: str
    key: str
    match: str | None = None
    columns: tuple[str, ...] | None = None
    missing: MissingMatch = MissingMatch.NULL


@dataclass(frozen=True)
class Lookup:
    """Adds columns of a table.

    Attributes:
        path: the field or column with the key.
        keys: the keys of the table, without null, unique, shape (table rows,).
        table: the columns that are added, shape (table rows,) each.
        json: the same as JSON.
        rows: the row of the table by its key.
        missing: the outcome for a row without a match.
        files: the file of the table.
    """

    path: Path
    keys: pa.Array
    table: Mapping[str, pa.Array]
    json: Mapping[str, Sequence[msgspec.Raw]]
    rows: Mapping[object, int]
    missing: MissingMatch
    files: tuple[PinnedFile, ...]
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Lookup":
        """Build the step; ValueError names a wrong option or an error of the file."""
        read = read_options(options, Options)
        path, match = path_of(read.key), read.match or read.key
        table = _table(read.file, read_pinned(read.file, read.sha256, context.read_file))
        if match not in table.schema.names:
            raise ValueError(f"option match: the table has no column {match!r}")
        names = read.columns or tuple(name for name in table.schema.names if name != match)
        if unknown := sorted(set(names) - set(table.schema.names)):
            raise ValueError(f"option columns: the table has no column {', '.join(unknown)}")
        if context.schema is not None and (taken := sorted(set(names) & set(context.schema.names))):
            raise ValueError(f"option columns: there is a column {', '.join(taken)} already")
        table = table.filter(pc.is_valid(table.column(match)))
        keys = _whole(table.column(match))
        if len(keys.unique()) < len(keys):
            raise ValueError(f"option match: a key occurs twice in column {match!r}")
        columns = {name: _whole(table.column(name)) for name in names}
        json = {
            name: [msgspec.Raw(text.encode()) for text in json_texts(column).to_pylist()]
            for name, column in columns.items()
        }
        rows = {key: row for row, key in enumerate(keys.to_pylist())}
        files = (PinnedFile(read.file, read.sha256),)
        return cls(
            path=path,
            keys=keys,
            table=columns,
            json=json,
            rows=rows,
            missing=read.missing,
            files=files,
        )

    @property
    def writes(self) -> tuple[Path, ...]:
        """The names of the columns that are added."""
        return tuple((name,) for name in self.table)

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with what belongs to their keys."""
        if decoded.columns is not None:
            found = self._found_in_column(column_of(decoded.columns, self.path))
            decoded, left = self._matched(decoded, found, {})
            assert decoded.columns is not None, "rejecting and keeping rows keeps the form"
            rows = pa.array(found[left], pa.int64(), mask=found[left] < 0)
            added = {name: column.take(rows) for name, column in self.table.items()}
            return with_columns(decoded, {**columns_by_name(decoded.columns), **added})
        decoded, documents = read_documents(decoded)
        found, errors = self._found_in_json(documents)
        decoded, left = self._matched(decoded, found, errors)
        kept = [documents[row] for row in left.tolist()]
        return with_documents(decoded, self._joined(kept, found[left]), self.writes, {})

    def _matched(
        self, decoded: Decoded, found: Int64s, errors: Mapping[int, str]
    ) -> tuple[Decoded, Int64s]:
        """Return the rows that stay, and which these are; ``found`` is -1 without a match."""
        wrong = dict(errors)
        if self.missing is MissingMatch.REJECT:
            error = f"lookup: nothing found by {'.'.join(self.path)}"
            wrong = {**dict.fromkeys(np.flatnonzero(found < 0).tolist(), error), **wrong}
        left = np.delete(np.arange(len(found)), sorted(wrong))
        decoded = decoded.reject(wrong)
        if self.missing is MissingMatch.DROP:
            is_found = found[left] >= 0
            return decoded.keep(is_found), left[is_found]
        return decoded, left

    def _found_in_column(self, column: pa.Array) -> Int64s:
        if column.type != self.keys.type:
            raise ValueError(
                f"option key: column {'.'.join(self.path)} is {column.type}, "
                f"and the table's is {self.keys.type}; Cast changes it"
            )
        rows = pc.fill_null(pc.index_in(column, value_set=self.keys), -1)
        found: Int64s = rows.to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def _found_in_json(self, documents: Documents) -> tuple[Int64s, Mapping[int, str]]:
        raws = [None if document is None else find(document, self.path) for document in documents]
        values, errors = python_values(raws, self.path)
        return np.array([self._row(value) for value in values], np.int64), errors

    def _row(self, value: object) -> int:
        # A boolean is 1 or 0 to a dictionary, and an object cannot be looked up.
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return -1
        is_number_for_text = isinstance(value, int) and pa.types.is_string(self.keys.type)
        return self.rows.get(str(value) if is_number_for_text else value, -1)

    def _joined(self, documents: Documents, found: Int64s) -> Documents:
        for document, row in zip(documents, found.tolist(), strict=True):
            if document is not None and row >= 0:
                for name, column in self.json.items():
                    put(document, (name,), column[row])
        return documents


def _table(path: str, data: bytes) -> pa.Table:
    try:
        if data[:4] == b"PAR1":
            # Not ``read_table``: the threads of Arrow's data sets may end a process with SIGABRT.
            return pq.ParquetFile(BytesIO(data)).read()
        header = data.split(b"\n", 1)[0]
        names = pyarrow.csv.read_csv(BytesIO(header + b"\n")).schema.names
        text = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        )
        return pyarrow.csv.read_csv(BytesIO(data), convert_options=text)
    except pa.ArrowException as error:
        raise ValueError(f"option file: {path}: {error}") from error


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
