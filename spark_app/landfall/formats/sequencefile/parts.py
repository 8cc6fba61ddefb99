"""Reader ``SequenceFile``: Hadoop's files of keys and values, version 6, of any classes.

The payload is what the value holds, and the record's key what the key holds:

=================================================  ==============================================
class (``org.apache.hadoop.io``)                   holds
=================================================  ==============================================
``BytesWritable``                                  its bytes, without their number before them
``Text``                                           its UTF-8, without the number of its bytes
``NullWritable``                                   nothing: null
any other                                          what it is serialized as
=================================================  ==============================================

Records may be compressed each, in blocks, or not at all, by the codecs of ``codecs``. Records
between two sync marks belong to the part in which the first of these begins; those before the
first mark belong to the first part.

Source: Hadoop 3.4, ``SequenceFile`` (its format), ``WritableUtils.readVInt`` (``writables``) and
``SequenceFileRecordReader`` (which part a record belongs to).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from landfall.formats.codecs import HADOOP, Decompress
from landfall.formats.parts import (
    DEFAULT_LIMITS,
    PART_BYTES,
    FileBytes,
    FilePart,
    FileRecords,
    Limits,
)
from landfall.formats.sequencefile.contents import (
    Held,
    MalformedWritable,
    Spans,
    content_of,
    vint_width,
    vints,
)
from landfall.formats.slices import row_ranges
from landfall.formats.streams import Compression, Opened, Source, cut_if_plain, opened
from landfall.pipeline.records import Int64s

_VERSION = b"SEQ\x06"
_ESCAPE = b"\xff\xff\xff\xff"
_SYNC_BYTES = 16
_LENGTHS = struct.Struct(">ii")
_MAX_HEADER_BYTES = 2**20


@dataclass(frozen=True)
class SequenceFile:
    """Reads SequenceFiles.

    Attributes:
        compression: how files are compressed as a whole, beside their own codec.
        limits: how large blocks and records may be.
    """

    compression: Compression = Compression.AUTO
    limits: Limits = DEFAULT_LIMITS

    def parts(self, name: str, size: int, part_bytes: int = PART_BYTES) -> tuple[FilePart, ...]:
        """The parts of a file; see ``parts.FileReader``."""
        return cut_if_plain(name, size, part_bytes, self.compression)

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The records behind the part's sync marks; see ``parts.FileReader``."""
        stream = opened(file, part, self.compression, self.limits)
        reading = _Reading(_header(stream.head), stream, self.limits)
        source = reading.first_mark()
        return iter(()) if source is None else reading.records(source)


@dataclass(frozen=True)
class _Header:
    """What the start of the file says about the rest, and where it ends."""

    key: Held
    value: Held
    decompress: Decompress | None
    is_blocks: bool
    mark: bytes
    end: int


def _header(source: Source) -> _Header:
    if not source.has(len(_VERSION)) or source.take(len(_VERSION)) != _VERSION:
        raise source.error("not a SequenceFile of version 6: it starts otherwise", 0)
    key, value = _text(source), _text(source)
    is_compressed, is_blocks = source.take(2)
    codec = _text(source) if is_compressed else ""
    if is_compressed and codec not in HADOOP:
        raise source.error(f"codec {codec!r}, not {' or '.join(HADOOP)}", 0)
    for _ in range(2 * int.from_bytes(source.take(4), "big", signed=True)):
        _text(source)  # the metadata, pairs of name and value
    mark = _ESCAPE + source.take(_SYNC_BYTES)
    decompress = HADOOP[codec] if is_compressed else None
    held = content_of(key), content_of(value)
    return _Header(*held, decompress, bool(is_blocks), mark, source.position)


def _vint(source: Source) -> int:
    first = source.take(1)
    try:
        return int(vints(first + source.take(vint_width(first[0]) - 1))[0])
    except ValueError as error:
        raise source.error(str(error)) from error


def _text(source: Source) -> str:
    size = _vint(source)
    if size > _MAX_HEADER_BYTES or source.position > _MAX_HEADER_BYTES:
        raise source.error(f"a header of more than {_MAX_HEADER_BYTES} bytes")
    return source.take(size).decode("utf-8", "replace")


@dataclass(frozen=True)
class _Reading:
    """Reads the records of one part."""

    header: _Header
    stream: Opened
    limits: Limits

    def first_mark(self) -> Source | None:
        """Return a source at the first mark of the part, or at its first record; None without."""
        header, stream = self.header, self.stream
        if not stream.start:
            return stream.source(header.end)
        begin = max(stream.start, header.end)
        if begin >= stream.end:
            return None
        source = stream.source(begin)
        return source if source.skip_to(header.mark, stream.end) else None

    def records(self, source: Source) -> Iterator[FileRecords]:
        """Return the records from here to the first mark behind the part."""
        while not source.at_end():
            if source.has(4) and source.window.startswith(_ESCAPE, source.at):
                position = source.position
                if position >= self.stream.end:
                    return
                if source.take(len(self.header.mark)) != self.header.mark:
                    raise source.error("another sync mark than in the header", position)
                if self.header.is_blocks:
                    yield from self._block(source, position)
            elif self.header.is_blocks:
                raise source.error("no sync mark before a block")
            else:
                yield from self._run(source)

    def _run(self, source: Source) -> Iterator[FileRecords]:
        """Return the complete records in the window, at least one; it has no mark here."""
        starts, key_sizes, end = _complete(source.window, source.at)
        if not starts:
            self._check_next(source)
            starts, key_sizes, end = _complete(source.window, source.at)
        position = source.position - source.at
        source.at = end
        records = np.array(starts, np.int64)
        keys = records + _LENGTHS.size
        values = keys + np.array(key_sizes, np.int64)
        ends = np.append(records[1:], end)
        long = np.flatnonzero(ends - keys > self.limits.record_bytes)
        if len(long):
            raise self._too_long(source, position + starts[long[0]])
        spans = Spans(source.window, values, ends)
        if self.header.decompress is not None:
            spans = self._decompressed(source, spans, records + position)
        both = Spans(source.window, keys, values), spans
        yield from self._chunks(source, both, records + position)

    def _check_next(self, source: Source) -> None:
        """Have the next record in the window; raises if there is none."""
        if not source.has(_LENGTHS.size):
            raise source.error("the file ends early, inside a record")
        length, key_size = _LENGTHS.unpack_from(source.window, source.at)
        if not 0 <= key_size <= length:
            raise source.error(f"a key of {key_size} bytes in a record of {length} bytes")
        if length > self.limits.record_bytes:
            raise self._too_long(source, source.position)
        if not source.has(_LENGTHS.size + length):
            raise source.error("the file ends early, inside a record")

    def _too_long(self, source: Source, position: int) -> Exception:
        return source.error(f"a record of more than {self.limits.record_bytes} bytes", position)

    def _decompressed(self, source: Source, spans: Spans, positions: Int64s) -> Spans:
        assert self.header.decompress is not None, "only of compressed files"
        found = []
        for row, (start, end) in enumerate(spans.pairs()):
            value = spans.content[start:end]
            try:
                found.append(self.header.decompress(value, self.limits.record_bytes))
            except ValueError as error:
                raise source.error(str(error), int(positions[row])) from error
        bounds = np.cumsum([0, *map(len, found)])
        return Spans(b"".join(found), bounds[:-1], bounds[1:])

    def _block(self, source: Source, position: int) -> Iterator[FileRecords]:
        """Return the records of the block behind a mark."""
        count = _vint(source)
        buffers = [self._buffer(source, position) for _ in range(4)]
        try:
            both = tuple(
                _split(lengths, content, count) for lengths, content in (buffers[:2], buffers[2:])
            )
        except ValueError as error:
            raise source.error(str(error), position) from error
        yield from self._chunks(source, (both[0], both[1]), np.full(count, position, np.int64))

    def _buffer(self, source: Source, position: int) -> bytes:
        size = _vint(source)
        if size > self.limits.block_bytes:
            raise source.error(f"a block of more than {self.limits.block_bytes} bytes", position)
        data = source.take(size)
        if self.header.decompress is None:
            return data
        try:
            return self.header.decompress(data, self.limits.block_bytes)
        except ValueError as error:
            raise source.error(str(error), position) from error

    def _chunks(
        self, source: Source, both: tuple[Spans, Spans], positions: Int64s
    ) -> Iterator[FileRecords]:
        for rows in row_ranges(len(positions), self.limits.chunk_rows):
            key, value = (spans.take(rows) for spans in both)
            at = positions[rows]
            try:
                keys, values = self.header.key(key), self.header.value(value)
            except MalformedWritable as error:
                raise source.error(str(error), int(at[error.row])) from error
            yield FileRecords(at, partial(_same, values), keys)


def _same(values: pa.BinaryArray) -> pa.BinaryArray:
    return values


def _complete(window: bytes, at: int) -> tuple[list[int], list[int], int]:
    """Return where the complete records from ``at`` on begin, their key sizes, and their end.

    They end before a sync mark, before a record that is not complete, and before a damaged one.
    """
    starts: list[int] = []
    key_sizes: list[int] = []
    unpack, last = _LENGTHS.unpack_from, len(window) - _LENGTHS.size
    while at <= last:
        length, key_size = unpack(window, at)
        end = at + _LENGTHS.size + length
        if not 0 <= key_size <= length or end > len(window):
            break
        starts.append(at)
        key_sizes.append(key_size)
        at = end
    return starts, key_sizes, at


def _split(lengths: bytes, content: bytes, count: int) -> Spans:
    """Return ``count`` values that are joined, by their lengths."""
    sizes = vints(lengths)
    if len(sizes) != count or int(sizes.sum()) != len(content):
        raise ValueError(
            f"{len(sizes)} lengths with a sum of {int(sizes.sum())} bytes,"
            f" for {count} records of {len(content)} bytes"
        )
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    return Spans(content, bounds[:-1], bounds[1:])
