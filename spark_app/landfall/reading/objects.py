"""Bytes of landed objects, ahead of who reads them, within bounds.

Small objects are fetched whole, several at a time: their latency would be most of the time. Of
large ones only what is asked for is fetched, by ranges.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, TypeVar

import pyarrow as pa

from landfall.errors import Reason, Stalled
from landfall.reading.files import File

SMALL_BYTES = 8 * 2**20
"""Objects up to this size are fetched whole."""
AHEAD = 8
"""How many small objects are fetched at the same time, and kept until they are read."""
_BUFFER_BYTES = 2**20

Result = TypeVar("Result")


class ByKey(Protocol):
    """Objects by their keys: the part of a ``Store`` that is needed here, or copies as well."""

    def read(self, key: str) -> bytes | None:
        """See ``Slots``."""
        ...

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """See ``Slots``."""
        ...

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """See ``Objects``."""
        ...


@dataclass(frozen=True)
class Bytes:
    """The bytes of an object.

    Attributes:
        store: where it is.
        file: which it is.
        whole: all of them, if they were fetched.
    """

    store: ByKey
    file: File
    whole: bytes | None = None

    def seekable(self) -> Any:
        """A file for Arrow that can be read at any place, for formats whose footer comes last."""
        if self.whole is not None:
            return pa.BufferReader(self.whole)
        return io.BufferedReader(_ObjectRanges(self.store, self.file), _BUFFER_BYTES)

    def stream(self) -> AbstractContextManager[BinaryIO]:
        """A stream from the first byte to the last."""
        if self.whole is not None:
            return closing(io.BytesIO(self.whole))
        try:
            return self.store.open(self.file.key)
        except FileNotFoundError:
            raise gone(self.file.key) from None


def gone(key: str) -> Stalled:
    """The error for an object that the ledger calls visible, and that is not there."""
    return Stalled(Reason.OBJECT_LOST, f"{key}: the ledger calls it visible, but it is not there")


class _ObjectRanges(io.RawIOBase):
    """An object as a file, read by ranges."""

    def __init__(self, store: ByKey, file: File) -> None:
        super().__init__()
        self._store = store
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # any writable buffer
        length = min(len(buffer), self._file.size - self._at)
        if length <= 0:
            return 0
        found = self._store.read_range(self._file.key, self._at, length)
        if found is None:
            raise gone(self._file.key)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def fetched(store: ByKey, files: Iterable[File]) -> Iterator[Bytes]:
    """The objects in order, small ones fetched ahead.

    Raises:
        Stalled: OBJECT_LOST, an object is not there.
        Retry: the store does not answer.
    """

    def fetch(file: File) -> Bytes:
        if file.size > SMALL_BYTES:
            return Bytes(store, file)
        whole = store.read(file.key)
        if whole is None:
            raise gone(file.key)
        return Bytes(store, file, whole)

    return in_order(fetch, files)


def in_order(
    function: Callable[[File], Result],
    files: Iterable[File],
    new_pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Iterator[Result]:
    """The results of a function in the order of the files, computed ahead in threads."""
    remaining = iter(files)
    with new_pool(AHEAD) as pool:
        pending: list[Future[Result]] = []
        try:
            for file in remaining:
                pending.append(pool.submit(function, file))
                if len(pending) >= AHEAD:
                    yield pending.pop(0).result()
            while pending:
                yield pending.pop(0).result()
        finally:
            for future in pending:
                future.cancel()
