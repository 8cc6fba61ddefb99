"""Counts landed rows without Landfall's code: the ledger as plain JSON, objects by DuckDB."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import duckdb
import orjson

from dev.demo.buckets import LEDGER, DemoBucket

COUNTING = """
    WITH landed AS (
        FROM read_json(
            $files, format = 'newline_delimited',
            columns = {id: 'BIGINT', year: 'INT', month: 'INT', day: 'INT'},
            hive_partitioning = true, hive_types = {dt: 'DATE'}
        )
    )
    SELECT count(*), count(DISTINCT id),
           $expected - count(DISTINCT id) FILTER (id BETWEEN 0 AND $expected - 1),
           count(DISTINCT dt), count(*) FILTER (dt != make_date(year, month, day))
    FROM landed
"""


@dataclass
class DemoLedger:
    """A group's ledger, read as plain JSON while it grows."""

    bucket: DemoBucket
    group: str
    slots: int = 0
    commits: int = 0
    rows: int = 0
    history: list[tuple[str, datetime]] = field(default_factory=list)
    """Type and time of each record."""

    def follow(self) -> "DemoLedger":
        """Read the records that were written since the last call."""
        prefix = f"{self.group}/{LEDGER}{self.group}/0/"
        for key in sorted(self.bucket.sizes(prefix))[self.slots :]:
            record = orjson.loads(self.bucket.read(key))
            self.slots += 1
            self.history.append((record["type"], datetime.fromisoformat(record["header"]["time"])))
            if record["type"] == "COMMIT":
                self.commits += 1
                self.rows += sum(landed["landed"] for landed in record["slices"])
        return self

    def pause(self) -> float:
        """Seconds between the COMMITs before and after the last OPEN: a hand-over or a restart."""
        opened = max(slot for slot, (kind, _) in enumerate(self.history) if kind == "OPEN")
        before = max(time for kind, time in self.history[:opened] if kind == "COMMIT")
        after = min(time for kind, time in self.history[opened:] if kind == "COMMIT")
        return (after - before).total_seconds()


@dataclass(frozen=True)
class Count:
    """DuckDB's counts of the landed JSON."""

    rows: int
    distinct: int
    missing: int
    days: int
    misplaced: int

    def exact(self, expected: int) -> bool:
        """Return whether every flight is there exactly once, on its own day."""
        return (self.rows, self.distinct, self.missing, self.misplaced) == (
            expected,
            expected,
            0,
            0,
        )


def count(folder: Path, expected: int) -> Count:
    """Count the flights in gzipped JSON lines under ``folder/**/dt=…/``, by unique id and date."""
    found = duckdb.connect().execute(
        COUNTING, {"files": f"{folder}/**/*.json.gz", "expected": expected}
    )
    row = found.fetchone()
    assert row
    return Count(*row)


def output_partitions(sizes: Mapping[str, int]) -> dict[str, Counter[str]]:
    """Objects per topic and output partition: ``{"flights.EWR": {"dt=2013-01-01": 3, …}}``."""
    found: dict[str, Counter[str]] = {}
    for key in sizes:
        _, topic, output_partition, _ = key.split("/", 3)
        found.setdefault(topic, Counter())[output_partition] += 1
    return found
