r"""Reader ``Csv``: records of comma-separated values, as JSON objects of text.

Names come from the header, the first line of the file, or from ``columns``. A record is a line,
so that a file can be cut anywhere, unless ``multiline`` is set: then values in quotes may hold line
ends, a file is one part, and a record ends at the first line end with an even number of quotes
before it (RFC 4180, section 2, rules 6 and 7). Empty lines are no records.

The decoder ``Csv`` reads the records (``pipeline.decoders.csv``, which has the other options): a
record that is malformed or has another number of values than there are columns is in
``FileRecords.errors``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from landfall.formats.line_parts import LineBlock, lines, without_byte_order_mark
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
from landfall.formats.slices import binary_slices, row_ranges
from landfall.formats.streams import Compression, cut_if_plain
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted, arrow_values
from landfall.pipeline.decoders import csv as csv_decoder
from landfall.pipeline.records import of_columns

_OF_NO_TOPIC = TopicPartition("-", 0)
_WANTED = Wanted(json=True)


@dataclass(frozen=True)
class CsvReader:
    """Reads records of comma-separated values.

    Attributes:
        columns: the names of the columns; empty to take them from the header.
        has_header: whether the first record has names; it is skipped if ``columns`` are given.
        multiline: whether values in quotes may hold line ends.
        dialect: options of the decoder ``Csv`` but ``columns`` and ``header``.
        compression: how files are compressed.
        limits: how long a record may be, and other limits.
    """

    columns: tuple[str, ...] = ()
    has_header: bool = True
    multiline: bool = False
    dialect: Mapping[str, object] = field(default_factory=dict)
    compression: Compression = Compression.AUTO
    limits: ReadLimits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        if not self.columns and not self.has_header:
            raise ValueError("options: files without a header need columns")
        self._decoder({"columns": list(self.columns) or ["any"]})
        if self.multiline and (self.dialect.get("escape") or not self._quote.isascii()):
            raise ValueError("options: multiline needs an ASCII quote, and no escape")

    def parts(self, name: str, size: int, part_bytes: int = PART_BYTES) -> tuple[FilePart, ...]:
        """The parts of a file; see ``parts.FileReader``."""
        if self.multiline:
            return cut(size, max(size, part_bytes))
        return cut_if_plain(name, size, part_bytes, self.compression)

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The records that begin in the part; see ``parts.FileReader``."""
        if self.multiline and part != FilePart(0, file.size):
            raise ValueError(f"{file.name}: a file of multiline records is one part, not {part}")
        blocks = self._blocks(file, part)
        first = next(blocks, None)
        if first is None:
            return
        has_header = self.has_header and not part.start
        decoder = self._decoder_for(file, first if has_header else None)
        rest = first.behind_first() if has_header else first
        for block in chain([rest], blocks):
            yield from self._records(decoder, block)

    @property
    def _quote(self) -> str:
        return str(self.dialect.get("quote", '"'))

    def _blocks(self, file: FileBytes, part: FilePart) -> Iterator[LineBlock]:
        """The records of the part, which are lines but with ``multiline``."""
        found = map(without_byte_order_mark, lines(file, part, self.compression, self.limits))
        return _joined(found, file.name, self._quote, self.limits) if self.multiline else found

    def _decoder(self, named: Mapping[str, object]) -> csv_decoder.CsvDecoder:
        return csv_decoder.CsvDecoder.of({**self.dialect, **named}, _WANTED)

    def _decoder_for(self, file: FileBytes, header: LineBlock | None) -> csv_decoder.CsvDecoder:
        """The decoder for a file, whose header is the first record of the block, if there is one.

        Raises:
            UnreadableFileError: the header does not name columns.
        """
        if self.columns:
            return self._decoder({"columns": list(self.columns)})
        # The header of another part is the line that begins with the first byte of the file.
        block = header or next(self._blocks(file, FilePart(0, 1)))
        line = block.content[int(block.starts[0]) : int(block.ends[0])]
        try:
            return self._decoder({"header": line.decode()})
        except ValueError as error:
            reason = f"the header: {str(error).removeprefix('options: ')}"
            raise UnreadableFileError(file.name, 0, reason) from error

    def _records(self, decoder: csv_decoder.CsvDecoder, block: LineBlock) -> Iterator[FileRecords]:
        kept = np.flatnonzero(block.starts < block.ends)
        for rows in row_ranges(len(kept), self.limits.chunk_rows):
            starts, ends = block.starts[kept[rows]], block.ends[kept[rows]]
            written = binary_slices(block.content, starts, ends)
            decoded = decoder.decode(of_columns(_OF_NO_TOPIC, starts, written))
            values, bad = decoded.records.values, decoded.bad
            if bad:
                good = np.setdiff1d(np.arange(len(written)), bad.rows)
                values = arrow_values.patched(written, good.tolist(), values)
            errors = dict(zip(bad.rows.tolist(), bad.errors, strict=True))
            yield FileRecords(starts + block.position, partial(_same, values), errors=errors)


def _same(values: pa.BinaryArray) -> pa.BinaryArray:
    return values


def _joined(
    blocks: Iterator[LineBlock], name: str, quote: str, limits: ReadLimits
) -> Iterator[LineBlock]:
    """Return records that end where quotes are even in number, from lines.

    Raises:
        UnreadableFileError: a record is too long, or a quote is not closed at the end of the file.
    """
    rest, position = b"", 0
    for block in blocks:
        made, rest_at = _closed(_behind(rest, position, block) if rest else block, ord(quote))
        if len(made.starts):
            yield made
        rest, position = made.content[rest_at:], made.position + rest_at
        if len(rest) > limits.record_bytes:
            reason = f"a record of more than {limits.record_bytes} bytes"
            raise UnreadableFileError(name, position, reason)
    if rest:
        raise UnreadableFileError(name, position, "a quote is not closed at the end of the file")


def _behind(rest: bytes, position: int, block: LineBlock) -> LineBlock:
    """Return a block whose first line continues the record that has begun."""
    shift = len(rest)
    starts = block.starts + shift
    starts[0] = 0
    return LineBlock(rest + block.content, position, starts, block.ends + shift)


def _closed(block: LineBlock, quote: int) -> tuple[LineBlock, int]:
    """Return the complete records of a block, and where in its content the rest begins."""
    quotes = np.cumsum(np.frombuffer(block.content, np.uint8) == quote)
    before = np.where(block.ends > 0, quotes[block.ends - 1], 0)
    last = np.flatnonzero(before % 2 == 0)
    first = np.concatenate(([0], last + 1))
    at = int(block.starts[first[-1]]) if first[-1] < len(block.starts) else len(block.content)
    return replace(block, starts=block.starts[first[:-1]], ends=block.ends[last]), at
