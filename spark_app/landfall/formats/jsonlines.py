r"""Format ``Json``: JSON lines, each payload on a line of its own.

The decoder has checked that each payload is JSON. JSON allows line breaks only between tokens,
where they are white space. So in a pretty-printed payload each line break is replaced by a space,
and every other byte stays: numbers, duplicate keys and the order of fields are not changed.

| option | default | meaning |
|---|---|---|
| ``tombstones`` | ``DeadLetter`` | or ``Null``: write a tombstone as the line ``null`` |
| ``extension`` | ``.json``, ``.json.gz`` or ``.json.zst`` | Secor: ``""``, ``.gz`` or ``.zst`` |
| codec | ``Gzip`` | or ``Zstd``, ``None`` |

Offsets, keys, timestamps and headers are not stored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from landfall.api.spec import Codec
from landfall.formats import Encoder, Row, codecs, text
from landfall.formats.lines import Lines, LinesMerger, split, split_values
from landfall.formats.options import FormatOptions, Tombstones
from landfall.formats.sort_keys import json_key
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import BadRows, Records


@dataclass(frozen=True)
class JsonFormat:
    """The format ``Json``."""

    tombstones: Tombstones
    codec: Codec
    extension: str
    level: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "JsonFormat":
        """Build the format from ``spec.output``; ValueError names a wrong option."""
        unread = FormatOptions(options)
        codec = unread.codec(Codec.GZIP, Codec.ZSTD, Codec.NONE)
        json = cls(
            level=unread.level(codec),
            tombstones=unread.tombstones(Tombstones.DEAD_LETTER, Tombstones.NULL),
            codec=codec,
            extension=unread.extension(".json" + codecs.STREAMS[codec].extension),
        )
        unread.close()
        return json

    @property
    def wanted(self) -> Wanted:
        """The decoder must deliver JSON payloads."""
        return Wanted(json=True)

    @property
    def block_bytes(self) -> int:
        """See ``text.BLOCK_BYTES``."""
        return text.BLOCK_BYTES

    def refuse(self, records: Records) -> BadRows:
        """Return tombstones as bad rows, unless ``tombstones`` is ``Null``."""
        return text.bad_rows(
            (text.tombstones(records.values, self.tombstones), text.TOMBSTONE_ERROR)
        )

    def encoder(self) -> Encoder:
        """Return an encoder for a new object."""
        return text.LinesEncoder(self.lines, codecs.STREAMS[self.codec].compressor(self.level))

    @property
    def lines(self) -> Lines:
        """How payloads become lines."""
        tombstone = b"null" if self.tombstones is Tombstones.NULL else None
        return Lines(b"\n", tombstone, unbroken=True)

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back; raises ValueError if it is damaged."""
        return split(codecs.decompress(self.codec, stream), b"\n")

    def values(self, stream: BinaryIO) -> Iterator[list[bytes]]:
        """Read the payloads of an object back, some at a time; raises as ``rows``."""
        return split_values(codecs.decompress(self.codec, stream), b"\n")

    def merger(self) -> LinesMerger:
        """Return what merges objects; blocks are copied as they are."""
        return LinesMerger(self.codec, b"\n", json_key, self.level)
