r"""Delimited text: every payload followed by the delimiter, nothing escaped, nothing else.

| option | default | |
|---|---|---|
| ``delimiter`` | ``"\n"`` | some bytes, escapes allowed; empty writes payloads back to back, which cannot be read back |
| ``delimiterInside`` | ``DeadLetter`` | a payload in which the delimiter occurs: a dead letter, or ``Keep``: several rows for a reader |
| ``tombstones`` | ``DeadLetter`` | a record without a value: a dead letter, or ``Empty``: like an empty payload |
| ``extension`` | ``.txt``, ``.txt.gz``, ``.txt.zst`` | Secor's files have only ``""``, ``.gz``, ``.zst`` |
| codec | ``Gzip`` | or ``Zstd``, ``None`` |

Offsets, keys, timestamps and headers are not stored.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Codec
from landfall.formats import Block, Encoder, Row, codecs
from landfall.formats.options import Options, Tombstones
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import NO_BAD_ROWS, BadRows, Records

BLOCK_BYTES = 2**20
"""Small enough to hold thousands, large enough that compression loses nothing at its borders."""
_HELD_BYTES = 1024
"""Of an encoder between two blocks: a few Python objects."""

Lines = Callable[[pa.BinaryArray], pa.BinaryArray]
"""Makes of every payload its line, delimiter included."""


class DelimiterInside(StrEnum):
    """What becomes of a payload in which the delimiter occurs."""

    DEAD_LETTER = "DeadLetter"
    KEEP = "Keep"


class LinesEncoder:
    """Writes payloads, each as its line."""

    def __init__(self, lines: Lines, compressor: codecs.Compressor) -> None:
        self._lines = lines
        self._compressor = compressor

    def encode(self, block: Block) -> bytes:
        """The block's lines, compressed."""
        lines = self._lines(block.records.values)
        if lines.null_count:
            raise ValueError(
                f"{block.records.topic_partition}: {lines.null_count} tombstones where none can be written"
            )
        return self._compressor.compress(payload_bytes(lines))

    def finish(self) -> bytes:
        """The compressor's end."""
        return self._compressor.finish()

    @property
    def held_bytes(self) -> int:
        """Next to nothing: no compressor lives between two blocks."""
        return _HELD_BYTES


@dataclass(frozen=True)
class Text:
    """The format ``Text``."""

    delimiter: bytes
    delimiter_inside: DelimiterInside
    tombstones: Tombstones
    codec: Codec
    extension: str

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "Text":
        """Build it from ``spec.output``'s codec and options; ValueError names a wrong one."""
        left = Options(options)
        codec = left.codec(Codec.GZIP, Codec.ZSTD, Codec.NONE)
        text = cls(
            delimiter=left.delimiter("delimiter", "\n"),
            delimiter_inside=left.choice("delimiterInside", DelimiterInside.DEAD_LETTER),
            tombstones=left.tombstones(Tombstones.DEAD_LETTER, Tombstones.EMPTY),
            codec=codec,
            extension=left.extension(".txt" + codecs.STREAMS[codec].ending),
        )
        left.close()
        return text

    @property
    def wanted(self) -> Wanted:
        """Payloads as they are."""
        return Wanted()

    @property
    def block_bytes(self) -> int:
        """Bytes of payload in a good block."""
        return BLOCK_BYTES

    def refuse(self, records: Records) -> BadRows:
        """Tombstones and payloads with the delimiter inside, unless the options let them in."""
        values = records.values
        inside = self.delimiter_inside is DelimiterInside.DEAD_LETTER and may_hold(
            values, self.delimiter
        )
        return refused(
            (
                self._torn(values) if inside else None,
                f"the payload holds the delimiter {self.delimiter!r}",
            ),
            (tombstones(values, self.tombstones), "a tombstone has no line"),
        )

    def _torn(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Where a reader would see the payload end too early: ``a|`` before a delimiter ``||`` is torn too."""
        ends = pc.find_substring(
            pc.binary_join_element_wise(values, self.delimiter, b""), pattern=self.delimiter
        )
        return pc.not_equal(ends, pc.binary_length(values))

    def encoder(self) -> Encoder:
        """An encoder for a new object."""
        return LinesEncoder(self._lines, codecs.STREAMS[self.codec].compressor())

    def _lines(self, values: pa.BinaryArray) -> pa.BinaryArray:
        present = values.fill_null(b"") if self.tombstones is Tombstones.EMPTY else values
        return pc.binary_join_element_wise(present, self.delimiter, b"")

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back; ValueError if it is damaged, or has no delimiter to tell rows apart by."""
        return split(codecs.decompressed(self.codec, stream), self.delimiter)


def payload_bytes(values: pa.BinaryArray) -> memoryview:
    """The bytes of all values back to back, without copying; nulls must not be among them."""
    _, bounds, payload = values.buffers()
    if len(values) == 0 or payload is None:
        return memoryview(b"")
    ends = np.frombuffer(bounds, np.int32, len(values) + 1, 4 * values.offset)
    return memoryview(payload)[ends[0] : ends[-1]]


def may_hold(values: pa.BinaryArray, pattern: bytes) -> bool:
    """Whether a closer look is worth it: no for most payloads, fast; always for a pattern of several bytes."""
    return len(pattern) > 1 or (len(pattern) == 1 and pattern in bytes(payload_bytes(values)))


def tombstones(values: pa.BinaryArray, wanted: Tombstones) -> pa.BooleanArray | None:
    """Where tombstones are, if there are any and they are dead letters."""
    return values.is_null() if values.null_count and wanted is Tombstones.DEAD_LETTER else None


def refused(*reasons: tuple[pa.BooleanArray | None, str]) -> BadRows:
    """The rows marked by any of the reasons, in order; no row may be marked by two. A null marks nothing."""
    rows: dict[int, str] = {}
    for marks, error in reasons:
        if marks is not None:
            rows.update(
                dict.fromkeys(pc.indices_nonzero(marks.fill_null(False)).to_pylist(), error)  # noqa: FBT003
            )
    ordered = sorted(rows)
    return (
        BadRows(np.array(ordered, np.int64), [rows[row] for row in ordered])
        if rows
        else NO_BAD_ROWS
    )


def split(pieces: Iterable[bytes], delimiter: bytes) -> Iterator[Row]:
    """Rows of delimited bytes.

    Raises:
        ValueError: there is no delimiter, or the bytes end inside a row.
    """
    if not delimiter:
        raise ValueError("rows cannot be told apart: the delimiter is empty")
    row, begun = 0, bytearray()
    for piece in pieces:
        searched = max(0, len(begun) - len(delimiter) + 1)
        begun += piece
        if begun.find(delimiter, searched) < 0:
            continue
        *whole, begun = begun.split(delimiter)
        row += len(whole)
        for value in whole:
            yield Row(None, bytes(value))
    if begun:
        raise ValueError(
            f"row {row}: the object ends after {len(begun)} bytes of it, before the delimiter {delimiter!r}"
        )
