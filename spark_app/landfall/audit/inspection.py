"""The audit itself: every committed range, one after the other, against Kafka; then everything visible against the ledger.

A range that Kafka does not hold any more, wholly or in part, is counted as unchecked: its objects
must still be there. A COMMIT whose objects are not all visible yet and that no later record calls
applied is left to the next audit.
"""

from array import array
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import stamina

from landfall.api.spec import ConsumerGroup, GroupSpec
from landfall.audit import Fault, Kind, PartitionResult, Unchecked, rows
from landfall.audit.bucket import Bucket
from landfall.audit.inventory import Inventory, PartitionLifetime, Range
from landfall.audit.judge import LETTERS, UNKNOWN, Landed, Logged, Rules, judge
from landfall.audit.kafka_log import Cursor, Log
from landfall.audit.route_evaluator import RouteEvaluator, RouteNotSupported
from landfall.audit.rows import FormatNotSupported, Read, Record, Rows
from landfall.errors import Reason, Retry, Stalled
from landfall.store.s3errors import told

FAULTS_KEPT = 1000
"""Faults told one by one; the others are only counted."""
_THREADS = 8
"""Objects of a range read at once."""


@dataclass
class Findings:
    """What an audit says.

    Attributes:
        accounts: by topic and Kafka partition.
        faults: what is wrong with objects and the ledger, the first ones.
        faults_more: how many are not kept.
        objects: read.
        waiting: COMMITs whose objects are not visible yet, as may be while a driver is at work.
        strangers: objects that are none of Landfall's.
    """

    accounts: dict[tuple[str, int], PartitionResult] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    faults_more: int = 0
    objects: int = 0
    waiting: int = 0
    strangers: int = 0

    @property
    def is_whole(self) -> bool:
        """Nothing is wrong in what could be checked."""
        return not self.faults and all(account.is_whole for account in self.accounts.values())

    def fault(self, found: Fault) -> None:
        """Note something that is wrong."""
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(found)
        else:
            self.faults_more += 1


class Told(Protocol):
    """Is told of progress: topic, Kafka partition, next offset."""

    def __call__(self, topic: str, partition: int, offset: int) -> None:
        """After each range."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """What to audit: these topics, or all; what one generation landed, or all."""

    topics: frozenset[str] = frozenset()
    generation: int | None = None

    def has_topic(self, topic: str) -> bool:
        """Whether a topic is to be audited."""
        return not self.topics or topic in self.topics

    def has_objects(self, keys: Iterable[str]) -> bool:
        """Whether objects are of the generation."""
        return self.generation is None or all(
            key.rpartition("/")[2].partition("_")[0] == str(self.generation) for key in keys
        )


_ALL = Scope()


def inspect(
    group: ConsumerGroup,
    bucket: Bucket,
    log: Log,
    scope: Scope = _ALL,
    told: Told = lambda *_: None,
) -> Findings:
    """Audit what a group landed.

    Raises:
        LandfallError: the store or Kafka does not answer, or refuses us.
    """
    book = Inventory(bucket, group.metadata.name)
    try:
        return _Inspection(_Ways.of(group.spec), bucket, log, book, told).all(scope)
    finally:
        book.close()


@dataclass(frozen=True)
class _Ways:
    """How this group's objects are read and its records placed, as far as that can be done."""

    rows: Rows | None
    places: RouteEvaluator | None

    @classmethod
    def of(cls, spec: GroupSpec) -> "_Ways":
        try:
            found = rows.rows_of(spec)
        except FormatNotSupported:
            return cls(None, None)
        try:
            return cls(found, RouteEvaluator.of(spec))
        except RouteNotSupported:
            return cls(found, None)


class _Inspection:
    def __init__(self, ways: _Ways, bucket: Bucket, log: Log, book: Inventory, told: Told) -> None:
        self._ways, self._bucket, self._log, self._book, self._told = ways, bucket, log, book, told
        self._found = Findings(strangers=book.strangers)
        self._moved: set[str] = set()
        self._waiting: set[int] = set()

    def all(self, scope: Scope) -> Findings:
        for fault in self._book.faults:
            self._found.fault(fault)
        with ThreadPoolExecutor(_THREADS) as pool:
            for life in self._book.partitions():
                if scope.has_topic(life.topic):
                    self._life(life, scope, pool)
        for key, size in self._book.unnamed():
            if key not in self._moved and scope.has_topic(_topic(key)):
                self._found.fault(Fault(Kind.EXTRA, key, f"{size} bytes that no COMMIT names"))
        self._found.waiting = len(self._waiting)
        return self._found

    # ---------------------------------------------------------------------------- a topic partition

    def _life(self, life: PartitionLifetime, scope: Scope, pool: ThreadPoolExecutor) -> None:
        account = self._found.accounts.setdefault((life.topic, life.partition), PartitionResult())
        held = self._held(life)
        compacted = held is not None and self._log.is_compacted(life.topic)
        audited = _Audited(
            life.topic, account, Cursor(self._log, life.topic, life.partition), held, compacted
        )
        at = life.start
        for piece in self._book.ranges(life):
            if not self._is_applied(piece):
                continue
            if piece.start > at:
                _gap(audited, at, piece.start)
            at = max(at, piece.end)
            if piece.objects is not None and scope.has_objects(piece.objects):
                self._piece(audited, piece, pool)
            else:
                account.leave(piece.counted, Unchecked.GENERATION)
            self._told(life.topic, life.partition, at)

    def _held(self, life: PartitionLifetime) -> tuple[int, int] | None:
        """The offsets that Kafka still holds of this very topic."""
        topic_id = self._log.topic_id(life.topic) if life.is_last else ""
        if topic_id is not None and topic_id != life.topic_id:
            return None
        return self._log.bounds(life.topic, life.partition)

    def _is_applied(self, piece: Range) -> bool:
        if piece.slot <= self._book.applied_through or all(
            map(self._book.is_visible, piece.objects or ())
        ):
            return True
        self._waiting.add(piece.slot)
        return False

    # -------------------------------------------------------------------------------------- a range

    def _piece(self, audited: "_Audited", piece: Range, pool: ThreadPoolExecutor) -> None:
        keys = [key for key in map(self._standing, piece.objects or ()) if key]
        way = self._ways.rows
        if way is None or not audited.holds(piece.start, piece.end):
            audited.account.leave(
                piece.counted, Unchecked.UNREADABLE if way is None else Unchecked.GONE
            )
            return
        data = [key for key in keys if not key.startswith("_landfall/")]
        reads = [pool.submit(self._read, key, way) for key in data]
        letters = [
            self._noted(key, self._read(key, rows.ENVELOPE)) for key in keys if key not in data
        ]
        lettered = [Landed(LETTERS, read.offsets, read.hashes) for read in letters]
        codes: dict[str, int] = {}
        try:
            logged = self._logged(audited, piece, lettered, codes)
        except Stalled as gone:
            if gone.reason is not Reason.DATA_LOSS:
                raise
            audited.account.leave(piece.counted, Unchecked.GONE)
            return
        landed = [
            _landed(key, self._noted(key, read.result()), codes)
            for key, read in zip(data, reads, strict=True)
        ]
        rules = Rules(way.hash_of is not None, piece.filtered, audited.compacted)
        judge(logged, [*lettered, *landed], rules, audited.account)

    def _standing(self, key: str) -> str | None:
        """The key, or that of an object of its name elsewhere, or None."""
        if self._book.is_visible(key) or self._came(key):
            return key
        moved = self._book.find_moved(key)
        if moved is None:
            self._found.fault(Fault(Kind.LOST, key))
            return None
        self._moved.add(moved)
        self._found.fault(Fault(Kind.MOVED, key, f"is found as {moved}"))
        return moved

    def _came(self, key: str) -> bool:
        """Whether it became visible since the listing."""
        try:
            self._bucket.open(key).close()
        except FileNotFoundError:
            return False
        return True

    def _read(self, key: str, way: Rows) -> Read:
        @stamina.retry(on=Retry, attempts=5)
        def read() -> Read:
            with self._bucket.open(key) as stream, told("read", key):
                return rows.read(way, stream)

        try:
            return read()
        except FileNotFoundError:  # it was there when the audit began
            return Read(np.empty(0, np.int64), np.empty(0, np.int64), "is gone")

    def _noted(self, key: str, read: Read) -> Read:
        self._found.objects += 1
        if read.damage:
            self._found.fault(Fault(Kind.DAMAGED, key, read.damage))
        return read

    def _logged(
        self, audited: "_Audited", piece: Range, lettered: list[Landed], codes: dict[str, int]
    ) -> Logged:
        letters = {
            offset
            for read in lettered
            if read.offsets is not None
            for offset in read.offsets.tolist()
        }
        flat = array("q")
        for message in audited.cursor.take(piece.start, piece.end):
            flat.extend(self._expected(audited.topic, message, letters, codes))
        columns = np.frombuffer(flat, np.int64).reshape(-1, 3)
        return Logged(columns[:, 0], columns[:, 1], columns[:, 2])

    def _expected(
        self, topic: str, message: Record, letters: set[int], codes: dict[str, int]
    ) -> tuple[int, int, int]:
        """Offset, hash and place that a record must have."""
        offset = message.offset()
        if offset in letters:
            return offset, rows.whole_hash(message), UNKNOWN
        hash_of = self._ways.rows.hash_of if self._ways.rows else None
        place = None
        if self._ways.places is not None:
            place = self._ways.places.of_record(topic, message.value(), message.timestamp()[1])
        code = UNKNOWN if place is None else codes.setdefault(place, len(codes))
        return offset, hash_of(message) if hash_of else 0, code


@dataclass(frozen=True)
class _Audited:
    """A topic partition under audit; ``held`` are the offsets that Kafka has of it."""

    topic: str
    account: PartitionResult
    cursor: Cursor
    held: tuple[int, int] | None
    compacted: bool

    def holds(self, start: int, end: int) -> bool:
        """Whether Kafka still has a range."""
        return self.held is not None and self.held[0] <= start and end <= self.held[1]


def _gap(audited: _Audited, start: int, end: int) -> None:
    """Offsets that the ledger steps over."""
    if audited.holds(start, end):
        records = sum(1 for _ in audited.cursor.take(start, end))
        audited.account.expected += records
        audited.account.missing += records
    audited.account.lacks(start, end)


def _landed(key: str, read: Read, codes: dict[str, int]) -> Landed:
    place = key.partition("/")[2].rpartition("/")[0]
    return Landed(codes.setdefault(place, len(codes)), read.offsets, read.hashes)


def _topic(key: str) -> str:
    pieces = key.split("/")
    return pieces[3] if pieces[0] == "_landfall" else pieces[0]
