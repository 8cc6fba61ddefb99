"""Delta tables: landed Parquet files become files of a table, without being copied.

A commit of the table's log adds the files of a stretch and sets the version of the application
transaction ``landfall/<group>/<lane>`` to its position. A log takes each version once, and a commit
is not retried on top of another writer's, so the table is as it was read. Where objects were
replaced, the same commit removes the old files.

Files outside of the table's folder are named by absolute URIs, as in a shallow clone; files in it,
by relative paths. Either way a VACUUM cannot delete landed objects: ``table_names``. Folders such
as ``dt=2026-11-21`` become partition columns.

Source: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, Field, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, RemoveAction

from landfall.errors import DestinationAway, LandfallError, Reason, Stalled
from landfall.publish import Stretch
from landfall.publish.delta.columns import DeltaColumns, DoesNotFit, columns_for
from landfall.publish.delta.files import (
    DeltaFile,
    LandedFiles,
    partition_folders,
    partition_value,
)
from landfall.publish.delta.health import details
from landfall.publish.delta.logs import LoadedTable, TableLogs
from landfall.publish.delta.position import (
    Commits,
    PositionUnknown,
    other_lanes,
    position_of,
    properties,
)
from landfall.publish.health import Details, Question
from landfall.publish.library_errors import LibraryErrors
from landfall.publish.replaced_files import FileChanges, TableFile, followed
from landfall.publish.s3_access import Recent
from landfall.publish.table_names import (
    InTheWayOfVacuum,
    absolute,
    below,
    path_in_table,
)
from landfall.publish.table_position import NONE, TablePosition
from landfall.publish.tables import HoldOf, Next

MAX_TRIES = 20
"""How often one pass reads a table again that other writers keep changing."""
_PLAIN = re.compile(r"([A-Za-z0-9:/=._-]|%25)*")
"""Paths in a log that delta-rs writes as they were given."""
_KEEP_REMOVED = {"delta.deletedFileRetentionDuration": "interval 36500 days"}
"""Of tables that have landed files in their folder: Spark's ``VACUUM … LITE`` deletes files that a
table no longer has in all folders, also in folders that VACUUM skips.
"""
_NEW_TABLE = {"delta.checkpointInterval": "30"}
"""Of tables that are created: decision 107 has what checkpoints cost, and what they save."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeltaSettings:
    """How tables are created and changed.

    Attributes:
        partition_by: folders that are partition columns; None for all with ``=`` in their names.
        schema_evolution: whether columns are added: ``Add`` or ``None``.
        partition_types: types of Delta of partition columns of new tables; the rest are ``string``.
    """

    partition_by: tuple[str, ...] | None = None
    schema_evolution: str = "Add"
    partition_types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DeltaTables:
    """Delta tables by the URLs of their folders.

    Attributes:
        files: where landed files are read, looked up at each use.
        root: the URL of the output root.
        lane: the group and the lane of the ledger.
        logs: of the tables.
        settings: of the tables.
        check_new: raises Stalled if no table may be in a folder.
        library: translates errors of delta-rs.
    """

    files: Recent[LandedFiles]
    root: str
    lane: tuple[str, str]
    logs: TableLogs
    settings: DeltaSettings
    check_new: Callable[[str], object] = field(kw_only=True)
    library: LibraryErrors = field(default_factory=LibraryErrors, kw_only=True)

    @property
    def application(self) -> str:
        """The id of the application transaction."""
        return f"landfall/{'/'.join(self.lane)}"

    def through(self, table: str) -> int:
        """See ``Tables``."""
        with self._errors("read", table):
            return self._position(self.logs.load(table)).through

    def append(self, table: str, after: Next) -> int:
        """See ``Tables``."""
        with self._errors("append to", table):
            for _ in range(MAX_TRIES):
                loaded = self.logs.load(table)
                position = self._position(loaded)
                stretch = after(position.through)
                if not stretch.objects and not stretch.replaced:
                    return position.through
                # A table just created or changed may be ahead of this position: read it again.
                if loaded is None:
                    key = stretch.objects[0].key
                    self._create(table, self.files().read([key])[0])
                    continue
                files_of = partial(self._files_of, loaded)
                changes = followed(loaded.url, stretch, position, files_of)
                keys = [object_.key for object_ in changes.add]
                files = self.files().read(keys) if keys else []
                with suppress(CommitFailedError):  # another writer has changed the table
                    if self._sets_retention(loaded, files) or self._changes_columns(
                        loaded, self._columns(loaded, files)
                    ):
                        continue
                    self._commit(loaded, stretch, files, changes)
                    return stretch.through
        raise contended(table)

    def details(self, table: str, question: Question, *, hold_of: HoldOf | None) -> Details | None:
        """Return what the log of a table shows; None if it does not exist.

        Args:
            table: the URL of its folder.
            question: what is asked, of the objects of this table.
            hold_of: why versions need replaced objects; None if they are deleted regardless.

        Raises:
            Retry: the store does not answer.
            Stalled: a user has to change something.
        """
        with self._errors("read", table):
            loaded = self.logs.load(table)
            if loaded is None:
                return None
            live = live_files(loaded, paths_in_log(loaded))
            deletes = sum(file.has_deleted_rows for file in live)
            found = details(loaded, self.logs.files(loaded), question.small_bytes, deletes)
            if hold_of is None:
                return found
            holds = (hold_of(table, due, question.now) for due in question.retired)
            return replace(found, holds=tuple(holds))

    def refill(self, table: str, stretch: Stretch) -> None:
        """See ``Tables``. The table stays, with its identity and history.

        Its columns stay as well, except those whose type no file fits. Files that it has and is to
        keep stay, too: a version that both removes and adds a path is not valid, and readers differ
        on which counts. Where a file with a deletion vector is to be removed, an earlier version
        removes all files.
        """
        with self._errors("refill", table):
            keys = [object_.key for object_ in stretch.objects]
            files = self.files().read(keys) if keys else []
            for _ in range(MAX_TRIES):
                loaded = self.logs.load(table)
                is_empty = loaded is None or not self._has_rows(loaded)
                if is_empty and not files:
                    return
                if loaded is None:
                    self._create(table, files[0])
                    continue
                other_lanes(loaded, self.application).check_none()
                in_log = paths_in_log(loaded)
                staying, leaving = self._parted(loaded, in_log, files)
                # Earlier versions removed and added a path in one version: adding it once more
                # leaves no doubt. A path spelled differently by another writer would be a second
                # file.
                plain = {path.replace("%25", "%") for path in in_log if _PLAIN.fullmatch(path)}
                table_url = loaded.url
                alike = {f.key for f in files if (below(table_url, f.url) or f.url) in plain}
                with suppress(CommitFailedError):  # another writer has changed the table
                    if self._sets_retention(loaded, files):
                        continue
                    keeps_files = is_empty or bool(staying)
                    if keeps_files and any(file.has_deleted_rows for file in leaving):
                        self._clear(loaded, stretch, files)
                        continue
                    if keeps_files:
                        columns = self._columns(loaded, files)
                        if self._changes_columns(loaded, columns):
                            continue
                        again = [f for f in files if f.key not in staying or f.key in alike]
                        self._commit(loaded, stretch, again, FileChanges(stretch.objects, leaving))
                    else:
                        columns = self._columns(loaded, files, replaces_rows=True)
                        changes = FileChanges(stretch.objects)
                        self._commit(loaded, stretch, files, changes, columns.fields)
                    return
        raise contended(table)

    def _parted(
        self, loaded: LoadedTable, in_log: Sequence[str], files: Sequence[DeltaFile]
    ) -> tuple[set[str], tuple[TableFile, ...]]:
        """The keys of files that a table has unchanged, and its remaining files."""
        table = loaded.url
        wanted = {_in_table(table, file.url): file.key for file in files}
        live = [
            (file, wanted.get(_in_table(table, absolute(table, file.path))))
            for file in self._live(loaded, in_log)
        ]
        staying = {key for file, key in live if key is not None and not file.has_deleted_rows}
        leaving = tuple(file for file, key in live if file.has_deleted_rows or key not in staying)
        return staying, leaving

    def _clear(self, loaded: LoadedTable, stretch: Stretch, files: Sequence[DeltaFile]) -> None:
        """Remove all files of a table, by a version of its own, if a stretch can fill it again.

        A file with a deletion vector is removed by its path and its vector, and delta-rs names the
        vector only where every file is removed. Files to be kept cannot be removed and added by one
        version. The position is an empty table's, so the next pass fills it if this one is
        killed here: docs/adr/0072.

        Raises:
            Stalled: DESTINATION_CONFLICT, a file does not fit; nothing has changed.
        """
        self._columns(loaded, files)
        times = {object_.key: object_.time for object_ in stretch.objects}
        for file in files:
            self._action(loaded, file, times[file.key], moved=False)
        with self.logs.committing(loaded):
            loaded.create_write_transaction(
                [],
                mode="overwrite",
                schema=loaded.schema(),
                partition_by=loaded.metadata().partition_columns,
                commit_properties=self._properties(NONE),
            )

    def _has_rows(self, loaded: LoadedTable) -> bool:
        """Return whether a table has rows of the ledger, or may have some."""
        try:
            return self._position(loaded).through != NONE
        except PositionUnknown:
            return True

    def _position(self, loaded: LoadedTable | None) -> TablePosition:
        if loaded is None:
            return TablePosition()
        try:
            position = position_of(Commits(loaded), self.application, self.root)
        except Stalled as error:
            raise type(error)(error.reason, f"table {loaded.url}: {error}") from None
        self._check_mode(loaded, position)
        return position

    def _check_mode(self, loaded: LoadedTable, position: TablePosition) -> None:
        """Return if a table is not keyed: rows would be added next to rows that do not count.

        Raises:
            Stalled: DESTINATION_CONFLICT, it is.
        """
        if position.index is not None:
            raise PositionUnknown(
                Reason.DESTINATION_CONFLICT,
                f"table {loaded.url} is keyed, and option mode is Append: set mode: Keyed, or let "
                "`landfall publish --rebuild` make it a table of all rows",
            )
        if position.through == NONE:
            other_lanes(loaded, self.application).check_mode(keyed=False)

    def _create(self, table: str, first: DeltaFile) -> None:
        self.check_new(table)
        columns = {name.casefold() for name in first.columns.names}
        wanted = self.settings.partition_by
        folders = [name for name, _ in partition_folders(first.key)]
        by = [n for n in folders if n.casefold() not in columns] if wanted is None else [*wanted]
        # A column is optional: a later file may lack it.
        made = [*self._fitting(table, (), [first]).fields]
        types = self.settings.partition_types
        of_folders = [name for name in by if name not in first.columns.names]
        if other := types.keys() - {*of_folders}:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"option partitionTypes: table {table} has no partition column {min(other)}, as "
                f"object {first.url} is in no folder of that name, or has a column of it",
            )
        made += [Field(name, PrimitiveType(types.get(name, "string"))) for name in of_folders]
        with suppress(CommitFailedError):
            keep = _KEEP_REMOVED if below(table, first.url) else {}
            self._make(table, Schema(made), by, {**_NEW_TABLE, **keep})

    def _make(
        self, table: str, columns: Schema, by: Sequence[str], configuration: Mapping[str, str]
    ) -> None:
        self.logs.create(table, columns, by, configuration)

    def _sets_retention(self, loaded: LoadedTable, files: Sequence[DeltaFile]) -> bool:
        """Make a table with landed files in its folder keep removed files, if it does not."""
        if set(loaded.metadata().configuration) & set(_KEEP_REMOVED) or not any(
            below(loaded.url, file.url) for file in files
        ):
            return False
        with self.logs.committing(loaded):
            loaded.alter.set_table_properties(_KEEP_REMOVED)
        return True

    def _columns(
        self, loaded: LoadedTable, files: Sequence[DeltaFile], *, replaces_rows: bool = False
    ) -> DeltaColumns:
        """The columns that a table needs for files.

        Raises:
            Stalled: DESTINATION_CONFLICT, a file does not fit; the message names it.
        """
        evolves = self.settings.schema_evolution != "None"
        return self._fitting(
            loaded.url,
            loaded.schema().fields,
            files,
            replaces_rows=replaces_rows,
            evolves=evolves,
        )

    @staticmethod
    def _fitting(
        table: str, known: Sequence[Field], files: Sequence[DeltaFile], **how: bool
    ) -> DeltaColumns:
        try:
            return columns_for(table, known, files, **how)
        except DoesNotFit as error:
            raise Stalled(Reason.DESTINATION_CONFLICT, str(error)) from None

    def _changes_columns(self, loaded: LoadedTable, columns: DeltaColumns) -> bool:
        """Change the columns of a table, by a version of its own; return False if they fit."""
        if not columns.widened and not columns.added:
            return False
        with self.logs.committing(loaded):
            if columns.widened:
                write_deltalake(
                    loaded,
                    Schema(list(columns.fields)).to_arrow().empty_table(),
                    mode="overwrite",
                    schema_mode="overwrite",
                    predicate="false",  # no row is overwritten
                    partition_by=loaded.metadata().partition_columns,
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            else:
                loaded.alter.add_columns(list(columns.added))
        return True

    def _live(self, loaded: LoadedTable, in_log: Iterable[str]) -> list[TableFile]:
        """All files that a table has, and in which of them another program has deleted rows."""
        return live_files(loaded, in_log)

    def _files_of(self, loaded: LoadedTable, keys: Sequence[str]) -> dict[str, TableFile]:
        """The files that a table has of objects, by key, however a writer spells their URIs."""
        table = loaded.url
        live = self._live(loaded, paths_in_log(loaded))
        by_uri = {_spelled_alike(absolute(table, file.path)): file for file in live}
        url = self.files().url
        found = {key: _spelled_alike(url(key)) for key in keys}
        return {key: by_uri[uri] for key, uri in found.items() if uri in by_uri}

    def _commit(
        self,
        loaded: LoadedTable,
        stretch: Stretch,
        files: Sequence[DeltaFile],
        changes: FileChanges,
        fields: Sequence[Field] | None = None,
    ) -> None:
        """Commit files and the position; with ``fields``, all that a table has leaves it."""
        now_ms = round(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            *self._added(loaded, files, changes),
            *(
                RemoveAction(file.path, file.path not in changes.moved_out, now_ms)
                for file in changes.remove
            ),
        ]
        with self.logs.committing(loaded):
            loaded.create_write_transaction(
                actions,
                mode="append" if fields is None else "overwrite",
                schema=loaded.schema() if fields is None else Schema([*fields]),
                partition_by=loaded.metadata().partition_columns,
                commit_properties=self._properties_of(stretch, changes),
            )
        log_passed_over(loaded, changes)

    def _added(
        self, loaded: LoadedTable, files: Sequence[DeltaFile], changes: FileChanges
    ) -> list[AddAction]:
        """The log entries of files that enter."""
        times = {object_.key: object_.time for object_ in changes.add}
        return [
            self._action(loaded, file, times[file.key], moved=file.key in changes.moved_in)
            for file in files
        ]

    @staticmethod
    def _action(loaded: LoadedTable, file: DeltaFile, time: str, *, moved: bool) -> AddAction:
        """The log entry of a file that was landed at a time.

        One whose rows have only moved, as by a merge, changes no data: streams skip it.
        """
        columns = loaded.metadata().partition_columns
        types = {column.name: column.type for column in loaded.schema().fields}
        values = dict(partition_folders(file.key))
        if missing := [name for name in columns if name not in values]:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"object {file.url} is in no folder {missing[0]}=…, by which its table is "
                "partitioned; land with that route, or publish to another table",
            )
        try:
            path = path_in_table(loaded.url, file.url)
        except InTheWayOfVacuum as error:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"object {error}; land with such a route, or publish to another table",
            ) from None
        try:
            partition = {name: partition_value(values[name], types[name]) for name in columns}
        except ValueError as error:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"object {file.url}: {error}; let it be of type String, in a new table",
            ) from None
        return AddAction(
            path,
            file.size,
            partition,
            _millis(time),
            not moved,
            file.statistics,
        )

    def _properties_of(
        self, stretch: Stretch, changes: FileChanges, more: Mapping[str, str] | None = None
    ) -> CommitProperties:
        """Return the properties of a commit that brings a table to the end of a stretch."""
        over = ",".join(str(slot) for slot in changes.passed_over)
        found = {"landfall.slots": f"{stretch.after + 1}-{stretch.through}", **(more or {})}
        if over:
            found["landfall.passedOver"] = over
        return self._properties(stretch.through, changes.left_out, found)

    def _properties(
        self,
        through: int,
        left_out: Collection[str] = (),
        more: Mapping[str, str] | None = None,
    ) -> CommitProperties:
        """Return a commit's properties: the transaction, and the same for ``position``."""
        own = properties(self.application, self.root, through, left_out)
        return CommitProperties(
            app_transactions=[Transaction(self.application, through)],
            max_commit_retries=0,
            custom_metadata={**own, **(more or {})},
        )

    @contextmanager
    def _errors(self, attempt: str, table: str) -> Iterator[None]:
        """Translate delta-rs's exceptions; the next try reads the table first."""
        attempted = f"{attempt} {table}"
        try:
            yield
        except LandfallError:
            raise
        except BaseException as error:
            # a panic in a thread of delta-rs
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            message = self._message(table, error)
            raise self.library.translate(attempted, error, message) from None
        self.library.succeeded(attempted)

    def _message(self, table: str, error: BaseException) -> str:
        text = self.logs.failed(f"Delta table {table}: {type(error).__name__}: {error}")
        self.files.forget()
        return " ".join(text.split())[:1000]


def _millis(time: str) -> int:
    """A time as a ledger has it, ISO 8601, in milliseconds since 1970; 0 if it is none."""
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1000)
    except ValueError:
        return 0


def _spelled_alike(uri: str) -> str:
    """Normalize what writers spell differently in a URI: slashes, and ``s3a`` for ``s3``."""
    scheme, _, rest = _one_slash(uri).partition(":")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}"


def _one_slash(uri: str) -> str:
    """A URI with no slash after its scheme: by this readers compare absolute paths."""
    scheme, _, rest = uri.partition(":")
    return f"{scheme}:{rest.lstrip('/')}"


def _in_table(table: str, uri: str) -> str:
    """The form in which readers compare paths of files: equal ones are one file to them."""
    inside = below(table, uri)
    return _one_slash(uri) if inside is None else inside


def paths_in_log(loaded: LoadedTable) -> list[str]:
    """The paths of all files that a table has, as its log has them."""
    paths: list[str] = pa.table(loaded.get_add_actions())["path"].to_pylist()
    return paths


def live_files(loaded: LoadedTable, in_log: Iterable[str]) -> list[TableFile]:
    """All files that a table has, by their paths in the log."""
    # The log has escapes, which a key may have as well; delta-rs adds them to what it is given.
    paths = map(unquote, in_log)
    with_deleted = {
        _spelled_alike(absolute(loaded.url, unquote(path))) for path in loaded.paths_with_vectors()
    }
    return [
        TableFile(path, _spelled_alike(absolute(loaded.url, path)) in with_deleted)
        for path in paths
    ]


def log_passed_over(loaded: LoadedTable, changes: FileChanges) -> None:
    """Log the REPLACEs that a commit has passed over."""
    if changes.passed_over:
        log.warning(
            "replacement passed over",
            extra={"table": loaded.url, "slots": [*changes.passed_over]},
        )


def contended(table: str) -> DestinationAway:
    """Return the error of a table that other programs keep changing."""
    why = f"other programs changed it {MAX_TRIES} times meanwhile"
    return DestinationAway(f"Delta table {table}: {why}")
