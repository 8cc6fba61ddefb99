"""Delimited rows: writing them, reading them back, and merging objects of them.

Payloads are joined to lines by the extension, which copies each once, or by Arrow, which takes a
pass for each step: the result is the same.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Codec
from landfall.formats import Row, codecs
from landfall.formats.codecs import Bytes
from landfall.formats.external_sort import Keyed, RowSorter
from landfall.formats.merging import Keys, Mask, NotMergeableError, ReadRange, Tee
from landfall.formats.slices import contains, native_columns, payload_bytes
from landfall.formats.sort_keys import json_sort_key
from landfall.native import hot_path
from landfall.pipeline.records import Records

KeyOf = Callable[[bytes], bytes | None]
"""Reads the key of a row."""
MAX_ROW_BYTES = 2**30
"""No row is longer: Kafka's clients take no record of a gigabyte. An object that is not Landfall's
any more may be a few megabytes that unpack to any length.
"""
_ROWS = 10_000
_LINE_BREAKS = (b"\n", b"\r")
_BLOCK_BYTES = 2**20


def split(chunks: Iterable[bytes], delimiter: bytes) -> Iterator[Row]:
    """Return the rows of delimited bytes, as ``split_values``.

    Raises:
        ValueError: as ``split_values``.
    """
    for values in split_values(chunks, delimiter):
        yield from (Row(None, value) for value in values)


def split_values(chunks: Iterable[bytes], delimiter: bytes) -> Iterator[list[bytes]]:
    """Return the payloads of delimited bytes, some at a time; chunks may end anywhere.

    Raises:
        ValueError: the delimiter is empty, a row is too long, or the bytes end inside one.
    """
    if not delimiter:
        raise ValueError("rows cannot be separated: the delimiter is empty")
    row, pending = 0, bytearray()
    for chunk in chunks:
        # The start of a delimiter may be pending; bytes before it have been searched already, and
        # searching them for every chunk of a long row would take quadratic time.
        unsearched = max(0, len(pending) - len(delimiter) + 1)
        pending += chunk
        if pending.find(delimiter, unsearched) < 0:
            if len(pending) > MAX_ROW_BYTES:
                raise ValueError(f"row {row}: longer than {MAX_ROW_BYTES} bytes")
            continue
        *complete, pending = pending.split(delimiter)
        row += len(complete)
        yield list(map(bytes, complete))
    if pending:
        raise ValueError(
            f"row {row}: the object ends after {len(pending)} bytes of the row, before the"
            f" delimiter {delimiter!r}"
        )


class LinesMerger:
    """Merges objects of delimited rows."""

    keeps_order = True

    def __init__(
        self,
        codec: Codec,
        delimiter: bytes,
        key: Callable[[tuple[str, ...]], KeyOf] | None = None,
        level: int | None = None,
    ) -> None:
        """``key`` makes what reads the key of a row; None if rows have no fields.

        ``level`` is of what is compressed again; None for the codec's default.
        """
        self._codec = codec
        self._delimiter = delimiter
        self._key = key
        self._compressor = codecs.STREAMS[codec].compressor(level)
        self.rows = 0

    def schema_of(self, read: ReadRange, size: int) -> str:  # noqa: ARG002  # of the protocol
        """See ``Merger``."""
        return ""

    def keys(self, source: BinaryIO, path: tuple[str, ...]) -> Iterator[Keys]:
        """See ``Merger``."""
        if self._key is None:
            raise NotMergeableError("rows have no fields")
        key_of, found = self._key(path), list[bytes | None]()
        for row in split(codecs.decompress(self._codec, source), self._delimiter):
            found.append(key_of(row.value or b""))
            if len(found) == _ROWS:
                yield found
                found = []
        yield found

    def add(self, source: BinaryIO, kept: Mask | None = None) -> Iterator[bytes]:
        """See ``Merger``."""
        if kept is not None:
            yield from self._compressed_again(source, kept)
            return
        counter = _DelimiterCounter(self._delimiter)
        for copied, contents in self._copied(source):
            counter.read(contents)
            yield copied
        self.rows += counter.finish()

    def finish(self) -> bytes:
        """See ``Merger``."""
        return self._compressor.finish()

    def sorter(self, path: tuple[str, ...], memory: int) -> RowSorter:
        """See ``Sorter``; the merger is used for nothing else then."""
        return RowSorter(partial(self._keyed, json_sort_key(path)), self._sorted, memory)

    def _keyed(self, key_of: Callable[[bytes], bytes], source: BinaryIO) -> Iterator[Keyed]:
        if self._key is None:
            raise NotMergeableError("rows have no fields")
        rows, size = list[bytes](), 0
        for read in split(codecs.decompress(self._codec, source), self._delimiter):
            rows.append(read.value or b"")
            size += len(rows[-1])
            if size >= _BLOCK_BYTES or len(rows) == _ROWS:
                yield _batch(key_of, rows)
                rows, size = [], 0
        yield _batch(key_of, rows)

    def _sorted(self, tables: Iterator[pa.Table]) -> Iterator[bytes]:
        for table in tables:
            lines = [line for row in table["row"].to_pylist() for line in (row, self._delimiter)]
            yield self._compressor.compress(b"".join(lines))
        yield self.finish()

    def _copied(self, source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
        if isinstance(self._compressor, codecs.GzipCompressor):
            yield from codecs.copied_gzip(self._compressor, source)
            return
        tee = Tee(source)
        for contents in codecs.decompress(self._codec, tee):  # type: ignore[arg-type]  # it reads only
            yield self._compressor.copied(tee.take(), contents), contents
        if left := tee.take():
            yield self._compressor.copied(left, b""), b""

    def _compressed_again(self, source: BinaryIO, kept: Mask) -> Iterator[bytes]:
        lines = list[bytes]()
        size = 0
        row = -1
        rows = split(codecs.decompress(self._codec, source), self._delimiter)
        for row, read in enumerate(rows):
            if kept[row]:
                line = (read.value or b"") + self._delimiter
                lines.append(line)
                size += len(line)
            if size >= _BLOCK_BYTES:
                yield self._compressor.compress(b"".join(lines))
                lines, size = [], 0
        if lines:
            yield self._compressor.compress(b"".join(lines))
        self.rows += row + 1


def _batch(key_of: Callable[[bytes], bytes], rows: list[bytes]) -> Keyed:
    keys = pa.array(map(key_of, rows), pa.binary())
    return keys, pa.RecordBatch.from_arrays([pa.array(rows, pa.binary())], ["row"])


class _DelimiterCounter:
    """Counts delimited rows, whose bytes come in chunks that may end anywhere."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._rows = 0
        self._pending = b""

    def read(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if len(self._delimiter) == 1:
            self._rows += chunk.count(self._delimiter)
            self._pending = chunk[-1:] or self._pending
            return
        # A delimiter may begin in one chunk and end in the next; where it could also be found at
        # another place, the first counts, as for a reader.
        self._pending += chunk
        rows = self._pending.count(self._delimiter)
        if rows:
            self._rows += rows
            self._pending = self._pending.split(self._delimiter)[-1]

    def finish(self) -> int:
        """How many rows there are.

        Raises:
            ValueError: the bytes end inside a row.
        """
        is_whole = self._pending in {b"", self._delimiter}
        if not is_whole or (self._pending and len(self._delimiter) > 1):
            raise ValueError(f"row {self._rows}: the object ends before {self._delimiter!r}")
        return self._rows


@dataclass(frozen=True)
class Lines:
    """How payloads become lines.

    Attributes:
        delimiter: what follows each payload.
        tombstone: what a tombstone is written as; None if the format cannot write any.
        unbroken: whether line breaks inside a payload become spaces.
    """

    delimiter: bytes
    tombstone: bytes | None = None
    unbroken: bool = False

    def join(self, records: Records) -> Bytes:
        """Return the lines of these records.

        Raises:
            ValueError: there is a tombstone, and the format cannot write any.
        """
        module, selected = hot_path().module, records.selected
        if module and not any(values.null_count for values, _ in selected):
            columns = native_columns(selected)
            return memoryview(module.lines(columns, self.delimiter, self.unbroken))
        return payload_bytes(self._joined(records))

    def _joined(self, records: Records) -> pa.BinaryArray:
        values = records.values
        if values.null_count:
            if self.tombstone is None:
                # Tombstones are bad rows by now. Their lines would vanish from the object.
                plural = "s" if values.null_count > 1 else ""
                raise ValueError(
                    f"{records.topic_partition}: {values.null_count} tombstone{plural} in a block"
                    " of a format that cannot write any"
                )
            values = values.fill_null(self.tombstone)
        # Only white space of JSON is below 0x0e: one look shows that there is no line break.
        for line_break in _LINE_BREAKS if self.unbroken and _least(values) < 0x0E else ():
            if contains(values, line_break[0]):
                values = pc.replace_substring(values, pattern=line_break, replacement=b" ")
        return pc.binary_join_element_wise(values, self.delimiter, b"")


def _least(values: pa.BinaryArray) -> int:
    """The least byte of all values; 255 if there is none."""
    return int(np.frombuffer(payload_bytes(values), np.uint8).min(initial=255))
