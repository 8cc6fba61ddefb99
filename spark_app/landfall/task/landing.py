"""Landing slices: what a task does, and all it does.

Each slice is read to its end, sorted, encoded and uploaded, and comes back as a ``LandedSlice``
whose counters add up; or as a ``FailedSlice`` after its uploads were given up, while the others go
on. No object is completed here.

An error nobody raised on purpose is a fault of ours or of a plug-in. It fails its slice as
``Retry``, which says "unexpected" with the place it came from, and is logged with its traceback:
counted and shown like any failure, it must not pass for a busy store.
"""

import logging
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.formats import Encoder
from landfall.ledger import object_names
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import FailedSlice, LandedSlice, ObjectKind, SliceResult
from landfall.pipeline.records import Records
from landfall.source import Reader
from landfall.store import Uploads
from landfall.task import Batch, dead_letters
from landfall.task.dead_letters import DeadLetterEncoder
from landfall.task.outputs import ObjectWriter, Outputs, SealedObject, Sizes
from landfall.task.partitioning import BadRecord, Sorter
from landfall.task.rows import Layout, payload_bytes
from landfall.task.uploading import ObjectUpload, Uploader

log = logging.getLogger(__name__)

_TOLD_ERRORS = 5
_ERROR_CHARACTERS = 300
_DEAD_LETTERS = ""
"""Where dead letters are among the outputs: no output partition has an empty name."""


def land(
    batch: Batch, pieces: Sequence[Slice], reader: Reader, uploads: Uploads
) -> tuple[SliceResult, ...]:
    """A result for each slice, in order; never raises for what a slice met."""
    return land_sorted(batch, pieces, reader, uploads, Sorter.of(batch.group.spec))


def land_sorted(
    batch: Batch, pieces: Sequence[Slice], reader: Reader, uploads: Uploads, sorter: Sorter
) -> tuple[SliceResult, ...]:
    """The same with a sorter that was made before."""
    memory = MemoryBudget.of(batch, uploads)
    with Uploader(uploads, memory.in_flight_bytes) as uploader:
        # the last parts of a slice go up while the next one is read
        begun = [_Landing(batch, piece, sorter, uploader, memory).read(reader) for piece in pieces]
        return tuple(landing.result() for landing in begun)


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """How a task's memory is shared out.

    Attributes:
        buffer_bytes: for rows, encoders and encoded bytes.
        in_flight_bytes: for parts under way to the store.
        part_bytes: the size of a part, so that some of them fit.
        least_part_bytes: the store's.
    """

    buffer_bytes: int
    in_flight_bytes: int
    part_bytes: int
    least_part_bytes: int

    @classmethod
    def of(cls, batch: Batch, uploads: Uploads) -> "MemoryBudget":
        """Half of the task's memory for buffers, a quarter for parts under way: the rest is found where nobody counts.

        That is the chunk at hand and what allocators keep; ``tests/bench/memory.py`` measures
        whether it is enough.
        """
        spec = batch.group.spec
        in_flight = spec.tuning.task_memory // 4
        part = max(uploads.least_part_bytes, min(spec.output.s3.part_bytes, in_flight // 2))
        buffers = spec.tuning.task_memory // 2
        return cls(buffers, in_flight, part, uploads.least_part_bytes)


@dataclass
class _Counts:
    visible: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    input_bytes: int = 0
    errors: list[str] = field(default_factory=list)


class _Landing:
    """One slice on its way."""

    def __init__(
        self, batch: Batch, piece: Slice, sorter: Sorter, uploader: Uploader, memory: MemoryBudget
    ) -> None:
        self._batch, self._piece, self._sorter, self._uploader, self._memory = (
            batch,
            piece,
            sorter,
            uploader,
            memory,
        )
        self._uploads: list[ObjectUpload] = []
        self._counts = _Counts()
        self._sealed: list[SealedObject] = []
        self._failed: FailedSlice | None = None
        self._cpu_seconds = self._seconds = 0.0

    def read(self, reader: Reader) -> "_Landing":
        """Read the slice to its end, or fail."""
        cpu_before, before = time.process_time(), time.monotonic()
        try:
            self._sealed = self._land(reader.read(self._piece))
            self._cpu_seconds, self._seconds = (
                time.process_time() - cpu_before,
                time.monotonic() - before,
            )
        except Exception as error:  # noqa: BLE001  # one slice of many: whatever it met, the others go on
            self._fail(error)
        return self

    def result(self) -> SliceResult:
        """Wait for its parts."""
        if self._failed is None:
            try:
                return self._landed()
            except Exception as error:  # noqa: BLE001  # as above
                return self._fail(error)
        return self._failed

    def _land(self, chunks: Iterator[Records]) -> list[SealedObject]:
        outputs = Outputs(self._memory.buffer_bytes, self._piece.offsets.start, self._begin)
        for records in chunks:
            found = self._sorter.sort(records)
            if found.bad:
                self._note(found.bad, records)
                outputs.add(_DEAD_LETTERS, dead_letters.letters(records, found.bad))
            for partition, rows in found.outputs:
                outputs.add(partition, rows)
            outputs.free_memory(next_offset=int(records.offsets[-1]) + 1)
            self._counts.visible += len(records)
            self._counts.filtered += found.filtered
            self._counts.input_bytes += payload_bytes(records.values)
        return outputs.seal()

    def _note(self, bad: Sequence[BadRecord], records: Records) -> None:
        told = [
            f"offset {records.offsets[b.row]}: {b.stage}: {b.error}"[:_ERROR_CHARACTERS]
            for b in bad[:_TOLD_ERRORS]
        ]
        if self._batch.group.spec.bad_records.policy == "Fail":
            raise Stalled(
                Reason.BAD_RECORDS,
                f"{self._piece.topic_partition}: {len(bad)} bad records, {told[0]}",
            )
        self._counts.dead_lettered += len(bad)
        self._counts.errors += told[: _TOLD_ERRORS - len(self._counts.errors)]

    def _begin(self, partition: str, start: int) -> ObjectWriter:
        return (
            self._begin_dead_letters(start)
            if partition == _DEAD_LETTERS
            else self._begin_data(partition, start)
        )

    def _begin_data(self, partition: str, start: int) -> ObjectWriter:
        tp, output = self._piece.topic_partition, self._sorter.stages.format
        generation = self._batch.group.spec.generation
        key = object_names.object_key(
            tp.topic, partition, generation, tp.partition, start, output.extension
        )
        return self._open(
            ObjectKind.DATA, key, self._sorter.layout, output.encoder(), output.block_bytes
        )

    def _begin_dead_letters(self, start: int) -> ObjectWriter:
        tp, group = self._piece.topic_partition, self._batch.group
        key = object_names.dead_letter_key(
            group.metadata.name, tp.topic, group.spec.generation, tp.partition, start
        )
        letters = DeadLetterEncoder()
        return self._open(
            ObjectKind.DEAD_LETTERS, key, dead_letters.LAYOUT, letters, dead_letters.BLOCK_BYTES
        )

    def _open(
        self, kind: ObjectKind, key: str, columns: Layout, encoder: Encoder, block_bytes: int
    ) -> ObjectWriter:
        upload = ObjectUpload(self._uploader, key, self._batch.token)
        self._uploads.append(upload)
        sizes = Sizes(block_bytes, self._memory.part_bytes, self._memory.least_part_bytes)
        return ObjectWriter(self._piece.topic_partition, kind, columns, encoder, upload, sizes)

    def _landed(self) -> LandedSlice:
        before = time.monotonic()
        objects = tuple(
            sorted((sealed.landed() for sealed in self._sealed), key=lambda o: o.upload.key)
        )
        counts = self._counts
        return LandedSlice(
            piece=self._piece,
            objects=objects,
            landed=sum(landed.rows for landed in objects if landed.kind is ObjectKind.DATA),
            filtered=counts.filtered,
            dead_lettered=counts.dead_lettered,
            invisible=len(self._piece.offsets) - counts.visible,
            input_bytes=counts.input_bytes,
            errors=tuple(counts.errors),
            cpu_seconds=round(self._cpu_seconds, 3),
            seconds=round(self._seconds + time.monotonic() - before, 3),
        )

    def _fail(self, error: Exception) -> FailedSlice:
        self._failed = FailedSlice(self._piece, _told(error, self._piece))
        self._uploader.abort(self._uploads)
        return self._failed


def _told(error: Exception, piece: Slice) -> LandfallError:
    if isinstance(error, LandfallError):
        log.warning("slice failed", extra={"slice": str(piece), "error": str(error)})
        return error
    log.error("slice failed unexpectedly", extra={"slice": str(piece)}, exc_info=error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return Retry(
        f"{piece}: unexpected {type(error).__name__} at {place.filename}:{place.lineno}: {error}"
    )
