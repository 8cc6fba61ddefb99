"""A group that lands a log in memory, and readers of its tail while log and ledger grow."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa

from landfall import ledger
from landfall.api.contract import LANE
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.reading import LandedGroup
from landfall.source import Bound, FoundOffsets, LastRead, Reader
from tests.support.driver.fakes import FakeLog
from tests.support.driver.slice_landing import HOUR, MIDNIGHT, FakeReader
from tests.support.ledger.landed_group import Backup
from tests.support.ledger.sample_ledger import GROUP, replace_header

CLICKS = (TopicPartition("clicks", 0), TopicPartition("clicks", 1))
TOPIC_ID = "id"
"""What ``SampleLedger.add`` names."""
BAD, FILTERED, INVISIBLE, ROW = "bad", "filtered", "invisible", "row"
KINDS = (ROW, ROW, ROW, BAD, FILTERED, INVISIBLE)
"""What a record may be; most are rows."""


@dataclass
class GrowingLog(FakeLog):
    """A log that calls ``meanwhile`` before and after each answer about offsets."""

    meanwhile: Callable[[], None] = lambda: None

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        self.meanwhile()
        found = super().offsets(tps, bound)
        self.meanwhile()
        return found


@dataclass
class PlayedKafka:
    """A ``TailSource`` in memory.

    Attributes:
        log: where Kafka begins and ends.
        rows: what it holds, by topic partition.
        reads: how often records were read.
    """

    log_: GrowingLog
    rows: dict[TopicPartition, list[tuple[int, bytes | None]]]
    chunk: int = 3
    reads: int = 0

    def log(self) -> GrowingLog:
        return self.log_

    @contextmanager
    def reader(
        self, slices: Sequence[Slice], last_read: Mapping[TopicPartition, LastRead]
    ) -> Iterator[Reader]:
        del slices, last_read
        self.reads += 1
        yield FakeReader(self.rows, self.chunk)  # type: ignore[arg-type]  # which only reads


@dataclass
class Tailed:
    """A group that lands what a test tells it to, of records that a test produces.

    Attributes:
        output: ``spec.output`` of the group.
        kinds: of each record that was produced, by topic partition and offset.
        skipped: offsets that a HOLE has skipped.
    """

    output: dict[str, Any]
    spec: dict[str, Any] = field(default_factory=dict)
    kinds: dict[TopicPartition, list[str]] = field(default_factory=dict)
    skipped: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kinds = {tp: [] for tp in CLICKS}
        own = {"transforms": [{"use": "Filter", "options": {"drop": "out"}}], **self.spec}
        self.landed = Backup({tp: [] for tp in CLICKS}, self.output, own)
        self.kafka = PlayedKafka(GrowingLog(), self.landed.log)  # type: ignore[arg-type]
        self._mark_ends()

    def reader(self) -> LandedGroup:
        """The group as a reader opens it."""
        group = self.landed.group
        opened = LandedGroup(self.landed.store, group.spec.output, (GROUP, LANE), group)
        opened.tail_source = self.kafka
        return opened

    # -------------------------------------------------------------------------- what happens to it

    def produce(self, tp: TopicPartition, *kinds: str) -> None:
        for kind in kinds:
            offset = len(self.kinds[tp])
            self.kinds[tp].append(kind)
            if kind is not INVISIBLE:
                self.kafka.rows[tp].append((offset, _payload(tp, offset, kind)))
        self._mark_ends()

    def _mark_ends(self) -> None:
        self.kafka.log_.write("clicks", *(len(self.kinds[tp]) for tp in CLICKS))
        self.kafka.log_.ids["clicks"] = TOPIC_ID

    def land(self, tp: TopicPartition, count: int, *, complete: bool) -> None:
        """Land the next offsets in one COMMIT, which nothing confirms yet."""
        start = self.landed.sample.state.checkpoint[tp]
        end = min(start + count, len(self.kinds[tp]))
        if start < end:
            self.landed.land(start, end, tp=tp, complete=complete)

    def run(self, tp: TopicPartition) -> None:
        """What a driver does: land whatever there is, and make all of it visible."""
        self.land(tp, len(self.kinds[tp]), complete=True)
        self.confirm(len(self.landed.sample.state.unapplied))

    def skip(self, tp: TopicPartition, count: int) -> None:
        """Record that the next offsets are not landed."""
        start = self.landed.sample.state.checkpoint[tp]
        end = min(start + count, len(self.kinds[tp]))
        if start < end:
            hole = Slice(tp, OffsetRange(start, end))
            self.landed.sample.append(lambda h: ledger.Hole(header=h, piece=hole, reason="test"))
            self.skipped |= {(tp.partition, offset) for offset in range(start, end)}

    def roll(self) -> None:
        """Let another driver take over, and a segment hold what came before it, all visible."""
        self.confirm(len(self.landed.sample.state.unapplied))
        self.landed.open()
        self.landed.roll()

    def confirm(self, some: int) -> None:
        """Complete what the first COMMITs that wait have decided, and record that they did."""
        state = self.landed.sample.state
        due = sorted(state.unapplied)[: some + 1]
        for landed in chain.from_iterable(state.unapplied[seq] for seq in due):
            self.landed.store.complete(landed.upload)
        if due:
            self.landed.sample.append(lambda h: ledger.Applied(header=replace_header(h, due[-1])))

    # ----------------------------------------------------------------------------- what is expected

    def of_kind(self, *kinds: str) -> set[tuple[int, int]]:
        """The records of these kinds, by Kafka partition and offset."""
        return {
            (tp.partition, offset)
            for tp, of_tp in self.kinds.items()
            for offset, kind in enumerate(of_tp)
            if kind in kinds
        }


def _payload(tp: TopicPartition, offset: int, kind: str) -> bytes:
    if kind == BAD:
        return b"no JSON"
    document = {
        "ts": MIDNIGHT + offset % 3 * HOUR,
        "p": tp.partition,
        "o": offset,
        "out": kind == FILTERED,
    }
    return json.dumps(document).encode()


def records(rows: pa.Table) -> list[tuple[int, int, str]]:
    """The Kafka partition, the offset and the half of each row; without any, no column is known."""
    if not rows.num_rows:
        return []
    documents = map(json.loads, rows["value"].to_pylist())
    halves = rows["_landfall_source"].to_pylist()
    return [(d["p"], d["o"], half) for d, half in zip(documents, halves, strict=True)]
