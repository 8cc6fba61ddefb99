"""The rows of a part of a file, read independently of the code that lands them.

Text is read line by line. Of other kinds of files only the number of rows is known, or nothing.
"""

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from landfall.api.spec import Feed
from landfall.audit import Unchecked
from landfall.audit.feed_lists import Part
from landfall.audit.source_files import CannotCompare, SourceFolder

_READ_BYTES = 1 << 20
_BLANKS = b" \t\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SUFFIXES = {
    ".gz": "Gzip",
    ".gzip": "Gzip",
    ".zst": "Zstd",
    ".zstd": "Zstd",
    ".bz2": "Bzip2",
    ".lz4": "Lz4",
}
_DAMAGED = (ValueError, EOFError, OSError, RuntimeError, zlib.error, zstandard.ZstdError)
_OPEN: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    "Gzip": lambda stream: gzip.GzipFile(fileobj=stream),  # type: ignore[dict-item,return-value]  # it reads
    "Zstd": lambda stream: zstandard.ZstdDecompressor().stream_reader(
        stream, read_across_frames=True
    ),
    "Bzip2": bz2.BZ2File,  # type: ignore[dict-item]  # it reads
    "Lz4": lambda stream: pa.CompressedInputStream(stream, "lz4"),
}


@dataclass(frozen=True)
class Reader:
    """How the files of a feed are read.

    Attributes:
        rows: the payloads of a part's rows, in order; None where only their number is known.
        has_payloads: whether the payloads are known.
    """

    rows: Callable[[SourceFolder, Part], Iterator[bytes | None]]
    has_payloads: bool = True


def reader_of(feed: Feed) -> Reader | None:
    """How the files of a feed are read; None if only the writer's own reader can do that."""
    chosen = str(
        feed.reader_options.get("compression", "None" if feed.reader == "Whole" else "Auto")
    )
    match feed.reader:
        case "Lines":
            return Reader(lambda source, part: _lines(source, part, chosen))
        case "JsonLines":
            return Reader(lambda source, part: _json_lines(source, part, chosen))
        case "Whole":
            return Reader(lambda source, part: _whole(source, part, chosen))
        case "Parquet":
            return Reader(_parquet, has_payloads=False)
    return None


def _lines(source: SourceFolder, part: Part, chosen: str) -> Iterator[bytes]:
    for line in _raw_lines(source, part, chosen):
        text = line.removesuffix(b"\n")
        yield text.removesuffix(b"\r") if text != line else text


def _json_lines(source: SourceFolder, part: Part, chosen: str) -> Iterator[bytes]:
    is_first = part.start == 0
    for line in _lines(source, part, chosen):
        text = line.removeprefix(_BYTE_ORDER_MARK) if is_first else line
        is_first = False
        if text.strip(_BLANKS):
            yield text


def _whole(source: SourceFolder, part: Part, chosen: str) -> Iterator[bytes]:
    yield b"".join(_contents(source, part, chosen))


def _raw_lines(source: SourceFolder, part: Part, chosen: str) -> Iterator[bytes]:
    """The lines that begin in the part, with their ends."""
    kind = _compression(part.name, chosen)
    if kind != "None":
        yield from _split(_contents(source, part, chosen))
        return
    # The byte before the part says whether a line begins with it.
    at = max(part.start - 1, 0)
    skip = part.start > 0
    for line in _split(_bytes(source, part, at)):
        if at >= part.end:
            return
        if not skip and at >= part.start:
            yield line
        skip, at = False, at + len(line)


def _split(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _contents(source: SourceFolder, part: Part, chosen: str) -> Iterator[bytes]:
    """What a file holds, decompressed, as far as it is not damaged."""
    kind = _compression(part.name, chosen)
    if kind == "None":
        yield from _bytes(source, part, 0)
        return
    stream = io.BufferedReader(_Stream(source, part), _READ_BYTES)
    try:
        opened = _OPEN[kind](stream)
        # In little steps: what is before the damage is given before the error.
        while chunk := opened.read(2**13):
            yield chunk
    except _DAMAGED as error:
        raise CannotCompare(Unchecked.FILE) from error


def _compression(name: str, chosen: str) -> str:
    if chosen != "Auto":
        return chosen
    found = (kind for suffix, kind in _SUFFIXES.items() if name.lower().endswith(suffix))
    return next(found, "None")


def _bytes(source: SourceFolder, part: Part, at: int) -> Iterator[bytes]:
    while at < part.size:
        end = min(at + _READ_BYTES, part.size)
        yield source.read(part.name, part.etag, at, end)
        at = end


class _Stream(io.RawIOBase):
    """A version of a file as a stream that can be sought in."""

    def __init__(self, source: SourceFolder, part: Part) -> None:
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


def _parquet(source: SourceFolder, part: Part) -> Iterator[None]:
    """As many rows as the row groups have whose middle is in the part."""
    try:
        found = pq.ParquetFile(io.BufferedReader(_Stream(source, part), _READ_BYTES)).metadata
    except pa.ArrowException as error:
        raise CannotCompare(Unchecked.FILE) from error
    for number in range(found.num_row_groups):
        group = found.row_group(number)
        spans = [_span(group.column(i)) for i in range(group.num_columns)] or [(0, 0)]
        middle = (min(start for start, _ in spans) + max(end for _, end in spans)) // 2
        if part.start <= min(middle, part.size - 1) < part.end:
            yield from (None for _ in range(group.num_rows))


def _span(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    dictionary, data = column.dictionary_page_offset, column.data_page_offset
    start = dictionary if dictionary and 0 < dictionary < data else data
    return start, start + column.total_compressed_size
