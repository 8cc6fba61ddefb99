"""A group between a real broker and a real S3 server, and a driver for it in this process."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from pyspark import SparkContext

from landfall.api.contract import LANE, ExitCode, Status, Workers
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.cli.group_store import GroupStore
from landfall.cli.objects.fsck import examine
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.core.runner import Bin
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.http.status import DriverProgress, driver_report
from landfall.driver.landing.existing_objects import check_root_free
from landfall.driver.landing.goals import Endless, GoalType
from landfall.driver.process.loop import Driver
from landfall.driver.spark.session import SparkRunner
from landfall.landed.opening import backup_of, open_log
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.lane.stores import open_stores
from landfall.ledger import State
from landfall.ledger.task_results import SliceResult
from landfall.store import Store
from landfall.task import Batch
from landfall.task.counting import Miscounted, ObjectsOfSpec
from landfall.task.merging import MergeResult, MergeShare
from landfall.task.worker import land_bin, merge, read_back
from landfall_audit.buckets import open_buckets
from landfall_audit.checks.inspection import Findings, inspect
from landfall_audit.kafka_log import ClusterLog as AuditedLog
from tests.support.audit.audited_spec import for_auditor
from tests.support.audit.independent_audit import Audit, audit, in_bucket, in_kafka
from tests.support.kafka.broker import Broker
from tests.support.stores.s3 import Bucket
from tests.support.waiting import PATIENCE, wait_for

DATED_JSON: Mapping[str, Any] = {
    "decode": {"format": "Json", "timestamp": {"field": "ts", "unit": "Milliseconds"}},
    "uploadPolicy": {"maxBytes": "1M", "maxAge": "200ms"},
}
"""Lands the events of ``tests.support.audit.independent_audit`` by their dates, as gzipped JSON."""


@dataclass(frozen=True)
class Scene:
    """A broker, and a bucket and topics of the test's own; a pattern finds the topics.

    Attributes:
        ledger: ``spec.ledger``, if it is not in the bucket.
    """

    kafka: Broker
    bucket: Bucket
    prefix: str = field(default_factory=lambda: f"t{uuid4().hex[:8]}")
    ledger: Mapping[str, Any] | None = None

    def topic(self, name: str = "a", partitions: int = 1, **config: str | int) -> str:
        return self.kafka.create_topic(f"{self.prefix}.{name}", partitions, **config)

    @property
    def topics(self) -> list[str]:
        """All topics of the scene that exist now."""
        known = self.kafka.admin.list_topics(timeout=PATIENCE).topics
        return sorted(name for name in known if name.startswith(f"{self.prefix}."))

    def document(self, name: str = "scene", **spec: Any) -> dict[str, Any]:
        """The group's YAML.

        ``kafka``, ``output`` and ``tuning`` are merged into the scene's; the rest replaces it.
        """
        kafka = {
            "bootstrapServers": str(self.kafka),
            "topicPattern": rf"{self.prefix}\..*",
            "discoveryInterval": "200ms",
            **spec.pop("kafka", {}),
        }
        output = {**self.bucket.output, "format": "Json", **spec.pop("output", {})}
        own = {"pollInterval": "100ms", "httpPort": 0, "keepReplaced": "0s"}
        tuning = {**own, **spec.pop("tuning", {})}
        own = {"source": {"kafka": kafka}, "output": output, "tuning": tuning}
        if self.ledger:
            own["ledger"] = {**self.ledger}
        return {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": name},
            "spec": {**DATED_JSON, **own, **spec},
        }

    def group(self, name: str = "scene", **spec: Any) -> ConsumerGroup:
        return parse_group(self.document(name, **spec))

    def file(self, folder: Path, **spec: Any) -> Path:
        """The group as a file, which the command line takes."""
        path = folder / "group.yaml"
        path.write_text(yaml.safe_dump(self.document(**spec)))
        return path

    # ----------------------------------------------------------------------------------- afterwards

    def lane(self) -> Lane:
        """The ledger, for reading."""
        return Lane(self.store(), "scene", LANE)

    def state(self) -> State:
        """The ledger's state."""
        return self.lane().read()

    def faults(self, **spec: Any) -> list[str]:
        """All ``findings``, and every upload that is still open."""
        discards = self.store().discards_uploads  # else the store does it some day
        return self.findings(**spec) + (self.bucket.open_uploads() if discards else [])

    def findings(self, **spec: Any) -> list[str]:
        """What ``fsck --deep`` and ``audit`` find; ``spec`` is the one that was landed with.

        Open uploads are no findings: a killed task's upload stays open until it is aborted.
        """
        report = examine(GroupStore(self.group(), self.store()), deep=True)
        assert report.has_objects, "fsck did not check the objects"
        audited = self.audited(**spec)
        audit_findings = [] if audited.is_whole else [str(audited)]
        return [str(finding) for finding in report.findings] + audit_findings

    def audited(self, **spec: Any) -> Findings:
        """What ``landfall audit`` finds."""
        group = self.group(**spec)
        log = AuditedLog(for_auditor(group))
        try:
            return inspect(for_auditor(group), open_buckets(for_auditor(group.spec)), log)
        finally:
            log.close()

    def audit(self) -> Audit:
        """Compare what is landed with what the topics hold now."""
        return audit(in_kafka(self.kafka, *self.topics), in_bucket(self.bucket))

    def store(self) -> Store:
        """The store of the ledger and the landed objects."""
        return open_stores(self.group().spec)


class InProcessRunner:
    """Runs bins in this process, one after another: for tests that do not depend on Spark."""

    slots = 2

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        with self._lock:  # a Spark worker runs one task at a time as well
            return [result for slices in bins for result in land_bin(batch, slices)]

    def read_back(self, shares: Sequence[ObjectsOfSpec]) -> list[Miscounted]:
        with self._lock:
            return [found for share in shares for found in read_back(share)]

    def merge(self, shares: Sequence[MergeShare]) -> list[MergeResult]:
        with self._lock:
            return [result for share in shares for result in merge(share)]

    def warm_up(self) -> None:
        """Nothing to do."""

    def want(self, executors: int) -> None:
        """Ignored: there is one process."""

    def settle(self) -> Workers:
        return Workers(1, 1, self.slots)


@dataclass
class Landing:
    """A driver in a thread of this process, on a real broker and store.

    Attributes:
        context: Spark's, or None to run tasks in this process.
        store: replaces the driver's store, but not the tasks'.
    """

    group: ConsumerGroup
    context: SparkContext | None
    store: Store | None = None
    kind: type[Driver] = Driver
    until_caught_up: bool = True
    goal: GoalType = Endless
    statuses: list[Status] = field(default_factory=list)
    code: ExitCode | None = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        store = self.store or open_stores(self.group.spec)
        lane = Lane(store, self.group.metadata.name, LANE)
        state = lane.read()
        if state.seq < 0:
            check_root_free(self.group, store)
        writer = LaneWriter.open(
            lane,
            OpenRequest(
                uuid4().hex,
                self.group.spec.generation,
                "test",
                spec=store_spec(store, self.group, LANE),
            ),
            _now,
            state=state,
        )
        self.log = open_log(self.group)
        observer = Observer(self.log, self.group.spec.source.discovery_interval)
        runner = SparkRunner(self.context) if self.context else InProcessRunner()
        counters = DriverCounters(_now())
        deps = DriverDeps(
            store,
            observer,
            runner,
            _now,
            lambda: uuid4().hex,
            counters,
            backup=backup_of(self.group),
        )
        until_caught_up = self.until_caught_up and self.goal is Endless
        report = self._report
        self.driver = self.kind(self.group, writer, deps, report, until_caught_up, self.goal)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _report(self, progress: DriverProgress) -> None:
        counters = self.driver.counters
        self.statuses.append(driver_report(self.group, LANE, progress, counters).status)

    def _run(self) -> None:
        try:
            self.code = self.driver.run()
        except BaseException as error:  # noqa: BLE001  # the test that waits for this thread raises it
            self.error = error
        finally:
            self.log.close()

    def start(self) -> "Landing":
        self._thread.start()
        return self

    def end(self) -> ExitCode:
        """Wait for it to end by itself."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"not ended within {PATIENCE:g} s: {self.now}"
        if self.error:
            raise self.error
        assert self.code is not None
        return self.code

    def stop(self) -> ExitCode:
        """Drain, and return the exit code."""
        self.driver.stop("test")
        return self.end()

    @property
    def now(self) -> Status:
        """Its last status."""
        return self.statuses[-1]

    def wait_until(self, condition: Callable[[Status], object], what: str) -> Status:
        """The first status, from now on, for which this holds."""
        seen = len(self.statuses)

        def holds() -> bool:
            assert self._thread.is_alive(), f"ended before: {what}: {self.code} {self.error}"
            return any(map(condition, self.statuses[seen:]))

        wait_for(holds, what)
        return next(filter(condition, self.statuses[seen:]))

    def wait_until_landed(self) -> Status:
        """Return when a look that begins from now on sees no lag, and all commits are visible."""
        after = _now().isoformat()
        return self.wait_until(
            lambda s: (
                s.time > after and s.partitions and not s.lag_records and not s.commits.unapplied
            ),
            "no lag",
        )


def land(group: ConsumerGroup, context: SparkContext | None) -> Landing:
    """Land everything in the topics, on Spark or in this process; ``code`` is the exit code."""
    landing = Landing(group, context).start()
    landing.end()
    return landing


@contextmanager
def landing(group: ConsumerGroup, context: SparkContext) -> Iterator[Landing]:
    """A driver that lands until the block ends; then it must drain without an error."""
    running = Landing(group, context, until_caught_up=False).start()
    try:
        yield running
    finally:
        code = running.stop()
    assert code is ExitCode.OK, running.now


def _now() -> datetime:
    return datetime.now(UTC)
