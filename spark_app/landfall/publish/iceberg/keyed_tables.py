"""Keyed Iceberg tables: files of deletes leave the newest row of each key.

A snapshot adds the files of a stretch, deletes by their positions the rows that do not count in
them and in earlier files, and names the index of the table's keys in its summary
(``landfall.publish.keyed``). A table that is rolled back has the index of that snapshot.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from landfall.errors import Reason, Stalled
from landfall.publish import Stretch
from landfall.publish.iceberg.copies import own_folder
from landfall.publish.iceberg.new_snapshot import NewSnapshot
from landfall.publish.iceberg.position import index_names, other_lanes
from landfall.publish.iceberg.tables import IcebergTables, reached_by, summary_of
from landfall.publish.keyed.index import IndexSizes, IndexSlots, KeyIndex
from landfall.publish.keyed.lifetimes import is_landed, lifetimes_by, lifetimes_of
from landfall.publish.keyed.newest import Ended, NewestRow, newest_row
from landfall.publish.keyed.passes import KeyedFile, KeyedPass, OpenedFiles
from landfall.publish.keyed.rows import KeySettings
from landfall.publish.replaced_files import FileChanges, TableFile
from landfall.publish.table_names import below
from landfall.publish.table_position import NamedIndex, TablePosition


@dataclass(frozen=True)
class KeyedIcebergTables(IcebergTables):
    """Iceberg tables of the newest row of each key.

    Attributes:
        keys: what a key is, and which of its rows is the newest.
        sizes: how indexes are cut.
    """

    keys: KeySettings = field(kw_only=True)
    sizes: IndexSizes = field(default_factory=IndexSizes, kw_only=True)

    def newest(self, table: str, key: Mapping[str, str], ended: Ended) -> NewestRow | None:
        """See ``HasKeys``."""
        from landfall.publish.iceberg.keyed_files import (  # noqa: PLC0415  # an extra
            IndexFiles,
            PlannedFiles,
        )

        with self.connection.errors("read", table):
            if (loaded := self._load(table)) is None:
                return None
            planned = self._pass(
                loaded, PlannedFiles(loaded), _write_nothing, IndexFiles.of(loaded)
            )
            planned = planned.with_lifetimes(lifetimes_by(ended, self.url("")))
            columns = loaded.schema().as_arrow()
            return newest_row(planned, self._position(loaded), columns, key)

    def _check_mode(self, loaded: Any, position: TablePosition) -> None:
        """Return if no other lane has rows in it: a table of all rows becomes a keyed one."""
        if position.index is None:
            other_lanes(loaded, self.key).check_mode(keyed=True)

    def _files_of(self, loaded: Any, keys: Sequence[str]) -> dict[str, TableFile]:
        """Return the files that a table has of objects, by key.

        That some of their rows do not count is the nature of a keyed table.
        """
        found = super()._files_of(loaded, keys)
        return {key: replace(file, has_deleted_rows=False) for key, file in found.items()}

    def _commit(
        self,
        loaded: Any,
        stretch: Stretch,
        changes: FileChanges,
        position: TablePosition | None,
        files: Mapping[str, Any],
    ) -> None:
        """See ``IcebergTables``. It is one snapshot, also if some of the rows only moved.

        Raises:
            Stalled: DESTINATION_CONFLICT, the table's format has no deleted rows.
        """
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415  # an extra

        from landfall.publish.iceberg.keyed_files import (  # noqa: PLC0415  # an extra
            IndexFiles,
            NewDeletes,
            NoFiles,
            PlannedFiles,
        )

        _check_format(loaded)
        clears = position is None
        entering = {file.file_path: file for file in files.values()}
        deletes = NewDeletes(
            loaded.io,
            own_folder(loaded),
            lambda file: entering[file.path] if file.entry is None else file.entry.file,
        )
        new = [
            KeyedFile(file.file_path, file.file_path, is_moved=key in changes.moved_in)
            for key, file in files.items()
        ]
        live = NoFiles() if clears else PlannedFiles(loaded)
        leaving, index = live.leaving(changes), IndexFiles.of(loaded)
        again = any(replaced.changes_rows for replaced in stretch.replaced)
        planned = self._pass(loaded, live, deletes.add, index)
        version = planned.with_lifetimes(lifetimes_of(stretch, self.url(""))).version(
            None if again else position, new, leaving
        )
        snapshot = NewSnapshot(
            [*files.values()],
            summary_of(stretch, changes),
            frozenset({*(file.path for file in leaving), *live.deletes_without_use(version)}),
            moves_rows=bool(leaving) and all(file.is_moved for file in (*leaving, *new)),
            deletes=deletes.written(),
        )
        named = NamedIndex(version.index.text, self.keys.text)
        reached = replace(reached_by(stretch, changes), index=named)
        try:
            with self._changing(loaded, clears=clears) as transaction:
                self._add(transaction, reached, snapshot)
        except CommitFailedException:  # another client has changed the table
            deletes.discard()
            raise
        index.discard(
            {name for old in loaded.metadata.snapshots for name in index_names(old, self.key)}
        )

    def _pass(
        self, loaded: Any, live: Any, write: Callable[[KeyedFile, Any], int], index: IndexSlots
    ) -> KeyedPass:
        from landfall.publish.iceberg.keyed_files import (  # noqa: PLC0415  # an extra
            DeletedRows,
            landed_names,
        )

        deleted = DeletedRows(loaded)
        return KeyedPass(
            table=".".join(loaded.name()),
            keys=self.keys,
            opens=OpenedFiles(
                partial(self._open, loaded),
                deleted.of,
                deleted.are_shared,
                partial(landed_names, loaded.metadata, self.keys.named),
                is_landed=lambda file: is_landed(file, self.url("")),
            ),
            live=live,
            write=write,
            empty=KeyIndex(index, is_ordered=self.keys.order is not None, sizes=self.sizes),
        )

    def _open(self, loaded: Any, file: KeyedFile) -> Any:
        """Open a landed file by our own access, and any other by the table's."""
        is_landed = below(self.url(""), file.uri) is not None
        io = self.connection.file_io(file.uri) if is_landed else loaded.io
        return io.new_input(file.uri).open()


def _write_nothing(file: KeyedFile, _: Any) -> int:
    raise AssertionError(f"{file.path}: nothing is marked when keys are looked up")


def _check_format(loaded: Any) -> None:
    """Return if rows of a table can be deleted.

    Raises:
        Stalled: DESTINATION_CONFLICT, they cannot.
    """
    if loaded.metadata.format_version < 2:
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"table {'.'.join(loaded.name())} has format version 1 of Iceberg, in which no row is "
            "deleted from a file; upgrade it to version 2, or publish to another table",
        )
