"""Files of other programs in memory, for tests of everything above them."""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from landfall.objects import FileChanged, ListedFile


class MemoryFiles:
    """``SourceFiles`` in memory. Thread-safe.

    Args:
        clock: says when a file is written.

    ``requests`` counts the calls, those of ``files`` by the thousand files, as on S3.
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.requests: Counter[str] = Counter()
        self._clock = clock
        self._lock = threading.Lock()
        self._files: dict[str, tuple[ListedFile, bytes]] = {}

    def write(self, name: str, body: bytes) -> None:
        """Write a file, as another program does."""
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        with self._lock:
            self._files[name] = ListedFile(name, etag, len(body), self._clock()), body

    def delete(self, name: str) -> None:
        """Remove a file, as another program does."""
        with self._lock:
            self._files.pop(name, None)

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        """Files in the order of their names."""
        with self._lock:
            found = sorted(n for n in self._files if n.startswith(prefix) and n > after)
            listed = [self._files[name][0] for name in found]
        for count, each in enumerate(listed):
            self.requests["files"] += count % 1000 == 0
            yield each
        self.requests["files"] += not listed

    def find(self, name: str) -> ListedFile | None:
        """The file as it is now."""
        with self._lock:
            self.requests["find"] += 1
            found = self._files.get(name)
        return found[0] if found else None

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        """Some bytes of a version."""
        with self._lock:
            self.requests["read"] += 1
            found = self._files.get(file.name)
        if found is None or found[0].etag != file.etag:
            raise FileChanged(file.name, file.etag, found[0].etag if found else None)
        return found[1][start:end]
