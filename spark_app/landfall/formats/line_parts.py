r"""Readers ``Lines`` and ``JsonLines``: a record is a line of text.

A line ends at ``\n``, together with a ``\r`` before it; a ``\r`` elsewhere is an ordinary byte.
The last line needs no end. What a line holds is not looked at, so that any encoding will do in
which these two bytes are only line ends, UTF-8 above all, and not UTF-16.

``Lines`` has every line, empty ones as well, as it is. In ``JsonLines`` lines of nothing but white
space are no records (NDJSON 1.0, section 3.1), and neither is a byte order mark at the start of the
file (RFC 8259, section 8.1).

A line belongs to the part in which its first byte is. So the first line of a part begins after the
first line end at or after the byte before the part, and what precedes it belongs to a line of an
earlier part, as in Hadoop's ``LineRecordReader``. Lines are found for a whole window at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from landfall.formats.parts import (
    FileBytes,
    FilePart,
    FileRecords,
    ReadLimits,
    UnreadableFileError,
)
from landfall.formats.slices import binary_slices, row_ranges
from landfall.formats.streams import (
    Compression,
    StreamReader,
    check_part,
    compression_of,
    contents,
    windows,
)
from landfall.pipeline.records import Int64s

_LINE_FEED, _CARRIAGE_RETURN = 10, 13
_BLANKS = b" \t\r"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineBlock:
    """Consecutive lines.

    Attributes:
        content: the bytes of all lines, and what is between them.
        position: of the first byte of ``content`` in the file, or in the contents of a compressed
            one.
        starts: where each line begins in ``content``, int64, shape (rows,).
        ends: where each line ends, without its line end.
    """

    content: bytes
    position: int
    starts: Int64s
    ends: Int64s

    def behind_first(self) -> "LineBlock":
        """Return the block without its first line."""
        return replace(self, starts=self.starts[1:], ends=self.ends[1:])


def lines(
    file: FileBytes, part: FilePart, compression: Compression, limits: ReadLimits
) -> Iterator[LineBlock]:
    """Return the lines that begin in a part, in blocks of at least one line.

    Args:
        file: the file.
        part: the part; a file that is compressed has only one.
        compression: how it is compressed.
        limits: a line may have ``record_bytes`` bytes, with its line end.

    Raises:
        UnreadableFileError: a line is longer, or compressed data is damaged.
        ValueError: the part is not one of the file.
    """
    check_part(file, part)
    kind = compression_of(file.name, compression)
    if kind is not Compression.NONE:
        if part != FilePart(0, file.size):
            raise ValueError(f"{file.name}: it is compressed, so {part} is no part of it")
        position = 0
        end = None
        pieces = contents(file, kind, limits.window_bytes)
    else:
        begin, end = max(part.start - 1, 0), part.end
        position, pieces = begin, windows(file, begin, end, limits.window_bytes)
        if part.start:
            position, pieces = _behind_line_end(pieces, begin, end)
    found = _complete_lines(pieces, LinePlace(file.name, position, limits.record_bytes))
    # Asking for more lines than the part has would read past its end.
    while (end is None or position < end) and (content := next(found, None)) is not None:
        kept = content if end is None else _that_begin_before(content, end - position)
        yield _block(kept, LinePlace(file.name, position, limits.record_bytes))
        position += len(content)


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where in a file lines are, and how long they may be there."""

    name: str
    position: int
    max_bytes: int

    def too_long(self, after: int) -> UnreadableFileError:
        """Return the error of a line that begins ``after`` bytes from here."""
        reason = f"a line of more than {self.max_bytes} bytes"
        return UnreadableFileError(self.name, self.position + after, reason)


def _behind_line_end(
    pieces: Iterator[bytes], position: int, end: int
) -> tuple[int, Iterator[bytes]]:
    """Return the position after the first line end before ``end``, and the bytes from there on."""
    for piece in pieces:
        if found := piece.find(b"\n") + 1:
            return position + found, chain([piece[found:]], pieces)
        position += len(piece)
        if position >= end:
            break
    return position, iter(())


def _complete_lines(pieces: Iterator[bytes], place: LinePlace) -> Iterator[bytes]:
    """Return the bytes in pieces of complete lines; the last line needs no end."""
    rest: list[bytes] = []
    position, held = 0, 0
    for piece in pieces:
        if stop := piece.rfind(b"\n") + 1:
            lines_ = b"".join((*rest, piece[:stop]))
            yield lines_
            position += len(lines_)
            rest, held = [], 0
        rest.append(piece[stop:])
        held += len(piece) - stop
        if held > place.max_bytes:
            raise place.too_long(position)
    if held:
        yield b"".join(rest)


def _that_begin_before(content: bytes, end: int) -> bytes:
    """Return the lines that begin before ``end``, which is more than 0."""
    # The line that holds the byte before ``end`` is the last one.
    stop = content.find(b"\n", end - 1) + 1
    return content[:stop] if stop else content


def _block(content: bytes, place: LinePlace) -> LineBlock:
    starts, ends, after = _bounds(content)
    long = np.flatnonzero(after - starts > place.max_bytes)
    if len(long):
        raise place.too_long(int(starts[long[0]]))
    return LineBlock(content, place.position, starts, ends)


def _bounds(content: bytes) -> tuple[Int64s, Int64s, Int64s]:
    """Return where each line starts, where it ends, and where its line end does."""
    octets = np.frombuffer(content, np.uint8)
    feeds = np.flatnonzero(octets == _LINE_FEED)
    is_ended = content.endswith(b"\n")
    ends = feeds if is_ended else np.append(feeds, len(content))
    after = np.minimum(ends + 1, len(content))
    starts = np.concatenate(([0], after[:-1]))
    has_return = (feeds > 0) & (octets[feeds - 1] == _CARRIAGE_RETURN)
    if has_return.any():
        ends = ends.copy()
        ends[: len(feeds)] -= has_return
    return starts, ends, after


def without_byte_order_mark(block: LineBlock) -> LineBlock:
    """Return the block without the mark at the start of the file."""
    if block.position or not block.content.startswith(BYTE_ORDER_MARK):
        return block
    starts = block.starts.copy()
    starts[0] = min(len(BYTE_ORDER_MARK), int(block.ends[0]))
    return replace(block, starts=starts)


@dataclass(frozen=True)
class LinesReader(StreamReader):
    """Reads lines."""

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The lines that begin in the part; see ``parts.FileReader``."""
        for block in lines(file, part, self.compression, self.limits):
            yield from records_of(block, self.limits)


@dataclass(frozen=True)
class JsonLinesReader(LinesReader):
    """Reads lines that are JSON."""

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The lines that begin in the part, without blank ones; see ``parts.FileReader``."""
        for block in lines(file, part, self.compression, self.limits):
            kept = without_blank_lines(without_byte_order_mark(block))
            yield from records_of(kept, self.limits)


def records_of(block: LineBlock, limits: ReadLimits) -> Iterator[FileRecords]:
    """Return the lines of a block as records."""
    for rows in row_ranges(len(block.starts), limits.chunk_rows):
        starts, ends = block.starts[rows], block.ends[rows]
        values = partial(binary_slices, block.content, starts, ends)
        yield FileRecords(starts + block.position, values)


def without_blank_lines(block: LineBlock) -> LineBlock:
    """Return the block without lines that are empty or white space."""
    rows = np.flatnonzero(_may_be_blank(block))
    spans = zip(block.starts[rows].tolist(), block.ends[rows].tolist(), strict=True)
    is_blank = [not block.content[start:end].strip(_BLANKS) for start, end in spans]
    blank = rows[np.array(is_blank, np.bool_)]
    if not len(blank):
        return block
    starts, ends = (np.delete(positions, blank) for positions in (block.starts, block.ends))
    return replace(block, starts=starts, ends=ends)


def _may_be_blank(block: LineBlock) -> Int64s:
    """Return the lines that are empty, or begin and end with white space."""
    content = np.frombuffer(block.content, np.uint8)
    is_white = np.zeros(256, np.bool_)
    is_white[list(_BLANKS)] = True
    is_empty = block.starts == block.ends
    first, last = (
        content[np.where(is_empty, 0, positions)] for positions in (block.starts, block.ends - 1)
    )
    found: Int64s = is_empty | (is_white[first] & is_white[last])
    return found
