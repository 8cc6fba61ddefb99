"""A part of a binary file that is opened: sources of its bytes, from a position on."""

from dataclasses import dataclass

from landfall.files import FileBytes, FilePart, Limits
from landfall.files.compression import Compression, compression_of, contents
from landfall.files.windows import Source, check_part, windows

_ENDLESS = 2**63
"""An end that no position reaches."""


@dataclass(frozen=True)
class Opened:
    """A part of a file, to be read from its header on.

    Attributes:
        file: the file.
        start: where the part starts.
        end: where it ends; beyond any position if the file is compressed as a whole.
        head: a source at the start of the file.
        is_plain: whether the file is not compressed as a whole.
        window_bytes: the most bytes that are read at once.
    """

    file: FileBytes
    start: int
    end: int
    head: Source
    is_plain: bool
    window_bytes: int

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self.file.size

    def source(self, position: int) -> Source:
        """Return a source at a position, which is at or behind the end of the header."""
        if not self.is_plain or position == self.head.position:
            return self.head  # compressed contents are read once and from their start
        pieces = windows(self.file, position, self.end, self.window_bytes)
        return Source(self.file.name, pieces, position)


def opened(file: FileBytes, part: FilePart, compression: Compression, limits: Limits) -> Opened:
    """Open a part of a file.

    Raises:
        ValueError: the part is not one of the file.
    """
    check_part(file, part)
    kind = compression_of(file.name, compression)
    size = limits.window_bytes
    if kind is Compression.NONE:
        head = Source(file.name, windows(file, 0, part.end if not part.start else 0, size), 0)
        return Opened(file, part.start, part.end, head, is_plain=True, window_bytes=size)
    if part != FilePart(0, file.size):
        raise ValueError(f"{file.name}: it is compressed, so {part} is no part of it")
    head = Source(file.name, contents(file, kind, size), 0)
    return Opened(file, 0, _ENDLESS, head, is_plain=False, window_bytes=size)
