r"""Format ``Text``: every payload followed by a delimiter, without escaping.

| option | default | meaning |
|---|---|---|
| ``delimiter`` | ``"\n"`` | bytes, with escapes; see below for empty |
| ``delimiterInside`` | ``DeadLetter`` | or ``Keep``: write payloads that contain the delimiter |
| ``tombstones`` | ``DeadLetter`` | or ``Empty``: write a tombstone like an empty payload |
| ``extension`` | ``.txt``, ``.txt.gz`` or ``.txt.zst`` | Secor: ``""``, ``.gz`` or ``.zst`` |
| codec | ``Gzip`` | or ``Zstd``, ``None`` |

With an empty delimiter payloads are written back to back, and the object cannot be read back into
rows. With ``Keep`` a reader sees several rows where such a payload was written. Offsets, keys,
timestamps and headers are not stored.

This module also holds what the formats share.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Codec
from landfall.formats import Block, Encoder, Row, codecs
from landfall.formats.lines import Lines, LinesMerger, split, split_values
from landfall.formats.options import FormatOptions, Tombstones
from landfall.formats.slices import contains
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import NO_BAD_ROWS, BadRows, Records

BLOCK_BYTES = 2**20
"""Payload bytes in a block of text formats: small enough for a task to buffer thousands, large
enough that a fresh compressor for each block costs nothing.
"""
TOMBSTONE_ERROR = "this format cannot write a tombstone"
_HELD_BYTES = 1024
"""The memory of an encoder between two blocks: a few Python objects."""


class DelimiterInside(StrEnum):
    """The treatment of a payload that contains the delimiter."""

    DEAD_LETTER = "DeadLetter"
    KEEP = "Keep"


class LinesEncoder:
    """Writes every payload as a line."""

    def __init__(self, lines: Lines, compressor: codecs.Compressor) -> None:
        self._lines = lines
        self._compressor = compressor

    def encode(self, block: Block) -> bytes:
        """Return the lines of the block, compressed."""
        return self._compressor.compress(self._lines.join(block.records))

    def finish(self) -> bytes:
        """Return the end of the compressed data."""
        return self._compressor.finish()

    @property
    def held_bytes(self) -> int:
        """A small constant, because no compressor exists between two blocks."""
        return _HELD_BYTES


@dataclass(frozen=True)
class TextFormat:
    """The format ``Text``."""

    delimiter: bytes
    delimiter_inside: DelimiterInside
    tombstones: Tombstones
    codec: Codec
    extension: str
    level: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "TextFormat":
        """Build the format from ``spec.output``; ValueError names a wrong option."""
        unread = FormatOptions(options)
        codec = unread.codec(Codec.GZIP, Codec.ZSTD, Codec.NONE)
        text = cls(
            delimiter=unread.delimiter("delimiter", "\n"),
            delimiter_inside=unread.choice("delimiterInside", DelimiterInside.DEAD_LETTER),
            level=unread.level(codec),
            tombstones=unread.tombstones(Tombstones.DEAD_LETTER, Tombstones.EMPTY),
            codec=codec,
            extension=unread.extension(".txt" + codecs.STREAMS[codec].extension),
        )
        unread.close()
        return text

    @property
    def wanted(self) -> Wanted:
        """Nothing but the payloads."""
        return Wanted()

    @property
    def block_bytes(self) -> int:
        """See ``BLOCK_BYTES``."""
        return BLOCK_BYTES

    def refuse(self, records: Records) -> BadRows:
        """Return tombstones and payloads with the delimiter inside, unless options allow them."""
        values = records.values
        search = self.delimiter_inside is DelimiterInside.DEAD_LETTER and may_hold(
            values, self.delimiter
        )
        return bad_rows(
            (
                self._contains_delimiter(values) if search else None,
                f"the payload contains the delimiter {self.delimiter!r}",
            ),
            (tombstones(values, self.tombstones), TOMBSTONE_ERROR),
        )

    def _contains_delimiter(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Return which payloads a reader would see end too early.

        The delimiter is searched in the payload with the delimiter appended, because the two may
        overlap: ``a|`` before the delimiter ``||`` is read as ``a``.
        """
        ends = pc.find_substring(
            pc.binary_join_element_wise(values, self.delimiter, b""), pattern=self.delimiter
        )
        return pc.not_equal(ends, pc.binary_length(values))

    def encoder(self) -> Encoder:
        """Return an encoder for a new object."""
        lines = Lines(self.delimiter, b"" if self.tombstones is Tombstones.EMPTY else None)
        return LinesEncoder(lines, codecs.STREAMS[self.codec].compressor(self.level))

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back; raises ValueError if it is damaged or the delimiter is empty."""
        return split(codecs.decompress(self.codec, stream), self.delimiter)

    def values(self, stream: BinaryIO) -> Iterator[list[bytes]]:
        """Read the payloads of an object back, some at a time; raises as ``rows``."""
        return split_values(codecs.decompress(self.codec, stream), self.delimiter)

    def merger(self) -> LinesMerger | None:
        """Return what merges objects; None if their rows cannot be counted."""
        keeps = self.delimiter_inside is DelimiterInside.KEEP
        return (
            None
            if keeps or not self.delimiter
            else LinesMerger(self.codec, self.delimiter, level=self.level)
        )


def may_hold(values: pa.BinaryArray, pattern: bytes) -> bool:
    """Return False if no value contains the pattern; True means that some value may contain it.

    This is a fast check for a pattern of one byte, which most payloads do not contain. A
    longer pattern always gives True, because a reader may see it where the end of a
    payload meets the delimiter.
    """
    return len(pattern) > 1 or (len(pattern) == 1 and contains(values, pattern[0]))


def tombstones(values: pa.BinaryArray, policy: Tombstones) -> pa.BooleanArray | None:
    """Return which rows are tombstones that become dead letters; None if no row is."""
    return values.is_null() if values.null_count and policy is Tombstones.DEAD_LETTER else None


def bad_rows(*reasons: tuple[pa.BooleanArray | None, str]) -> BadRows:
    """Return the rows that any of the masks marks, each with the error of its mask.

    A mask of None and a null in a mask mark nothing. No row may be marked twice.
    """
    rows: dict[int, str] = {}
    for mask, error in reasons:
        if mask is not None:
            marked = pc.indices_nonzero(mask.fill_null(False)).to_pylist()  # noqa: FBT003  # Arrow's signature
            rows.update(dict.fromkeys(marked, error))
    ordered = sorted(rows)
    return (
        BadRows(np.array(ordered, np.int64), [rows[row] for row in ordered])
        if rows
        else NO_BAD_ROWS
    )
