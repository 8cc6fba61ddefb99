"""Finds the rows that do not count in the files of a keyed Delta table, version by version."""

import posixpath
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.errors import Reason, Stalled
from landfall.publish.delta.copied_log import CopiedTable
from landfall.publish.delta.entries import Action
from landfall.publish.delta.files import LandedFiles
from landfall.publish.delta.tables import paths_in_log
from landfall.publish.delta.vectors import (
    Descriptor,
    Positions,
    VectorFile,
    VectorUnreadable,
    positions_of,
)
from landfall.publish.keyed.fold import Fold, counted
from landfall.publish.keyed.index import KeyIndex
from landfall.publish.keyed.rows import (
    NO_ROW,
    OFFSET,
    PARTITION,
    KeyedRows,
    KeySettings,
    NoKeys,
    RowIds,
    keyed_rows,
    row_at,
    row_ids,
)
from landfall.publish.object_file import opened
from landfall.publish.replaced_files import FileChanges
from landfall.publish.table_names import absolute, below
from landfall.store import Slots

_NO_ROWS = np.zeros(0, np.uint64)
_BOX = ("min._partition", "max._partition", "min._offset", "max._offset")


class FoldAgain(Exception):  # noqa: N818  # the name is the state
    """The keys of all files are needed to know which of their rows are the newest."""


@dataclass(frozen=True, eq=False)
class KeyedFile:
    """A file of a version.

    Attributes:
        uri: where it is.
        path: as the table's log has it, without escapes.
        add: its entry in the log; None if it enters.
        is_moved: whether it has just the rows of files that leave or, if it leaves itself, of files
            that enter. Then its keys need not be read.
    """

    uri: str
    path: str
    add: Action | None = None
    is_moved: bool = False


@dataclass(frozen=True)
class MarkedFile:
    """A file with the rows that do not count in it.

    Attributes:
        file: the file.
        rows: how many it has.
        vector: the number of its vector in ``VectorFile``; None if all rows count.
    """

    file: KeyedFile
    rows: int
    vector: int | None


@dataclass
class KeyedVersion:
    """A version of a keyed table, without the files that it adds.

    Attributes:
        index: of its keys.
        leaving: files that leave.
        vectors: of files that enter or change.
        marked: these files.
    """

    index: KeyIndex
    leaving: Sequence[KeyedFile] = ()
    vectors: VectorFile = field(default_factory=VectorFile)
    marked: list[MarkedFile] = field(default_factory=list)

    def mark(self, file: KeyedFile, rows: int, positions: Positions) -> None:
        """Record which rows of a file do not count."""
        vector = self.vectors.add(positions) if len(positions) else None
        self.marked.append(MarkedFile(file, rows, vector))


@dataclass(frozen=True)
class OpenedFiles:
    """Opens the files that a table has or gets.

    Attributes:
        table: its URL.
        slots: the files of its folder.
        root: the URL of the output root.
        landed: the files below it.
    """

    table: str
    slots: Slots
    root: str
    landed: LandedFiles

    def ids(self, file: KeyedFile) -> RowIds:
        """The rows of a file, in its order."""
        with self._reading(file) as found:
            return np.concatenate([_NO_ROWS, *row_ids(found)])

    def rows(self, file: KeyedFile, settings: KeySettings) -> Iterator[KeyedRows]:
        """Yield the rows of a file with their keys."""
        with self._reading(file) as found:
            for part in keyed_rows(found, settings):
                if file.add is None and (part.ids == NO_ROW).any():
                    raise NoKeys(f"it has rows without {PARTITION} and {OFFSET}")
                yield part

    def deleted(self, add: Action | None) -> Positions:
        """The rows of a file that the table does not have.

        Raises:
            Stalled: DESTINATION_CONFLICT, it is not known which.
        """
        vector: Descriptor | None = (add or {}).get("deletionVector")
        if vector is None:
            return np.zeros(0, np.int64)
        try:
            return positions_of(vector, self.slots.read_range)
        except VectorUnreadable as error:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {self.table}: {error}. `landfall publish --rebuild` finds again which rows "
                "count",
            ) from None

    @contextmanager
    def _reading(self, file: KeyedFile) -> Iterator[Any]:
        try:
            with self._open(file) as found:
                yield found
        except FileNotFoundError:
            raise Stalled(Reason.OBJECT_LOST, f"file {file.uri} is not there") from None
        except pa.ArrowInvalid as error:
            why = f"file {file.uri} is no Parquet file: {error}"
            raise Stalled(Reason.OBJECT_LOST, why) from None
        except NoKeys as error:
            raise Stalled(Reason.DESTINATION_CONFLICT, f"file {file.uri}: {error}") from None

    def _open(self, file: KeyedFile) -> Any:
        uri = file.uri
        if (key := below(self.root, uri)) is not None:
            return self.landed.system.open_input_file(posixpath.join(self.landed.root, key))
        if (path := below(self.table, uri)) is not None:
            return opened(self.slots, path, int((file.add or {})["size"]))
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"table {self.table} has file {uri}, which is neither in its folder nor in {self.root}",
        )


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
        boxes = [_numbers(files, name) for name in _BOX]
        may = np.logical_or.reduce([np.isnan(box) for box in boxes])
        for number in np.flatnonzero(~may):
            may[number] = _has_any(rows, *(int(box[number]) for box in boxes))
        return self._files(files["path"].filter(pa.array(may)).to_pylist())

    def all(self) -> list[KeyedFile]:
        """All files."""
        return self._files(paths_in_log(self.loaded))

    def _files(self, in_log: Collection[str]) -> list[KeyedFile]:
        """Files by their paths as the log has them."""
        adds = self.loaded.adds(in_log)
        found = ((unquote(path), add) for path, add in adds.items())
        return [KeyedFile(absolute(self.loaded.url, path), path, add) for path, add in found]


@dataclass(frozen=True)
class KeyedPass:
    """Plans a version of a table.

    Attributes:
        keys: what a key is.
        opens: opens files.
        live: the files that the table has.
        index: of its keys.
    """

    keys: KeySettings
    opens: OpenedFiles
    live: LiveFiles
    index: KeyIndex

    def followed(self, new: Sequence[KeyedFile], leaving: Sequence[KeyedFile]) -> KeyedVersion:
        """Return a version in which files enter and leave.

        Rows that leave and enter at once count as they did.

        Raises:
            FoldAgain: rows that count leave, and do not enter: older ones may count again. Or a
                file that leaves is not there any more.
            OrderUnknown, IndexLost, Stalled, Retry: see ``Fold`` and ``OpenedFiles``.
        """
        count, uncounted = self._before(leaving)
        before = np.sort(np.concatenate([count, uncounted]))
        fold, gone, entered = Fold(self.index), [uncounted], [_NO_ROWS]
        for file in new:
            for part in () if file.is_moved else self.opens.rows(file, self.keys):
                is_old = _is_in(part.ids, before)
                entered.append(part.ids[is_old])
                gone.append(fold.add(part.only(~is_old)))
        if not _is_in(count, np.sort(np.concatenate(entered))).all():
            raise FoldAgain
        version = KeyedVersion(fold.index.written(), leaving)
        if len(marks := np.unique(np.concatenate(gone))):
            self._mark(version, new, marks)
        return version

    def again(self, new: Sequence[KeyedFile], leaving: Sequence[KeyedFile]) -> KeyedVersion:
        """Return a version in which files enter and leave, by the rows of all files.

        ``index`` is empty. Rows count by their keys alone.

        Raises:
            OrderUnknown, IndexLost, Stalled, Retry: see ``Fold`` and ``OpenedFiles``.
        """
        files, fold = [*_without(self.live.all(), leaving), *new], Fold(self.index)
        for file in files:
            for part in self.opens.rows(file, self.keys):
                fold.add(part)
        version = KeyedVersion(fold.index.written(), leaving)
        for file in files:
            rows, positions = self._uncounted(file, version.index)
            had = self._had(file)
            if had is None or not np.array_equal(positions, had):
                version.mark(file, rows, positions)
        return version

    def _before(self, leaving: Sequence[KeyedFile]) -> tuple[RowIds, RowIds]:
        """The rows that count in files that leave, and the ones that do not.

        Of a file that is moved, the first are not needed.
        """
        count, uncounted = [_NO_ROWS], [_NO_ROWS]
        for file in leaving:
            deleted = self.opens.deleted(file.add)
            if file.is_moved and not len(deleted):
                continue
            ids = self._ids_of_leaving(file)
            counts = np.ones(len(ids), bool)
            counts[deleted] = False
            uncounted.append(ids[~counts])
            if not file.is_moved:
                count.append(ids[counts])
        return np.concatenate(count), np.concatenate(uncounted)

    def _ids_of_leaving(self, file: KeyedFile) -> RowIds:
        try:
            return self.opens.ids(file)
        except Stalled as error:
            if error.reason is not Reason.OBJECT_LOST:
                raise
            raise FoldAgain from None  # it was deleted early; nothing is needed of it but its rows

    def _mark(self, version: KeyedVersion, new: Sequence[KeyedFile], marks: RowIds) -> None:
        """Mark rows in the files that have them."""
        for file in (*new, *_without(self.live.with_any(marks), version.leaving)):
            ids = self.opens.ids(file)
            had = self.opens.deleted(file.add)
            positions = np.union1d(had, np.flatnonzero(_is_in(ids, marks)))
            if len(positions) > len(had):
                version.mark(file, len(ids), positions)

    def _uncounted(self, file: KeyedFile, index: KeyIndex) -> tuple[int, Positions]:
        """The number of rows of a file, and which do not count."""
        rows, found = 0, [np.zeros(0, np.int64)]
        for part in self.opens.rows(file, self.keys):
            count = np.sort(counted(part, index))
            found.append(np.flatnonzero(~_is_in(part.ids, count)) + rows)
            rows += len(part.ids)
        return rows, np.concatenate(found)

    def _had(self, file: KeyedFile) -> Positions | None:
        """The rows that did not count in a file; None if that is not known."""
        with suppress(Stalled):
            return self.opens.deleted(file.add)
        return None


def _without(files: Iterable[KeyedFile], leaving: Iterable[KeyedFile]) -> list[KeyedFile]:
    left = {file.path for file in leaving}
    return [file for file in files if file.path not in left]


def _numbers(files: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """A column of numbers; NaN where there is none."""
    if name not in files.column_names:
        return np.full(files.num_rows, np.nan)
    column = files[name].cast(pa.float64()).combine_chunks()
    found: npt.NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    return found


def _has_any(rows: RowIds, first: int, last: int, low: int, high: int) -> bool:
    """Return whether sorted rows have one of these Kafka partitions and offsets."""
    return any(
        np.searchsorted(rows, np.uint64(row_at(partition, low)))
        < np.searchsorted(rows, np.uint64(row_at(partition, high)), side="right")
        for partition in range(first, last + 1)
    )


def _is_in(rows: RowIds, among: RowIds) -> npt.NDArray[np.bool_]:
    """Return which rows are among sorted ones."""
    if not len(among):
        return np.zeros(len(rows), bool)
    at = np.minimum(np.searchsorted(among, rows), len(among) - 1)
    found: npt.NDArray[np.bool_] = among[at] == rows
    return found
