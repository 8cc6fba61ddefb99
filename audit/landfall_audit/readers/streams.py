"""The bytes of a version of a file, decompressed if it is compressed as a whole."""

import bz2
import gzip
import io
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa
import zstandard

from landfall_audit import Unchecked
from landfall_audit.buckets import CannotCompare, SourceFolder
from landfall_audit.feeds.lists import FeedFilePart

READ_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 13
_SUFFIXES = {
    ".gz": "Gzip",
    ".gzip": "Gzip",
    ".zst": "Zstd",
    ".zstd": "Zstd",
    ".bz2": "Bzip2",
    ".lz4": "Lz4",
}
_DAMAGED = (
    ValueError,
    EOFError,
    OSError,
    RuntimeError,
    OverflowError,
    KeyError,
    IndexError,
    TypeError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    pa.ArrowException,
)
_OPEN: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    "Gzip": lambda stream: gzip.GzipFile(fileobj=stream),  # type: ignore[dict-item,return-value]  # it reads
    "Zstd": lambda stream: zstandard.ZstdDecompressor().stream_reader(
        stream, read_across_frames=True
    ),
    "Bzip2": bz2.BZ2File,  # type: ignore[dict-item]  # it reads
    "Lz4": lambda stream: pa.CompressedInputStream(stream, "lz4"),
}


@contextmanager
def damage_is_unchecked() -> Iterator[None]:
    """Raise what libraries raise for damaged bytes as ``CannotCompare``."""
    try:
        yield
    except _DAMAGED as error:
        raise CannotCompare(Unchecked.FILE) from error


def compression_of(name: str, chosen: object) -> str:
    """How a file is compressed as a whole, by the option of its reader or by its suffix."""
    if chosen != "Auto":
        return str(chosen)
    found = (kind for suffix, kind in _SUFFIXES.items() if name.lower().endswith(suffix))
    return next(found, "None")


def contents(source: SourceFolder, part: FeedFilePart, chosen: object) -> Iterator[bytes]:
    """Yield a file's content, decompressed, as far as it is not damaged."""
    kind = compression_of(part.name, chosen)
    if kind == "None":
        yield from plain_bytes(source, part, 0)
        return
    with damage_is_unchecked():
        opened = _OPEN[kind](raw_stream(source, part))
        # In little steps: what is before the damage is given before the error.
        while chunk := opened.read(_CHUNK_BYTES):
            yield chunk


def plain_bytes(source: SourceFolder, part: FeedFilePart, at: int) -> Iterator[bytes]:
    """The bytes of a file from a position on."""
    while at < part.size:
        end = min(at + READ_BYTES, part.size)
        yield source.read(part.name, part.etag, at, end)
        at = end


def raw_stream(source: SourceFolder, part: FeedFilePart) -> BinaryIO:
    """The bytes of a file as a stream that can be sought in."""
    return io.BufferedReader(_Stream(source, part), READ_BYTES)


@dataclass(frozen=True)
class OpenPart:
    """The stream of a file, and which of its bytes are the part's.

    A file that is compressed as a whole is one part: its stream cannot seek, and has no end here.
    """

    stream: BinaryIO
    start: int
    end: int | None

    @classmethod
    def of(cls, source: SourceFolder, part: FeedFilePart, chosen: object) -> "OpenPart":
        """A part, to be read from the first byte of its file."""
        if compression_of(part.name, chosen) == "None":
            return cls(raw_stream(source, part), part.start, part.end)
        chunks = _Chunks(contents(source, part, chosen))
        return cls(cast("BinaryIO", io.BufferedReader(chunks, READ_BYTES)), 0, None)

    def is_over(self, ahead: int = 0) -> bool:
        """Return whether the byte ``ahead`` bytes before the next one is after the part."""
        return self.end is not None and self.stream.tell() - ahead >= self.end

    def is_at_end(self) -> bool:
        """Return whether the stream has no more bytes."""
        return not cast("io.BufferedReader", self.stream).peek(1)

    def seek_mark(self, mark: bytes, start: int) -> bool:
        """Move to the first mark that begins in the part, from ``start`` on; whether it has one."""
        assert self.end is not None, "only of files that are not compressed as a whole"
        self.stream.seek(start)
        window, at = b"", start
        while at < self.end:
            window += self.stream.read(READ_BYTES)
            found = window.find(mark)
            if found >= 0:
                self.stream.seek(at + found)
                return at + found < self.end
            if len(window) < len(mark):
                return False
            # A mark may begin in the last bytes of the window.
            at, window = at + len(window) - len(mark) + 1, window[-len(mark) + 1 :]
            if self.is_at_end():
                return False
        return False


class _Stream(io.RawIOBase):
    """A version of a file as a stream that can be sought in."""

    def __init__(self, source: SourceFolder, part: FeedFilePart) -> None:
        self._source, self._part, self._at = source, part, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        before = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._part.size}
        self._at = before[whence] + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what io gives
        part, end = self._part, min(self._at + len(buffer), self._part.size)
        body = self._source.read(part.name, part.etag, self._at, end) if end > self._at else b""
        buffer[: len(body)] = body
        self._at += len(body)
        return len(body)


class _Chunks(io.RawIOBase):
    """Chunks of bytes as a stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what io gives
        self._rest = self._rest or next(self._chunks, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
