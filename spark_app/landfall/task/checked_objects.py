"""Reads landed objects, and compares them with the ledger."""

import io
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import BinaryIO

from isal import isal_zlib

from landfall.errors import Reason, Stalled
from landfall.formats.merging import NotMergeableError, ReadRange
from landfall.ledger.task_results import LandedObject
from landfall.store import Store

_BUFFER_BYTES = 256 * 1024
SMALL_BYTES = 8 * 2**20
"""Objects up to this size are fetched whole: their latency would be most of the time."""
AHEAD = 4
"""How many small objects are fetched at the same time, and kept until they are read."""


class CheckedObject(io.BufferedReader):
    """The bytes of a landed object, as a stream that knows what they should be."""

    def __init__(self, stream: BinaryIO, landed: LandedObject) -> None:
        """Read nothing yet."""
        self._source = _CountingStream(stream)
        self._landed = landed
        super().__init__(self._source, _BUFFER_BYTES)

    def check_rows(self, rows: int) -> None:
        """Read to the end, and return if these bytes and so many rows were landed.

        Raises:
            ValueError: they were not.
        """
        while self.read(_BUFFER_BYTES):
            pass
        landed, source = self._landed, self._source
        if (source.size, source.crc32) != (landed.upload.size, landed.crc32):
            raise ValueError(
                f"{landed.upload.size} bytes with CRC-32 {landed.crc32:08x} were landed, and "
                f"{source.size} with {source.crc32:08x} are there"
            )
        if rows != landed.rows:
            raise ValueError(f"{landed.rows} rows were landed, and {rows} are read back")


class _CountingStream(io.RawIOBase):
    """A stream that counts its bytes."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self.size = 0
        self.crc32 = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # any writable buffer
        chunk = self._stream.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self.size += len(chunk)
        self.crc32 = isal_zlib.crc32(chunk, self.crc32)
        return len(chunk)


def checked(
    store: Store, objects: Iterable[LandedObject]
) -> Iterator[AbstractContextManager[CheckedObject]]:
    """Landed objects in order, each to be read before the next; small ones are fetched ahead.

    Each of them raises:
        Stalled: OBJECT_LOST, it is gone, or a ValueError was raised inside: it is damaged;
            SPEC_INVALID, it is as it was landed, and cannot be merged.
        Retry: the store does not answer.
    """
    left, ahead = iter(objects), deque[tuple[LandedObject, Future[bytes | None] | None]]()
    pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="landfall-merge")
    try:
        while True:
            for landed in islice(left, AHEAD - len(ahead)):
                is_small = landed.upload.size <= SMALL_BYTES
                fetched = pool.submit(store.read, landed.key) if is_small else None
                ahead.append((landed, fetched))
            if not ahead:
                return
            yield _checked(store, *ahead.popleft())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _checked(
    store: Store, landed: LandedObject, fetched: Future[bytes | None] | None
) -> Iterator[CheckedObject]:
    key = landed.key
    with as_lost(key):
        if fetched is None:
            with store.open(key) as stream:
                yield CheckedObject(stream, landed)
            return
        body = fetched.result()
        if body is None:
            raise FileNotFoundError(key)
        yield CheckedObject(io.BytesIO(body), landed)


@contextmanager
def as_lost(key: str) -> Iterator[None]:
    """Raise what is wrong with an object as the readers of ``checked`` do."""
    try:
        yield
    except FileNotFoundError:
        raise Stalled(Reason.OBJECT_LOST, f"{key}: it was visible, and is not there") from None
    except NotMergeableError as error:
        raise Stalled(Reason.SPEC_INVALID, f"{key}: {error}") from error
    except ValueError as error:
        raise Stalled(Reason.OBJECT_LOST, f"{key}: {error}") from error


def range_reader(store: Store, key: str) -> ReadRange:
    """Return a reader of ranges of an object; it raises FileNotFoundError if it is gone."""

    def read(start: int, length: int) -> bytes:
        found = store.read_range(key, start, length)
        if found is None:
            raise FileNotFoundError(key)
        return found

    return read
