"""BigQuery's jobs in memory, with faults, and the publisher over it."""

import io
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from landfall.errors import DestinationAway
from landfall.publish.bigquery.chain import Chains
from landfall.publish.bigquery.kinds import PARQUET, Kinds
from landfall.publish.bigquery.loads import LoadLimits
from landfall.publish.bigquery.running import JobRunner, JobTimes
from landfall.publish.bigquery.staging import InPlace
from landfall.publish.bigquery.tables import LoadedTables, LoadSettings
from landfall.publish.bigquery.warehouse import JobRef, JobState, LoadRequest
from tests.support.ledger.sample_ledger import GROUP, LANE
from tests.support.publishers.lake import Lake, Landed

Fault = Callable[[str], None]


def no_fault(call: str) -> None:
    pass


@dataclass
class FakeJob:
    """A job; it is at its end when it was looked at ``looks`` times."""

    load: LoadRequest | None
    state: JobState
    looks: int = 0


@dataclass
class MemoryWarehouse:
    """BigQuery in memory: offsets as rows, read from Parquet files by their URIs.

    Attributes:
        read: the bytes behind a URI.
        tables: the rows of each table.
        jobs: by what they are known; never forgotten.
        fault: is called before and after every call has had its effect; it may raise an error.
        looks: how often a new job is found to be running.
        failures: reasons with which the next jobs fail.
    """

    read: Callable[[str], bytes | None]
    tables: dict[str, list[int]] = field(default_factory=dict)
    jobs: dict[JobRef, FakeJob] = field(default_factory=dict)
    fault: Fault = no_fault
    looks: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def location(self, dataset: str) -> str:
        self.fault(f"location {dataset}")
        return "EU"

    def exists(self, table: str) -> bool:
        self.fault("exists")
        return table in self.tables

    def submit(self, job: JobRef, load: LoadRequest) -> None:
        self.fault(f"submit {job.id}")
        with self.lock:
            self.jobs.setdefault(job, FakeJob(load, JobState(False, True, load.labels), self.looks))
        self.fault(f"submitted {job.id}")

    def use_up(self, job: JobRef) -> None:
        self.fault(f"use up {job.id}")
        with self.lock:
            self.jobs.setdefault(job, FakeJob(None, JobState(True, False, {})))
        self.fault(f"used up {job.id}")

    def find(self, job: JobRef) -> JobState | None:
        self.fault(f"find {job.id}")
        with self.lock:
            found = self.jobs.get(job)
            if found is None:
                return None
            if not found.state.is_over:
                found.looks -= 1
                if found.looks < 0 and found.load:
                    found.state = self._run(found.load)
            return found.state

    def _run(self, load: LoadRequest) -> JobState:
        def over(rows: int = 0, reason: str = "", message: str = "") -> JobState:
            return JobState(True, True, load.labels, rows, reason, message)

        if self.failures:
            return over(0, *self.failures.pop(0))
        if load.table not in self.tables and not load.creates:
            return over(0, "notFound", f"Not found: Table {load.table}")
        rows = list[int]()
        for uri in load.uris:
            try:
                body = io.BytesIO(self.read(uri) or b"")
                rows += pq.read_table(body)["_offset"].to_pylist()
            except (pa.ArrowException, KeyError):
                return over(0, "invalid", f"Error while reading data. File: {uri}")
        kept = [] if load.replaces else self.tables.get(load.table, [])
        self.tables[load.table] = [*kept, *rows]
        return over(len(rows))


@dataclass
class Clock:
    """A clock that goes on when somebody sleeps, and only then."""

    time: datetime = datetime(2026, 11, 22, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class Warehoused:
    """A ledger, BigQuery in memory, and publishers of the one to the other."""

    landed: Landed
    warehouse: MemoryWarehouse
    clock: Clock = field(default_factory=Clock)
    limits: LoadLimits = field(default_factory=lambda: LoadLimits(100, 2**40))
    start: int = -1

    @classmethod
    def at(cls, root: Path) -> "Warehoused":
        landed = Landed(root)
        return cls(
            landed, MemoryWarehouse(lambda uri: landed.store.read(uri.removeprefix("gs://b/")))
        )

    def tables(self, name: str = "lake") -> LoadedTables:
        """Connect as a process does that has just started."""
        kinds = Kinds(self.landed.store, lambda _: PARQUET)
        schedule = JobTimes(self.clock, self.clock.sleep)
        staging = InPlace(lambda key: f"gs://b/{key}")
        runner = JobRunner(self.warehouse, staging, kinds.format_of, {}, schedule, kinds.problem_of)
        settings = LoadSettings("project", self.limits, kinds.of, lambda: self.start)
        return LoadedTables(Chains(self.landed.store, (GROUP, LANE), name), runner, settings)

    def publish(self, workers: int = 1) -> Any:
        publisher = self.landed.publisher(self.tables())
        object.__setattr__(publisher, "workers", workers)
        return publisher.publish(self.landed.follower())

    def offsets(self, table: str = "lake.clicks") -> list[int]:
        return sorted(self.warehouse.tables.get(table, []))

    @property
    def is_whole(self) -> bool:
        """Whether each table has each row once."""
        return all(
            self.offsets(table) == [*range(rows)] for table, rows in self.landed.rows.items()
        )


def bigquery_lake(root: Path) -> Lake:
    """Tables of BigQuery in memory."""
    made = Warehoused.at(root)
    return Lake(
        made.landed,
        made.tables,
        made.offsets,
        made.warehouse.tables.pop,
        is_refilled_by_reset=False,
    )


def faults(rng: random.Random, share: float) -> Fault:
    """Fail a share of all calls, before or after they had their effect."""

    def fault(call: str) -> None:
        if rng.random() < share:
            raise DestinationAway(f"no answer: {call}")

    return fault


@dataclass
class LateRequests:
    """Holds some requests up, and lets them arrive later, in any order.

    Attributes:
        warehouse: where they go.
        rng: chooses.
        share: of requests that are held up.
    """

    warehouse: MemoryWarehouse
    rng: random.Random
    share: float = 0.3
    held: list[tuple[JobRef, LoadRequest]] = field(default_factory=list)

    def submit(self, job: JobRef, load: LoadRequest) -> None:
        if self.rng.random() < self.share:
            self.held.append((job, load))
            raise DestinationAway("no answer yet")
        self.warehouse.submit(job, load)

    def arrive(self, count: int | None = None) -> None:
        """Let some of them arrive; all by default."""
        self.rng.shuffle(self.held)
        for _ in range(len(self.held) if count is None else min(count, len(self.held))):
            with suppress(DestinationAway):
                self.warehouse.submit(*self.held.pop())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.warehouse, name)


def spoil(landed: Landed, key: str) -> None:
    """Put bytes that are no Parquet where an object is."""
    path = landed.root / "landed" / key
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)
