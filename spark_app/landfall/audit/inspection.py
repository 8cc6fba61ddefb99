"""The audit: compares every committed range with Kafka, then all visible objects with the ledger.

A range that Kafka no longer holds, even in part, counts as unchecked, but its objects must still
exist. A COMMIT is left to the next audit while some of its objects are not visible and no later
record says that it is applied: a driver may be completing it right now.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import stamina

from landfall.api.spec import ConsumerGroup, GroupSpec, TopicSpecs
from landfall.audit import Fault, Kind, PartitionResult, Unchecked, rows
from landfall.audit.buckets import Bucket
from landfall.audit.corrections import Range, topic_of
from landfall.audit.feed_log import FeedCursor, FeedFiles, FeedLog
from landfall.audit.inventory import Inventory, PartitionLifetime
from landfall.audit.judge import DEAD_LETTERS, UNKNOWN, KafkaRecords, ObjectRows, Rules, judge
from landfall.audit.kafka_log import Cursor, Log
from landfall.audit.partition_check import (
    AuditedPartition,
    KeptFaults,
    PartitionCheck,
    add_gap,
)
from landfall.audit.route_evaluator import (
    Headers,
    RouteEvaluator,
    RouteNotSupported,
    Source,
)
from landfall.audit.rows import FormatNotSupported, Read, Record, Rows
from landfall.audit.sources import CannotCompare
from landfall.errors import Reason, Retry, Stalled
from landfall.store.s3.errors import translate_errors

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
        others: visible objects that do not belong to Landfall.
        slots: slots of the ledger that were read.
        topics: those that the ledger ever had.
        feeds: of a group that lands files, what is not landed of each feed, by topic.
    """

    results: dict[tuple[str, int], PartitionResult] = field(default_factory=dict)
    objects: int = 0
    waiting: int = 0
    others: int = 0
    slots: int = 0
    topics: frozenset[str] = frozenset()
    feeds: dict[str, FeedFiles] = field(default_factory=dict)

    @property
    def has_compared(self) -> bool:
        """Whether there was anything to find: what is compared with nothing is never good."""
        return any(result.expected or result.found for result in self.results.values())

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong in what could be checked."""
        return not self.faults and all(result.is_whole for result in self.results.values())


class ShowProgress(Protocol):
    """Called after each range with topic, Kafka partition and the next offset."""

    def __call__(self, topic: str, partition: int, offset: int) -> None:
        """Show how far the audit is."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """What to audit: some topics, or all if empty; what one generation landed, or all."""

    topics: frozenset[str] = frozenset()
    generation: int | None = None

    def has_topic(self, topic: str) -> bool:
        """Whether a topic is to be audited."""
        return not self.topics or topic in self.topics

    def has_objects(self, keys: Iterable[str]) -> bool:
        """Whether objects are of the generation, which is the first number in their file names."""
        return self.generation is None or all(
            key.rpartition("/")[2].partition("_")[0] == str(self.generation) for key in keys
        )


_EVERYTHING = Scope()


def inspect(
    group: ConsumerGroup,
    bucket: Bucket,
    log: Log | None,
    scope: Scope = _EVERYTHING,
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
        findings = _Inspection(TopicSpecs.of(group.spec), bucket, source, inventory).run(
            scope, show_progress
        )
        if isinstance(source, FeedLog):
            unlanded = source.unlanded()
            findings.feeds = {t: f for t, f in unlanded.items() if scope.has_topic(t)}
        return findings
    finally:
        inventory.close()


@dataclass(frozen=True)
class _Readers:
    """How objects of a topic are read and its records routed; None where not supported."""

    rows: Rows | None
    route: RouteEvaluator | None

    @classmethod
    def of(cls, spec: GroupSpec) -> "_Readers":
        try:
            found = rows.rows_of(spec)
        except FormatNotSupported:
            return cls(None, None)
        try:
            return cls(found, RouteEvaluator.of(spec))
        except RouteNotSupported:
            return cls(found, None)


class _Inspection:
    def __init__(self, specs: TopicSpecs, bucket: Bucket, log: Log, inventory: Inventory) -> None:
        self._bucket, self._log = bucket, log
        self._inventory = inventory
        self._findings = Findings(
            others=inventory.others,
            slots=inventory.slots,
            topics=frozenset(lifetime.topic for lifetime in inventory.partitions()),
        )
        self._readers = {
            topic: _Readers.of(specs.for_topic(topic)) for topic in self._findings.topics
        }
        self._pool = ThreadPoolExecutor(_READERS, "object")

    def run(self, scope: Scope, show_progress: ShowProgress) -> Findings:
        by_partition: dict[tuple[str, int], list[PartitionLifetime]] = {}
        for lifetime in self._inventory.partitions():
            if scope.has_topic(lifetime.topic):
                by_partition.setdefault((lifetime.topic, lifetime.partition), []).append(lifetime)

        def check(lifetimes: Sequence[PartitionLifetime]) -> PartitionCheck:
            found = PartitionCheck()
            for lifetime in lifetimes:  # one after the other: they add to the same result
                self._check_partition(lifetime, scope, found, show_progress)
            return found

        with self._pool, ThreadPoolExecutor(_PARTITIONS, "partition") as pool:
            try:
                checks = dict(
                    zip(by_partition, pool.map(check, by_partition.values()), strict=True)
                )
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return self._summed_up(checks, scope)

    def _summed_up(
        self, checks: Mapping[tuple[str, int], PartitionCheck], scope: Scope
    ) -> Findings:
        """Everything that was found, in the order of the topic partitions."""
        findings, moved, waiting = self._findings, set[str](), set[int]()
        for fault in self._inventory.faults:
            findings.add_fault(fault)
        for name, found in checks.items():
            findings.results[name] = found.result
            findings.objects += found.objects
            findings.faults_more += found.faults_more
            moved |= found.moved
            waiting |= found.waiting
            for fault in found.faults:
                findings.add_fault(fault)
        # Only after all ranges are checked is it known which unnamed objects are moved ones.
        for key, size in self._inventory.unnamed():
            if key not in moved and scope.has_topic(topic_of(key)):
                findings.add_fault(Fault(Kind.EXTRA, key, f"{size} bytes that no COMMIT names"))
        findings.waiting = len(waiting)
        return findings

    # ------------------------------------------------------------------------ a topic partition

    def _check_partition(
        self,
        lifetime: PartitionLifetime,
        scope: Scope,
        check: PartitionCheck,
        show_progress: ShowProgress,
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
                continue
            if range_.start > next_offset:
                add_gap(audited, next_offset, range_.start)
            next_offset = max(next_offset, range_.end)
            if range_.objects is None:
                is_feed = isinstance(self._log, FeedLog)
                check.result.skipped += 0 if is_feed else range_.end - range_.start
            elif scope.has_objects(range_.objects):
                check.result.lost += range_.lost
                self._check_range(audited, range_)
            else:
                check.result.add_unchecked(range_.counted, Unchecked.GENERATION)
            show_progress(topic, partition, next_offset)

    def _cursor(self, lifetime: PartitionLifetime) -> Cursor | FeedCursor:
        if isinstance(self._log, FeedLog):
            return FeedCursor(self._log, lifetime.topic, lifetime.lifetime)
        return Cursor(self._log, lifetime.topic, lifetime.partition)

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

    # ---------------------------------------------------------------------------------- a range

    def _check_range(self, audited: AuditedPartition, range_: Range) -> None:
        check = audited.check
        # The objects are looked up first: they must exist even if they cannot be compared.
        found = (self._existing_key(key, check) for key in range_.objects or ())
        keys = [key for key in found if key]
        reader = self._readers[audited.source[0]].rows
        why_not = audited.why_unchecked(range_) if reader else Unchecked.UNREADABLE
        if reader is None or why_not is not None:
            check.result.add_unchecked(range_.counted, why_not or Unchecked.UNREADABLE)
            return
        keys = [key for key in keys if key not in range_.replayed]
        data = [key for key in keys if not key.startswith("_landfall/")]
        reads = [self._pool.submit(self._read, key, reader) for key in data]
        letters = [
            check.count(key, self._read(key, rows.ENVELOPE)) for key in keys if key not in data
        ]
        lettered = [ObjectRows(DEAD_LETTERS, read.offsets, read.hashes) for read in letters]
        codes: dict[str, int] = {}
        try:
            # Kafka is read while the pool reads the data objects.
            records = self._kafka_records(audited, range_, lettered, codes)
        except Stalled as stalled:
            if stalled.reason is not Reason.DATA_LOSS:
                raise
            check.result.add_unchecked(range_.counted, Unchecked.GONE)
            return
        except CannotCompare as cannot:
            check.result.add_unchecked(range_.counted, cannot.why)
            return
        landed = [
            _object_rows(key, check.count(key, read.result()), codes, range_.runs.get(key, 0))
            for key, read in zip(data, reads, strict=True)
        ]
        left_out = range_.filtered + range_.lost
        rules = Rules(reader.hash_of is not None, left_out, audited.compacted)
        audited.add_wrong(judge(records, [*lettered, *landed], rules, check.result))

    def _existing_key(self, key: str, check: PartitionCheck) -> str | None:
        """The key, or that of a moved object of the same name, or None if the object is lost."""
        if self._inventory.is_visible(key) or self._has_appeared(key):
            return key
        moved = self._inventory.find_moved(key)
        if moved is None:
            check.add_fault(Fault(Kind.LOST, key))
            return None
        check.moved.add(moved)
        check.add_fault(Fault(Kind.MOVED, key, f"is found as {moved}"))
        return moved

    def _has_appeared(self, key: str) -> bool:
        """Whether an object became visible after the listing."""
        try:
            self._bucket.open(key).close()
        except FileNotFoundError:
            return False
        return True

    def _read(self, key: str, reader: Rows) -> Read:
        @stamina.retry(on=Retry, attempts=5)
        def read() -> Read:
            with self._bucket.open(key) as stream, translate_errors("read", key):
                return rows.read(reader, stream)

        try:
            return read()
        except FileNotFoundError:  # it was visible when the audit began
            return Read(np.empty(0, np.int64), np.empty(0, np.int64), "is gone")

    def _kafka_records(
        self,
        audited: AuditedPartition,
        range_: Range,
        lettered: list[ObjectRows],
        codes: dict[str, int],
    ) -> KafkaRecords:
        """The records of a range; ``codes`` gets a number for each output partition."""
        letters = {
            offset
            for read in lettered
            if read.offsets is not None
            for offset in read.offsets.tolist()
        }
        flat = array("q")
        for message in audited.cursor.take(range_.start, range_.end):
            flat.extend(self._expected_row(audited.source, message, letters, codes))
        columns = np.frombuffer(flat, np.int64).reshape(-1, 3)
        return KafkaRecords(columns[:, 0], columns[:, 1], columns[:, 2])

    def _expected_row(
        self, source: Source, message: Record, letters: set[int], codes: dict[str, int]
    ) -> tuple[int, int, int]:
        """The offset, hash and output partition that the row of a record must have."""
        offset = message.offset()
        if offset in letters:
            return offset, rows.whole_hash(message), UNKNOWN
        readers, path = self._readers[source[0]], None
        hash_of = readers.rows.hash_of if readers.rows else None
        if readers.route is not None:
            headers = _headers(message) if readers.route.headers else ()
            path = readers.route.output_partition(
                source, message.value(), message.timestamp()[1], headers
            )
        code = UNKNOWN if path is None else codes.setdefault(path, len(codes))
        return offset, hash_of(message) if hash_of else 0, code


def _object_rows(key: str, read: Read, codes: dict[str, int], run: int) -> ObjectRows:
    folders = key.split("/")[:-1]
    topic = next(i for i, folder in enumerate(folders) if "=" not in folder)
    above, below = "/".join(folders[:topic]), "/".join(folders[topic + 1 :])
    path = f"{above}//{below}" if above else below
    place, order = codes.setdefault(path, len(codes)), read.order
    return ObjectRows(place, read.offsets, read.hashes, run, order.schema, order.is_sorted)


def _headers(message: Record) -> Headers:
    """The headers of a message; none if the client cannot read them, as names that are no UTF-8."""
    try:
        # Through map, or the interpreter may notice the client's error too late.
        return next(map(type(message).headers, [message])) or ()
    except SystemError:
        return ()
