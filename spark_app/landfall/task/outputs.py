"""The objects that a slice is writing, each with a buffer, an encoder and an upload.

Rows are buffered until they make a block of the format, and encoded bytes until they make a part.
The memory that all objects hold is checked after each chunk. If it exceeds the budget, memory is
freed, beginning with the largest object, until half of the budget is free. First, rows are encoded
in shorter blocks. If that is not enough, encoded bytes are sent as shorter parts. Where a part
would be too short for the store, the object is sealed. An object is sealed, too, when it has as
many records, bytes or parts as an object may have. Later rows of that output partition begin
another object of the slice, named by its first offset, which is above every offset in the object
before.

Where rows have schemas of their own, an output partition has an open object for each schema, and
their offsets interleave. The one with the partition's first row is named by the start of the slice,
every other by its own first offset. No two can have the same name, for no row is in two objects.

Where blocks, parts and objects end depends on the data alone, never on the clock or on the progress
of an upload, so the same slice gives the same bytes on every attempt.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from isal import isal_zlib

from landfall.formats import Encoder
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.task.faults import stage
from landfall.task.row_buffer import BufferedRows, RowBuffer
from landfall.task.rows import ChosenRows, RowLayout
from landfall.task.uploading import ObjectUpload

MAX_PARTS = 9_000
"""Parts after which an object is sealed: a store takes 10,000, and the rows of a single chunk make
fewer than a thousand.
"""


@dataclass(frozen=True, slots=True)
class OutputSizes:
    """Where blocks, parts and objects end.

    Attributes:
        block_bytes: the weight of rows that makes a block.
        part_bytes: the encoded bytes that make a part.
        least_part_bytes: the store's minimum for every part but the last.
        object_bytes: the encoded bytes that make an object; None for no limit.
        object_rows: the rows that make an object; None for no limit.
        large_row_bytes: the weight from which a row is large; None if none is. The first large row
            begins another object, which takes all rows after it.
    """

    block_bytes: int
    part_bytes: int
    least_part_bytes: int
    object_bytes: int | None = None
    object_rows: int | None = None
    large_row_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SealedObject:
    """An object to which nothing more is written; its parts may still be in flight."""

    upload: ObjectUpload
    kind: ObjectKind
    rows: int
    first_offset: int
    last_offset: int
    crc32: int

    def landed(self) -> LandedObject:
        """Wait until all parts are uploaded, and return the object.

        Raises:
            LandfallError: a part could not be uploaded.
        """
        return LandedObject(
            upload=self.upload.result(),
            kind=self.kind,
            rows=self.rows,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            crc32=self.crc32,
        )


@dataclass
class ObjectWriter:
    """Writes one object.

    Attributes:
        tp: the topic partition of the slice.
        kind: data or dead letters.
        layout: the columns of the rows.
        encoder: encodes the rows in the format.
        upload: takes the encoded bytes.
        sizes: where blocks and parts end.
        buffer: keeps rows until they make a block; the objects of a slice share it.
        rows: how many rows were added.
        first_offset: the offset of the first row; -1 before it.
        last_offset: the offset of the last row; -1 before it.
        crc32: the checksum of the bytes encoded so far.
    """

    tp: TopicPartition
    kind: ObjectKind
    layout: RowLayout
    encoder: Encoder
    upload: ObjectUpload
    sizes: OutputSizes
    buffer: RowBuffer = field(default_factory=RowBuffer)
    rows: int = 0
    first_offset: int = -1
    last_offset: int = -1
    crc32: int = 0
    _takes_large_rows: bool = False
    _buffered: list[BufferedRows] = field(default_factory=list)
    _buffered_weight: int = 0
    _encoded: deque[bytes] = field(default_factory=deque)
    _encoded_bytes: int = 0
    _total_bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Return whether later rows belong to another object."""
        sizes = self.sizes
        return (
            (sizes.object_rows is not None and self.rows >= sizes.object_rows)
            or (sizes.object_bytes is not None and self._total_bytes >= sizes.object_bytes)
            or self.upload.parts >= MAX_PARTS
        )

    def room_for(self, rows: ChosenRows) -> int:
        """How many of these rows, from the first on, the object takes; 0 only if it has rows."""
        limit = self.sizes.object_rows
        count = len(rows) if limit is None else min(limit - self.rows, len(rows))
        large = self.sizes.large_row_bytes
        if large is None or self._takes_large_rows or rows.weights[-1] < large:
            return count
        is_large = np.diff(rows.weights, prepend=0) >= large
        first = int(np.argmax(is_large))
        begins_with_it = not first and not self.rows
        return count if begins_with_it or not is_large.any() else min(first, count)

    @property
    def held_bytes(self) -> int:
        """The memory of buffered rows, the encoder and encoded bytes."""
        return sum(run.bytes for run in self._buffered) + self.unbuffered_bytes

    @property
    def unbuffered_bytes(self) -> int:
        """The memory of the encoder and encoded bytes."""
        return self.encoder.held_bytes + self._encoded_bytes

    def add(self, rows: ChosenRows) -> None:
        """Add rows, at least one, whose offsets are above the offsets of all rows before."""
        offsets = rows.offsets
        if not self.rows:
            self.first_offset = int(offsets[0])
            large = self.sizes.large_row_bytes
            self._takes_large_rows = large is not None and bool(rows.weights[0] >= large)
        self.last_offset = int(offsets[-1])
        self.rows += len(rows)
        if self._buffered_weight + rows.weights[-1] < self.sizes.block_bytes:
            self._keep([rows])
        else:
            self._encode_blocks([*self._take_buffered(), rows])

    def flush_rows(self) -> None:
        """Encode the buffered rows as one block, even a short one."""
        if self._buffered:
            self._encode(self._take_buffered())

    def flush_part(self) -> None:
        """Send the encoded bytes as one part, unless the store refuses parts that short."""
        if self._encoded_bytes >= self.sizes.least_part_bytes:
            self._send(self._encoded_bytes)

    def seal(self) -> SealedObject:
        """Encode the end of the object and send everything that remains."""
        self.flush_rows()
        with stage("encode"):
            end = self.encoder.finish()
        self._append(end)
        # An object of 0 bytes has one empty part, because an upload without parts
        # cannot be completed.
        if self._encoded_bytes or not self.upload.parts:
            self._send(self._encoded_bytes)
        return SealedObject(
            upload=self.upload,
            kind=self.kind,
            rows=self.rows,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            crc32=self.crc32,
        )

    def _keep(self, parts: Sequence[ChosenRows], *, is_rest: bool = False) -> None:
        runs = self.buffer.keep(parts, is_rest=is_rest)
        self._buffered += runs
        self._buffered_weight += sum(run.weight for run in runs)

    def _take_buffered(self) -> list[ChosenRows]:
        runs = self._buffered
        self._buffered = []
        self._buffered_weight = 0
        return self.buffer.take(runs)

    def _encode_blocks(self, unencoded: Sequence[ChosenRows]) -> None:
        """Encode as many full blocks as there are, and buffer the rest."""
        # Nearly every block is of one chunk, whose rows are not copied before.
        parts: list[ChosenRows] = []
        missing = self.sizes.block_bytes
        for rows in unencoded:
            weights = rows.weights
            start = 0
            before = 0
            while (end := int(np.searchsorted(weights, before + missing)) + 1) <= len(rows):
                self._encode([*parts, rows.part(start, end)])
                parts, missing = [], self.sizes.block_bytes
                start, before = end, int(weights[end - 1])
            if start < len(rows):
                parts.append(rows.part(start, len(rows)))
                missing -= int(weights[-1]) - before
        if parts:
            self._keep(parts, is_rest=True)

    def _encode(self, rows: Sequence[ChosenRows]) -> None:
        with stage("encode"):
            encoded = self.encoder.encode(self.layout.chosen_block(self.tp, rows))
        self._append(encoded)

    def _append(self, encoded: bytes) -> None:
        self.crc32 = isal_zlib.crc32(encoded, self.crc32)
        self._encoded.append(encoded)
        self._encoded_bytes += len(encoded)
        self._total_bytes += len(encoded)
        while self._encoded_bytes >= self.sizes.part_bytes:
            self._send(self.sizes.part_bytes)

    def _send(self, size: int) -> None:
        body: list[memoryview] = []
        while size:
            encoded = self._encoded.popleft()
            if len(encoded) > size:
                self._encoded.appendleft(encoded[size:])
            body.append(memoryview(encoded)[:size])
            size -= len(body[-1])
            self._encoded_bytes -= len(body[-1])
        self.upload.send(b"".join(body))


OutputKey: TypeAlias = tuple[str, str]
"""An output partition, and the digest of the schema that its rows have; empty without one."""


def output_key(partition: str, schema: RowSchema | None) -> OutputKey:
    """Return what distinguishes the open objects of a slice."""
    return partition, "" if schema is None else schema.digest


class Outputs:
    """The open objects of a slice, one per output partition and schema, within a memory budget."""

    def __init__(
        self,
        budget_bytes: int,
        start: int,
        begin: Callable[[str, int], ObjectWriter],
        buffer: RowBuffer | None = None,
    ) -> None:
        """Begin with no object.

        Args:
            budget_bytes: how much memory all objects may hold.
            start: the offset that names the first object of each output partition; every other
                is named by its first row.
            begin: opens an object, given the output partition and the offset that names it.
            buffer: keeps the rows of all objects; None for one by the current rules.
        """
        self._budget = budget_bytes
        self._start = start
        self._begun: set[str] = set()
        self._begin = begin
        self._buffer = RowBuffer() if buffer is None else buffer
        self._open: dict[OutputKey, ObjectWriter] = {}
        self._sealed: list[SealedObject] = []

    @property
    def held_bytes(self) -> int:
        """The memory of all open objects."""
        writers = self._open.values()
        return self._buffer.held_bytes + sum(writer.unbuffered_bytes for writer in writers)

    def add(self, partition: str, rows: ChosenRows, schema: RowSchema | None = None) -> None:
        """Add rows to an output partition, in as many objects as they need.

        Args:
            partition: the output partition.
            rows: at least one; the first row of an output partition must come before any other.
            schema: the schema of the rows, if they have one of their own.
        """
        key = output_key(partition, schema)
        while True:
            writer = self._open.get(key) or self._begin_object(key, rows, schema)
            room = writer.room_for(rows)
            if room == len(rows):
                writer.add(rows)
                if writer.is_full:
                    self._seal(key)
                return
            numbered = rows.numbered()
            if room:
                writer.add(numbered.part(0, room))
            self._seal(key)
            rows = numbered.part(room, len(rows))

    def count_with(self, keys: Iterable[OutputKey]) -> int:
        """How many objects the slice has with one in each of these outputs, at least."""
        return len(self._sealed) + len(self._open.keys() | set(keys))

    def _begin_object(
        self, key: OutputKey, rows: ChosenRows, schema: RowSchema | None
    ) -> ObjectWriter:
        partition, _ = key
        is_first = partition not in self._begun
        self._begun.add(partition)
        start = self._start if is_first else int(rows.offsets[0])
        self._open[key] = writer = self._begin(partition, start)
        writer.layout = replace(writer.layout, schema=schema)
        writer.buffer = self._buffer
        return writer

    def free_memory(self) -> None:
        """Let go of the chunk whose rows were added, and of memory if the budget is exceeded.

        Memory is freed until half of the budget is free, the largest objects first.
        """
        self._buffer.settle()
        if self.held_bytes <= self._budget:
            return
        self._buffer.compact()
        held = self.held_bytes
        # From the cheapest means to the dearest: short blocks compress less, short parts are more
        # requests, and a sealed object is one more object for readers.
        for step in (self._flush_rows, self._flush_part, self._seal):
            # Sorting is stable and objects are in the order in which they were opened, so that even
            # between objects of one size the data alone decides.
            for key in sorted(self._open, key=lambda k: self._open[k].held_bytes, reverse=True):
                if held <= self._budget // 2:
                    self._buffer.compact()
                    return
                # What objects hold adds up to what is held once the buffer is compact again.
                held -= self._open[key].held_bytes
                step(key)
                if key in self._open:
                    held += self._open[key].held_bytes
        self._buffer.compact()

    def seal(self) -> list[SealedObject]:
        """Seal all open objects; returns all objects of the slice."""
        for key in list(self._open):
            self._seal(key)
        return self._sealed

    def _flush_rows(self, key: OutputKey) -> None:
        self._open[key].flush_rows()

    def _flush_part(self, key: OutputKey) -> None:
        self._open[key].flush_part()

    def _seal(self, key: OutputKey) -> None:
        self._sealed.append(self._open.pop(key).seal())
