"""Counters of a driver's work and failures, for ``/status`` and the metrics."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.api.contract import Failure, Rates
from landfall.ledger.task_results import LandedSlice, ObjectKind
from landfall.store.measured import StoreCalls


@dataclass
class DriverCounters:
    """Counters of one process, from its start; written by the driver's thread only.

    Attributes:
        started: when the process started.
        commits: COMMITs appended.
        failures: events that kept records from being committed. A batch counts once for each
            reason, however many of its topic partitions failed.
        consecutive_failures: batches that failed, in full or in part, and other failures, since the
            last COMMIT. A batch counts once.
        failures_by_reason: the failures by the metric's label ``reason``.
        last_failure: the latest of them.
        failure_logged: when a failure was last logged.
        last_commit: when the last COMMIT was appended.
        landed_by_topic: records in committed data objects.
        dead_lettered_by_topic: records in committed dead-letter objects.
        unexpected_by_topic: dead letters among them that a bug caused.
        bytes_by_topic: bytes of committed data objects.
        invisible: committed offsets that hold no record, such as transaction markers.
        filtered: records that the spec leaves out.
        objects: committed data objects.
        input_bytes: payload bytes read from the source and committed.
        busy: time from a batch's start to its COMMIT, summed over batches.
        last_batch: the same for the last batch.
        from_backup: records read from what another group has landed, as Kafka had lost them.
        arrived: offsets by which topics grew.
        task_seconds: time that tasks took for what is committed, summed.
        store_calls: calls of the stores by this process, tasks excluded.
        message: the process's report on itself; empty when there is nothing to report.
        warning: what a user should change, though landing continues; part of the message.
    """

    started: datetime
    commits: int = 0
    failures: int = 0
    consecutive_failures: int = 0
    failures_by_reason: dict[str, int] = field(default_factory=dict)
    last_failure: Failure | None = None
    failure_logged: datetime | None = None
    last_commit: datetime | None = None
    landed_by_topic: dict[str, int] = field(default_factory=dict)
    dead_lettered_by_topic: dict[str, int] = field(default_factory=dict)
    unexpected_by_topic: dict[str, int] = field(default_factory=dict)
    bytes_by_topic: dict[str, int] = field(default_factory=dict)
    invisible: int = 0
    filtered: int = 0
    objects: int = 0
    input_bytes: int = 0
    busy: timedelta = timedelta(0)
    last_batch: timedelta = timedelta(0)
    from_backup: int = 0
    arrived: int = 0
    task_seconds: float = 0.0
    store_calls: StoreCalls = field(default_factory=StoreCalls)
    message: str = ""
    warning: str = ""

    def committed(self, slices: Iterable[LandedSlice], took: timedelta, now: datetime) -> None:
        """Count a COMMIT, of a batch that took this long from its start."""
        self.commits += 1
        self.consecutive_failures = 0
        self.last_commit, self.last_batch, self.busy = now, took, self.busy + took
        for landed in slices:
            topic = landed.piece.topic_partition.topic
            data = [o for o in landed.objects if o.kind is ObjectKind.DATA]
            _add(self.landed_by_topic, topic, landed.landed)
            _add(self.dead_lettered_by_topic, topic, landed.dead_lettered)
            if landed.unexpected:
                _add(self.unexpected_by_topic, topic, landed.unexpected)
            _add(self.bytes_by_topic, topic, sum(o.upload.size for o in data))
            self.invisible += landed.invisible
            self.filtered += landed.filtered
            self.objects += len(data)
            self.input_bytes += landed.input_bytes
            self.task_seconds += landed.seconds
            if landed.read_from:
                self.from_backup += landed.landed + landed.filtered + landed.dead_lettered

    def failed(self, reason: str, message: str, now: datetime) -> None:
        """Count what kept records from being committed; ``reason`` is a metric's label."""
        self.batch_failed({reason: message}, now)

    def batch_failed(self, messages: Mapping[str, str], now: datetime) -> None:
        """Count what kept a batch, or a part of it, from being committed: a message a reason."""
        self.consecutive_failures += bool(messages)
        for reason, message in messages.items():
            self.failures += 1
            _add(self.failures_by_reason, reason, 1)
            self.last_failure = Failure(now.isoformat(), reason, message)

    @property
    def rates(self) -> Rates:
        """Totals, and rates per second of the time that batches were in flight."""
        landed, seconds = sum(self.landed_by_topic.values()), max(self.busy.total_seconds(), 1e-3)
        return Rates(
            landed_records=landed,
            landed_bytes=sum(self.bytes_by_topic.values()),
            input_bytes=self.input_bytes,
            dead_lettered=sum(self.dead_lettered_by_topic.values()),
            records_per_second=landed / seconds,
            input_bytes_per_second=self.input_bytes / seconds,
            arrived_records=self.arrived,
            task_seconds=round(self.task_seconds, 3),
            unexpected_dead_letters=sum(self.unexpected_by_topic.values()),
        )


def _add(counts: dict[str, int], name: str, more: int) -> None:
    counts[name] = counts.get(name, 0) + more
