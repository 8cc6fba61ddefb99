"""A group that has landed topics in memory, whose objects another group reads as a log."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

from msgspec.structs import replace

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.driver.core.stored_specs import store_spec
from landfall.formats import Block
from landfall.landed.history import History
from landfall.landed.reader import LandedReader
from landfall.lane import Lane
from landfall.ledger import Commit
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import NewObject, ReplacementList
from landfall.ledger.task_results import LandedSlice
from landfall.registry import output_format
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import TP, FakeReader, Rows, records_of
from tests.support.ledger.sample_backfill import Again, Backfill
from tests.support.ledger.sample_ledger import GROUP, SampleLedger
from tests.support.ledger.sample_replacing import Merge

SEQUENCE_FILES: dict[str, Any] = {"format": "SequenceFile", "options": {"keyMode": "MessagePack"}}
PARQUET: dict[str, Any] = {"format": "Parquet"}


def backup_group(output: dict[str, Any], **spec: Any) -> ConsumerGroup:
    """A group called ``shop`` that keeps payloads as they are."""
    document = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": GROUP},
        "spec": {
            "source": {"kafka": {"bootstrapServers": "kafka:1", "topicPattern": ".*"}},
            "decode": {"format": "Json", "timestamp": {"field": "ts"}},
            "route": {"pattern": "dt={date}/hr={hour}"},
            "output": {"url": "s3://backup/root", **output},
            **spec,
        },
    }
    return parse_group(document)


@dataclass
class Backup:
    """What a group has landed of a log in memory, and its ledger.

    Attributes:
        log: what Kafka held.
        output: of the group.
        spec: other sections of it.
    """

    log: dict[TopicPartition, Rows]
    output: dict[str, Any] = field(default_factory=lambda: SEQUENCE_FILES)
    spec: dict[str, Any] = field(default_factory=dict)
    store: Any = field(default_factory=MemoryStore)
    group: ConsumerGroup = field(init=False)

    def __post_init__(self) -> None:
        self.sample = SampleLedger(self.store)
        self.open().sample.add(*self.log)

    def open(self, **spec: Any) -> "Backup":
        """Let a driver with this spec go on."""
        self.output = spec.pop("output", self.output)
        self.group = backup_group(self.output, **{**self.spec, **spec})
        name = store_spec(self.store, self.group, LANE)
        self.sample.open(self.group.spec.generation, name)
        return self

    def landed(self, start: int, end: int, tp: TopicPartition = TP) -> LandedSlice:
        """Upload a range, which nothing commits."""
        slice_ = Slice(tp, OffsetRange(start, end))
        token = f"token-{self.sample.state.seq + 1}"
        (result,) = land(Batch(self.group, token), [slice_], FakeReader(self.log), self.store)
        assert isinstance(result, LandedSlice), result
        return result

    def land(self, *bounds: int, tp: TopicPartition = TP, complete: bool = True) -> "Backup":
        """Land the ranges between these offsets, one COMMIT each, which nothing confirms yet.

        Without ``complete``, their objects are not visible, either.
        """
        for start, end in pairwise(bounds):
            self.sample.commit(self.landed(start, end, tp), complete=complete)
        return self

    def complete(self) -> "Backup":
        """Make all objects visible that are committed, as the next driver does."""
        for landed in chain.from_iterable(self.sample.state.unapplied.values()):
            self.store.complete(landed.upload)
        return self

    def settle(self) -> "Backup":
        """Let the ledger say that everything is visible, and another driver take over."""
        self.sample.applied()
        return self.open()

    def roll(self) -> "Backup":
        """Let a segment hold what is sealed."""
        self.sample.add(TopicPartition("filler", self.sample.state.seq)).roll()
        return self

    @property
    def history(self) -> History:
        history = History(Lane(self.store, GROUP, LANE), self.store.stat)
        history.follow()
        return history

    @property
    def reader(self) -> LandedReader:
        return LandedReader(self.store, self.history)

    def read(self, start: int, end: int, tp: TopicPartition = TP) -> list[tuple[int, Any]]:
        """Offsets and payloads of a range, as the other group reads them."""
        found = list[tuple[int, Any]]()
        for records in self.reader.read(Slice(tp, OffsetRange(start, end))):
            found += zip(records.offsets.tolist(), records.values.to_pylist(), strict=True)
        return found


def within(rows: Rows, start: int, end: int) -> Sequence[tuple[int, bytes | None]]:
    """The rows of a log that have these offsets."""
    return [row for row in rows if start <= row[0] < end]


def backfill_of(landed: Backup, spec: ConsumerGroup, *slices: Slice) -> Backfill:
    """A backfill of the first Kafka partition, landed again by this spec, and done."""
    format_, rows = output_format(spec.spec.output), dict(landed.log[TP])

    def body(offsets: Sequence[int]) -> bytes:
        encoder = format_.encoder()
        block = Block(records_of(TP, list(offsets), [rows[offset] for offset in offsets]))
        return encoder.encode(block) + encoder.finish()

    history = landed.history
    records = [history.record(seq) for seq in range(landed.sample.state.seq + 1)]
    objects = [
        (record.header.seq, each)
        for record in records
        if isinstance(record, Commit)
        for s in record.slices
        if s.piece in slices
        for each in s.objects
    ]
    folder, _, name = objects[0][1].upload.key.rpartition("/")
    landed.sample.body, landed.sample.extension = body, f".{name.rpartition('.')[2]}"
    again = [
        Again(TP, s.offsets.start, s.offsets.end, directory=folder.partition("/")[2])
        for s in slices
    ]
    name_of_spec = store_spec(landed.store, spec, LANE)
    backfill = Backfill(landed.sample, objects, *again, generation=2, spec=name_of_spec)
    carry_out(landed, backfill, backfill="fix")
    return backfill


def carry_out(landed: Backup, merge: Merge, **fields: object) -> None:
    """Record it, and let new objects take the place of old ones, as a driver does."""
    merge.record(**fields)
    merge.complete().keep_copies()
    for each in merge.retire:
        landed.store.delete(each.landed.upload.key)
    landed.settle()


def merge_of(
    landed: Backup,
    *,
    mixed: bool = False,
    read_through: int | None = None,
    generation: int | None = None,
) -> Merge:
    """A merge of all that is landed, or that a generation has landed, into one object."""
    format_ = output_format(landed.group.spec.output)

    class Rewritten(Merge):
        def _uploaded(self) -> NewObject:
            old = [each.landed for each in self.retire]
            sections = tuple(section for each in old for section in self._sections(each))
            own = [section for section in sections if section.partition == TP.partition]
            rows, last = sum(each.rows for each in old), own[-1].last_offset
            new = self.upload(old[0], self._body(), rows, last)
            of_tp = replace(new, first_offset=own[0].first_offset)
            return NewObject(of_tp, sections, mixed)

        def _body(self) -> bytes:
            encoder, body = format_.encoder(), b""
            for each in self.retire:
                with landed.store.open(each.landed.upload.key) as stream:
                    rows = list(format_.rows(stream))
                values = [row.value for row in rows]
                body += encoder.encode(
                    Block(records_of(TP, [row.offset or 0 for row in rows], values))
                )
            return body + encoder.finish()

    records = map(landed.history.record, range(landed.sample.state.seq + 1))
    commits = [record for record in records if isinstance(record, Commit)]
    named = [(c.header.seq, each) for c in commits for s in c.slices for each in s.objects]
    return Rewritten.of(
        landed.sample,
        [
            (slot, each)
            for slot, each in named
            if generation in {None, object_names.parse_key(each.upload.key).generation}
        ],
        read_through=read_through,
    )


def together(*merges: Merge) -> Merge:
    """The first of these merges with what the other ones do, as one REPLACE."""
    first = merges[0]
    first.retire = tuple(
        sorted((old for merge in merges for old in merge.retire), key=lambda old: old.key)
    )
    new = (new for merge in merges for new in merge.listed.objects)
    first.listed = ReplacementList(first.retire, tuple(sorted(new, key=lambda new: new.key)))
    return first
