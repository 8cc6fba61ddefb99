"""The audit: compares every committed range with Kafka, then all visible objects with the ledger.

A range that Kafka no longer holds, even in part, counts as unchecked, but its objects must still
exist. A COMMIT is left to the next audit while some of its objects are not visible and no later
record states that it is applied: a driver may be completing it right now.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from landfall_audit import Fault, FaultKind, PartitionResult, Unchecked, basenames
from landfall_audit.buckets import Bucket
from landfall_audit.checks.partition_check import (
    AuditedPartition,
    KeptFaults,
    PartitionCheck,
    add_gap,
)
from landfall_audit.checks.range_check import RangeCheck
from landfall_audit.checks.replacement_check import ReplacementCheck
from landfall_audit.feeds.log import FeedCursor, FeedFiles, FeedLog
from landfall_audit.kafka_log import LogCursor, RecordLog
from landfall_audit.ledger.corrections import Range, topic_of
from landfall_audit.ledger.generations import GenerationReaders, generation_of
from landfall_audit.ledger.inventory import Inventory, PartitionLifetime
from landfall_audit.ledger.stored_schemas import LedgerSchemas
from landfall_audit.objects.merged_rows import MergedRows
from landfall_audit.objects.mixed_pool import MixedPool
from landfall_audit.objects.object_reader import ObjectReader
from landfall_audit.objects.row_file import RowFile
from landfall_audit.spec import AuditedGroup, AuditedSpec

_PARTITIONS = 8
"""How many topic partitions are checked concurrently; each holds one range in memory."""
_READERS = 16
"""How many objects are read concurrently."""


@dataclass
class Findings(KeptFaults):
    """The result of an audit.

    Attributes:
        results: by topic and Kafka partition.
        objects: how many objects were read.
        waiting: COMMITs whose objects are not visible yet, as is normal while a driver runs.
        unrelated: visible objects that do not belong to Landfall.
        markers: visible objects that readers of folders pass over, such as ``_SUCCESS``.
        slots: slots of the ledger that were read.
        topics: all topics that the ledger ever had.
        feeds: of a group that lands files, what is not landed of each feed, by topic.
        reasons: what is not compared of a topic's rows, and why: columns by name, or all of them by
            the name ``""``.
        undecided: by topic, how many records could not be compared for reasons of their own.
    """

    results: dict[tuple[str, int], PartitionResult] = field(default_factory=dict)
    objects: int = 0
    waiting: int = 0
    unrelated: int = 0
    markers: int = 0
    slots: int = 0
    topics: frozenset[str] = frozenset()
    feeds: dict[str, FeedFiles] = field(default_factory=dict)
    reasons: dict[str, Mapping[str, str]] = field(default_factory=dict)
    undecided: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def has_compared(self) -> bool:
        """Return whether there was anything to find: an empty comparison is never good."""
        return any(result.expected or result.found for result in self.results.values())

    @property
    def unchecked_topics(self) -> frozenset[str]:
        """The topics with records that the source has, and that could not be checked."""
        return frozenset(
            topic
            for (topic, _), result in self.results.items()
            if any(not (why.is_gone_from_source or why.is_out_of_scope) for why in result.unchecked)
        )

    @property
    def gone_from_source(self) -> int:
        """How many records the source no longer has, so that they could not be checked."""
        return sum(
            records
            for result in self.results.values()
            for why, records in result.unchecked.items()
            if why.is_gone_from_source
        )

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is wrong in what could be checked."""
        return not self.faults and all(result.is_whole for result in self.results.values())


class ShowProgress(Protocol):
    """Called after each range, from several threads."""

    def __call__(self, done: int, total: int) -> None:
        """Show how many offsets of all that the ledger names are checked."""
        ...


@dataclass(frozen=True, slots=True)
class AuditScope:
    """The scope of an audit: topics (all if empty), and one generation or all."""

    topics: frozenset[str] = frozenset()
    generation: int | None = None

    def has_topic(self, topic: str) -> bool:
        """Return whether a topic is to be audited."""
        return not self.topics or topic in self.topics

    def has_objects(self, keys: Iterable[str]) -> bool:
        """Return whether objects are of the generation, the first number in their file names."""
        return self.generation is None or all(generation_of(key) == self.generation for key in keys)


_EVERYTHING = AuditScope()


def inspect(
    group: AuditedGroup,
    bucket: Bucket,
    log: RecordLog | None,
    scope: AuditScope = _EVERYTHING,
    show_progress: ShowProgress = lambda *_: None,
) -> Findings:
    """Audit what a group landed; ``log`` is None for a group that lands files.

    Raises:
        LandfallError: the store or Kafka does not answer, or denies access.
    """
    keeps = group.spec.output.existing_objects == "Keep"
    inventory = Inventory(bucket, group.metadata.name, keeps_existing=keeps)
    try:
        source = log or FeedLog(group.spec, inventory.feeds)
        schemas = LedgerSchemas(bucket, group.metadata.name)
        inspection = _Inspection(group.spec, bucket, source, inventory, schemas)
        findings = inspection.run(scope, show_progress)
        if isinstance(source, FeedLog):
            unlanded = source.unlanded()
            findings.feeds = {t: f for t, f in unlanded.items() if scope.has_topic(t)}
        return findings
    finally:
        inventory.close()


class _Inspection:
    def __init__(
        self,
        spec: AuditedSpec,
        bucket: Bucket,
        log: RecordLog,
        inventory: Inventory,
        schemas: LedgerSchemas,
    ) -> None:
        self._log, self._inventory = log, inventory
        self._done, self._lock = 0, Lock()
        self._findings = Findings(
            unrelated=inventory.unrelated,
            markers=inventory.markers,
            slots=inventory.slots,
            topics=frozenset(lifetime.topic for lifetime in inventory.partitions()),
        )
        self._readers = GenerationReaders(spec, inventory, schemas)
        self._pool = ThreadPoolExecutor(_READERS, "object")
        self._file = RowFile()
        self._objects = objects = ObjectReader(bucket, inventory)
        self._merged, mixed = MergedRows(objects, self._file), MixedPool(self._file)
        self._ranges = RangeCheck(self._readers, objects, self._merged, mixed, self._pool)
        self._replaced = ReplacementCheck(inventory, objects, self._merged, mixed)

    def run(self, scope: AuditScope, show_progress: ShowProgress) -> Findings:
        by_partition: dict[tuple[str, int], list[PartitionLifetime]] = {}
        for lifetime in self._inventory.partitions():
            if scope.has_topic(lifetime.topic):
                by_partition.setdefault((lifetime.topic, lifetime.partition), []).append(lifetime)

        total = self._inventory.offsets(by_partition)

        def advanced(offsets: int) -> None:
            with self._lock:
                self._done += offsets
                show_progress(self._done, total)

        def check(lifetimes: Sequence[PartitionLifetime]) -> PartitionCheck:
            found = PartitionCheck()
            for lifetime in lifetimes:  # one after the other: they add to the same result
                self._check_partition(lifetime, scope, found, advanced)
            return found

        with (
            closing(self._file),
            self._pool,
            ThreadPoolExecutor(_PARTITIONS, "partition") as pool,
        ):
            try:
                checks = dict(
                    zip(by_partition, pool.map(check, by_partition.values()), strict=True)
                )
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            self._check_replaced(checks, scope)
        return self._summed_up(checks, scope)

    def _check_replaced(
        self, checks: Mapping[tuple[str, int], PartitionCheck], scope: AuditScope
    ) -> None:
        """Run the checks that need more than one range, and add to the findings."""
        rows = {topic: self._readers.of(topic).rows for topic in self._findings.topics}
        results = {name: check.result for name, check in checks.items()}
        for fault in (
            *self._replaced.mixed(rows, results),
            *self._replaced.objects(scope.has_topic, self._pool),
        ):
            self._merged.check.add_fault(fault)

    def _summed_up(
        self, checks: Mapping[tuple[str, int], PartitionCheck], scope: AuditScope
    ) -> Findings:
        """Everything that was found, in the order of the topic partitions."""
        findings, moved, waiting = self._findings, set[str](), set[int]()
        for fault in self._inventory.faults:
            findings.add_fault(fault)
        findings.results = {name: check.result for name, check in checks.items()}
        for check in (*checks.values(), self._merged.check):
            findings.objects += check.objects
            findings.faults_more += check.faults_more
            moved |= check.moved
            waiting |= check.waiting
            for fault in check.faults:
                findings.add_fault(fault)
        self._add_reasons(checks)
        # Only after all ranges are checked is it known which unnamed objects are moved ones.
        for key, size in self._inventory.unnamed():
            if key not in moved and scope.has_topic(topic_of(key)) and self._stays(key):
                names = "no REPLACE's list names" if basenames.is_new(key) else "no COMMIT names"
                findings.add_fault(Fault(FaultKind.EXTRA, key, f"{size} bytes that {names}"))
        findings.waiting = len(waiting)
        return findings

    def _add_reasons(self, checks: Mapping[tuple[str, int], PartitionCheck]) -> None:
        """Add the records that could not be compared, by reason."""
        findings = self._findings
        for (topic, _), check in checks.items():
            for readers in self._readers.used(topic):
                if readers.rows is not None and readers.rows.unchecked and check.result.unchecked:
                    findings.reasons[topic] = readers.rows.unchecked
            for why, records in check.undecided.items():
                counts = findings.undecided.setdefault(topic, {})
                counts[why] = counts.get(why, 0) + records

    def _stays(self, key: str) -> bool:
        """Return whether an object is not one that a REPLACE gave up and that was deleted since."""
        return not basenames.is_new(key) or self._objects.is_there(key)

    # ------------------------------------------------------------------------ a topic partition

    def _check_partition(
        self,
        lifetime: PartitionLifetime,
        scope: AuditScope,
        check: PartitionCheck,
        advanced: Callable[[int], None],
    ) -> None:
        topic, partition = lifetime.topic, lifetime.partition
        held = self._held(lifetime)
        compacted = held is not None and self._log.is_compacted(topic)
        cursor, truncated = self._cursor(lifetime), self._inventory.truncated(lifetime)
        audited = AuditedPartition((topic, partition), check, cursor, held, compacted, truncated)
        next_offset = lifetime.start
        # A replay is of another generation than the dead letters that it read.
        is_whole = scope.generation is None
        for range_ in self._inventory.ranges(lifetime, follow_replays=is_whole):
            if not self._is_applied(range_):
                check.waiting.add(range_.slot)
                advanced(range_.end - range_.start)
                continue
            if range_.start > next_offset:
                add_gap(audited, next_offset, range_.start)
            next_offset = max(next_offset, range_.end)
            if range_.objects is None:
                is_feed = isinstance(self._log, FeedLog)
                check.result.skipped += 0 if is_feed else range_.end - range_.start
            elif scope.has_objects((*range_.objects, *(piece.key for piece in range_.pieces))):
                check.result.lost += range_.lost
                check.result.dead_letters_expired += range_.dead_letters_expired
                self._ranges.check(audited, range_)
            else:
                self._ranges.leave_unchecked(audited, range_, Unchecked.GENERATION)
            advanced(range_.end - range_.start)

    def _cursor(self, lifetime: PartitionLifetime) -> LogCursor | FeedCursor:
        if isinstance(self._log, FeedLog):
            return FeedCursor(self._log, lifetime.topic, lifetime.lifetime)
        return LogCursor(self._log, lifetime.topic, lifetime.partition)

    def _held(self, lifetime: PartitionLifetime) -> tuple[int, int] | None:
        """The offsets that Kafka still holds of this topic; None if it was deleted or recreated."""
        topic_id = self._log.topic_id(lifetime.topic) if lifetime.is_last else ""
        if topic_id is not None and topic_id != lifetime.topic_id:
            return None
        return self._log.bounds(lifetime.topic, lifetime.partition)

    def _is_applied(self, range_: Range) -> bool:
        return range_.slot <= self._inventory.applied_through or all(
            map(self._inventory.is_visible, range_.objects or ())
        )
