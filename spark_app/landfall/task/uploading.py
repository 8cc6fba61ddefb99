"""Parts on their way to the store, in the background, with a bound on the bytes that are under way.

An upload is begun with its first part. Nothing here ever completes one: what a slice uploaded
becomes visible only when the driver has written the ledger.
"""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import Self

from landfall.errors import LandfallError
from landfall.objects import Part, Upload
from landfall.store import Uploads

_THREADS = 4


class Uploader:
    """Sends parts from a few threads. Only one thread may call it."""

    def __init__(self, uploads: Uploads, in_flight_bytes: int) -> None:
        """Let at most ``in_flight_bytes`` be under way, or a single part that is larger."""
        self.uploads = uploads
        self._limit = in_flight_bytes
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="landfall-upload")
        self._under_way: deque[tuple[Future[Part], int]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def send(self, upload: "ObjectUpload", number: int, body: bytes) -> "Future[Part]":
        """Put a part as soon as there is room for it."""
        self._make_room(len(body))
        future = self._pool.submit(upload.put, number, body)
        self._under_way.append((future, len(body)))
        return future

    def abort(self, uploads: Iterable["ObjectUpload"]) -> None:
        """Give uploads up, as far as the store lets us: what is left is found by the driver's janitor."""
        for future in [self._pool.submit(upload.abort) for upload in uploads]:
            with suppress(LandfallError):
                future.result()

    def _make_room(self, size: int) -> None:
        while self._under_way and sum(size for _, size in self._under_way) + size > self._limit:
            wait([future for future, _ in self._under_way], return_when=FIRST_COMPLETED)
            self._under_way = deque(item for item in self._under_way if not item[0].done())


class ObjectUpload:
    """The upload of one object."""

    def __init__(self, uploader: Uploader, key: str, token: str) -> None:
        """Nothing is begun before the first part."""
        self.key = key
        self._uploader = uploader
        self._token = token
        self._parts: list[Future[Part]] = []
        self._lock = Lock()
        self._upload_id: str | None = None

    def send(self, body: bytes) -> None:
        """Send the next part.

        Raises:
            LandfallError: an earlier one failed.
        """
        if self._parts and self._parts[-1].done():
            self._parts[-1].result()
        self._parts.append(self._uploader.send(self, len(self._parts) + 1, body))

    @property
    def begun(self) -> bool:
        """Whether there is a part."""
        return bool(self._parts)

    def result(self) -> Upload:
        """Wait for the parts.

        Raises:
            LandfallError: one failed.
        """
        parts = tuple(part.result() for part in self._parts)
        assert self._upload_id is not None
        return Upload(self.key, self._upload_id, parts, self._token)

    def put(self, number: int, body: bytes) -> Part:
        """Put a part, called by the uploader's threads."""
        with self._lock:
            upload_id = self._upload_id = self._upload_id or self._uploader.uploads.begin(
                self.key, self._token
            )
        return self._uploader.uploads.put_part(self.key, upload_id, number, body)

    def abort(self) -> None:
        """Forget it, after the parts that are being put have ended: none may begin it anew."""
        wait([part for part in self._parts if not part.cancel()])
        if self._upload_id is not None:
            self._uploader.uploads.abort(self.key, self._upload_id)
