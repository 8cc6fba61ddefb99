"""Landed objects as files whose end is read first, for the footers of columnar formats."""

import io
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from landfall.errors import Retry
from landfall.objects import ObjectStat

_TAIL_BYTES = 64 * 1024


class ReadsRanges(Protocol):
    """The part of ``Slots`` that is needed."""

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """See ``Slots``."""
        ...


class Reads(ReadsRanges, Protocol):
    """The part of a ``Store`` that is needed."""

    def stat(self, key: str) -> ObjectStat | None:
        """See ``Objects``."""
        ...


@dataclass(frozen=True)
class StoreFiles:
    """Opens objects of a store, as a ``pyarrow.fs.FileSystem`` opens files.

    Attributes:
        store: has the objects.
    """

    store: Reads

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Return an object as a file of Arrow.

        Raises:
            FileNotFoundError: there is no such object.
            Retry: the store does not answer.
        """
        found = self.store.stat(path)
        if found is None:
            raise FileNotFoundError(path)
        return opened(self.store, path, found.size)


def opened(store: ReadsRanges, key: str, size: int) -> pa.PythonFile:
    """Return an object of so many bytes as a file of Arrow.

    Raises:
        Retry: the object is not there, or has another size.
    """
    return pa.PythonFile(_ObjectFile(store, key, size), mode="r")


class _ObjectFile(io.RawIOBase):
    """Reads the end of an object at once, and the rest on demand."""

    def __init__(self, store: ReadsRanges, key: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._size = size
        self._position = 0
        self._tail_start = max(0, size - _TAIL_BYTES)
        self._tail = self._range(self._tail_start, size - self._tail_start)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        length = self._size - self._position
        if 0 <= size < length:
            length = size
        begin = self._position
        self._position += max(length, 0)
        if length <= 0:
            return b""
        if begin >= self._tail_start:
            return self._tail[begin - self._tail_start :][:length]
        return self._range(begin, length)

    def _range(self, start: int, length: int) -> bytes:
        body = self._store.read_range(self._key, start, length) if length else b""
        if body is None or len(body) != length:
            raise Retry(f"{self._key}: cannot be read at {start}")
        return body
