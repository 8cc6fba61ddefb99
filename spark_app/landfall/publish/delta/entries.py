"""Entries of a Delta log as they are written: what delta-rs does not give out, such as vectors.

Source: PROTOCOL.md, "Action Reconciliation", "Add File and Remove File"
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Action = dict[str, Any]
"""An action of a log, or what is in it."""


@dataclass(frozen=True)
class LogFiles:
    """The files of a log that make its newest version.

    Attributes:
        checkpoints: of the newest checkpoint; may be none.
        commits: the versions after it, in order.
    """

    checkpoints: Sequence[Path]
    commits: Sequence[Path]

    @cached_property
    def actions(self) -> list[list[Action]]:
        """The actions of each commit."""
        lines = (path.read_bytes().splitlines() for path in self.commits)
        return [[json.loads(line) for line in of_one if line.strip()] for of_one in lines]


def live_adds(log: LogFiles, paths: Collection[str] | None = None) -> dict[str, Action]:
    """The ``add`` entries of files that the table has, by their paths in the log.

    Args:
        log: of the table.
        paths: of the files that are wanted; None for all with deletion vectors.
    """
    wanted = None if paths is None else frozenset(paths)
    if wanted is not None and not wanted:
        return {}
    found = {add["path"]: add for path in log.checkpoints for add in _added(path, wanted)}
    for actions in log.actions:
        for removed in filter(None, (action.get("remove") for action in actions)):
            found.pop(removed["path"], None)
        for add in filter(None, (action.get("add") for action in actions)):
            if wanted is None or add["path"] in wanted:
                found[add["path"]] = _without_nulls(add)
    return {
        path: add for path, add in found.items() if wanted is not None or "deletionVector" in add
    }


def _added(checkpoint: Path, wanted: frozenset[str] | None) -> Iterator[Action]:
    for batch in pq.ParquetFile(checkpoint).iter_batches(columns=["add"]):
        adds = batch.column("add").drop_null()
        for add in adds.filter(_selected(adds, wanted)).to_pylist():
            values = dict(add.get("partitionValues") or ())
            yield {**_without_nulls(add), "partitionValues": values}


def _selected(adds: pa.StructArray, wanted: frozenset[str] | None) -> pa.Array:
    if wanted is not None:
        return pc.is_in(adds.field("path"), pa.array([*wanted], pa.string()))
    if "deletionVector" not in [field.name for field in adds.type]:
        return pa.repeat(pa.scalar(value=False), len(adds))
    return pc.is_valid(pc.struct_field(adds, ["deletionVector", "storageType"]))


def _without_nulls(entry: Action) -> Action:
    """An entry as a commit has it: without columns that only checkpoints have."""
    found = {name: value for name, value in entry.items() if value is not None}
    if not (found.get("deletionVector") or {}).get("storageType"):
        found.pop("deletionVector", None)
    for name in ("stats_parsed", "partitionValues_parsed"):
        found.pop(name, None)
    return found
