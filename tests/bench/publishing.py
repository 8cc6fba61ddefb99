"""``python -m tests.bench.publishing``: what it costs a publisher of tables to catch up.

Lands COMMITs of one object each to a folder, and measures a process of its own that publishes all
of them to a table that is not there yet: Iceberg with a catalog in a file of SQLite, and Delta.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from landfall.api.spec import parse_group
from landfall.lane import Lane
from landfall.publish.building import publisher
from landfall.publish.following import Follower
from landfall.store import Store
from landfall.store.urls import open_store
from tests.bench import process_tree
from tests.support.ledger.sample_ledger import LANE
from tests.support.publishers.lake import CLICKS, Landed, delta_rows

ROWS = 10
"""Of each object."""


def catalog(root: Path) -> dict[str, str]:
    """The properties of the catalog."""
    uri = f"sqlite:///{root}/catalog.db"
    return {"type": "sql", "uri": uri, "warehouse": f"file://{root}/warehouse"}


def described(landed: Landed, kind: str) -> dict[str, Any]:
    """The resource of a group with one publisher."""
    options: dict[str, Any] = {"table": f"file://{landed.root}/tables/{{topic}}"}
    if kind == "Iceberg":
        options = {"catalog": catalog(landed.root)}
    group = landed.context(kind, options).group
    return group.model_dump(mode="json", by_alias=True, exclude_unset=True)


def land(root: Path, commits: int) -> Landed:
    """Land so many COMMITs of an object each."""
    landed = Landed(root)
    for _ in range(commits):
        landed.land(CLICKS, rows=ROWS)
    return landed.settle()


def publish(document: Mapping[str, Any]) -> dict[str, Any]:
    """Publish everything in this process; seconds, calls of the store, and footers read."""
    group = parse_group(dict(document))
    store = open_store(group.spec.output)
    calls = _counted(store)
    built = publisher(group, group.spec.publish[0], store, LANE)
    began = time.perf_counter()
    done = built.publish(Follower(Lane(store, group.metadata.name, LANE)))
    seconds = time.perf_counter() - began
    return {"seconds": round(seconds, 2), "objects": done.objects, "calls": dict(calls)}


def _counted(store: Store) -> Counter[str]:
    calls = Counter[str]()

    def counted(name: str, inner: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return inner(*args, **kwargs)

        return call

    for name in ("read", "read_range", "list_after", "overwrite", "create"):
        setattr(store, name, counted(name, getattr(store, name)))
    vars(pq)["read_metadata"] = counted("read_metadata", pq.read_metadata)
    return calls


def table_of(root: Path, kind: str) -> dict[str, int]:
    """How many commits the table has, and rows, read back."""
    if kind == "Delta":
        table = f"file://{root}/tables/clicks"
        rows = delta_rows(table, "_offset")
        return {"versions": DeltaTable(table).version() + 1, **_rows(rows)}
    loaded = load_catalog("landfall", **catalog(root)).load_table("lake.clicks")
    return {
        "snapshots": len(loaded.metadata.snapshots),
        **_rows(loaded.scan(selected_fields=("_offset",)).to_arrow()["_offset"].to_pylist()),
    }


def _rows(offsets: list[int]) -> dict[str, int]:
    return {"rows": len(offsets), "different rows": len(set(offsets))}


def measure(kind: str, commits: int) -> dict[str, Any]:
    """Land, then publish in a process of its own; seconds, memory of its tree, calls and rows."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        landed = land(root, commits)
        document, log = root / "group.json", root / "log"
        document.write_text(json.dumps(described(landed, kind)))
        command = [sys.executable, "-m", "tests.bench.publishing", "--only", str(document)]
        used = process_tree.measure(command, os.environ, log, process_tree.new_counter())
        said = json.loads(log.read_text().splitlines()[-1])
        found = table_of(root, kind)
        assert found["rows"] == found["different rows"] == commits * ROWS, found
        return {
            "publisher": kind,
            "commits behind": commits,
            **said,
            **found,
            "process seconds": round(used.wall_seconds, 2),
            "CPU seconds": round(used.cpu_seconds, 2),
            "peak MB": round(used.peak_mb),
            "load": round(os.getloadavg()[0], 1),
        }


def main() -> None:
    """Measure each number of COMMITs, each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.publishing", description=__doc__)
    parser.add_argument("--commits", type=int, nargs="+", default=[100, 500, 1000])
    parser.add_argument(
        "--kinds", nargs="+", choices=("Iceberg", "Delta"), default=["Iceberg", "Delta"]
    )
    parser.add_argument("--only", type=Path, help="publish what this resource names, and say how")
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(publish(json.loads(arguments.only.read_text()))))
        return
    for kind in arguments.kinds:
        for commits in arguments.commits:
            print(json.dumps(measure(kind, commits)), flush=True)


if __name__ == "__main__":
    main()
