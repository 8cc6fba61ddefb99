"""Finds and reads objects, in their place or, if they retire meanwhile, where a copy is kept."""

import io
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import stamina

from landfall_audit import Fault, FaultKind, Unchecked
from landfall_audit.buckets import Bucket, CannotCompare
from landfall_audit.checks.partition_check import PartitionCheck
from landfall_audit.errors import AuditRetry
from landfall_audit.ledger.inventory import Inventory
from landfall_audit.login.s3 import translate_errors
from landfall_audit.objects import rows
from landfall_audit.objects.rows import Order, Read, Row, Rows

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GONE = "is gone"
"""The damage of an object that is not there any more."""
_CHUNK_BYTES = 1 << 20


class _ChecksumStream(io.RawIOBase):
    """A stream, with the CRC-32 of the bytes read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.crc32 = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        chunk = self._stream.read(len(view))
        view[: len(chunk)] = chunk
        self.crc32 = zlib.crc32(chunk, self.crc32)
        return len(chunk)


class ObjectReader:
    """Reads objects of an output root. Thread-safe."""

    def __init__(self, bucket: Bucket, inventory: Inventory) -> None:
        """Read from a bucket whose inventory was taken."""
        self._bucket, self._inventory = bucket, inventory

    def existing_key(self, key: str, check: PartitionCheck) -> str | None:
        """The key, or the key of a moved object of the same name, or None if the object is lost.

        Raises:
            CannotCompare: it is dead letters that have expired since the audit began.
        """
        if self._inventory.is_visible(key) or self.is_there(key) or self._inventory.find_copy(key):
            return key
        if self._inventory.has_expired(key):  # since the audit began
            raise CannotCompare(Unchecked.DEAD_LETTERS_EXPIRED)
        moved = self._inventory.find_moved(key)
        if moved is None:
            check.add_fault(Fault(FaultKind.LOST, key))
            return None
        check.moved.add(moved)
        check.add_fault(Fault(FaultKind.MOVED, key, f"is found as {moved}"))
        return moved

    def read_letters(self, key: str) -> Read:
        """The rows of dead letters; none if they are gone.

        Raises:
            CannotCompare: they have expired since the audit began.
        """
        read = self.read(key, rows.ENVELOPE)
        if read.damage == GONE and self._inventory.has_expired(key):
            raise CannotCompare(Unchecked.DEAD_LETTERS_EXPIRED)
        return read

    def is_there(self, key: str) -> bool:
        """Return whether an object is visible now, listed or not."""
        try:
            self._bucket.open(key).close()
        except FileNotFoundError:
            return False
        return True

    def read(self, key: str, reader: Rows) -> Read:
        """The rows of an object; none if it is gone."""

        @stamina.retry(on=AuditRetry, attempts=5)
        def read() -> Read:
            with self._open(key) as stream, translate_errors("read", key):
                return rows.read(reader, stream)

        try:
            return read()
        except FileNotFoundError:  # it was visible when the audit began
            return Read(np.empty(0, np.int64), np.empty(0, np.int64), GONE)

    def contents(self, key: str, reader: Rows) -> Iterator[Row]:
        """The contents of an object's rows; none if it is gone, or damaged from there on."""
        with suppress(FileNotFoundError, *rows.DAMAGED), self._open(key) as stream:
            for row in reader.rows(stream):
                if not isinstance(row, Order):
                    yield row

    def read_with_crc32(self, key: str, reader: Rows) -> tuple[Read, int]:
        """The rows of an object, and the CRC-32 of all its bytes.

        Raises:
            FileNotFoundError: it is gone.
        """

        @stamina.retry(on=AuditRetry, attempts=5)
        def read() -> tuple[Read, int]:
            with self._open(key) as opened, translate_errors("read", key):
                counted = _ChecksumStream(opened)
                stream = io.BufferedReader(counted, _CHUNK_BYTES)
                found = rows.read(reader, stream)
                while stream.read(_CHUNK_BYTES):
                    pass
                return found, counted.crc32

        return read()

    def crc32(self, key: str) -> int | None:
        """The CRC-32 of an object's bytes; None if it is gone."""

        @stamina.retry(on=AuditRetry, attempts=5)
        def read() -> int:
            found = 0
            with self._bucket.open(key) as stream, translate_errors("read", key):
                while chunk := stream.read(_CHUNK_BYTES):
                    found = zlib.crc32(chunk, found)
            return found

        try:
            return read()
        except FileNotFoundError:
            return None

    def _open(self, key: str) -> BinaryIO:
        try:
            return self._bucket.open(key)
        except FileNotFoundError:
            copy = self._inventory.find_copy(key)
            if copy is None:
                raise
            return self._bucket.open(copy)
