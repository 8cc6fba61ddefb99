"""Fetches small objects side by side, before they are read one after the other.

A request to a store takes as long for a few rows as for many. A backup may have landed thousands of
tiny objects in the range of a slice, so the next ones are fetched while one is read. Their order is
not changed by it, nor what is read of them.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from io import BytesIO
from types import TracebackType
from typing import BinaryIO, Self

from landfall.landed.pieces import Piece
from landfall.store import Store

PARALLEL_FETCHES = 16
"""How many objects are fetched at the same time."""
MAX_OBJECT_BYTES = 1 << 20
"""Larger ones are streamed: reading them takes longer than the request itself."""
MAX_BYTES = 32 << 20
"""Bytes of all objects that are being fetched, or were fetched and are not read to their end."""


class FetchAhead:
    """Used by one thread, as a context manager: at its end nothing more is fetched."""

    def __init__(self, store: Store, pieces: Sequence[Piece], max_bytes: int = MAX_BYTES) -> None:
        """Fetch nothing yet.

        Args:
            store: of the objects.
            pieces: those that will be read, in this order.
            max_bytes: see ``MAX_BYTES``.
        """
        self._store = store
        self._room = max_bytes
        small = [piece for piece in pieces if piece.landed.upload.size <= MAX_OBJECT_BYTES]
        # One alone is there no sooner for it.
        self._waiting = deque(small if len(small) > 1 else ())
        self._passed: set[str] = set()
        self._fetches: dict[str, Future[bytes]] = {}
        self._pool = ThreadPoolExecutor(PARALLEL_FETCHES, "fetch")

    def __enter__(self) -> Self:
        self._fetch_more()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Give up what will not be read; what is under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def opened(self, piece: Piece) -> Iterator[BinaryIO | None]:
        """The object, if it was fetched and is whole; else it must be opened by itself.

        Raises:
            Retry: the store does not answer.
        """
        fetch = self._fetches.pop(piece.key, None)
        if fetch is None:
            self._passed.add(piece.key)
            yield None
            return
        try:
            # The reader that opens it by itself finds what is wrong with it, and its copy.
            body: bytes | None = None
            with suppress(OSError, EOFError, ValueError):
                body = fetch.result()
            yield None if body is None else BytesIO(body)
        finally:
            self._room += piece.landed.upload.size
            self._fetch_more()

    def _fetch_more(self) -> None:
        while self._waiting:
            piece = self._waiting[0]
            if piece.key in self._passed:
                self._waiting.popleft()
                continue
            size = piece.landed.upload.size
            if size > self._room or len(self._fetches) >= 2 * PARALLEL_FETCHES:
                return
            self._waiting.popleft()
            self._room -= size
            self._fetches[piece.key] = self._pool.submit(self._fetch, piece.key)

    def _fetch(self, key: str) -> bytes:
        with self._store.open(key) as stream:
            return stream.read()
