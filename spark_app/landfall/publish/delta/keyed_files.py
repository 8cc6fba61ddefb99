"""The files of a keyed Delta table, with the rows that it does not have of each."""

import posixpath
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.errors import Reason, Stalled
from landfall.publish.delta.copied_log import CopiedTable
from landfall.publish.delta.files import LandedFiles
from landfall.publish.delta.tables import paths_in_log
from landfall.publish.delta.vectors import Descriptor, VectorUnreadable, positions_of
from landfall.publish.keyed.lifetimes import is_landed
from landfall.publish.keyed.passes import KeyedFile, OpenedFiles, may_have
from landfall.publish.keyed.rows import Positions, RowIds
from landfall.publish.object_file import opened
from landfall.publish.replaced_files import FileChanges
from landfall.publish.table_names import absolute, below
from landfall.store import Created, Slots

_BOX = ("min._partition", "max._partition", "min._offset", "max._offset")


@dataclass(frozen=True)
class IndexInFolder:
    """The files of an index, as ``KeyIndex`` reads and writes them.

    Attributes:
        slots: the files of the table's folder.
    """

    slots: Slots

    def read(self, key: str) -> bytes | None:
        """Read a file; None if it is not there."""
        return self.slots.read(key)

    def create(self, key: str, body: bytes) -> None:
        """Write a file that is named by what it has, also in place of a damaged one."""
        if self.slots.create(key, body) is Created.TAKEN and self.slots.read(key) != body:
            self.slots.delete_slots([key])
            self.slots.create(key, body)


def opened_files(table: str, slots: Slots, root: str, landed: LandedFiles) -> OpenedFiles:
    """Return what opens the files that a table has or gets.

    Args:
        table: its URL.
        slots: the files of its folder.
        root: the URL of the output root.
        landed: the files below it.
    """

    def open_(file: KeyedFile) -> Any:
        uri = file.uri
        if (key := below(root, uri)) is not None:
            return landed.system.open_input_file(posixpath.join(landed.root, key))
        if (path := below(table, uri)) is not None:
            return opened(slots, path, int((file.entry or {})["size"]))
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"table {table} has file {uri}, which is neither in its folder nor in {root}",
        )

    def deleted(file: KeyedFile) -> Positions:
        vector: Descriptor | None = (file.entry or {}).get("deletionVector")
        if vector is None:
            return np.zeros(0, np.int64)
        try:
            return positions_of(vector, slots.read_range)
        except VectorUnreadable as error:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {table}: {error}. `landfall publish --rebuild` finds again which rows "
                "count",
            ) from None

    return OpenedFiles(open_, deleted, is_landed=lambda file: is_landed(file, root))


@dataclass(frozen=True)
class LiveFiles:
    """The files that a table has.

    Attributes:
        loaded: the table.
    """

    loaded: CopiedTable

    def leaving(self, changes: FileChanges) -> list[KeyedFile]:
        """The files that leave by these changes."""
        wanted = {file.path for file in changes.remove}
        if not wanted:
            return []
        in_log = [path for path in paths_in_log(self.loaded) if unquote(path) in wanted]
        return [
            replace(file, is_moved=file.path in changes.moved_out) for file in self._files(in_log)
        ]

    def with_any(self, rows: RowIds) -> list[KeyedFile]:
        """The files that may have some of these rows, by their statistics.

        Args:
            rows: sorted, at least one.
        """
        files = pa.table(self.loaded.get_add_actions(flatten=True))
        may = may_have(rows, [_numbers(files, name) for name in _BOX])
        return self._files(files["path"].filter(pa.array(may)).to_pylist())

    def all(self) -> list[KeyedFile]:
        """All files."""
        return self._files(paths_in_log(self.loaded))

    def _files(self, in_log: Collection[str]) -> list[KeyedFile]:
        """Files by their paths as the log has them."""
        adds = self.loaded.adds(in_log)
        found = ((unquote(path), add) for path, add in adds.items())
        return [KeyedFile(absolute(self.loaded.url, path), path, add) for path, add in found]


def _numbers(files: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """A column of numbers; NaN where there is none."""
    if name not in files.column_names:
        return np.full(files.num_rows, np.nan)
    column = files[name].cast(pa.float64()).combine_chunks()
    found: npt.NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    return found
