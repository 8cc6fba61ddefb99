"""Expires snapshots of an Iceberg table, and deletes the files of metadata that only they name.

One commit of the catalog removes a batch of snapshots and stores the names of the files in a
property. The next batch deletes these files first. A publisher that is killed in between leaves
no garbage, and a query that was planned by a snapshot has time to end. The commit is refused if
a branch or tag has changed since the table was read.

Manifest lists and manifests are deleted, which are ``*.avro`` in the table's own folder of
metadata, and of keyed tables files of deletes and of indexes. Data files are landed objects, which
the ledger alone deletes. The names come from metadata that any client of the table can write, so a
name with another form, or in another folder, is skipped.

Imports pyiceberg, which is an extra: import this where it is needed.
"""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import PrivateAttr
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestContent
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotsUpdate

from landfall.api.values import plural
from landfall.publish.health import Care
from landfall.publish.iceberg.changing import TableChange
from landfall.publish.iceberg.copies import own_folder
from landfall.publish.iceberg.expiry import MAX_BATCH, SnapshotLimits, expired
from landfall.publish.iceberg.keyed_files import SUFFIX, index_folder
from landfall.publish.iceberg.position import index_names
from landfall.publish.table_names import below
from landfall.publish.table_position import pack, unpack

log = logging.getLogger(__name__)

BATCH = 25
"""How many snapshots expire in one commit at least: so one commit in 25 is added."""
MAX_LISTS = 2_000
"""With more snapshots than that, manifests are left: to read who names them takes too long."""
WORKERS = 16
_MANIFEST = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-m\d+\.avro"
_NAME = re.compile(rf"snap-\d+-\d+-[0-9a-f-]{{36}}\.avro|{_MANIFEST}", re.ASCII)
"""The names that pyiceberg gives to manifest lists and manifests."""
_DELETES = re.compile(rf"[0-9a-f-]{{36}}{re.escape(SUFFIX)}", re.ASCII)
_INDEX = re.compile(r"[0-9a-f]{32}\.parquet", re.ASCII)


class _SameRefs(AssertRefSnapshotId):
    """Requires that no branch or tag has changed, and that there is no new one.

    A REST catalog knows it as the requirement of the branch ``main`` alone, and gets one for each
    other branch and tag as well. It has no requirement that a new tag would violate.
    """

    _refs: Mapping[str, int] = PrivateAttr()

    @classmethod
    def of(cls, metadata: Any) -> "_SameRefs":
        made = cls.model_validate({"ref": MAIN_BRANCH, "snapshot-id": metadata.current_snapshot_id})
        made._refs = _refs(metadata)  # noqa: SLF001  # of this class
        return made

    def validate(self, base_metadata: Any) -> None:  # type: ignore[override]  # as its base does
        super().validate(base_metadata)
        if _refs(base_metadata) != self._refs:
            raise CommitFailedException("Requirement failed: a branch or tag has changed")


def _refs(metadata: Any) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in metadata.refs.items()}


@dataclass(frozen=True)
class Maintenance:
    """Maintains the tables of a publisher.

    Attributes:
        key: the name of the position.
        limits: the snapshots that are kept.
        landed: the URL of the output root, in which nothing is deleted.
    """

    key: str
    limits: SnapshotLimits
    landed: str
    _named_by: dict[str, frozenset[str]] = field(default_factory=dict)
    """The files that each manifest list names, by paths; lists never change."""
    _deletes: dict[str, frozenset[str]] = field(default_factory=dict)
    """The files of deletes that each manifest of such names, by paths."""

    @property
    def property(self) -> str:
        """The property of a table with the names of the files that the next batch deletes."""
        return f"{self.key}.expired-files"

    def care(self, properties: Mapping[str, str]) -> Care:
        """Return what is known of the last expiry, by the properties of a table.

        Raises:
            ValueError: a property is not what ``expire`` sets.
        """
        names = self._expired_files(properties)
        if (text := properties.get(f"{self.key}.expired-at")) is None:
            return Care(maintained=True, garbage=len(names))
        last = datetime.fromtimestamp(int(text) / 1000, UTC)
        count = int(properties.get(f"{self.key}.expired-snapshots", 0))
        outcome = f"{plural(count, 'snapshot')} expired"
        return Care(maintained=True, last=last, outcome=outcome, garbage=len(names))

    def _expired_files(self, properties: Mapping[str, str]) -> frozenset[str]:
        try:
            return unpack(properties.get(self.property, "")) or frozenset()
        except ValueError as error:
            raise ValueError(f"property {self.property} names no files: {error}") from error

    def maintain(self, loaded: Any) -> int:
        """Expire snapshots of a table after a commit, if enough are due; return how many.

        Raises:
            ValueError: a property of the table is no number, or names no files.
        """
        metadata = loaded.metadata
        due = expired(metadata, self.key, self.limits, metadata.last_updated_ms)[:MAX_BATCH]
        if len(due) < BATCH or metadata.current_snapshot_id is None:
            return 0
        return self.expire(loaded, due)

    def expire(self, loaded: Any, due: Sequence[Any]) -> int:
        """Expire own snapshots of a table that has a current one; return how many, or 0.

        Raises:
            ValueError: a property of the table names no files.
        """
        metadata = loaded.metadata
        gone = {snapshot.snapshot_id for snapshot in due}
        kept = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in gone]
        lists = {path for snapshot in kept for path in self._alone(loaded, snapshot)}
        garbage = {path for snapshot in due for path in self._alone(loaded, snapshot)}
        if len(metadata.snapshots) <= MAX_LISTS:
            named = self._named(loaded.io, metadata.snapshots)
            lists |= set().union(*(named[snapshot.manifest_list] for snapshot in kept))
            garbage |= set().union(*(named[snapshot.manifest_list] for snapshot in due))
        left = self._delete(loaded, lists)
        names = left | _names(loaded, garbage - lists)
        refs = _refs(metadata).items()
        requirements = (
            _SameRefs.of(metadata),
            *(
                AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": of})
                for name, of in refs
            ),
        )
        with suppress(CommitFailedException), TableChange(loaded) as change:
            removed = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [*gone]})
            change._apply((removed,), requirements)  # noqa: SLF001  # as ``ExpireSnapshots`` does
            change.set_properties(
                {
                    self.property: pack(names),
                    f"{self.key}.expired-at": str(metadata.last_updated_ms),
                    f"{self.key}.expired-snapshots": str(len(due)),
                }
            )
        if loaded.metadata.snapshot_by_id(due[0].snapshot_id) is not None:
            return 0  # another client has changed the table: the next commit tries again
        log.info(
            "snapshots expired",
            extra={"table": ".".join(loaded.name()), "snapshots": len(due), "kept": len(kept)},
        )
        return len(due)

    def _alone(self, loaded: Any, snapshot: Any) -> Iterator[str]:
        """Yield the manifest list of a snapshot, and the files of its index."""
        yield snapshot.manifest_list
        for name in index_names(snapshot, self.key):
            yield f"{index_folder(loaded)}/{name}"

    def _named(self, io: Any, snapshots: Iterable[Any]) -> Mapping[str, frozenset[str]]:
        """Return the manifests of snapshots, and the files of deletes that these name.

        They are by manifest list; each list, and each manifest of deletes, is read once.
        """
        by_list = {snapshot.manifest_list: snapshot for snapshot in snapshots}
        for path in self._named_by.keys() - by_list.keys():
            del self._named_by[path]
        new = [path for path in by_list if path not in self._named_by]
        with ThreadPoolExecutor(WORKERS) as pool:
            lists = [*pool.map(lambda path: by_list[path].manifests(io), new)]
            of_deletes = {
                manifest.manifest_path: manifest
                for manifests in lists
                for manifest in manifests
                if manifest.content is ManifestContent.DELETES
            }
            unread = [path for path in of_deletes if path not in self._deletes]
            entries = pool.map(lambda path: of_deletes[path].fetch_manifest_entry(io), unread)
            for path, some in zip(unread, entries, strict=True):
                self._deletes[path] = frozenset(entry.data_file.file_path for entry in some)
        for path, manifests in zip(new, lists, strict=True):
            names = frozenset(manifest.manifest_path for manifest in manifests)
            deletes = (self._deletes.get(name, frozenset()) for name in names)
            self._named_by[path] = names.union(*deletes)
        for path in self._deletes.keys() - frozenset().union(*self._named_by.values()):
            del self._deletes[path]
        return self._named_by

    def _delete(self, loaded: Any, needed: Collection[str]) -> set[str]:
        """Delete the files of the batch before, except needed ones; return those that are left."""
        names = self._expired_files(loaded.properties)
        paths = {
            path: name
            for name in names
            if (path := _path(loaded, name)) is not None
            and path not in needed
            and below(self.landed, path) is None
        }

        def deleted(path: str) -> bool:
            try:
                loaded.io.delete(path)
            except FileNotFoundError:
                return True
            except OSError as error:
                log.warning("file not deleted", extra={"url": path, "error": str(error)})
                return False
            return True

        with ThreadPoolExecutor(WORKERS) as pool:
            done = dict(zip(paths, pool.map(deleted, paths), strict=True))
        return {paths[path] for path, is_gone in done.items() if not is_gone}


def _names(loaded: Any, paths: Iterable[str]) -> set[str]:
    """Return the names of files that are Landfall's own."""
    names = {path.rpartition("/")[2]: path for path in paths}
    return {name for name, path in names.items() if _path(loaded, name) == path}


def _path(loaded: Any, name: str) -> str | None:
    """The path of an own file of a table; None if it is no name of one."""
    if _NAME.fullmatch(name):
        return f"{_folder(loaded)}/{name}"
    if _DELETES.fullmatch(name):
        return f"{own_folder(loaded)}/{name}"
    if _INDEX.fullmatch(name):
        return f"{index_folder(loaded)}/{name}"
    return None


def _folder(loaded: Any) -> str:
    """The folder of a table's metadata."""
    path = loaded.properties.get("write.metadata.path") or f"{loaded.location()}/metadata"
    return str(path).rstrip("/")
