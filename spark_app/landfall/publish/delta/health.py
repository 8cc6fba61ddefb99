"""The state of a Delta table, by its log; see ``landfall.publish.health``.

The log's folder is listed, and the live files come from the table as it was loaded. No data file is
opened.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from deltalake import DeltaTable

from landfall.publish.delta.logs import LogFile
from landfall.publish.health import Care, Details, TableFiles, TableMetadata, Versions

_COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*parquet", re.ASCII)


def details(loaded: DeltaTable, log: Sequence[LogFile], small_bytes: int, deletes: int) -> Details:
    """Return the state of a table.

    Args:
        loaded: the table.
        log: the files of its log.
        small_bytes: files below this size count as small.
        deletes: how many of its files have deletion vectors.

    Raises:
        OSError: the store does not answer.
    """
    commits, checkpoints = _by_version(log, _COMMIT), _by_version(log, _CHECKPOINT)
    first, last = _first(commits, checkpoints), max(checkpoints, default=-1)
    made = commits.get(first) or checkpoints.get(first, [])
    current = [file for version, files in commits.items() if version > last for file in files]
    current += checkpoints.get(last, [])
    sizes: list[int] = pa.table(loaded.get_add_actions())["size_bytes"].to_pylist()
    return Details(
        TableFiles.of(sizes, small_bytes, deletes),
        Versions(loaded.version() - first + 1, min(_times(made), default=None)),
        TableMetadata(sum(f.size for f in current), sum(f.size for f in log), len(log)),
        _care(checkpoints, first),
    )


def _first(commits: Collection[int], checkpoints: Collection[int]) -> int:
    """The first version that readers can restore: the table's first one, or a checkpoint's."""
    return 0 if 0 in commits else min(checkpoints, default=max(commits, default=0))


def _care(checkpoints: Mapping[int, list[LogFile]], first: int) -> Care:
    """The work of delta-rs at the last checkpoint, when it also deletes old files of the log."""
    if not checkpoints:
        return Care(maintained=True)
    version = max(checkpoints)
    outcome = f"checkpoint of version {version}"
    if first:
        outcome += f", log kept from version {first}"
    return Care(
        maintained=True, last=next(iter(_times(checkpoints[version])[-1:]), None), outcome=outcome
    )


def _by_version(log: Sequence[LogFile], name: re.Pattern[str]) -> dict[int, list[LogFile]]:
    """The files of a log whose names have a form, by the version in them."""
    found = dict[int, list[LogFile]]()
    for file in log:
        if matched := name.fullmatch(file.name):
            found.setdefault(int(matched[1]), []).append(file)
    return found


def _times(files: Sequence[LogFile]) -> list[datetime]:
    return [time for file in files if (time := file.time()) is not None]
