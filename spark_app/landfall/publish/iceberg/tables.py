"""Iceberg tables: landed Parquet files become data files of a table, without being copied.

A snapshot of a table appends the files of a stretch, and the same commit of the catalog sets the
table property ``landfall.<group>.<lane>.through`` to its position. The catalog takes a commit only
if the table is as it was loaded. pyiceberg's own retries are off, because they apply the same files
again to a table that another writer has changed (apache/iceberg-python, issue 3320).

A column of a file that the table lacks is added to the table first, by a commit of its own. Files
need no field ids: the table's name mapping finds columns by name.

Where objects were replaced, the same commit removes the old files and adds the new ones, if the
files that the table has allow it (``replaced_files``). A snapshot whose rows have only moved, as by
a merge, is a ``replace``, which streams skip; new objects of the same stretch are in a snapshot
after it, in the same commit.

Metadata and manifests are what any client that may write to the table has put there, so they are
read with bounded memory (``memory_limit``).

``position`` finds the position of a table that other engines change, too. ``maintenance`` expires
snapshots, of tables that were created with it or whose publisher asks for it; a table whose
maintenance fails is published all the same. ``copies`` copies files
that cannot be added as they are. Earlier versions added them, so their tables are searched once,
and marked by the property ``landfall.timestamps`` if they have none.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from landfall.api.values import plural
from landfall.errors import DestinationAway, LandfallError, Reason, Stalled
from landfall.ledger.names.object_names import parse_key
from landfall.memory_limit import bounded
from landfall.publish import DueObjects, Hold, Stretch, VisibleObject
from landfall.publish.health import Details, Question
from landfall.publish.iceberg.catalog import Connection
from landfall.publish.iceberg.copies import Copies
from landfall.publish.iceberg.expiry import LEAST_AGE, MAX_BATCH, naming
from landfall.publish.iceberg.files import (
    NewColumns,
    check_cases,
    columns_of,
    data_files,
    first_outdated,
    has_times,
)
from landfall.publish.iceberg.names import (
    PROPERTY,
    as_in_table,
    mapping_of,
    reserved_columns,
)
from landfall.publish.iceberg.new_snapshot import NewSnapshot
from landfall.publish.iceberg.options import (
    FORMAT_VERSION,
    MAINTAINED,
    IcebergTableSettings,
)
from landfall.publish.iceberg.partitions import table_of_columns
from landfall.publish.iceberg.position import (
    index_key,
    other_lanes,
    position,
    position_key,
    position_properties,
    positions,
)
from landfall.publish.replaced_files import CannotFollow, FileChanges, TableFile, followed
from landfall.publish.table_position import NONE, TablePosition
from landfall.publish.tables import Next

if TYPE_CHECKING:
    from landfall.publish.iceberg.maintenance import Maintenance

log = logging.getLogger(__name__)

MAX_TRIES = 20
"""How often one pass reads a table again that other writers keep changing."""
ASK_AGAIN = timedelta(hours=1)
"""When a branch or tag is looked at again that keeps replaced objects from being deleted."""
_IN_MEMORY = {"commit.retry.num-retries": "0"}
_UNLESS_SET = {
    # pyiceberg merges manifests from 100 on, and every query reads all of them. A merge decodes the
    # whole manifest, so it is kept small as well.
    "commit.manifest.min-count-to-merge": "20",
    "commit.manifest.target-size-bytes": str(1 << 20),
}
"""Properties that our commits assume in a table that does not set them."""
_CREATED = {
    # The files are landed objects: no expiry of snapshots and no purge may delete them.
    "gc.enabled": "false",
    # A table gets a commit a minute.
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
_TIMESTAMPS = "landfall.timestamps"
_MARKED = {_TIMESTAMPS: "microseconds"}
"""No file of the table holds milliseconds, or its owner wants those that do: any value will do."""


@dataclass(frozen=True)
class IcebergTables:
    """Tables of an Iceberg catalog.

    Attributes:
        connection: to the catalog.
        lane: the group and the lane of the ledger.
        url: of an object, by its key.
        settings: of the tables.
    """

    connection: Connection
    lane: tuple[str, str]
    url: Callable[[str], str]
    settings: IcebergTableSettings

    @property
    def key(self) -> str:
        """The name of the position."""
        return position_key(*self.lane)

    def through(self, table: str) -> int:
        """See ``Tables``."""
        with self.connection.errors("read", table):
            return self._position(self._load(table)).through

    def append(self, table: str, after: Next) -> int:
        """See ``Tables``."""
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415  # an extra

        made: dict[str, str] = {}
        with self.connection.errors("append to", table):
            for _ in range(MAX_TRIES):
                loaded = self._load(table)
                position = self._position(loaded)
                stretch = after(position.through)
                if not stretch.objects and not stretch.replaced:
                    return position.through
                # A table just created or changed may be ahead of this position: read it again.
                if loaded is None:
                    self._create(table, stretch)
                    continue
                changes = followed(table, stretch, position, partial(self._files_of, loaded))
                with suppress(CommitFailedException):  # another client has changed the table
                    if self._change(loaded, stretch, changes, position, made):
                        self._maintain(loaded)
                        return stretch.through
        raise _contended(table)

    def hold(self, table: str, due: DueObjects, now: datetime) -> Hold | None:
        """Return why a table needs replaced objects; see ``HoldsObjects``.

        A branch or tag at a snapshot that names them needs them as long as it is there; another
        snapshot, until it is old enough to expire. Own ones that are expire here, if the table is
        maintained: a table without new commits would keep them for ever.
        """
        with self.connection.errors("read", table):
            loaded = self._load(table)
            if loaded is None:
                return None
            hold, old = self._named(loaded, due, now)
            if old:
                with bounded():
                    self._maintenance.expire(loaded, old[:MAX_BATCH])
            return hold

    def _named(self, loaded: Any, due: DueObjects, now: datetime) -> tuple[Hold | None, list[Any]]:
        """Return why a table needs replaced objects, and its snapshots that expire for that."""
        table, now_ms = ".".join(loaded.name()), round(now.timestamp() * 1000)
        slots = due.landed, due.slot
        found = naming(loaded.metadata, self.key, slots, self.settings.limits, now_ms)
        if found.refs:
            name = found.refs[0]
            kind = loaded.metadata.refs[name].snapshot_ref_type
            why = f"{kind} {name} of table {table} names them, until it is removed or moved"
            return Hold(now + ASK_AGAIN, why), []
        if found.count:
            until = datetime.fromtimestamp(found.until_ms / 1000, UTC)
            why = f"{plural(found.count, 'snapshot')} of table {table} may name them"
            return Hold(until, f"{why} until {until:%Y-%m-%dT%H:%MZ}"), []
        is_maintained = self.settings.maintained(loaded.properties)
        if not found.old or not is_maintained or not loaded.current_snapshot():
            return None, []
        count = plural(len(found.old), "snapshot")
        why = f"{count} of table {table} that name them expire"
        return Hold(now + LEAST_AGE, why), [*found.old]

    def details(self, table: str, question: Question, *, keeps_files: bool) -> Details | None:
        """Return what the catalog and the files of a table show; None if it does not exist.

        Args:
            table: its name.
            question: what is asked, of the objects of this table.
            keeps_files: whether kept snapshots have their files.

        Raises:
            Retry: the catalog or the store does not answer.
            Stalled: a user has to change something.
        """
        with self.connection.errors("read", table):
            loaded = self._load(table)
            if loaded is None:
                return None
            retired = question.retired if keeps_files else ()
            holds = [self._named(loaded, due, question.now)[0] for due in retired]
            maintained = self.settings.maintained(loaded.properties)
            from landfall.publish.iceberg.health import details  # noqa: PLC0415  # an extra

            with bounded():
                found = details(loaded, self._maintenance, question.small_bytes)
            care = replace(found.care, maintained=maintained)
            return replace(found, care=care, holds=tuple(holds))

    def refill(self, table: str, stretch: Stretch) -> None:
        """See ``Tables``.

        The table stays, with its identity, columns, properties and history. Changes that its files
        need first, such as a column, are made by commits of their own.
        """
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415  # an extra

        made: dict[str, str] = {}
        with self.connection.errors("refill", table):
            for _ in range(MAX_TRIES):
                loaded = self._load(table)
                is_empty = loaded is None or loaded.metadata.current_snapshot_id is None
                if is_empty and not stretch.objects:
                    return
                if loaded is None:
                    self._create(table, stretch)
                    continue
                with suppress(CommitFailedException):
                    if not is_empty:
                        other_lanes(loaded, self.key).check_none()
                    changes = FileChanges(stretch.objects)
                    if self._change(loaded, stretch, changes, None, made):
                        return
        raise _contended(table)

    @cached_property
    def _maintenance(self) -> "Maintenance":
        from landfall.publish.iceberg.maintenance import Maintenance  # noqa: PLC0415  # an extra

        return Maintenance(self.key, self.settings.limits, self.url(""))

    def _maintain(self, loaded: Any) -> None:
        """Expire snapshots of a table; a failure is logged, and the next commit tries again."""
        table = ".".join(loaded.name())
        if not self.settings.maintained(loaded.properties):
            return
        try:
            with self.connection.errors("maintain", table), bounded():
                self._maintenance.maintain(loaded)
        except LandfallError as error:
            log.warning("maintenance failed", extra={"table": table, "error": str(error)})

    def _load(self, table: str) -> Any:
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415  # an extra

        try:
            with bounded():
                loaded = self.connection.catalog().load_table(table)
        except NoSuchTableError:
            return None
        if (version := loaded.metadata.format_version) > FORMAT_VERSION:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {table} has format version {version} of Iceberg, and Landfall writes "
                f"versions up to {FORMAT_VERSION}; publish to another table",
            )
        # Set here only: as a property of the table it would apply to other writers, too.
        properties = loaded.metadata.properties
        properties.update({**_UNLESS_SET, **properties, **_IN_MEMORY})
        return loaded

    def _position(self, loaded: Any) -> TablePosition:
        if loaded is None:
            return TablePosition()
        root, own = f"{self.key}.root", self.url("")
        if loaded.properties.get(root, own) != own:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {'.'.join(loaded.name())} follows the ledger of group {self.lane[0]} in "
                f"{loaded.properties[root]}; "
                f"publish what is in {own} to another table",
            )
        try:
            found = position(loaded.metadata, self.key)
        except Stalled as error:
            raise Stalled(error.reason, f"table {'.'.join(loaded.name())}: {error}") from None
        self._check_mode(loaded, found)
        return found

    def _check_mode(self, loaded: Any, position: TablePosition) -> None:
        """Return if a table is not keyed: rows would be added next to rows that do not count.

        Raises:
            Stalled: DESTINATION_CONFLICT, it is.
        """
        if position.index is not None:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {'.'.join(loaded.name())} is keyed, and option mode is Append: set mode: "
                "Keyed, or let `landfall publish --rebuild` make it a table of all rows",
            )
        if position.through == NONE:
            other_lanes(loaded, self.key).check_mode(keyed=False)

    def _create(self, table: str, stretch: Stretch) -> None:
        """Create the table with the columns of the first file, if it is not there."""
        from pyiceberg.exceptions import TableAlreadyExistsError  # noqa: PLC0415  # an extra
        from pyiceberg.schema import Schema  # noqa: PLC0415  # an extra

        catalog, key = self.connection.catalog(), stretch.objects[0].key
        catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
        url = self.url(key)
        of_file = columns_of(self.connection.file_io(url), url)
        columns = as_in_table(of_file, Schema(), ())
        check_cases(url, of_file, columns, Schema())
        made = table_of_columns(columns, self.settings.fields(parse_key(key).topic, columns))
        with suppress(TableAlreadyExistsError):
            catalog.create_table(
                table,
                made.schema,
                partition_spec=made.spec,
                properties={
                    **_CREATED,
                    **_MARKED,
                    MAINTAINED: "true",
                    **self.settings.properties,
                },
            )

    def _files_of(self, loaded: Any, keys: Sequence[str]) -> dict[str, TableFile]:
        """Return the files that a table has of objects, by key.

        Raises:
            CannotFollow: rows of the table are deleted by their values.
        """
        wanted = {self.url(key): key for key in keys}
        try:
            with bounded():
                tasks = [*loaded.scan().plan_files()]
        except ValueError as error:
            if "equality deletes" not in str(error):  # which pyiceberg does not read
                raise
            why = f"another program has deleted rows by their values: {error}"
            raise CannotFollow(why) from None
        return {
            wanted[task.file.file_path]: TableFile(task.file.file_path, bool(task.delete_files))
            for task in tasks
            if task.file.file_path in wanted
        }

    def _change(
        self,
        loaded: Any,
        stretch: Stretch,
        changes: FileChanges,
        position: TablePosition | None,
        made: dict[str, str],
    ) -> bool:
        """Change the files of a table; False if only columns were added or renamed for them.

        Args:
            loaded: the table.
            stretch: what is followed.
            changes: of the table's files.
            position: of the table; None to remove everything that it has.
            made: has the copies of earlier tries, by the files they are of.
        """
        reserved = reserved_columns(loaded.schema())
        if reserved and self.settings.schema_evolution == "Add":
            self._rename(loaded, reserved)
            return False
        files = self._data_files(loaded, changes.add, made, checks_times=position is not None)
        if new := [file for file in files.values() if isinstance(file, NewColumns)]:
            self._add_columns(loaded, new)
            return False
        self._commit(loaded, stretch, changes, position, files)
        if changes.passed_over:
            log.warning(
                "replacement passed over",
                extra={"table": ".".join(loaded.name()), "slots": [*changes.passed_over]},
            )
        return True

    def _commit(
        self,
        loaded: Any,
        stretch: Stretch,
        changes: FileChanges,
        position: TablePosition | None,
        files: Mapping[str, Any],
    ) -> None:
        """Commit changes of a table's files, and its position.

        Args:
            loaded: the table.
            stretch: what is followed.
            changes: of the table's files.
            position: of the table; None to remove everything that it has.
            files: that enter, each a ``DataFile``, by the keys of their objects.
        """
        removed = frozenset(file.path for file in changes.remove)
        moves_rows = bool(removed) and removed <= changes.moved_out
        moved = [file for key, file in files.items() if key in changes.moved_in]
        summary, reached = summary_of(stretch, changes), reached_by(stretch, changes)
        with self._changing(loaded, clears=position is None) as transaction:
            if position is not None and moves_rows and len(moved) < len(files):
                # Streams skip a snapshot that replaces, so new objects are in one of their own.
                before = replace(position, through=stretch.after)
                self._add(transaction, before, NewSnapshot(moved, summary, removed, moves_rows))
                new = [file for key, file in files.items() if key not in changes.moved_in]
                self._add(transaction, reached, NewSnapshot(new, summary))
            else:
                snapshot = NewSnapshot([*files.values()], summary, removed, moves_rows)
                self._add(transaction, reached, snapshot)

    @contextmanager
    def _changing(self, loaded: Any, *, clears: bool) -> Iterator[Any]:
        """Yield a transaction that is committed at the end; with ``clears``, of an empty table."""
        from landfall.publish.iceberg.changing import TableChange  # noqa: PLC0415  # an extra

        with bounded(), TableChange(loaded) as transaction:
            if clears and loaded.metadata.current_snapshot_id is not None:
                self._add(transaction, TablePosition(), NewSnapshot((), {}, removed=None))
            _set_mapping(transaction)
            yield transaction

    def _data_files(
        self,
        loaded: Any,
        objects: Sequence[VisibleObject],
        made: dict[str, str],
        *,
        checks_times: bool,
    ) -> dict[str, Any]:
        """Return the data files of objects, by key; see ``data_files``."""
        if not objects:
            return {}
        keys = [object_.key for object_ in objects]
        urls = [self.url(key) for key in keys]
        io = self.connection.file_io(urls[0])
        if checks_times:
            self._check_timestamps(loaded, io)
        found = data_files(Copies.of(io, loaded, made), loaded.metadata, urls)
        return dict(zip(keys, found, strict=True))

    def _check_timestamps(self, loaded: Any, io: Any) -> None:
        """Raise Stalled if the table has files with milliseconds that an earlier version added."""
        if _TIMESTAMPS in loaded.properties or not has_times(loaded.schema()):
            return
        root = self.url("")
        paths = [task.file.file_path for task in loaded.scan().plan_files()]
        outdated = first_outdated(io, [path for path in paths if path.startswith(root)])
        if outdated is not None:
            raise Stalled(
                Reason.DESTINATION_CONFLICT,
                f"table {'.'.join(loaded.name())} has times in milliseconds, as in {outdated}: "
                "Spark reads them as 1970; publish it again with --rebuild, or set table property "
                f"{_TIMESTAMPS} = milliseconds if Spark does not read it",
            )

    def _add(self, transaction: Any, position: TablePosition, snapshot: "NewSnapshot") -> None:
        """Add a snapshot with a position, and the properties that go with it."""
        from landfall.publish.iceberg.changing import ChangeFiles  # noqa: PLC0415  # an extra

        group, lane = self.lane
        properties = transaction.table_metadata.properties
        named = {
            "landfall.group": group,
            "landfall.lane": lane,
            **positions(self.key, position),
            **snapshot.summary,
        }
        with ChangeFiles.of(transaction, named, snapshot):
            pass  # it is added at the end
        added = transaction.table_metadata.current_snapshot()
        root = {f"{self.key}.root": self.url("")}
        marked = {} if _TIMESTAMPS in properties else _MARKED
        earlier = {index_key(self.key): ""} if index_key(self.key) in properties else {}
        reached = position_properties(self.key, position, added)
        transaction.set_properties({**earlier, **reached, **root, **marked})

    def _add_columns(self, loaded: Any, new: Sequence[NewColumns]) -> None:
        """Add the columns of files that do not fit a table, by commits of their own."""
        from landfall.publish.iceberg.evolution import (  # noqa: PLC0415  # an extra
            add_columns,
            check_evolves,
            check_fits,
            checked_commit,
        )

        table = ".".join(loaded.name())
        for file in {file.columns.to_string(): file for file in reversed(new)}.values():
            check_evolves(table, file, self.settings.schema_evolution)
            with checked_commit(table, file), loaded.transaction() as transaction:
                add_columns(transaction, file)
                _set_mapping(transaction)
            loaded = self._load(table)
            if loaded is None:
                return  # it was dropped meanwhile
            check_fits(table, loaded.schema(), file)

    def _rename(self, loaded: Any, names: Mapping[str, str]) -> None:
        """Rename columns whose names Iceberg reserves; their old names stay in the name mapping."""
        with loaded.transaction() as transaction:
            _set_mapping(transaction)
            with transaction.update_schema() as update:
                for old, new in names.items():
                    update.rename_column((old,), new)


def _set_mapping(transaction: Any) -> None:
    """Make the table's name mapping find the columns of landed files, if it does not yet."""
    metadata = transaction.table_metadata
    if (mapping := mapping_of(metadata)) != metadata.name_mapping():
        transaction.set_properties({PROPERTY: mapping.model_dump_json()})


def summary_of(stretch: Stretch, changes: FileChanges) -> dict[str, str]:
    """The lines of a snapshot's summary that name what it follows."""
    found = {"landfall.slots": f"{stretch.after + 1}-{stretch.through}"}
    if changes.passed_over:
        found["landfall.passedOver"] = ",".join(map(str, changes.passed_over))
    return found


def reached_by(stretch: Stretch, changes: FileChanges) -> TablePosition:
    """The position of a table that has followed a stretch."""
    return TablePosition(stretch.through, changes.left_out)


def _contended(table: str) -> DestinationAway:
    why = f"other programs changed it {MAX_TRIES} times meanwhile"
    return DestinationAway(f"Iceberg table {table}: {why}")
