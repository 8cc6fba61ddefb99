"""Keyed Delta tables: deletion vectors leave the newest row of each key.

A version adds the files of a stretch, marks what does not count in them and in earlier files, and
names the index of the table's keys (``landfall.publish.keyed``).

delta-rs writes no vectors. So it makes the version in a copy of the log (``copied_log``), and what
it cannot write is put in before the version is created.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import unquote

import pyarrow as pa
from deltalake import Field, PostCommitHookProperties, Schema
from deltalake.exceptions import CommitFailedError

from landfall.errors import Reason, Stalled
from landfall.publish import Stretch
from landfall.publish.delta.copied_log import CopiedTable, StoreLogs
from landfall.publish.delta.entries import Action
from landfall.publish.delta.files import DeltaFile
from landfall.publish.delta.keyed_files import IndexInFolder, LiveFiles, opened_files
from landfall.publish.delta.logs import LoadedTable
from landfall.publish.delta.position import index_properties, other_lanes
from landfall.publish.delta.tables import (
    MAX_TRIES,
    DeltaTables,
    contended,
    log_passed_over,
    paths_in_log,
)
from landfall.publish.delta.unnamed_files import delete_unnamed
from landfall.publish.delta.vectors import Descriptor, VectorFile, VectorUnreadable, file_of
from landfall.publish.keyed.index import FOLDER, IndexLost, IndexSizes, KeyIndex
from landfall.publish.keyed.lifetimes import lifetimes_by, lifetimes_of
from landfall.publish.keyed.newest import Ended, NewestRow, newest_row
from landfall.publish.keyed.passes import KeyedFile, KeyedPass, KeyedVersion
from landfall.publish.keyed.rows import KeySettings
from landfall.publish.replaced_files import FileChanges, TableFile
from landfall.publish.table_names import absolute
from landfall.publish.table_position import TablePosition

LOOK_EVERY = 30
"""After how many versions a pass looks for files that no version names."""
_FEATURE = "deletionVectors"
_FEATURES = {"readerFeatures": [_FEATURE], "writerFeatures": [_FEATURE, "appendOnly", "invariants"]}
"""Of new tables. delta-rs would ask readers for more features than such a table has."""
_PROTOCOL: Action = {"minReaderVersion": 3, "minWriterVersion": 7, **_FEATURES}
_WITHOUT_FEATURES = 2
"""The newest version of writers' protocols that asks for ``_FEATURES`` at most, without vectors."""
_NO_CHECKPOINT = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


@dataclass(frozen=True)
class KeyedTables(DeltaTables):
    """Delta tables of the newest row of each key, by the URLs of their folders.

    Attributes:
        logs: of the tables.
        keys: what a key is, and which of its rows is the newest.
        sizes: how indexes are cut.
        kept: how long earlier versions have their vectors and indexes.
    """

    logs: StoreLogs
    keys: KeySettings = field(kw_only=True)
    sizes: IndexSizes = field(default_factory=IndexSizes, kw_only=True)
    kept: timedelta = field(default=timedelta(days=7), kw_only=True)

    def refill(self, table: str, stretch: Stretch) -> None:
        """See ``Tables``. The table stays, with its identity and history.

        Its columns stay as well; where all its files leave, except those whose type no file fits.
        """
        with self._errors("refill", table):
            keys = [object_.key for object_ in stretch.objects]
            files = self.files().read(keys) if keys else []
            for _ in range(MAX_TRIES):
                loaded = self.logs.load(table)
                if not files and (loaded is None or not self._has_rows(loaded)):
                    return
                if loaded is None:
                    self._create(table, files[0])
                    continue
                other_lanes(loaded, self.application).check_none()
                staying, leaving = self._parted(loaded, paths_in_log(loaded), files)
                new = [file for file in files if file.key not in staying]
                is_replaced = bool(new and leaving and not staying)
                columns = self._columns(loaded, files, replaces_rows=is_replaced)
                with suppress(CommitFailedError):  # another writer has changed the table
                    if self._sets_retention(loaded, files):
                        continue
                    if not is_replaced and self._changes_columns(loaded, columns):
                        continue
                    changes = FileChanges(stretch.objects, leaving)
                    self._commit(loaded, stretch, new, changes, columns.fields)
                    return
        raise contended(table)

    def newest(self, table: str, key: Mapping[str, str], ended: Ended) -> NewestRow | None:
        """See ``HasKeys``."""
        with self._errors("read", table):
            if (loaded := self.logs.load(table)) is None:
                return None
            planned = self._pass(loaded, VectorFile())
            planned = planned.with_lifetimes(lifetimes_by(ended, self.root))
            columns = pa.schema(loaded.schema())
            return newest_row(planned, self._position(loaded), columns, key)

    def _check_mode(self, loaded: LoadedTable, position: TablePosition) -> None:
        """Return if no other lane has rows in it: a table of all rows becomes a keyed one."""
        if position.index is None:
            other_lanes(loaded, self.application).check_mode(keyed=True)

    def _live(self, loaded: LoadedTable, in_log: Iterable[str]) -> list[TableFile]:  # noqa: ARG002
        """All files that a table has. That some of their rows do not count is its nature."""
        return [TableFile(path) for path in map(unquote, in_log)]

    def _make(
        self, table: str, columns: Schema, by: Sequence[str], configuration: Mapping[str, str]
    ) -> None:
        found = {**configuration, "delta.enableDeletionVectors": "true"}
        self.logs.create(table, columns, by, found, _with_protocol)

    def _commit(
        self,
        loaded: LoadedTable,
        stretch: Stretch,
        files: Sequence[DeltaFile],
        changes: FileChanges,
        fields: Sequence[Field] | None = None,
    ) -> None:
        """Commit files and the position, and which rows count then.

        With ``fields``, which are the table's columns then, the keys of all files are read.
        """
        assert isinstance(loaded, CopiedTable)  # by the logs
        added = self._added(loaded, files, changes)
        new = [
            KeyedFile(
                absolute(loaded.url, add.path), add.path, is_moved=file.key in changes.moved_in
            )
            for file, add in zip(files, added, strict=True)
        ]
        vectors = VectorFile()
        again = any(replaced.changes_rows for replaced in stretch.replaced)
        position = None if again or fields is not None else self._position(loaded)
        leaving = LiveFiles(loaded).leaving(changes)
        planned = self._pass(loaded, vectors).with_lifetimes(lifetimes_of(stretch, self.root))
        version = planned.version(position, new, leaving)
        if vectors.is_filled:
            self.logs.slots(loaded.url).create(vectors.name, bytes(vectors.body))
        schema = loaded.schema() if fields is None else Schema([*fields])
        index = index_properties(self.application, version.index.text, self.keys.text)
        with self.logs.amending(loaded, partial(_amended, loaded, version, vectors.descriptors)):
            loaded.create_write_transaction(
                [*added],
                mode="append" if schema == loaded.schema() else "overwrite",
                schema=schema,
                partition_by=loaded.metadata().partition_columns,
                commit_properties=self._properties_of(stretch, changes, index),
                post_commithook_properties=_NO_CHECKPOINT,
            )
        log_passed_over(loaded, changes)
        if loaded.version() % LOOK_EVERY == 0:
            self._delete_unnamed(loaded)

    def _pass(self, loaded: CopiedTable, vectors: VectorFile) -> KeyedPass:
        slots, is_ordered = self.logs.slots(loaded.url), self.keys.order is not None
        return KeyedPass(
            table=loaded.url,
            keys=self.keys,
            opens=opened_files(loaded.url, slots, self.root, self.files()),
            live=LiveFiles(loaded),
            write=lambda _, positions: vectors.add(positions),
            empty=KeyIndex(IndexInFolder(slots), is_ordered=is_ordered, sizes=self.sizes),
        )

    def _delete_unnamed(self, loaded: CopiedTable) -> None:
        """Delete files that no version names any more, by the version that the pass began with."""
        with suppress(IndexLost, VectorUnreadable):  # then the next pass mends the table, or stops
            vectors = {file_of(add["deletionVector"]) for add in loaded.adds().values()}
            index = self._pass(loaded, VectorFile()).index(self._position(loaded))
            parts = {f"{FOLDER}/{name}" for name in (index.names if index else ())}
            slots = self.logs.slots(loaded.url)
            delete_unnamed(slots, {*vectors, *parts}, datetime.now(UTC), self.kept)


def _amended(
    loaded: CopiedTable,
    version: KeyedVersion,
    vectors: Sequence[Descriptor],
    actions: list[Action],
) -> list[Action]:
    """Return the actions of a version, with vectors and with what leaves."""
    now_ms, found = round(time.time() * 1000), [*_protocol_for(loaded)]
    marked = {
        mark.file.path: (mark, None if mark.marks is None else vectors[mark.marks])
        for mark in version.marked
    }
    for action in actions:
        if "remove" in action:
            continue  # of what leaves, as below
        add = action.get("add")
        if add and (path := unquote(add["path"])) in marked:
            mark, vector = marked.pop(path)
            add = _with_vector(add, vector, mark.rows)
        found.append({"add": add} if add else action)
    for mark, vector in marked.values():
        old = mark.file.entry or {}
        new = {**_with_vector(old, vector, mark.rows), "dataChange": True}
        found += [{"remove": _removed(old, now_ms, changes_data=True)}, {"add": new}]
    for file in version.leaving:
        found.append({"remove": _removed(file.entry or {}, now_ms, changes_data=not file.is_moved)})
    return found


def _with_vector(add: Action, vector: Descriptor | None, rows: int) -> Action:
    """An entry of a file with another vector; its bounds are of rows that do not count, too."""
    stats = json.loads(add.get("stats") or "{}")
    stats |= {"numRecords": rows, "tightBounds": vector is None}
    found = {name: value for name, value in add.items() if name != "deletionVector"}
    found["stats"] = json.dumps(stats)
    return found if vector is None else {**found, "deletionVector": vector}


def _removed(add: Action, now_ms: int, *, changes_data: bool) -> Action:
    """The entry by which a file leaves a table, with its vector."""
    names = ("path", "partitionValues", "size", "deletionVector", "tags", "stats")
    return {
        **{name: add[name] for name in names if add.get(name) is not None},
        "deletionTimestamp": now_ms,
        "dataChange": changes_data,
        "extendedFileMetadata": True,
    }


def _protocol_for(loaded: CopiedTable) -> list[Action]:
    """Return the action by which a table may have vectors, unless it may."""
    protocol = loaded.protocol()
    readers, writers = protocol.reader_features or [], protocol.writer_features or []
    if _FEATURE in readers:
        return []
    if protocol.min_writer_version > _WITHOUT_FEATURES and not writers:
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"table {loaded.url} has no deletion vectors, and version "
            f"{protocol.min_writer_version} of the writers' protocol, to which they are not added; "
            "publish to another table",
        )
    names = {
        name: [*dict.fromkeys([*more, *_FEATURES[name]])]
        for name, more in (("readerFeatures", readers), ("writerFeatures", writers))
    }
    return [{"protocol": {**_PROTOCOL, **names}}]


def _with_protocol(actions: list[Action]) -> list[Action]:
    return [{"protocol": _PROTOCOL} if "protocol" in action else action for action in actions]
