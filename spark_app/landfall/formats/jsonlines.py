r"""JSON lines: every payload on a line of its own.

The decoder has proven each payload to be JSON. JSON allows raw line breaks only between tokens, where they are white
space; so a pretty-printed payload gets a space for each of them and is otherwise left byte for byte: numbers, duplicate
keys and the order of fields stay what they were.

| option | default | |
|---|---|---|
| ``tombstones`` | ``DeadLetter`` | a record without a value: a dead letter, or ``Null``: the line ``null`` |
| ``extension`` | ``.json``, ``.json.gz``, ``.json.zst`` | Secor's files have only ``""``, ``.gz``, ``.zst`` |
| codec | ``Gzip`` | or ``Zstd``, ``None`` |

Offsets, keys, timestamps and headers are not stored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Codec
from landfall.formats import Encoder, Row, codecs, text
from landfall.formats.options import Options, Tombstones
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import BadRows, Records

_LINE_BREAKS = (b"\n", b"\r")


@dataclass(frozen=True)
class Json:
    """The format ``Json``."""

    tombstones: Tombstones
    codec: Codec
    extension: str

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "Json":
        """Build it from ``spec.output``'s codec and options; ValueError names a wrong one."""
        left = Options(options)
        codec = left.codec(Codec.GZIP, Codec.ZSTD, Codec.NONE)
        json = cls(
            tombstones=left.tombstones(Tombstones.DEAD_LETTER, Tombstones.NULL),
            codec=codec,
            extension=left.extension(".json" + codecs.STREAMS[codec].ending),
        )
        left.close()
        return json

    @property
    def wanted(self) -> Wanted:
        """Payloads that are JSON."""
        return Wanted(json=True)

    @property
    def block_bytes(self) -> int:
        """Bytes of payload in a good block."""
        return text.BLOCK_BYTES

    def refuse(self, records: Records) -> BadRows:
        """Tombstones, unless the option lets them in."""
        return text.refused(
            (text.tombstones(records.values, self.tombstones), "a tombstone has no line")
        )

    def encoder(self) -> Encoder:
        """An encoder for a new object."""
        return text.LinesEncoder(self._lines, codecs.STREAMS[self.codec].compressor())

    def _lines(self, values: pa.BinaryArray) -> pa.BinaryArray:
        single = values.fill_null(b"null") if self.tombstones is Tombstones.NULL else values
        for line_break in _LINE_BREAKS:
            if text.may_hold(single, line_break):
                single = pc.replace_substring(single, pattern=line_break, replacement=b" ")
        return pc.binary_join_element_wise(single, b"\n", b"")

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back; ValueError if it is damaged."""
        return text.split(codecs.decompressed(self.codec, stream), b"\n")
