r"""Readers ``Lines`` and ``JsonLines``: a record is a line of text.

A line ends at ``\n``, of which a ``\r`` before it is part; a ``\r`` elsewhere is an ordinary byte.
The last line needs no end. What a line holds is not looked at, so that any encoding will do in
which these two bytes are only line ends, UTF-8 above all, and not UTF-16.

``Lines`` has every line, empty ones as well, as it is. In ``JsonLines`` lines of nothing but white
space are no records (NDJSON 1.0, section 3.1), and neither is a byte order mark at the start of the
file (RFC 8259, section 8.1).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from landfall.files import DEFAULT_LIMITS, PART_BYTES, FileBytes, FilePart, FileRecords, Limits
from landfall.files.compression import Compression
from landfall.files.parts import cut_if_plain
from landfall.files.slices import binary_slices, row_ranges
from landfall.files.text import LineBlock, without_byte_order_mark
from landfall.files.text import lines as lines_of
from landfall.pipeline.records import Int64s

_BLANKS = b" \t\r"


@dataclass(frozen=True)
class Lines:
    """Reads lines.

    Attributes:
        compression: how files are compressed.
        limits: how long a line may be, and other limits.
    """

    compression: Compression = Compression.AUTO
    limits: Limits = DEFAULT_LIMITS

    def parts(self, name: str, size: int, part_bytes: int = PART_BYTES) -> tuple[FilePart, ...]:
        """The parts of a file; see ``files.FileReader``."""
        return cut_if_plain(name, size, part_bytes, self.compression)

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The lines that begin in the part; see ``files.FileReader``."""
        for block in lines_of(file, part, self.compression, self.limits):
            yield from records_of(block, self.limits)


@dataclass(frozen=True)
class JsonLines(Lines):
    """Reads lines that are JSON."""

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The lines that begin in the part, without blank ones; see ``files.FileReader``."""
        for block in lines_of(file, part, self.compression, self.limits):
            kept = without_blank_lines(without_byte_order_mark(block))
            yield from records_of(kept, self.limits)


def records_of(block: LineBlock, limits: Limits) -> Iterator[FileRecords]:
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
    starts, ends = (np.delete(each, blank) for each in (block.starts, block.ends))
    return replace(block, starts=starts, ends=ends)


def _may_be_blank(block: LineBlock) -> Int64s:
    """Which lines are empty, or begin and end with white space."""
    content = np.frombuffer(block.content, np.uint8)
    is_white = np.zeros(256, np.bool_)
    is_white[list(_BLANKS)] = True
    is_empty = block.starts == block.ends
    first, last = (content[np.where(is_empty, 0, at)] for at in (block.starts, block.ends - 1))
    found: Int64s = is_empty | (is_white[first] & is_white[last])
    return found
