"""The state of an Iceberg table, by its metadata; see ``landfall.publish.health``.

Manifests of the current snapshot are read, for the sizes of its files, and the manifest list of
each snapshot, for the sizes of manifests. No data file is opened.

Imports pyiceberg, which is an extra: import this where it is needed.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from pyiceberg.manifest import DataFileContent
from pyiceberg.table.refs import MAIN_BRANCH

from landfall.publish.health import Details, TableFiles, TableMetadata, Versions
from landfall.publish.iceberg.maintenance import MAX_LISTS, WORKERS, Maintenance


def details(loaded: Any, maintenance: Maintenance, small_bytes: int) -> Details:
    """Return the state of a table, as loaded from its catalog.

    Raises:
        ValueError: a property of maintenance is not what Landfall sets.
        OSError: the store does not answer.
    """
    metadata = loaded.metadata
    times = [snapshot.timestamp_ms for snapshot in metadata.snapshots]
    oldest = datetime.fromtimestamp(min(times) / 1000, UTC) if times else None
    refs = tuple(sorted(name for name in metadata.refs if name != MAIN_BRANCH))
    return Details(
        _files(loaded, small_bytes),
        Versions(len(metadata.snapshots), oldest, refs),
        _metadata(loaded),
        maintenance.care(loaded.properties),
    )


def _files(loaded: Any, small_bytes: int) -> TableFiles:
    """The files of the current snapshot; files of deleted rows are counted alone."""
    snapshot, sizes, deletes = loaded.current_snapshot(), list[int](), 0
    manifests = snapshot.manifests(loaded.io) if snapshot else []
    with ThreadPoolExecutor(WORKERS) as pool:
        read = pool.map(lambda each: each.fetch_manifest_entry(loaded.io), manifests)
        for entry in (entry for entries in read for entry in entries):
            if entry.data_file.content is DataFileContent.DATA:
                sizes.append(entry.data_file.file_size_in_bytes)
            else:
                deletes += 1
    return TableFiles.of(sizes, small_bytes, deletes)


def _metadata(loaded: Any) -> TableMetadata:
    """The sizes of all files of metadata that a table names."""
    snapshots = loaded.metadata.snapshots
    current = loaded.metadata_location
    if len(snapshots) > MAX_LISTS:
        return TableMetadata(sum(_sizes(loaded.io, [current])))
    lists = {snapshot.manifest_list: snapshot for snapshot in snapshots}
    earlier = [entry.metadata_file for entry in loaded.metadata.metadata_log]
    with ThreadPoolExecutor(WORKERS) as pool:
        read = pool.map(lambda each: each.manifests(loaded.io), lists.values())
        manifests = {
            manifest.manifest_path: manifest.manifest_length for named in read for manifest in named
        }
    of_current, *sizes = _sizes(loaded.io, [current, *lists, *earlier])
    sizes += manifests.values()
    return TableMetadata(of_current, of_current + sum(sizes), 1 + len(sizes))


def _sizes(io: Any, paths: Iterable[str]) -> Iterator[int]:
    """Yield the sizes of files in bytes; none for those that are gone."""

    def size(path: str) -> int | None:
        try:
            return len(io.new_input(path))
        except FileNotFoundError:  # metadata of an earlier commit, which another client deleted
            return None

    with ThreadPoolExecutor(WORKERS) as pool:
        yield from (length for length in pool.map(size, paths) if length is not None)
