"""Uploads parts in the background, with a bound on the bytes in flight.

An upload begins with its first part. Nothing here ever completes an upload: what a slice uploaded
becomes visible only after the driver has committed it to the ledger.
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
from landfall.task.outage import STORE_FAILURES, OutageDetector

_THREADS = 4


class Uploader:
    """Uploads parts in a few threads. Its own methods must be called from a single thread."""

    def __init__(self, uploads: Uploads, in_flight_bytes: int) -> None:
        """Limit the parts in flight to ``in_flight_bytes``, or to one part if that is larger."""
        self.uploads = uploads
        self.outage = OutageDetector(STORE_FAILURES)
        self._limit = in_flight_bytes
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="landfall-upload")
        self._in_flight: deque[tuple[Future[Part], int]] = deque()
        self._in_flight_bytes = 0

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
        """Start uploading a part; blocks until the bytes in flight leave room for it."""
        self._make_room(len(body))
        future = self._pool.submit(upload.put, number, body)
        self._in_flight.append((future, len(body)))
        self._in_flight_bytes += len(body)
        return future

    def abort(self, uploads: Iterable["ObjectUpload"]) -> None:
        """Abort uploads if the store lets us; the driver's housekeeping aborts the rest later."""
        if self.outage.is_outage:
            return
        for future in [self._pool.submit(upload.abort) for upload in uploads]:
            with suppress(LandfallError):
                future.result()

    def _make_room(self, size: int) -> None:
        # Parts that are done are forgotten only here: a task sends thousands of small ones.
        while self._in_flight and self._in_flight_bytes + size > self._limit:
            wait([future for future, _ in self._in_flight], return_when=FIRST_COMPLETED)
            self._in_flight = deque(item for item in self._in_flight if not item[0].done())
            self._in_flight_bytes = sum(size for _, size in self._in_flight)


class ObjectUpload:
    """The multipart upload of one object."""

    def __init__(self, uploader: Uploader, key: str, token: str) -> None:
        """Prepare an upload; the store is not called before the first part."""
        self.key = key
        self._uploader = uploader
        self._token = token
        self._parts: list[Future[Part]] = []
        self._lock = Lock()
        self._upload_id: str | None = None

    def send(self, body: bytes) -> None:
        """Start uploading the next part.

        Raises:
            LandfallError: the previous part has failed.
        """
        if self._parts and self._parts[-1].done():
            self._parts[-1].result()
        self._parts.append(self._uploader.send(self, len(self._parts) + 1, body))

    @property
    def parts(self) -> int:
        """How many parts were sent."""
        return len(self._parts)

    def result(self) -> Upload:
        """Wait for the parts and return what is needed to complete the upload.

        Raises:
            LandfallError: a part failed.
        """
        parts = tuple(part.result() for part in self._parts)
        assert self._upload_id is not None, "the first part begins the upload"
        return Upload(self.key, self._upload_id, parts, self._token)

    def put(self, number: int, body: bytes) -> Part:
        """Upload a part; the uploader's threads call this."""
        outage = self._uploader.outage
        outage.check(self.key)
        try:
            # Several parts may be first at the same time; the lock makes them begin one upload.
            with self._lock:
                upload_id = self._upload_id = self._upload_id or self._uploader.uploads.begin(
                    self.key, self._token
                )
            part = self._uploader.uploads.put_part(self.key, upload_id, number, body)
        except LandfallError as error:
            outage.failed(error)
            raise
        outage.succeeded()
        return part

    def abort(self) -> None:
        """Cancel the parts that have not started, wait for the rest, and abort the upload."""
        # Aborting first would be wrong: a part still running could begin the upload again.
        wait([part for part in self._parts if not part.cancel()])
        if self._upload_id is not None:
            self._uploader.uploads.abort(self.key, self._upload_id)
