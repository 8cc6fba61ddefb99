"""Arrays of integers in a temporary file, for what may be larger than memory."""

import tempfile
import threading
from dataclasses import dataclass

import numpy as np

from landfall_audit.checks.judge import Int64s


@dataclass(frozen=True, slots=True)
class Stored:
    """Where an array is in the file, in bytes, and how many numbers it has."""

    position: int
    count: int


class RowFile:
    """A file that only grows, and is gone once it is closed. Thread-safe."""

    def __init__(self) -> None:
        """Begin with an empty file."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # close() does
        self._lock = threading.Lock()
        self._end = 0

    def add(self, numbers: Int64s) -> Stored:
        """Store an array."""
        with self._lock:
            stored = Stored(self._end, len(numbers))
            self._file.seek(self._end)
            self._file.write(np.ascontiguousarray(numbers).data)
            self._file.flush()
            self._end += 8 * len(numbers)
        return stored

    def read(self, stored: Stored, start: int = 0, end: int | None = None) -> Int64s:
        """The numbers of a stored array, or a slice of them."""
        first, after, _ = slice(start, end).indices(stored.count)
        count = max(after - first, 0)
        with self._lock:
            self._file.seek(stored.position + 8 * first)
            return np.fromfile(self._file, np.int64, count)

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
