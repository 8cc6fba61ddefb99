"""Landing slices: everything a task does.

Each slice is read, partitioned, encoded and uploaded, and is returned as a ``LandedSlice`` whose
counters add up. It is read to its end, or until it has reached ``Batch.limits``, for records may
be larger than the plan assumed: the slice returned is shorter then. A slice that fails is returned
as a ``FailedSlice`` after its uploads were aborted, and the other slices continue. No object is
completed here.

An exception other than ``LandfallError`` is a bug in Landfall, in a library or in a plug-in. If
single records cause it, they become dead letters that contain "unexpected", and the rest lands
(``landfall.task.faults``). An encoder sees records of several chunks at once: if it fails, the
slice is read once more, and each chunk is encoded by itself before it counts, so that its culprits
are found. Any other unexpected exception fails the slice as ``Retry``, so that the batch is retried
with backoff. Its message contains "unexpected" and where it was raised, and the log has its
traceback, so that it is not mistaken for an outage of the store. Neither has the exception's own
text, which may quote a payload; nor has any result: see ``landfall.task.reasons``.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from msgspec import UNSET

from landfall.api.next_steps import SEE_VALUE
from landfall.api.spec import TopicSpecs
from landfall.api.values import plural
from landfall.errors import LandfallError, Reason, Retry, SchemasAway, Stalled
from landfall.formats import Format
from landfall.ledger.names import folders, object_names
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import (
    FailedSlice,
    LandedSlice,
    LandingRules,
    ObjectKind,
    SliceResult,
)
from landfall.pipeline.records import Int64s, Records
from landfall.source import EndsEarly, Reader
from landfall.store import Uploads
from landfall.task import Batch, dead_letters
from landfall.task.dead_letters import DeadLetterEncoder
from landfall.task.destinations import Destinations
from landfall.task.faults import StageFault, is_panic, stack_of, summary_of
from landfall.task.outage import SOURCE_FAILURES, OutageDetector
from landfall.task.outputs import ObjectWriter, Outputs, OutputSizes, SealedObject, output_key
from landfall.task.part_counts import PartCounts
from landfall.task.partitioning import BadRecord, PartitionedChunk, Partitioner, Partitioners
from landfall.task.reasons import PublicReasons
from landfall.task.row_buffer import PayloadRulesBuffer, RowBuffer
from landfall.task.rows import RowLayout, payload_bytes
from landfall.task.uploading import ObjectUpload, Uploader

log = logging.getLogger(__name__)

_MAX_ERRORS = 5
"""How many bad records of a slice are described in its result."""
_MAX_ERROR_CHARACTERS = 300
MAX_CELLS = 2**20
"""Cells, rows times columns, that are decoded at once. Each takes 16 to 50 bytes for a moment, even
where a payload has no value for it.
"""
_GUESSED_COLUMNS = 512
"""Columns of the first rows of a slice, where only the payloads know their columns."""
_DEAD_LETTERS = ""
"""The key of dead letters among the output partitions, whose names are never empty."""


def land(
    batch: Batch, slices: Sequence[Slice], reader: Reader, uploads: Uploads
) -> tuple[SliceResult, ...]:
    """Land slices; returns one result per slice, in order. An error in a slice is its result."""
    return land_with(LandingDeps(Partitioners(batch.group.spec), uploads), batch, slices, reader)


@dataclass(frozen=True, slots=True)
class LandingDeps:
    """The resources of landings, from one task to the next.

    Attributes:
        partitioners: of the group's topics.
        uploads: the store.
        destinations: the claimed destinations of the group; None to claim none.
    """

    partitioners: Partitioners
    uploads: Uploads
    destinations: Destinations | None = None


def land_with(
    deps: LandingDeps, batch: Batch, slices: Sequence[Slice], reader: Reader
) -> tuple[SliceResult, ...]:
    """Do what ``land`` does with what exists already."""
    memory = MemoryBudget.of(batch, deps.uploads)
    with Uploader(deps.uploads, memory.in_flight_bytes) as uploader:
        context = _TaskContext(batch, deps, uploader, memory)
        # All slices are read before any result is awaited: the last parts of one slice are uploaded
        # while the next slice is read.
        landings = [_SliceLanding(context, slice_).read(reader) for slice_ in slices]
        return tuple(landing.result() for landing in landings)


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """How the memory of a task is divided.

    Attributes:
        buffer_bytes: for rows, encoders and encoded bytes.
        in_flight_bytes: for parts on their way to the store.
        part_bytes: the size of a part, so that at least two fit in ``in_flight_bytes`` if the store
            allows parts that small.
        least_part_bytes: the store's minimum for every part but the last.
    """

    buffer_bytes: int
    in_flight_bytes: int
    part_bytes: int
    least_part_bytes: int

    @classmethod
    def of(cls, batch: Batch, uploads: Uploads) -> "MemoryBudget":
        """Give half of the task's memory to buffers and a quarter to parts in flight.

        The rest is for memory that nothing here counts: the current chunk, and what allocators
        keep. ``tests/bench/memory.py`` measures whether it is enough.
        """
        spec = batch.group.spec
        in_flight = spec.tuning.task_memory // 4
        part = max(uploads.least_part_bytes, min(spec.output.access.part_bytes, in_flight // 2))
        buffers = spec.tuning.task_memory // 2
        return cls(buffers, in_flight, part, uploads.least_part_bytes)


def _detector() -> OutageDetector:
    return OutageDetector(SOURCE_FAILURES)


@dataclass(frozen=True, slots=True)
class _TaskContext:
    """The state that all slices of a task share.

    Attributes:
        batch: what is landed.
        deps: what outlives the task.
        uploader: takes the parts.
        memory: of the task.
        source: notices that Kafka is away.
        registries: for each entry of ``spec.topics``, notices that its schema registry is away.
    """

    batch: Batch
    deps: LandingDeps
    uploader: Uploader
    memory: MemoryBudget
    source: OutageDetector = field(default_factory=_detector)
    registries: defaultdict[int | None, OutageDetector] = field(
        default_factory=lambda: defaultdict(_detector)
    )


@dataclass
class _SliceCounts:
    visible: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    unexpected: int = 0
    input_bytes: int = 0
    errors: list[str] = field(default_factory=list)
    leader_epoch: int = -1
    epoch_offset: int = -1
    event_ms: int = -1
    kafka_ms: int = -1
    of_parts: PartCounts | None = None

    def saw(self, records: Records, chunk: PartitionedChunk) -> None:
        """Count the records of a chunk."""
        self.visible += len(records)
        if records.leader_epoch >= 0:
            self.leader_epoch = records.leader_epoch
            self.epoch_offset = int(records.offsets[-1])
        self.filtered += chunk.filtered
        if self.of_parts is not None:
            self.of_parts.add(records, chunk)
        self.input_bytes += payload_bytes(records.values)
        now_ms = time.time_ns() // 1_000_000
        self.kafka_ms = max(self.kafka_ms, _latest(records.timestamps, now_ms))
        if chunk.times_ms is not None:
            self.event_ms = max(self.event_ms, _latest(chunk.times_ms, now_ms))


def _latest(times_ms: Int64s, now_ms: int) -> int:
    """Return the latest time that is not in the future; -1 if there is none."""
    return int(times_ms.max(initial=-1, where=times_ms <= now_ms))


class _SliceLanding:
    """Lands one slice."""

    def __init__(self, context: _TaskContext, slice_: Slice) -> None:
        self._context = context
        self._group = context.batch.group
        self._slice = slice_
        self._policy = self._group.spec.bad_records.for_topic(slice_.topic_partition.topic).policy
        self._uploads: list[ObjectUpload] = []
        self._counts = self._new_counts()
        self._backup = next((b for s, b in context.batch.from_backup if s == slice_), None)
        self._schemas: set[str] = set()
        self._encodes_chunks_first = False
        self._sealed: list[SealedObject] = []
        self._failed: FailedSlice | None = None
        self._cpu_seconds = self._seconds = 0.0
        self._own_columns = _GUESSED_COLUMNS

    def read(self, reader: Reader) -> "_SliceLanding":
        """Read the slice to its end and send its parts; an error is kept for ``result``."""
        cpu_before, before = time.process_time(), time.monotonic()
        entry = self._context.deps.partitioners.entry_of(self._slice.topic_partition.topic)
        registry = self._context.registries[entry]
        try:
            self._context.source.check(str(self._slice))
            registry.check(str(self._slice))
            self._sealed = self._land_all(reader)
            self._cpu_seconds, self._seconds = (
                time.process_time() - cpu_before,
                time.monotonic() - before,
            )
        except BaseException as error:
            # No error in one slice may fail the other slices, and a panic of a library is no
            # Exception.
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            if isinstance(error, SchemasAway):
                # Other slices of the entry would wait for the registry, too, each for its
                # time-outs. Slices of other entries may need none, or another one.
                registry.failed(error)
            self._fail(error)
        return self

    def result(self) -> SliceResult:
        """Wait until all parts are uploaded, and return the result of the slice."""
        if self._failed is None:
            try:
                return self._landed()
            except Exception as error:  # noqa: BLE001  # as above
                return self._fail(error)
        return self._failed

    @property
    def _is_feed(self) -> bool:
        topic = self._slice.topic_partition.topic
        return any(feed.topic == topic for feed in self._group.spec.source.files)

    def _new_counts(self) -> _SliceCounts:
        return _SliceCounts(of_parts=PartCounts() if self._is_feed else None)

    def _land_all(self, reader: Reader) -> list[SealedObject]:
        """Land all chunks, a second time if an encoder fails: see the module's description."""
        planned = self._slice
        try:
            return self._land(self._chunks(reader))
        except StageFault as fault:
            log.warning(
                "slice read again: something cannot be encoded",
                extra={"slice": str(planned), "error": fault.summary},
            )
        self._context.uploader.abort(self._uploads)
        self._slice = planned
        self._uploads = []
        self._counts, self._schemas = self._new_counts(), set()
        self._encodes_chunks_first = True
        try:
            return self._land(self._chunks(reader))
        except StageFault as fault:
            raise fault.error from None

    def _chunks(self, reader: Reader) -> Iterator[Records]:
        """The chunks of the slice; only an error of reading them counts against the source."""
        try:
            for chunk in reader.read(self._slice):
                yield from self._cut(chunk)
        except EndsEarly as early:
            self._end_at(early.offset)
        except Exception as error:
            self._context.source.failed(error)
            raise

    def _cut(self, chunk: Records) -> Iterator[Records]:
        """The chunk in parts that have no more than ``MAX_CELLS`` cells, or a single row."""
        start = 0
        while start < len(chunk):
            columns = self._partitioner.columns
            cells_of_row = self._own_columns if columns is None else columns
            count = max(1, MAX_CELLS // max(1, cells_of_row))
            if self._has_payload_rules or (start == 0 and count >= len(chunk)):
                yield chunk
                return
            part = chunk.take(np.arange(start, min(start + count, len(chunk))))
            start += len(part)
            # The epoch of the chunk's last record.
            yield replace(part, leader_epoch=chunk.leader_epoch) if start == len(chunk) else part

    @property
    def _has_payload_rules(self) -> bool:
        return self._context.batch.rules is LandingRules.PAYLOADS

    @cached_property
    def _partitioner(self) -> Partitioner:
        """The stages of the slice's topic; what is wrong with them is the slice's error."""
        topic = self._slice.topic_partition.topic
        partitioner = self._context.deps.partitioners.for_topic(topic)
        layout = self._by_rules(partitioner.layout)
        return partitioner if layout == partitioner.layout else replace(partitioner, layout=layout)

    def _by_rules(self, layout: RowLayout) -> RowLayout:
        """Return a layout as it was by the landing rules of the batch."""
        return replace(
            layout,
            payloads=layout.payloads or self._has_payload_rules,
            weighs_all=self._context.batch.rules >= LandingRules.WHOLE_ROWS,
        )

    @cached_property
    def _reasons(self) -> PublicReasons:
        """The public reasons for bad records of the slice's topic."""
        specs = TopicSpecs.of(self._group.spec)
        return PublicReasons.of(specs.for_topic(self._slice.topic_partition.topic))

    def _land(self, chunks: Iterator[Records]) -> list[SealedObject]:
        """Read, partition and encode all chunks; parts may still be in flight afterwards."""
        budget, limits = self._context.memory.buffer_bytes, self._context.batch.limits
        buffer = PayloadRulesBuffer() if self._has_payload_rules else RowBuffer()
        outputs = Outputs(budget, self._slice.offsets.start, self._open, buffer)
        stored = self._partitioner.stored  # what is wrong with the spec shows before any reading
        for chunk_records in chunks:
            records, chunk = self._partition(chunk_records, outputs)
            if stored is not None:
                # Before the result names them.
                self._schemas |= {stored.keep(used) for used in chunk.used}
            if chunk.bad:
                self._account_for(chunk.bad, records)
                rows = dead_letters.dead_letter_rows(
                    records, chunk.bad, self._by_rules(dead_letters.LAYOUT)
                )
                outputs.add(_DEAD_LETTERS, rows)
            for partition, rows, schema in chunk.objects():
                outputs.add(partition, rows, schema)
            self._own_columns = chunk.columns or self._own_columns
            outputs.free_memory()
            self._counts.saw(records, chunk)
            is_enough = limits is not None and self._counts.input_bytes >= limits.input_bytes
            if is_enough or len(records) < len(chunk_records):
                self._end_at(int(records.offsets[-1]) + 1)
                break
        return outputs.seal()

    def _partition(self, records: Records, outputs: Outputs) -> tuple[Records, PartitionedChunk]:
        """The rows of a chunk, or of as much of it as makes no more objects than a slice may.

        Rows whose destination belongs to another group are bad records.
        """
        limits = self._context.batch.limits
        chunk = self._partition_all(records)
        while limits is not None and len(records) > 1:
            wanted = outputs.count_with(
                output_key(partition, schema) for partition, _, schema in chunk.objects()
            )
            if wanted <= limits.objects:
                break
            records = records.take(np.arange(len(records) // 2))
            chunk = self._partition_all(records)
        destinations = self._context.deps.destinations
        return records, destinations.refuse(chunk, records) if destinations else chunk

    def _partition_all(self, records: Records) -> PartitionedChunk:
        chunk = self._partitioner.partition(records)
        if self._encodes_chunks_first:
            culprits = self._partitioner.encoding_culprits(records, chunk)
            if culprits:
                return self._partitioner.without(records, culprits)
        return chunk

    def _end_at(self, end: int) -> None:
        """Return a shorter slice than was planned; what it leaves is planned again."""
        tp, offsets = self._slice.topic_partition, self._slice.offsets
        self._slice = Slice(tp, OffsetRange(offsets.start, min(end, offsets.end)))

    def _account_for(self, bad: Sequence[BadRecord], records: Records) -> None:
        """Count bad records; with the policy ``Fail`` they stall the topic partition instead."""
        permitted = self._context.batch.permitted.get(self._slice.topic_partition, -1)
        if self._policy == "Fail":
            refused = [b for b in bad if records.offsets[b.row] >= permitted]
            if refused:
                raise Stalled(
                    Reason.BAD_RECORDS,
                    f"{self._slice.topic_partition}: {plural(len(refused), 'bad record')}, "
                    f"the first at {_describe(refused[0], records, self._reasons)}; {SEE_VALUE}",
                )
        errors = [_describe(b, records, self._reasons) for b in bad[:_MAX_ERRORS]]
        self._counts.dead_lettered += len(bad)
        self._counts.unexpected += sum(b.is_unexpected for b in bad)
        self._counts.errors += errors[: _MAX_ERRORS - len(self._counts.errors)]

    def _open(self, partition: str, start: int) -> ObjectWriter:
        return (
            self._open_dead_letters(start)
            if partition == _DEAD_LETTERS
            else self._open_data(partition, start)
        )

    def _open_data(self, partition: str, start: int) -> ObjectWriter:
        tp, partitioner = self._slice.topic_partition, self._partitioner
        format_ = self._format
        destination, output_partition = folders.directories(partition)
        key = object_names.ObjectName(
            topic=tp.topic,
            output_partition=output_partition,
            generation=self._group.spec.generation,
            partition=tp.partition,
            start=start,
            extension=format_.extension,
            destination=destination,
        ).key
        return ObjectWriter(
            tp=tp,
            kind=ObjectKind.DATA,
            layout=partitioner.layout,
            encoder=format_.encoder(),
            upload=self._upload(key),
            sizes=replace(
                self._sizes(format_.block_bytes),
                large_row_bytes=getattr(format_, "large_row_bytes", None),
            ),
        )

    @cached_property
    def _format(self) -> Format:
        """The format, as it was by the landing rules of the batch."""
        now = self._partitioner.stages.format
        before: Callable[[], Format] | None = getattr(now, "before_large_rows", None)
        is_now = self._context.batch.rules >= LandingRules.LARGE_ROWS
        return now if is_now or before is None else before()

    def _open_dead_letters(self, start: int) -> ObjectWriter:
        tp = self._slice.topic_partition
        key = object_names.dead_letter_key(
            group=self._group.metadata.name,
            topic=tp.topic,
            generation=self._group.spec.generation,
            partition=tp.partition,
            start=start,
            place=self._context.batch.new_letters_place,
        )
        return ObjectWriter(
            tp=tp,
            kind=ObjectKind.DEAD_LETTERS,
            layout=self._by_rules(dead_letters.LAYOUT),
            encoder=DeadLetterEncoder(),
            upload=self._upload(key),
            sizes=self._sizes(dead_letters.BLOCK_BYTES),
        )

    def _upload(self, key: str) -> ObjectUpload:
        upload = ObjectUpload(self._context.uploader, key, self._context.batch.token)
        self._uploads.append(upload)
        return upload

    def _sizes(self, block_bytes: int) -> OutputSizes:
        memory, rotate = self._context.memory, self._partitioner.rotate
        return OutputSizes(
            block_bytes=block_bytes,
            part_bytes=memory.part_bytes,
            least_part_bytes=memory.least_part_bytes,
            object_bytes=rotate.max_object_bytes,
            object_rows=rotate.max_records,
        )

    def _landed(self) -> LandedSlice:
        before = time.monotonic()
        objects = tuple(
            sorted((sealed.landed() for sealed in self._sealed), key=lambda o: o.upload.key)
        )
        counts = self._counts
        landed = sum(o.rows for o in objects if o.kind is ObjectKind.DATA)
        return LandedSlice(
            piece=self._slice,  # the field is called so in the ledger
            objects=objects,
            landed=landed,
            filtered=counts.filtered,
            dead_lettered=counts.dead_lettered,
            invisible=len(self._slice.offsets) - counts.visible,
            input_bytes=counts.input_bytes,
            errors=tuple(counts.errors),
            leader_epoch=counts.leader_epoch,
            epoch_offset=counts.epoch_offset,
            cpu_seconds=round(self._cpu_seconds, 3),
            seconds=round(self._seconds + time.monotonic() - before, 3),
            schemas=tuple(sorted(self._schemas)),
            latest_ms=counts.event_ms if landed else counts.kafka_ms,
            read_from=self._backup.group if self._backup else UNSET,
            unexpected=counts.unexpected or UNSET,
            rules=UNSET if self._has_payload_rules else int(self._context.batch.rules),
            parts=UNSET if counts.of_parts is None else counts.of_parts.parts(),
        )

    def _fail(self, error: BaseException) -> FailedSlice:
        self._failed = FailedSlice(self._slice, _as_landfall_error(error, self._slice))
        self._context.uploader.abort(self._uploads)
        return self._failed


def _describe(bad: BadRecord, records: Records, reasons: PublicReasons) -> str:
    text = f"offset {records.offsets[bad.row]}: {reasons.reason(bad)}"
    return text[:_MAX_ERROR_CHARACTERS]


def _as_landfall_error(error: BaseException, slice_: Slice) -> LandfallError:
    """Log the error, and return it in a form that determines what to do about it."""
    if isinstance(error, LandfallError):
        # The driver logs it, too, and an executor has no formatter that would print the fields.
        log.info("slice failed", extra={"slice": str(slice_), "error": str(error)})
        return error
    log.error(
        "slice failed unexpectedly", extra={"slice": str(slice_), "traceback": stack_of(error)}
    )
    return Retry(f"{slice_}: {summary_of(error)}")
