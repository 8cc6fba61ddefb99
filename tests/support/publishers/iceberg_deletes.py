"""Deletes rows of Iceberg tables as other engines do: merge-on-read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.manifest import ManifestWriterV2 as ManifestWriter
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

FILE_PATH, POS = 2147483546, 2147483545
"""Field ids of position deletes: https://iceberg.apache.org/spec/#position-delete-files."""
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(FILE_PATH)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POS)}),
    ]
)


class _DeleteManifest(ManifestWriter):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AddDeletes(_FastAppendFiles):
    def new_manifest_writer(self, spec: Any) -> Any:
        output = self.new_manifest_output()
        return _DeleteManifest(spec, self.schema(), output, self._snapshot_id, self._compression)


def add_deletes_file(
    table: Any, file: Path, rows: pa.Table, content: DataFileContent, **fields: Any
) -> None:
    """Write a file with deletes of rows, and add it to an unpartitioned table."""
    pq.write_table(rows, file)
    added = DataFile.from_args(
        content=content,
        file_path=f"file://{file}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=file.stat().st_size,
        **fields,
    )
    added.spec_id = 0
    with (
        table.transaction() as transaction,
        _AddDeletes(operation=Operation.DELETE, transaction=transaction, io=table.io) as adding,
    ):
        adding.append_data_file(added)


def add_position_deletes(
    table: Any, file: Path, positions: Mapping[str, Sequence[int]], **fields: Any
) -> None:
    """Delete rows by their positions in data files."""
    pairs = [(path, row) for path in sorted(positions) for row in sorted(positions[path])]
    columns = {"file_path": [path for path, _ in pairs], "pos": [row for _, row in pairs]}
    content = DataFileContent.POSITION_DELETES
    add_deletes_file(table, file, pa.table(columns, schema=_SCHEMA), content, **fields)
