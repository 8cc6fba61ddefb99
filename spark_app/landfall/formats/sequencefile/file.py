"""Reads SequenceFiles, version 6: a header, then blocks, or records and sync marks.

Counts, lengths and sync marks must agree, and nothing is larger than the limits: a damaged file
gives an error, never fewer records. Everything that reads SequenceFiles reads them here: parts of
files of other programs (``parts``), landed objects (``landed``), and those that are merged.

Source: Hadoop 3.4, ``SequenceFile`` (its format), ``WritableUtils.readVInt`` (``contents``).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from landfall.formats.codecs import HADOOP, Decompress
from landfall.formats.parts import ReadLimits
from landfall.formats.sequencefile.contents import Spans, vint_width, vints
from landfall.formats.sequencefile.writables import text, vint
from landfall.formats.streams import WindowReader
from landfall.pipeline.records import Int64s

ESCAPE = b"\xff\xff\xff\xff"
"""What a sync mark begins with, instead of a length."""
_VERSION = b"SEQ\x06"
_SYNC_BYTES = 16
_LENGTHS = struct.Struct(">ii")
_MAX_HEADER_BYTES = 2**20


@dataclass(frozen=True)
class SequenceFileHeader:
    """The header of a file, which describes the rest.

    Attributes:
        key: the class of the keys.
        value: the class of the values.
        codec: the class of the codec; empty without compression.
        is_blocks: whether the file consists of blocks, not of records.
        sync: what is after the escape in a sync mark.
        metadata: texts; each second one is a value.
    """

    key: str
    value: str
    codec: str
    is_blocks: bool
    sync: bytes
    metadata: tuple[bytes, ...] = ()

    def written(self) -> bytes:
        """Return the header as it begins a file."""
        flags = bytes((bool(self.codec), self.is_blocks))
        texts = [vint(len(entry)) + entry for entry in self.metadata]
        return b"".join(
            (
                _VERSION,
                text(self.key),
                text(self.value),
                flags,
                text(self.codec) if self.codec else b"",
                (len(texts) // 2).to_bytes(4, "big"),
                *texts,
                self.sync,
            )
        )

    @property
    def mark(self) -> bytes:
        """A sync mark."""
        return ESCAPE + self.sync

    def decompressed(self, data: bytes, limit: int) -> bytes:
        """Return the contents of a value or of a part of a block; ValueError if damaged."""
        decompress: Decompress | None = HADOOP[self.codec] if self.codec else None
        return data if decompress is None else decompress(data, limit)


@dataclass(frozen=True, slots=True)
class Mark:
    """A sync mark between records."""

    position: int

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True)
class SequenceFileBlock:
    """A block with the sync mark before it.

    Attributes:
        position: of its sync mark.
        count: how many records it declares.
        parts: lengths of the keys, keys, lengths of the values and values, as in the file.
        header: of the file.
        limits: how many bytes a part may have, decompressed.
        rows: how many of the first records there are here; None for all.
    """

    position: int
    count: int
    parts: tuple[bytes, ...]
    header: SequenceFileHeader
    limits: ReadLimits
    rows: int | None = None

    def __len__(self) -> int:
        return self.count if self.rows is None else self.rows

    def first(self, rows: int) -> "SequenceFileBlock":
        """Return only the first records of the block."""
        return replace(self, rows=rows)

    def keys(self) -> Spans:
        """Return the keys; ValueError if they are damaged."""
        return self._joined(self.parts[0], self.parts[1])

    def values(self) -> Spans:
        """Return the values; ValueError if they are damaged."""
        return self._joined(self.parts[2], self.parts[3])

    def _joined(self, lengths: bytes, content: bytes) -> Spans:
        limit = self.limits.block_bytes
        sizes, values = (self.header.decompressed(part, limit) for part in (lengths, content))
        return Spans.joined(self.count, sizes, values).take(slice(self.rows))

    def position_of(self, row: int) -> int:  # noqa: ARG002  # the same for all
        """Return the position of the block, which its records have."""
        return self.position

    @property
    def positions(self) -> Int64s:
        """The position of each record, which is the block's."""
        return np.full(len(self), self.position, np.int64)


@dataclass(frozen=True)
class RecordRun:
    """Records that follow each other.

    Attributes:
        content: bytes of the file, from ``begin`` on.
        starts: where in the content each record starts, with its lengths.
        key_bytes: how long each key is.
        end: where in the content the last record ends.
        header: of the file.
        limits: how many bytes a record may have, decompressed.
    """

    content: bytes
    begin: int
    starts: Int64s
    key_bytes: Int64s
    end: int
    header: SequenceFileHeader
    limits: ReadLimits

    def __len__(self) -> int:
        return len(self.starts)

    def first(self, rows: int) -> "RecordRun":
        """Return only the first records, fewer than there are."""
        starts, key_bytes = self.starts[:rows], self.key_bytes[:rows]
        return replace(self, starts=starts, key_bytes=key_bytes, end=int(self.starts[rows]))

    @cached_property
    def whole(self) -> Spans:
        """The records with their lengths, as in the file."""
        return Spans(self.content, self.starts, np.append(self.starts[1:], self.end))

    def keys(self) -> Spans:
        """Return the keys."""
        starts = self.starts + _LENGTHS.size
        return Spans(self.content, starts, starts + self.key_bytes)

    def values(self) -> Spans:
        """Return the values.

        Raises:
            DamagedRecord: one is damaged.
        """
        starts = self.starts + _LENGTHS.size + self.key_bytes
        stored = Spans(self.content, starts, self.whole.ends)
        if not self.header.codec:
            return stored
        found = []
        for row, (start, end) in enumerate(stored.pairs()):
            try:
                value = self.header.decompressed(self.content[start:end], self.limits.record_bytes)
            except ValueError as error:
                raise DamagedRecord(row, str(error)) from error
            found.append(value)
        bounds = np.cumsum([0, *map(len, found)])
        return Spans(b"".join(found), bounds[:-1], bounds[1:])

    def position_of(self, row: int) -> int:
        """Return the position of a record."""
        return self.begin + int(self.starts[row])

    @property
    def positions(self) -> Int64s:
        """The position of each record."""
        return self.starts + self.begin


Item: TypeAlias = Mark | SequenceFileBlock | RecordRun


class DamagedRecord(ValueError):  # noqa: N818  # what the record is
    """A value cannot be decompressed; ``row`` is its row."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def read_header(source: WindowReader) -> SequenceFileHeader:
    """Read what a file begins with.

    Raises:
        UnreadableFileError: it is no SequenceFile, or its codec is unknown.
    """
    if not source.has(len(_VERSION)) or source.take(len(_VERSION)) != _VERSION:
        raise source.error("not a SequenceFile of version 6: it starts otherwise", 0)
    key, value = _text(source), _text(source)
    is_compressed, is_blocks = source.take(2)
    codec = _text(source) if is_compressed else ""
    if is_compressed and codec not in HADOOP:
        raise source.error(f"codec {codec!r}, not {' or '.join(HADOOP)}", 0)
    pairs = int.from_bytes(source.take(4), "big", signed=True)
    if pairs < 0:
        raise source.error(f"metadata of {pairs} names")
    metadata = tuple(_bytes(source) for _ in range(2 * pairs))
    return SequenceFileHeader(
        key=key,
        value=value,
        codec=codec,
        is_blocks=bool(is_blocks),
        metadata=metadata,
        sync=source.take(_SYNC_BYTES),
    )


def items(
    source: WindowReader, header: SequenceFileHeader, limits: ReadLimits, end: int
) -> Iterator[Item]:
    """Return what follows, to the first mark at or after the position ``end``.

    Raises:
        UnreadableFileError: it is damaged, or larger than the limits.
    """
    while not source.at_end():
        if source.has(len(ESCAPE)) and source.window.startswith(ESCAPE, source.at):
            position = source.position
            if position >= end:
                return
            if source.take(len(header.mark)) != header.mark:
                raise source.error("another sync mark than in the header", position)
            yield _block(source, header, limits, position) if header.is_blocks else Mark(position)
        elif header.is_blocks:
            raise source.error("no sync mark before a block")
        else:
            yield _run(source, header, limits)


def _vint(source: WindowReader) -> int:
    first = source.take(1)
    try:
        return int(vints(first + source.take(vint_width(first[0]) - 1))[0])
    except ValueError as error:
        raise source.error(str(error)) from error


def _text(source: WindowReader) -> str:
    return _bytes(source).decode("utf-8", "replace")


def _bytes(source: WindowReader) -> bytes:
    size = _vint(source)
    if size > _MAX_HEADER_BYTES or source.position > _MAX_HEADER_BYTES:
        raise source.error(f"a header of more than {_MAX_HEADER_BYTES} bytes")
    return source.take(size)


def _block(
    source: WindowReader, header: SequenceFileHeader, limits: ReadLimits, position: int
) -> SequenceFileBlock:
    count = _vint(source)
    parts = []
    for _ in range(4):
        size = _vint(source)
        if size > limits.block_bytes:
            raise source.error(f"a block of more than {limits.block_bytes} bytes", position)
        parts.append(source.take(size))
    return SequenceFileBlock(
        position=position, count=count, parts=tuple(parts), header=header, limits=limits
    )


def _run(source: WindowReader, header: SequenceFileHeader, limits: ReadLimits) -> RecordRun:
    """Return the complete records in the window, at least one; it has no mark here."""
    starts, key_sizes, end = _complete(source.window, source.at)
    if not starts:
        _check_next(source, limits)
        starts, key_sizes, end = _complete(source.window, source.at)
    begin = source.position - source.at
    source.at = end
    run = RecordRun(
        content=source.window,
        begin=begin,
        starts=np.array(starts, np.int64),
        key_bytes=np.array(key_sizes, np.int64),
        end=end,
        header=header,
        limits=limits,
    )
    sizes = run.whole.ends - run.starts - _LENGTHS.size
    long = np.flatnonzero(sizes > limits.record_bytes)
    if len(long):
        raise _too_long(source, limits, run.position_of(long[0]))
    return run


def _check_next(source: WindowReader, limits: ReadLimits) -> None:
    """Have the next record in the window; raises if there is none."""
    if not source.has(_LENGTHS.size):
        raise source.error("the file ends early, inside a record")
    length, key_size = _LENGTHS.unpack_from(source.window, source.at)
    if not 0 <= key_size <= length:
        raise source.error(f"a key of {key_size} bytes in a record of {length} bytes")
    if length > limits.record_bytes:
        raise _too_long(source, limits, source.position)
    if not source.has(_LENGTHS.size + length):
        raise source.error("the file ends early, inside a record")


def _too_long(source: WindowReader, limits: ReadLimits, position: int) -> Exception:
    return source.error(f"a record of more than {limits.record_bytes} bytes", position)


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
