"""An append of files to an Iceberg table under more than one of its partition specs.

A table whose partitioning somebody has changed keeps its earlier specs, and each data file belongs
to one of them. pyiceberg appends every file under the table's current spec; landed files are
written before their table is asked, so some of them fit an earlier one only.

Imports pyiceberg, which is an extra: import this where it is needed.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import (
    Operation,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update.snapshot import _MergeAppendFiles


class AppendBySpec(_MergeAppendFiles):
    """Appends each file under the spec that it names; merges manifests if the table wants that."""

    @classmethod
    def of(cls, transaction: Any, summary: Mapping[str, str]) -> "AppendBySpec":
        """An append to the main branch, with these lines in the summary of its snapshot."""
        return cls(
            Operation.APPEND,
            transaction,
            transaction._table.io,  # noqa: SLF001  # as Transaction.update_snapshot does
            snapshot_properties=dict(summary),
        )

    def _manifests(self) -> list[ManifestFile]:
        by_spec: dict[int, list[DataFile]] = defaultdict(list)
        for file in self._added_data_files:
            by_spec[file.spec_id].append(file)
        added = [self._added_manifest(spec_id, files) for spec_id, files in by_spec.items()]
        return self._process_manifests([*added, *self._existing_manifests()])

    def _added_manifest(self, spec_id: int, files: list[DataFile]) -> ManifestFile:
        with self.new_manifest_writer(self.spec(spec_id)) as writer:
            for file in files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        return writer.to_manifest_file()

    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006  # of the base
        metadata, collector = self._transaction.table_metadata, SnapshotSummaryCollector()
        for file in self._added_data_files:
            collector.add_file(file, metadata.schema(), self.spec(file.spec_id))
        parent = self._parent_snapshot_id
        previous = metadata.snapshot_by_id(parent) if parent is not None else None
        return update_snapshot_summaries(
            Summary(self._operation, **collector.build(), **snapshot_properties),
            previous.summary if previous else None,
        )
