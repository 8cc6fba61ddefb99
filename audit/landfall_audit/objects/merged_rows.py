"""The rows of replacements: each object is read once, and then by parts.

Its rows belong to many ranges, which are checked at different times. Meanwhile they are in a
temporary file, with 16 bytes a row.
"""

import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from landfall_audit import Fault, FaultKind
from landfall_audit.checks.judge import Int64s
from landfall_audit.checks.partition_check import PartitionCheck
from landfall_audit.ledger.corrections import CorrectedRows
from landfall_audit.objects.object_reader import GONE, ObjectReader
from landfall_audit.objects.row_file import RowFile, Stored
from landfall_audit.objects.rows import Order, Read, Rows


@dataclass(frozen=True, slots=True)
class _StoredRead:
    offsets: Stored | None
    hashes: Stored
    order: Order
    crc32: int | None


class MergedRows:
    """Rows of objects by pieces. Thread-safe.

    Attributes:
        check: what was found about the objects themselves.
    """

    def __init__(self, objects: ObjectReader, file: RowFile) -> None:
        """Nothing is read yet."""
        self._objects, self._file = objects, file
        self._lock = threading.Lock()
        self._reads: dict[str, Future[_StoredRead]] = {}
        self.check = PartitionCheck()

    def piece(self, piece: CorrectedRows, reader: Rows) -> Read:
        """The rows of a piece, in order, as far as the object has them."""
        stored = self._stored(piece.key, reader)
        offsets, hashes = self._rows(stored, piece.at, piece.at + piece.rows)
        if offsets is not None and len(offsets):
            found, listed = (int(offsets.min()), int(offsets.max())), (piece.first, piece.last)
            if found != listed:
                message = f"has offsets {found}, but its list records {listed}"
                self._add_fault(Fault(FaultKind.REPLACED, piece.key, message))
        # Objects with schemas of their own were in order each, and not one after the other.
        schema = f"{stored.order.schema} {piece.at}" if stored.order.schema else ""
        return Read(offsets, hashes, order=Order(schema, stored.order.is_sorted))

    def has_offsets(self, key: str, reader: Rows) -> bool:
        """Return whether an object stores the offsets of its rows."""
        return self._stored(key, reader).offsets is not None

    def whole(self, key: str, reader: Rows) -> tuple[Int64s | None, Int64s]:
        """Offsets, if the format has them, and hashes of all rows of an object."""
        return self._rows(self._stored(key, reader))

    def content(self, key: str) -> tuple[int, int] | None:
        """How many rows an object has, and its CRC-32; None if it was not read, or not whole."""
        future = self._reads.get(key)
        stored = future.result() if future else None
        if stored is None or stored.crc32 is None:
            return None
        return stored.hashes.count, stored.crc32

    def ensure_exists(self, key: str) -> None:
        """Report an object that was not read and is not there."""
        if key not in self._reads:
            self._objects.existing_key(key, self.check)

    def _rows(
        self, stored: _StoredRead, start: int = 0, end: int | None = None
    ) -> tuple[Int64s | None, Int64s]:
        known = stored.offsets
        offsets = None if known is None else self._file.read(known, start, end)
        return offsets, self._file.read(stored.hashes, start, end)

    def _stored(self, key: str, reader: Rows) -> _StoredRead:
        with self._lock:
            future = self._reads.get(key)
            is_first = future is None
            if future is None:
                future = self._reads[key] = Future()
        if is_first:
            try:
                future.set_result(self._read(key, reader))
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()

    def _read(self, key: str, reader: Rows) -> _StoredRead:
        own, crc32 = PartitionCheck(), None
        read = Read(np.empty(0, np.int64), np.empty(0, np.int64), GONE)
        if existing := self._objects.existing_key(key, own):
            with suppress(FileNotFoundError):  # it was there
                read, crc32 = self._objects.read_with_crc32(existing, reader)
            own.count(key, read)
        with self._lock:
            self.check.objects += own.objects
            self.check.moved |= own.moved
        for fault in own.faults:
            self._add_fault(fault)
        offsets = None if read.offsets is None else self._file.add(read.offsets)
        known = None if read.damage else crc32
        return _StoredRead(offsets, self._file.add(read.hashes), read.order, known)

    def _add_fault(self, fault: Fault) -> None:
        with self._lock:
            self.check.add_fault(fault)
