"""Finds the rows that do not count in the files of a keyed table, version by version.

A version adds the files of a stretch, marks what does not count in them and in earlier files, and
names the index of the table's keys. Rows are found in files by the columns ``_partition`` and
``_offset``; only a row that has both is marked.

Where files replace other files, rows that did not count there do not count in the new ones, also
if another program has deleted them. If a replacement may change which row of a key is the newest,
as when a range was landed again, or if the index is lost or was made by other options, all files
are folded again, in one version.

How marks are written, where files are and what a table names is the part of each table format:
``landfall.publish.delta.keyed`` and ``landfall.publish.iceberg.keyed_tables``.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.errors import Reason, Stalled
from landfall.publish.keyed.fold import Fold, OrderUnknown, counted
from landfall.publish.keyed.index import IndexLost, KeyIndex
from landfall.publish.keyed.rows import (
    NO_ROW,
    OFFSET,
    PARTITION,
    KeyedRows,
    KeySettings,
    Lifetimes,
    Names,
    NoKeys,
    Positions,
    RowIds,
    as_they_are,
    keyed_rows,
    row_at,
    row_ids,
    without_lifetimes,
)
from landfall.publish.table_position import NONE, TablePosition

log = logging.getLogger(__name__)

_NO_ROWS = np.zeros(0, np.uint64)
_NO_POSITIONS = np.zeros(0, np.int64)


class FoldAgain(Exception):  # noqa: N818  # the name is the state
    """The keys of all files are needed to know which of their rows are the newest."""


@dataclass(frozen=True, eq=False)
class KeyedFile:
    """A file of a version.

    Attributes:
        uri: where it is.
        path: as the table names it.
        entry: what the table knows of it, in the form of its format; None if it enters.
        is_moved: whether it has just the rows of files that leave or, if it leaves itself, of files
            that enter. Then its keys need not be read.
    """

    uri: str
    path: str
    entry: Any = None
    is_moved: bool = False


@dataclass(frozen=True)
class MarkedFile:
    """A file with the rows that do not count in it.

    Attributes:
        file: the file.
        rows: how many it has.
        marks: the number of its marks, as ``KeyedPass.write`` returned it; None if all rows count.
    """

    file: KeyedFile
    rows: int
    marks: int | None


@dataclass
class KeyedVersion:
    """A version of a keyed table, without the files that it adds.

    Attributes:
        index: of its keys.
        leaving: files that leave.
        marked: files that enter or stay, and get other marks.
    """

    index: KeyIndex
    leaving: Sequence[KeyedFile] = ()
    marked: list[MarkedFile] = field(default_factory=list)


class KeyedTableFiles(Protocol):
    """The files that a table has."""

    def with_any(self, rows: RowIds) -> list[KeyedFile]:
        """The files that may have some of these rows, by their statistics.

        Args:
            rows: sorted, at least one.
        """
        ...

    def all(self) -> list[KeyedFile]:
        """All files."""
        ...


@dataclass(frozen=True)
class OpenedFiles:
    """Reads the files that a table has or gets.

    Attributes:
        open: returns a file as one of Arrow; may raise FileNotFoundError.
        deleted: returns the rows of a file that the table does not have. Raises Stalled
            DESTINATION_CONFLICT if it is not known which.
        shares_marks: whether marks of a file are marks of other files as well.
        names: of columns.
        lifetimes: of the rows of a file.
        is_landed: whether a file is a landed one, and not of another program.
    """

    open: Callable[[KeyedFile], Any]
    deleted: Callable[[KeyedFile], Positions]
    shares_marks: Callable[[KeyedFile], bool] = lambda _: False
    names: Names = as_they_are
    lifetimes: Callable[[KeyedFile], Lifetimes] = lambda _: {}
    is_landed: Callable[[KeyedFile], bool] = lambda _: True

    def ids(self, file: KeyedFile) -> RowIds:
        """The rows of a file, in its order."""
        with self._reading(file) as found:
            return np.concatenate([_NO_ROWS, *row_ids(found, self.names, self.lifetimes(file))])

    def rows(self, file: KeyedFile, settings: KeySettings) -> Iterator[KeyedRows]:
        """Yield the rows of a file with their keys."""
        with self._reading(file) as found:
            for part in keyed_rows(found, settings, self.names, self.lifetimes(file)):
                if file.entry is None and (part.ids == NO_ROW).any():
                    raise NoKeys(f"it has rows without {PARTITION} and {OFFSET}")
                yield part

    @contextmanager
    def _reading(self, file: KeyedFile) -> Iterator[Any]:
        try:
            with self.open(file) as found:
                yield found
        except FileNotFoundError:
            raise Stalled(Reason.OBJECT_LOST, f"file {file.uri} is not there") from None
        except pa.ArrowInvalid as error:
            why = f"file {file.uri} is no Parquet file: {error}"
            raise Stalled(Reason.OBJECT_LOST, why) from None
        except NoKeys as error:
            raise Stalled(Reason.DESTINATION_CONFLICT, f"file {file.uri}: {error}") from None


@dataclass(frozen=True)
class KeyedPass:
    """Plans a version of a table.

    Attributes:
        table: its name.
        keys: what a key is.
        opens: opens files.
        live: the files that the table has.
        write: writes which rows of a file do not count, at least one; returns their number in
            ``MarkedFile``.
        empty: an index of no keys.
    """

    table: str
    keys: KeySettings
    opens: OpenedFiles
    live: KeyedTableFiles
    write: Callable[[KeyedFile, Positions], int]
    empty: KeyIndex

    def with_lifetimes(self, of: Callable[[KeyedFile], Lifetimes]) -> "KeyedPass":
        """Return the pass with the lifetimes of the rows of files."""
        return replace(self, opens=replace(self.opens, lifetimes=of))

    def version(
        self,
        position: TablePosition | None,
        new: Sequence[KeyedFile],
        leaving: Sequence[KeyedFile],
    ) -> KeyedVersion:
        """Plan a version, by the index if that suffices.

        Args:
            position: of the table, with the name of its index; None to fold all files again.
            new: files that enter.
            leaving: files that leave.

        Raises:
            Stalled: DESTINATION_CONFLICT, rows of a key have no order, or see ``OpenedFiles``.
            Retry: the store does not answer.
        """
        try:
            return self._version(position, new, leaving)
        except OrderUnknown as error:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {self.table}: {error}, and offsets order the rows of one partition only; "
                "let option order name a column, such as _source_ts",
            ) from None

    def _version(
        self,
        position: TablePosition | None,
        new: Sequence[KeyedFile],
        leaving: Sequence[KeyedFile],
    ) -> KeyedVersion:
        try:
            if position is not None and (index := self.index(position)) is not None:
                with suppress(FoldAgain):
                    return self.followed(index, new, leaving)
        except IndexLost as error:
            log.warning("index lost", extra={"table": self.table, "error": str(error)})
        return self.again(new, leaving)

    def index(self, position: TablePosition) -> KeyIndex | None:
        """Return the index that a position names; None if there is none, or of other keys.

        Raises:
            IndexLost: the position names none.
        """
        if (named := position.index) is None:
            return self.empty if position.through == NONE else None
        return self.empty.named(named.files) if named.keys == self.keys.text else None

    def followed(
        self, index: KeyIndex, new: Sequence[KeyedFile], leaving: Sequence[KeyedFile]
    ) -> KeyedVersion:
        """Return a version in which files enter and leave.

        Rows that leave and enter at once count as they did. Another program that has updated such a
        row has it in a file of its own, and there it stays as it is.

        Raises:
            FoldAgain: rows that count leave, and do not enter: older ones may count again. Or a
                file that leaves is not there any more.
            OrderUnknown, IndexLost, Stalled, Retry: see ``Fold`` and ``OpenedFiles``.
        """
        count, uncounted = self._before(leaving)
        before = np.sort(np.concatenate([count, uncounted]))
        fold, gone, entered = Fold(index), [_NO_ROWS], [_NO_ROWS]
        for file in new:
            for part in () if file.is_moved else self.opens.rows(file, self.keys):
                is_old = _is_in(part.ids, before)
                entered.append(part.ids[is_old])
                gone.append(fold.add(part.only(~is_old)))
        if not _is_in(count, np.sort(np.concatenate(entered))).all():
            raise FoldAgain
        marks = np.unique(np.concatenate(gone))
        version = KeyedVersion(fold.index.written(), leaving)
        self._mark(version, new, np.union1d(marks, uncounted))
        if len(marks):
            self._mark(version, _without(self.live.with_any(marks), leaving), marks)
        return version

    def again(self, new: Sequence[KeyedFile], leaving: Sequence[KeyedFile]) -> KeyedVersion:
        """Return a version in which files enter and leave, by the rows of all files.

        Rows count by their keys alone. Of a row that is there twice, the landed one counts.

        Raises:
            OrderUnknown, IndexLost, Stalled, Retry: see ``Fold`` and ``OpenedFiles``.
        """
        files, fold = [*_without(self.live.all(), leaving), *new], Fold(self.empty)
        for file in files:
            for part in self.opens.rows(file, self.keys):
                fold.add(part)
        version, once = KeyedVersion(fold.index.written(), leaving), _Once(fold.twice)
        for file in sorted(files, key=self.opens.is_landed, reverse=True):
            rows, positions = self._uncounted(file, version.index, once)
            had = self._had(file)
            if had is None or not np.array_equal(positions, had):
                version.marked.append(self._marked(file, rows, positions))
        return version

    def _before(self, leaving: Sequence[KeyedFile]) -> tuple[RowIds, RowIds]:
        """The rows that count in files that leave, and the ones that do not.

        Of a file that is moved, the first are not needed.
        """
        count, uncounted = [_NO_ROWS], [_NO_ROWS]
        for file in leaving:
            deleted = self.opens.deleted(file)
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

    def _mark(self, version: KeyedVersion, files: Iterable[KeyedFile], marks: RowIds) -> None:
        """Mark rows in files, where these have them."""
        for file in files if len(marks) else ():
            ids = self.opens.ids(file)
            had = self.opens.deleted(file)
            positions = np.union1d(had, np.flatnonzero(_is_in(ids, marks)))
            if len(positions) > len(had):
                version.marked.append(self._marked(file, len(ids), positions))

    def _uncounted(self, file: KeyedFile, index: KeyIndex, once: "_Once") -> tuple[int, Positions]:
        """The number of rows of a file, and which do not count."""
        rows, found = 0, [_NO_POSITIONS]
        for part in self.opens.rows(file, self.keys):
            count = _is_in(part.ids, np.sort(counted(part, index)))
            found.append(np.flatnonzero(~once.only_first(part.ids, count)) + rows)
            rows += len(part.ids)
        return rows, np.concatenate(found)

    def _had(self, file: KeyedFile) -> Positions | None:
        """The rows that did not count in a file; None if it is to be marked in any case."""
        with suppress(Stalled):
            return None if self.opens.shares_marks(file) else self.opens.deleted(file)
        return None

    def _marked(self, file: KeyedFile, rows: int, positions: Positions) -> MarkedFile:
        return MarkedFile(file, rows, self.write(file, positions) if len(positions) else None)


@dataclass
class _Once:
    """Lets rows that are there twice count where they are met first.

    Attributes:
        twice: these rows, sorted.
        met: the ones that were met.
    """

    twice: RowIds
    met: RowIds = field(default_factory=_NO_ROWS.copy)

    def only_first(self, rows: RowIds, count: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return which rows of a part of a file count, of the ones that do by their keys."""
        places = np.flatnonzero(count & _is_in(rows, self.twice))
        found, first = np.unique(rows[places], return_index=True)
        new = ~_is_in(found, self.met)
        self.met = np.union1d(self.met, found)
        counts = count.copy()
        counts[places] = False
        counts[places[first[new]]] = True
        return counts


def _without(files: Iterable[KeyedFile], leaving: Iterable[KeyedFile]) -> list[KeyedFile]:
    left = {file.path for file in leaving}
    return [file for file in files if file.path not in left]


def may_have(rows: RowIds, boxes: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.bool_]:
    """Return which files may have some of these rows, in any of their lifetimes.

    Args:
        rows: sorted, at least one.
        boxes: of each file the least and the greatest Kafka partition, and the same of offsets; NaN
            where that is not known.
    """
    rows = np.unique(without_lifetimes(rows))
    may = np.logical_or.reduce([np.isnan(box) for box in boxes])
    for number in np.flatnonzero(~may):
        may[number] = _has_any(rows, *(int(box[number]) for box in boxes))
    found: npt.NDArray[np.bool_] = may
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
