"""The files of a keyed Iceberg table, with the rows that it does not have of each.

Rows are deleted by their positions. A file of deletes is of one data file: readers find it by its
bounds, and a data file that gets more deletes gets one new file of all, in place of the one before.
Other programs write files of deletes that are of several data files. These stay until each of
their data files has left or has a file of its own.

Imports pyiceberg, which is an extra: import this where it is needed.
"""

import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _read_deletes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

from landfall.errors import Reason, Stalled
from landfall.memory_limit import bounded
from landfall.publish.iceberg.names import mapping_of
from landfall.publish.keyed.index import FOLDER
from landfall.publish.keyed.passes import KeyedFile, KeyedVersion, may_have
from landfall.publish.keyed.rows import OFFSET, PARTITION, Positions, RowIds
from landfall.publish.replaced_files import FileChanges

SUFFIX = "-deletes.parquet"
"""The end of the names of files of deletes."""
WRITERS = 16
"""How many files of deletes are written at once."""
_PATH, _POSITION = 2147483546, 2147483545
"""The reserved ids of the columns of files of deletes."""
_FIELD_ID = b"PARQUET:field_id"
_DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_FIELD_ID: str(_PATH)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_FIELD_ID: str(_POSITION)}),
    ]
)


def index_folder(loaded: Any) -> str:
    """The folder of a table's index. Spark's ``remove_orphan_files`` skips it."""
    return f"{loaded.metadata.location.rstrip('/')}/{FOLDER}"


@dataclass(frozen=True)
class IndexFiles:
    """The files of an index, as ``KeyIndex`` reads and writes them.

    Attributes:
        io: the ``FileIO`` of the table.
        location: of the table.
    """

    io: Any
    location: str
    _made: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, loaded: Any) -> "IndexFiles":
        """Return the files of a table's index."""
        return cls(loaded.io, loaded.metadata.location.rstrip("/"))

    def read(self, key: str) -> bytes | None:
        """Read a file; None if it is not there."""
        try:
            with self.io.new_input(f"{self.location}/{key}").open() as file:
                body: bytes = file.read()
                return body
        except FileNotFoundError:
            return None

    def create(self, key: str, body: bytes) -> bool:
        """Write a file that is named by what it has, whether it is there or not."""
        with self.io.new_output(f"{self.location}/{key}").create(overwrite=True) as file:
            file.write(body)
        self._made.add(key)
        return True

    def discard(self, named: Collection[str]) -> None:
        """Delete what was written and merged at once: what is not named after a commit.

        Args:
            named: the names of the files that snapshots name.
        """
        unnamed = self._made - {f"{FOLDER}/{name}" for name in named}
        _delete(self.io, (f"{self.location}/{key}" for key in sorted(unnamed)))


@dataclass(frozen=True)
class PlannedFiles:
    """The data files that a table has, with their files of deletes.

    Attributes:
        loaded: the table.
    """

    loaded: Any

    def leaving(self, changes: FileChanges) -> list[KeyedFile]:
        """The files that leave by these changes."""
        if not changes.remove:
            return []
        tasks = self.tasks
        return [
            replace(_keyed(tasks[file.path]), is_moved=file.path in changes.moved_out)
            for file in changes.remove
        ]

    def with_any(self, rows: RowIds) -> list[KeyedFile]:
        """See ``KeyedTableFiles``."""
        tasks = [*self.tasks.values()]
        mapping = mapping_of(self.loaded.metadata)
        boxes = [
            _bounds(tasks, which, field_id)
            for field_id in (_field(mapping, PARTITION), _field(mapping, OFFSET))
            for which in ("lower_bounds", "upper_bounds")
        ]
        return [_keyed(tasks[number]) for number in np.flatnonzero(may_have(rows, boxes))]

    def all(self) -> list[KeyedFile]:
        """See ``KeyedTableFiles``."""
        return [*map(_keyed, self.tasks.values())]

    def deletes_without_use(self, version: KeyedVersion) -> set[str]:
        """The paths of files of deletes that no data file needs after a version."""
        files = (*version.leaving, *(mark.file for mark in version.marked))
        changed = {file.path for file in files if file.entry is not None}
        if not changed:
            return set()
        unchanged = (task for path, task in self.tasks.items() if path not in changed)
        needed = {file.file_path for task in unchanged for file in task.delete_files}
        return {
            file.file_path for path in changed for file in self.tasks[path].delete_files
        } - needed

    @cached_property
    def tasks(self) -> dict[str, Any]:
        """The ``FileScanTask`` of each data file, by its path.

        Raises:
            Stalled: DESTINATION_CONFLICT, rows of the table are deleted by their values.
        """
        try:
            with bounded():
                return {task.file.file_path: task for task in self.loaded.scan().plan_files()}
        except ValueError as error:
            if "equality deletes" not in str(error):  # which pyiceberg does not read
                raise
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {'.'.join(self.loaded.name())}: another program has deleted rows by their "
                "values, which are not known; `landfall publish --rebuild` fills the table again",
            ) from None


class NoFiles:
    """The files of a table that is filled again: all that it has leaves first."""

    def leaving(self, _: FileChanges) -> list[KeyedFile]:
        """None."""
        return []

    def with_any(self, _: RowIds) -> list[KeyedFile]:
        """None."""
        return []

    def all(self) -> list[KeyedFile]:
        """None."""
        return []

    def deletes_without_use(self, _: KeyedVersion) -> set[str]:
        """None."""
        return set()


@dataclass(frozen=True)
class DeletedRows:
    """Reads the files of deletes that a table has.

    Attributes:
        loaded: the table.
    """

    loaded: Any
    _read: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, file: KeyedFile) -> Positions:
        """The rows of a data file that the table does not have, sorted.

        Raises:
            Stalled: DESTINATION_CONFLICT, a file of deletes is not there or is damaged.
        """
        found = [np.zeros(0, np.int64)]
        for deletes in _deletes(file):
            positions = self._positions(deletes).get(file.path)
            if positions is not None:
                found.append(positions.to_numpy())
        return np.unique(np.concatenate(found))

    def are_shared(self, file: KeyedFile) -> bool:
        """Return whether files of deletes of a data file have rows of other data files, too."""
        return any(_is_of_several(deletes) for deletes in _deletes(file))

    def _positions(self, deletes: Any) -> Mapping[str, Any]:
        if deletes.file_path in self._read:
            return self._read[deletes.file_path]
        try:
            found: Mapping[str, Any] = _read_deletes(self.loaded.io, deletes)
        except (FileNotFoundError, pa.ArrowInvalid, IndexError, ValueError) as error:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {'.'.join(self.loaded.name())}: file of deletes {deletes.file_path} cannot "
                f"be read: {error}. `landfall publish --rebuild` finds again which rows count",
            ) from None
        if _is_of_several(deletes):
            self._read[deletes.file_path] = found
        return found


@dataclass(frozen=True)
class NewDeletes:
    """Files of deletes of a version, until they are written.

    Attributes:
        io: the ``FileIO`` of the table.
        folder: where they are.
        data_file: returns the ``DataFile`` of a file.
    """

    io: Any
    folder: str
    data_file: Callable[[KeyedFile], Any]
    _made: list[tuple[Any, bytes]] = field(default_factory=list)

    def add(self, file: KeyedFile, positions: Positions) -> int:
        """Add the rows of a data file that do not count, sorted; return the number of its file."""
        names = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int32), [file.path])
        table = pa.table([names.cast(pa.string()), pa.array(positions)], schema=_DELETES)
        body = io.BytesIO()
        pq.write_table(
            table,
            body,
            compression="zstd",
            use_dictionary=["file_path"],
            column_encoding={"pos": "DELTA_BINARY_PACKED"},
        )
        of, bound = self.data_file(file), {_PATH: file.path.encode()}
        made = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=f"{self.folder}/{uuid4()}{SUFFIX}",
            file_format=FileFormat.PARQUET,
            partition=of.partition,
            record_count=len(positions),
            file_size_in_bytes=len(body.getvalue()),
            lower_bounds=bound,
            upper_bounds=bound,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
        )
        made.spec_id = of.spec_id
        self._made.append((made, body.getvalue()))
        return len(self._made) - 1

    def written(self) -> list[Any]:
        """Write all, and return a ``DataFile`` of each."""
        with ThreadPoolExecutor(WRITERS) as pool:
            return [*pool.map(self._write, self._made)]

    def discard(self) -> None:
        """Delete what was written: no snapshot names it."""
        _delete(self.io, (file.file_path for file, _ in self._made))

    def _write(self, made: tuple[Any, bytes]) -> Any:
        file, body = made
        with self.io.new_output(file.file_path).create() as output:
            output.write(body)
        return file


def _delete(io: Any, paths: Iterable[str]) -> None:
    """Delete files that nothing names; one that cannot be deleted now stays."""
    for path in paths:
        with suppress(OSError):
            io.delete(path)


def landed_names(metadata: Any, wanted: Iterable[str], schema: pa.Schema) -> dict[str, str]:
    """Return the names that columns of a file have in landed files, by their own names.

    Another program writes a file with the names and the ids of the table, whose mapping has the
    names of landed files. These themselves have no ids.

    Args:
        metadata: of the table.
        wanted: names in landed files.
        schema: of the file.
    """
    ids = {name: (schema.field(name).metadata or {}).get(_FIELD_ID) for name in schema.names}
    if not any(ids.values()):
        return {name: name for name in schema.names}
    mapping = mapping_of(metadata)
    landed = {str(_field(mapping, name)).encode(): name for name in wanted}
    others = {name: f" {name}" for name in wanted}  # a column that only has the name of another
    return {name: landed.get(number or b"", others.get(name, name)) for name, number in ids.items()}


def _field(mapping: Any, name: str) -> int | None:
    """The id of the table's column of a name in landed files."""
    return next((field.field_id for field in mapping if name in field.names), None)


def _bounds(tasks: Sequence[Any], which: str, field_id: int | None) -> npt.NDArray[np.float64]:
    """Bounds of a column of numbers, by file; NaN where there is none."""
    found = [(getattr(task.file, which) or {}).get(field_id) for task in tasks]
    return np.array(
        [
            np.nan if bound is None else int.from_bytes(bound, "little", signed=True)
            for bound in found
        ],
        np.float64,
    )


def _keyed(task: Any) -> KeyedFile:
    return KeyedFile(task.file.file_path, task.file.file_path, task)


def _deletes(file: KeyedFile) -> Collection[Any]:
    found: Collection[Any] = () if file.entry is None else file.entry.delete_files
    return found


def _is_of_several(deletes: Any) -> bool:
    least, greatest = (
        (deletes.lower_bounds or {}).get(_PATH),
        (deletes.upper_bounds or {}).get(_PATH),
    )
    return least is None or least != greatest
