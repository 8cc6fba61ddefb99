"""The bytes of a file: in windows, from a position on, and decompressed as a whole.

==========  ==========  ======================================================================
suffix      library     what a file may be
==========  ==========  ======================================================================
``.gz``     isal        any number of members (RFC 1952), and zeros after them
``.zst``    Arrow       any number of frames (RFC 8878)
``.bz2``    Python      any number of streams
``.lz4``    Arrow       any number of frames (LZ4 frame format 1.6), not Hadoop's blocks
==========  ==========  ======================================================================

Arrow cannot read bzip2 of several streams. Contents are made in bounded windows, however much a few
bytes grow. A file of no bytes has no contents. Data that ends early or does not match its
checksum, where it has one, is an error, never a shorter result.
"""

import bz2
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import BinaryIO, Protocol

import pyarrow as pa
from isal import igzip, isal_zlib

from landfall.formats.parts import (
    DEFAULT_LIMITS,
    PART_BYTES,
    FileBytes,
    FilePart,
    ReadLimits,
    UnreadableFileError,
    cut,
)

_OBJECT_BYTES = 2**20
"""How many bytes of a landed object are read at once."""
_BEHIND_BYTES = 64 * 2**10
"""How many bytes are read first past the end of a part, for the rest of its last record."""


def check_part(file: FileBytes, part: FilePart) -> None:
    """Check that a part is inside the file.

    Raises:
        ValueError: it is not, so it is a part of another file, or of another version.
    """
    if part.end > file.size:
        raise ValueError(f"{file.name}: no part {part} in {file.size} bytes")


def windows(file: FileBytes, start: int, end: int, window_bytes: int) -> Iterator[bytes]:
    """Return the bytes from ``start`` to the end of the file; a window ends at ``end``.

    After ``end`` windows are small at first, for there is hardly ever more than one record left.
    """
    at, behind = start, min(_BEHIND_BYTES, window_bytes)
    while at < file.size:
        if at < end:
            stop = min(at + window_bytes, end)
        else:
            stop, behind = min(at + behind, file.size), min(2 * behind, window_bytes)
        yield file.read(at, stop)
        at = stop


class WindowReader:
    """Takes exact numbers of bytes from a stream of windows, and knows its position.

    Attributes:
        position: of the next byte, counted from the start of the file.
        window: bytes that are in memory.
        at: where in ``window`` the next byte is; who reads there directly moves it on.
    """

    def __init__(self, name: str, pieces: Iterator[bytes], position: int) -> None:
        self.name = name
        self.window = b""
        self.at = 0
        self._pieces = pieces
        self._window_position = position

    @property
    def position(self) -> int:
        """The position of the next byte."""
        return self._window_position + self.at

    def error(self, reason: str, position: int | None = None) -> UnreadableFileError:
        """Return an error here, or at another position."""
        return UnreadableFileError(
            self.name, self.position if position is None else position, reason
        )

    def at_end(self) -> bool:
        """Return whether there are no more bytes."""
        return not self.has(1)

    def has(self, count: int) -> bool:
        """Have this many bytes in the window, counted from ``at``; False if the file ends before.

        Each byte is copied once, however many windows they take.
        """
        found = len(self.window) - self.at
        if found >= count:
            return True
        pieces = [self.window[self.at :]]
        while found < count and (piece := next(self._pieces, None)) is not None:
            pieces.append(piece)
            found += len(piece)
        self._window_position += self.at
        self.window = b"".join(pieces)
        self.at = 0
        return found >= count

    def take(self, count: int) -> bytes:
        """Return exactly this many bytes.

        Raises:
            UnreadableFileError: the file ends before.
        """
        if count < 0:
            raise self.error(f"a length of {count}")
        if not self.has(count):
            missing = count - len(self.window) + self.at
            raise self.error(f"the file ends early: {missing} bytes are missing")
        taken = self.window[self.at : self.at + count]
        self.at += count
        return taken

    def skip_to(self, mark: bytes, end: int) -> bool:
        """Move to the first ``mark`` that begins before the position ``end``; False if none does.

        Without one, the position is at or before ``end`` and means nothing else.
        """
        while self.position < end:
            stop = self.at + end - self.position + len(mark) - 1
            found = self.window.find(mark, self.at, stop)
            if found >= 0:
                self.at = found
                return True
            if len(self.window) >= stop:
                return False
            # The mark may begin in the last bytes of this window.
            self.at = max(self.at, len(self.window) - len(mark) + 1)
            if not self.has(len(self.window) - self.at + 1):
                return False
        return False


_READ_BYTES = 2**18
_DAMAGED: tuple[type[Exception], ...] = (OSError, EOFError, pa.ArrowException, isal_zlib.error)  # type: ignore[assignment]  # isal's stubs call the class an instance  # fmt: skip


class Compression(StrEnum):
    """How a file is compressed as a whole."""

    AUTO = "Auto"
    """By the suffix of its name."""
    NONE = "None"
    GZIP = "Gzip"
    ZSTD = "Zstd"
    BZIP2 = "Bzip2"
    LZ4 = "Lz4"


_SUFFIXES: Mapping[str, Compression] = MappingProxyType(
    {
        ".gz": Compression.GZIP,
        ".gzip": Compression.GZIP,
        ".zst": Compression.ZSTD,
        ".zstd": Compression.ZSTD,
        ".bz2": Compression.BZIP2,
        ".lz4": Compression.LZ4,
    }
)
_REFUSED = (".snappy", ".sz", ".lzo", ".lzo_deflate", ".deflate", ".xz", ".br", ".z", ".zip", ".7z")
"""Suffixes of compression and archives that nothing here reads; as text they would be nonsense."""


def compression_of(name: str, chosen: Compression = Compression.AUTO) -> Compression:
    """Return how a file is compressed; never ``AUTO``.

    Raises:
        ValueError: its suffix is one of a compression that cannot be read.
    """
    if chosen is not Compression.AUTO:
        return chosen
    folded = name.lower()
    for suffix in _REFUSED:
        if folded.endswith(suffix):
            known = ", ".join(_SUFFIXES)
            raise ValueError(f"{name}: files ending in {suffix} cannot be read, only {known}")
    found = (kind for suffix, kind in _SUFFIXES.items() if folded.endswith(suffix))
    return next(found, Compression.NONE)


def contents(file: FileBytes, compression: Compression, window_bytes: int) -> Iterator[bytes]:
    """Return what a compressed file holds, in windows of this size; the last may be smaller.

    Raises:
        UnreadableFileError: the compressed data is damaged, or it ends early. Its position is a
            byte of the contents.
    """
    stream = RangedStream(file)
    position = 0
    try:
        # The libraries ask for little at a time, and each of their reads would be a request.
        opened = _OPEN[compression](io.BufferedReader(stream, window_bytes))
        while window := opened.read(window_bytes):
            yield window
            position += len(window)
    except _DAMAGED as error:
        stream.raise_failure()
        reason = f"damaged {compression} data here or later: {error}"
        raise UnreadableFileError(file.name, position, reason) from error


class _Readable(Protocol):
    """Gives bytes, fewer than it is asked for only at the end."""

    def read(self, size: int, /) -> bytes: ...


class RangedStream(io.RawIOBase):
    """A file of Python's over ``FileBytes``, for libraries; they may seek."""

    def __init__(self, file: FileBytes) -> None:
        self._file = file
        self._at = 0
        self._failure: Exception | None = None

    def raise_failure(self) -> None:
        """Raise what reading the file has raised, if it has.

        Libraries may turn it into an error of theirs, as which it would look like damage.
        """
        if self._failure is not None:
            raise self._failure

    def readable(self) -> bool:
        """Return whether it can be read, which it can."""
        return True

    def seekable(self) -> bool:
        """Return whether it can seek, which it can."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position and return it."""
        base = (0, self._at, self._file.size)[whence]
        self._at = max(base + offset, 0)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, fewer only at the end of the file."""
        start = min(self._at, self._file.size)
        rest = self._file.size - start
        end = start + (rest if size is None or size < 0 else min(size, rest))
        found = self.read_range(start, end)
        self._at = end
        return found

    def read_range(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)`` of the file."""
        if start == end:
            return b""
        try:
            return self._file.read(start, end)
        except Exception as error:
            self._failure = error
            raise

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # of any buffer
        """Fill the buffer with the next bytes, and return how many they are."""
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)


class _Bzip2:
    """Reads the contents of any number of bzip2 streams, strictly.

    Python's ``BZ2File`` takes damage at the start of a further stream for the end of the file.
    """

    def __init__(self, stream: _Readable) -> None:
        self._stream = stream
        self._current: bz2.BZ2Decompressor | None = None
        self._unread = b""

    def read(self, size: int) -> bytes:
        """Return exactly ``size`` bytes of contents, fewer only at the end."""
        found: list[bytes] = []
        while size:
            made = self._some(size)
            if made is None:
                break
            found.append(made)
            size -= len(made)
        return b"".join(found)

    def _some(self, size: int) -> bytes | None:
        """Return at most ``size`` bytes, maybe none; None at the end."""
        current = self._current
        if (current is None or current.needs_input) and not self._unread:
            self._unread = self._stream.read(_READ_BYTES)
            if not self._unread:
                if current is not None:
                    raise EOFError("it ends early")
                return None
        self._current = current = current or bz2.BZ2Decompressor()
        unread = self._unread
        self._unread = b""
        made = current.decompress(unread, size)
        if current.eof:
            self._unread = current.unused_data
            self._current = None
        return made


def _of_arrow(codec: str) -> Callable[[_Readable], _Readable]:
    def opened(stream: _Readable) -> _Readable:
        found: _Readable = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), codec)
        return found

    return opened


def _of_isal(stream: _Readable) -> _Readable:
    return igzip.IGzipFile(fileobj=stream, mode="rb")  # type: ignore[no-untyped-call]  # no types


_OPEN: Mapping[Compression, Callable[[_Readable], _Readable]] = MappingProxyType(
    {
        Compression.NONE: lambda stream: stream,
        Compression.GZIP: _of_isal,
        Compression.ZSTD: _of_arrow("zstd"),
        Compression.BZIP2: _Bzip2,
        Compression.LZ4: _of_arrow("lz4"),
    }
)


ENDLESS = 2**63
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
    head: WindowReader
    is_plain: bool
    window_bytes: int

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self.file.size

    def source(self, position: int) -> WindowReader:
        """Return a source at a position, which is at or after the end of the header."""
        if not self.is_plain or position == self.head.position:
            return self.head  # compressed contents are read once and from their start
        pieces = windows(self.file, position, self.end, self.window_bytes)
        return WindowReader(self.file.name, pieces, position)


def opened(file: FileBytes, part: FilePart, compression: Compression, limits: ReadLimits) -> Opened:
    """Open a part of a file.

    Raises:
        ValueError: the part is not one of the file.
    """
    check_part(file, part)
    kind = compression_of(file.name, compression)
    size = limits.window_bytes
    if kind is Compression.NONE:
        head = WindowReader(file.name, windows(file, 0, part.end if not part.start else 0, size), 0)
        return Opened(file, part.start, part.end, head, is_plain=True, window_bytes=size)
    if part != FilePart(0, file.size):
        raise ValueError(f"{file.name}: it is compressed, so {part} is no part of it")
    head = WindowReader(file.name, contents(file, kind, size), 0)
    return Opened(file, 0, ENDLESS, head, is_plain=False, window_bytes=size)


def source_of(stream: BinaryIO) -> WindowReader:
    """Return the bytes of a landed object as a source."""
    return WindowReader("", iter(partial(stream.read, _OBJECT_BYTES), b""), 0)


@contextmanager
def damage_located(kind: str) -> Iterator[None]:
    """Raise errors as ValueErrors with the damage and its place; the caller names the object."""
    try:
        yield
    except UnreadableFileError as error:
        raise ValueError(
            f"damaged {kind}, at or before byte {error.position}: {error.reason}"
        ) from error


def cut_if_plain(
    name: str, size: int, part_bytes: int, compression: Compression
) -> tuple[FilePart, ...]:
    """Return the parts of a file: one if it is compressed as a whole.

    Raises:
        ValueError: it is compressed in a way that cannot be read.
    """
    is_plain = compression_of(name, compression) is Compression.NONE
    return cut(size, part_bytes if is_plain else max(part_bytes, size))


@dataclass(frozen=True)
class StreamReader:
    """The common base of readers whose files are cut unless they are compressed as a whole.

    Attributes:
        compression: how files are compressed as a whole, in addition to a codec of their own.
        limits: how large blocks and records may be.
    """

    compression: Compression = Compression.AUTO
    limits: ReadLimits = DEFAULT_LIMITS

    def parts(self, name: str, size: int, part_bytes: int = PART_BYTES) -> tuple[FilePart, ...]:
        """The parts of a file; see ``parts.FileReader``."""
        return cut_if_plain(name, size, part_bytes, self.compression)
