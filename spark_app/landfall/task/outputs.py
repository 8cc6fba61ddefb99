"""The objects a slice is writing: a buffer, an encoder and an upload for each output partition.

Rows gather until they make a block of the format, encoded bytes until they make a part. What all of
it holds is looked at after each chunk; over the budget, the largest are relieved until half of it
is free: rows are encoded in a shorter block, bytes are sent as a shorter part, and where a part
would be too short for the store the object is closed. Later rows of that output partition begin
another object of the slice, named by the first offset after the chunk, which is above everything in
the object before.

Blocks, parts and objects are cut by the data alone, never by the clock or by how far an upload is:
the same slice gives the same bytes on every attempt.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from landfall.formats import Encoder
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.task.rows import Layout, weights
from landfall.task.uploading import ObjectUpload

_PIECE_BYTES = 2048
"""What a few rows cost beside their bytes: buffers are rounded up, and there are Python objects
around them.
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Where to cut.

    Attributes:
        block_bytes: payload that makes a block.
        part_bytes: encoded bytes that make a part.
        least_part_bytes: a part that is not the last must not be shorter.
    """

    block_bytes: int
    part_bytes: int
    least_part_bytes: int


@dataclass(frozen=True, slots=True)
class SealedObject:
    """An object of which nothing more comes, its parts perhaps still under way."""

    upload: ObjectUpload
    kind: ObjectKind
    rows: int
    first_offset: int
    last_offset: int
    crc32: int

    def landed(self) -> LandedObject:
        """The object with all its parts uploaded.

        Raises:
            LandfallError: a part could not be.
        """
        return LandedObject(
            self.upload.result(),
            self.kind,
            self.rows,
            self.first_offset,
            self.last_offset,
            self.crc32,
        )


@dataclass
class ObjectWriter:
    """An object being written."""

    tp: TopicPartition
    kind: ObjectKind
    layout: Layout
    encoder: Encoder
    upload: ObjectUpload
    sizes: Sizes
    rows: int = 0
    first_offset: int = -1
    last_offset: int = -1
    crc32: int = 0
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _waiting_weight: int = 0
    _waiting_bytes: int = 0
    _encoded: list[bytes] = field(default_factory=list)
    _encoded_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """Memory it holds: rows, the encoder, encoded bytes."""
        return self._waiting_bytes + self.encoder.held_bytes + self._encoded_bytes

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows, at least one, all above those taken before."""
        offsets = rows.column("offset")
        if not self.rows:
            self.first_offset = offsets[0].as_py()
        self.last_offset = offsets[-1].as_py()
        self.rows += len(rows)
        self._wait(rows)
        if self._waiting_weight >= self.sizes.block_bytes:
            self._encode_blocks()

    def flush(self) -> None:
        """Encode the rows that wait, as a block of its own."""
        if self._waiting:
            self._encode(self._gathered())

    def flush_part(self) -> None:
        """Send the encoded bytes, if the store takes so short a part."""
        if self._encoded_bytes >= self.sizes.least_part_bytes:
            self._send(self._encoded_bytes)

    def seal(self) -> SealedObject:
        """Write the object's end and send the rest."""
        self.flush()
        self._take(self.encoder.finish())
        if self._encoded_bytes or not self.upload.begun:
            self._send(self._encoded_bytes)
        return SealedObject(
            self.upload, self.kind, self.rows, self.first_offset, self.last_offset, self.crc32
        )

    def _wait(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_weight += int(weights(rows)[-1])
        self._waiting_bytes += rows.nbytes + _PIECE_BYTES

    def _gathered(self) -> pa.RecordBatch:
        rows = self._waiting[0] if len(self._waiting) == 1 else pa.concat_batches(self._waiting)
        self._waiting, self._waiting_weight, self._waiting_bytes = [], 0, 0
        return rows

    def _encode_blocks(self) -> None:
        rows = self._gathered()
        cumulated, start = weights(rows), 0
        while start < len(rows):
            before = cumulated[start - 1] if start else 0
            end = int(np.searchsorted(cumulated, before + self.sizes.block_bytes)) + 1
            if end > len(rows):
                break
            self._encode(rows.slice(start, end - start))
            start = end
        if start < len(rows):
            # copied, or the few rows that are left would keep the whole chunk alive
            self._wait(rows.take(pa.array(np.arange(start, len(rows)))))

    def _encode(self, rows: pa.RecordBatch) -> None:
        self._take(self.encoder.encode(self.layout.block(self.tp, rows)))

    def _take(self, encoded: bytes) -> None:
        self.crc32 = isal_zlib.crc32(encoded, self.crc32)
        self._encoded.append(encoded)
        self._encoded_bytes += len(encoded)
        while self._encoded_bytes >= self.sizes.part_bytes:
            self._send(self.sizes.part_bytes)

    def _send(self, size: int) -> None:
        encoded = b"".join(self._encoded)
        body, rest = encoded[:size], encoded[size:]
        self._encoded, self._encoded_bytes = [rest], len(rest)
        self.upload.send(body)


class Outputs:
    """The open objects of a slice, by output partition, within a budget."""

    def __init__(
        self, budget_bytes: int, start: int, begin: Callable[[str, int], ObjectWriter]
    ) -> None:
        """Make objects with ``begin``, from the output partition and the offset that names them: first ``start``."""
        self._budget = budget_bytes
        self._start = start
        self._next_starts: dict[str, int] = {}
        self._begin = begin
        self._open: dict[str, ObjectWriter] = {}
        self._sealed: list[SealedObject] = []

    @property
    def held_bytes(self) -> int:
        """Memory all open objects hold."""
        return sum(output.held_bytes for output in self._open.values())

    def add(self, partition: str, rows: pa.RecordBatch) -> None:
        """Take rows for an output partition."""
        if partition not in self._open:
            self._open[partition] = self._begin(
                partition, self._next_starts.get(partition, self._start)
            )
        self._open[partition].add(rows)

    def free_memory(self, next_offset: int) -> None:
        """Over the budget, make half of it free, the largest object first; all later rows are at ``next_offset`` or above."""
        held = self.held_bytes
        if held <= self._budget:
            return
        for relief in (self._flush, self._ship, self._seal):
            # sorting is stable and objects are in the order they were begun: ties too are cut by
            # the data alone
            for partition in sorted(
                self._open, key=lambda p: self._open[p].held_bytes, reverse=True
            ):
                if held <= self._budget // 2:
                    return
                held -= self._open[partition].held_bytes
                relief(partition)
                if partition in self._open:
                    held += self._open[partition].held_bytes
                else:
                    self._next_starts[partition] = next_offset

    def seal(self) -> list[SealedObject]:
        """Close everything; all the objects of the slice."""
        for partition in list(self._open):
            self._seal(partition)
        return self._sealed

    def _flush(self, partition: str) -> None:
        self._open[partition].flush()

    def _ship(self, partition: str) -> None:
        self._open[partition].flush_part()

    def _seal(self, partition: str) -> None:
        self._sealed.append(self._open.pop(partition).seal())
