"""Changes of an Iceberg table: snapshots that add files under any spec, and remove some.

A table whose partitioning was changed keeps its earlier specs, and each data file belongs to one of
them. pyiceberg appends every file under the table's current spec; landed files are written without
regard to their table, so some fit an earlier spec only.

A file is removed by its path: its entry is marked as deleted in a copy of its manifest. Files of
deletes are added and removed in the same way, which pyiceberg does not do: it has no writer of
their manifests, and merges none. A deletion that is not removed is left as it is, so who removes a
file of rows also removes what deletes rows of it.

Imports pyiceberg, which is an extra: import this where it is needed.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _MergeAppendFiles

from landfall.publish.iceberg.new_snapshot import NewSnapshot


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

    change: NewSnapshot

    @classmethod
    def of(cls, transaction: Any, summary: Mapping[str, str], change: NewSnapshot) -> "ChangeFiles":
        """Return a change of the main branch.

        Args:
            transaction: of the table, whose current snapshot has the files to be removed.
            summary: all lines for the summary of the snapshot.
            change: what is added and removed.
        """
        made = cls(
            _operation(change),
            transaction,
            transaction._table.io,  # noqa: SLF001  # as Transaction.update_snapshot does
            snapshot_properties=dict(summary),
        )
        made.change = change
        for file in change.files:
            made.append_data_file(file)
        return made

    def _manifests(self) -> list[ManifestFile]:
        added = [*self._added(self.change.files), *self._added(self.change.deletes, deletes=True)]
        return self._process_manifests([*added, *self._existing_manifests()])

    def _added(self, files: Sequence[DataFile], *, deletes: bool = False) -> list[ManifestFile]:
        by_spec: dict[int, list[DataFile]] = defaultdict(list)
        for file in files:
            by_spec[file.spec_id].append(file)
        return [
            self._added_manifest(self._writer(spec_id, deletes=deletes), of_spec)
            for spec_id, of_spec in by_spec.items()
        ]

    def _writer(self, spec_id: int, *, deletes: bool) -> ManifestWriter:
        spec = self.spec(spec_id)
        return self.deletes_writer(spec) if deletes else self.new_manifest_writer(spec)

    def deletes_writer(self, spec: Any) -> ManifestWriter:
        """Return a writer of a manifest of files of deletes."""
        return _DeletesWriter(
            spec,
            self.schema(),
            self.new_manifest_output(),
            self._snapshot_id,
            self._compression,
        )

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Merge manifests; those written for this snapshot and merged go once it is committed."""
        merged = super()._process_manifests(manifests)
        deletes = [manifest for manifest in merged if manifest.content is ManifestContent.DELETES]
        merging: Any = _ManifestMergeManager(
            target_size_bytes=self._target_size_bytes,
            min_count_to_merge=self._min_count_to_merge,
            merge_enabled=self._merge_enabled,
            snapshot_producer=_ForDeletes(self),  # type: ignore[arg-type]  # all that it calls
        )
        merged = [manifest for manifest in merged if manifest.content is ManifestContent.DATA]
        merged += merging.merge_manifests(deletes)
        named = {manifest.manifest_path for manifest in merged}
        self._uncommitted_manifests += [p for p in self._written_manifests if p not in named]
        self._written_manifests = [p for p in self._written_manifests if p in named]
        return merged

    def _existing_manifests(self) -> list[ManifestFile]:
        self._deleted_data_files = set()
        found = [self._without_removed(manifest) for manifest in super()._existing_manifests()]
        gone = {file.file_path for file in self._deleted_data_files}
        if missing := (self.change.removed or frozenset()) - gone:
            raise ValueError(f"file {min(missing)} is not in the table")
        return found

    def _without_removed(self, manifest: ManifestFile) -> ManifestFile:
        """Return a manifest, or a copy of it in which the entries of removed files are deleted."""
        removed = self.change.removed
        if removed is not None and not removed:
            return manifest
        entries = self.fetch_manifest_entry(manifest)
        deleted = [e for e in entries if removed is None or e.data_file.file_path in removed]
        if not deleted:
            return manifest
        for entry in deleted:
            entry.data_file.spec_id = manifest.partition_spec_id
            self._deleted_data_files.add(entry.data_file)
        gone = {id(entry) for entry in deleted}
        of_deletes = manifest.content is ManifestContent.DELETES
        with self._writer(manifest.partition_spec_id, deletes=of_deletes) as writer:
            for entry in entries:
                (writer.delete if id(entry) in gone else writer.existing)(entry)
        return writer.to_manifest_file()

    def _added_manifest(self, new: ManifestWriter, files: list[DataFile]) -> ManifestFile:
        with new as writer:
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
        for file in (*self._added_data_files, *self.change.deletes):
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


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


@dataclass(frozen=True)
class _ForDeletes:
    """The part of a ``ChangeFiles`` that merges manifests, for manifests of deletes."""

    change: ChangeFiles

    @property
    def snapshot_id(self) -> int:
        return self.change.snapshot_id

    def spec(self, spec_id: int) -> Any:
        return self.change.spec(spec_id)

    def new_manifest_writer(self, spec: Any) -> ManifestWriter:
        return self.change.deletes_writer(spec)

    def fetch_manifest_entry(
        self,
        manifest: ManifestFile,
        discard_deleted: bool = True,  # noqa: FBT001, FBT002  # pyiceberg's signature
    ) -> list[ManifestEntry]:
        return self.change.fetch_manifest_entry(manifest, discard_deleted)


def _operation(change: NewSnapshot) -> Operation:
    if change.moves_rows:
        return Operation.REPLACE
    removes = change.removed is None or bool(change.removed)
    if change.files:
        return Operation.OVERWRITE if removes or change.deletes else Operation.APPEND
    return Operation.DELETE if removes or change.deletes else Operation.APPEND
