"""Changes of an Iceberg table: snapshots that add files under any spec, and remove some.

A table whose partitioning was changed keeps its earlier specs, and each data file belongs to one of
them. pyiceberg appends every file under the table's current spec; landed files are written without
regard to their table, so some fit an earlier spec only.

A file is removed by its path: its entry is marked as deleted in a copy of its manifest. Deletes of
rows are left as they are, so a file with such deletes must not be removed here.

Imports pyiceberg, which is an extra: import this where it is needed.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update.snapshot import _MergeAppendFiles


class TableChange(Transaction):
    """A transaction that computes the metadata once for each update.

    pyiceberg applies all updates to a copy of the metadata whenever it looks at it, a dozen times a
    commit, and a copy of 600 snapshots takes 30 ms of CPU time.
    """

    _known: tuple[Any, Any, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata of the table with all updates; it must not be changed."""
        base, updates = self._table.metadata, self._updates
        if self._known is None or self._known[0] is not base or self._known[1] is not updates:
            self._known = (base, updates, super().table_metadata)
        return self._known[2]


class ChangeFiles(_MergeAppendFiles):
    """Adds each file under the spec that it names; merges manifests if the table wants that."""

    removed: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        transaction: Any,
        summary: Mapping[str, str],
        removed: Collection[str] = (),
        *,
        moves_rows: bool = False,
    ) -> "ChangeFiles":
        """Return a change of the main branch.

        Args:
            transaction: of the table, whose current snapshot has the files to be removed.
            summary: lines for the summary of the snapshot.
            removed: the paths of files that are removed.
            moves_rows: whether the added files have exactly the rows of the removed ones. Streams
                skip such a snapshot.
        """
        operation = Operation.REPLACE if moves_rows else Operation.OVERWRITE
        made = cls(
            operation if removed else Operation.APPEND,
            transaction,
            transaction._table.io,  # noqa: SLF001  # as Transaction.update_snapshot does
            snapshot_properties=dict(summary),
        )
        made.removed = frozenset(removed)
        return made

    def _manifests(self) -> list[ManifestFile]:
        by_spec: dict[int, list[DataFile]] = defaultdict(list)
        for file in self._added_data_files:
            by_spec[file.spec_id].append(file)
        added = [self._added_manifest(spec_id, files) for spec_id, files in by_spec.items()]
        return self._process_manifests([*added, *self._existing_manifests()])

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Merge manifests; those written for this snapshot and merged go once it is committed."""
        merged = super()._process_manifests(manifests)
        named = {manifest.manifest_path for manifest in merged}
        self._uncommitted_manifests += [p for p in self._written_manifests if p not in named]
        self._written_manifests = [p for p in self._written_manifests if p in named]
        return merged

    def _existing_manifests(self) -> list[ManifestFile]:
        self._deleted_data_files = set()
        found = [self._without_removed(manifest) for manifest in super()._existing_manifests()]
        if missing := self.removed - {file.file_path for file in self._deleted_data_files}:
            raise ValueError(f"file {min(missing)} is not in the table")
        return found

    def _without_removed(self, manifest: ManifestFile) -> ManifestFile:
        """Return a manifest, or a copy of it in which the entries of removed files are deleted."""
        if manifest.content is not ManifestContent.DATA or not self.removed:
            return manifest
        entries = self.fetch_manifest_entry(manifest)
        deleted = [entry for entry in entries if entry.data_file.file_path in self.removed]
        if not deleted:
            return manifest
        for entry in deleted:
            entry.data_file.spec_id = manifest.partition_spec_id
            self._deleted_data_files.add(entry.data_file)
        with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
            for entry in entries:
                if entry.data_file.file_path in self.removed:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        return writer.to_manifest_file()

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
        for file in self._deleted_data_files:
            collector.remove_file(file, metadata.schema(), self.spec(file.spec_id))
        parent = self._parent_snapshot_id
        previous = metadata.snapshot_by_id(parent) if parent is not None else None
        operation = self._operation
        summary = update_snapshot_summaries(
            # pyiceberg computes no summary of a REPLACE
            Summary(
                Operation.OVERWRITE if operation is Operation.REPLACE else operation,
                **collector.build(),
                **snapshot_properties,
            ),
            previous.summary if previous else None,
        )
        return summary.model_copy(update={"operation": operation})
