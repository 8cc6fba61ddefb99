"""Reader ``Whole``: a file is one record, of its bytes as they are."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from landfall.formats.parts import (
    DEFAULT_LIMITS,
    PART_BYTES,
    FileBytes,
    FilePart,
    FileRecords,
    ReadLimits,
    UnreadableFileError,
    cut,
)
from landfall.formats.streams import Compression, contents


@dataclass(frozen=True)
class Whole:
    """Reads files as one record each.

    Attributes:
        compression: how files are compressed; their names do not matter here, so that an archive
            stays one unless this is set.
        limits: how large a file may be, decompressed.
    """

    compression: Compression = Compression.NONE
    limits: ReadLimits = DEFAULT_LIMITS

    def parts(self, name: str, size: int, part_bytes: int = PART_BYTES) -> tuple[FilePart, ...]:  # noqa: ARG002  # the protocol's
        """The only part of a file; see ``parts.FileReader``."""
        return cut(size, max(size, part_bytes))

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The only record; see ``parts.FileReader``."""
        if part != FilePart(0, file.size):
            raise ValueError(f"{file.name}: {part} is not all of {file.size} bytes")
        windows, found = [], 0
        for window in self._windows(file):
            found += len(window)
            if found > self.limits.record_bytes:
                raise self._too_large(file)
            windows.append(window)
        value = pa.array([b"".join(windows)], pa.binary())
        yield FileRecords(np.zeros(1, np.int64), lambda: value)

    def _windows(self, file: FileBytes) -> Iterator[bytes]:
        if self.compression is Compression.NONE and file.size > self.limits.record_bytes:
            raise self._too_large(file)
        return contents(file, self.compression, self.limits.window_bytes)

    def _too_large(self, file: FileBytes) -> UnreadableFileError:
        return UnreadableFileError(
            file.name, 0, f"it has more than {self.limits.record_bytes} bytes"
        )
