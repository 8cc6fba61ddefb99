"""Format ``Avro``: object container files, to which payloads are copied as they are.

Every file has one schema, its payloads', and their encoded values follow each other in
blocks; nothing is decoded but to find that each payload is exactly one value of its schema.

| option | default | meaning |
|---|---|---|
| ``envelope`` | true | whether ``_topic``, ``_partition``, ``_offset``, ``_timestamp`` are stored |
| ``blockBytes`` | ``1Mi`` | payload bytes in a block, which readers decompress as a whole |
| ``extension`` | ``.avro`` | |
| codec | ``Deflate`` | or ``Zstd``, ``Snappy``, ``None`` |

A record is encoded as its fields, one after the other, so the envelope is four more fields at the
end of the schema and a few bytes after each payload. ``envelopes`` explains the treatment of
schemas that are no records. Tombstones have no place in such a file, and keys and headers are not
stored.

The sync marker, which Avro's library chooses at random, is derived from the topic partition, the
first offset and the schema, so that the same rows give the same bytes and two files have different
markers.

Source: Apache Avro 1.12 specification, "Object Container Files".
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib

from landfall.api.spec import Codec
from landfall.formats import Block, Encoder, Row, codecs, text
from landfall.formats.avro import landed
from landfall.formats.avro.envelopes import enveloped
from landfall.formats.avro.file import AvroHeader, varint
from landfall.formats.avro.merging import AvroMerger
from landfall.formats.options import FormatOptions
from landfall.formats.sequencefile import writables
from landfall.formats.slices import payload_bytes
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.records import NO_BAD_ROWS, BadRows, Int64s, Records

Compress = Callable[[codecs.Bytes, int | None], bytes]

SCHEMA_KEY = "landfall-schema"
_HELD_BYTES = 1024
_NO_TIMESTAMP = -1
_NULL, _PRESENT = b"\x00", b"\x02"
"""The branches of the union of a timestamp."""


def _snappy(block: codecs.Bytes, level: int | None) -> bytes:  # noqa: ARG001  # it has none
    """Snappy's raw format, and the CRC-32 of the block (specification, "snappy")."""
    crc32 = isal_zlib.crc32(block)
    return bytes(pa.compress(block, "snappy", asbytes=True)) + crc32.to_bytes(4, "big")


def _plain(block: codecs.Bytes, level: int | None) -> bytes:  # noqa: ARG001  # it has none
    return bytes(block)


COMPRESSORS: Mapping[Codec, tuple[str, Compress]] = MappingProxyType(
    {
        Codec.DEFLATE: ("deflate", codecs.raw_deflate),
        Codec.ZSTD: ("zstandard", codecs.zstd),
        Codec.SNAPPY: ("snappy", _snappy),
        Codec.NONE: ("null", _plain),
    }
)


@dataclass(frozen=True)
class AvroFormat:
    """The format ``Avro``."""

    envelope: bool
    block_bytes: int
    codec: Codec
    extension: str
    level: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "AvroFormat":
        """Build the format from ``spec.output``; ValueError names a wrong option."""
        unread = FormatOptions(options)
        made = cls(
            envelope=unread.flag("envelope", default=True),
            block_bytes=unread.quantity("blockBytes", text.BLOCK_BYTES),
            codec=unread.codec(Codec.DEFLATE, Codec.ZSTD, Codec.SNAPPY, Codec.NONE),
            extension=unread.extension(".avro"),
        )
        made = replace(made, level=unread.level(made.codec))
        unread.close()
        return made

    def compress(self, block: codecs.Bytes) -> bytes:
        """Return the block, compressed."""
        return COMPRESSORS[self.codec][1](block, self.level)

    @property
    def wanted(self) -> Wanted:
        """The payloads as their schema encodes them."""
        return Wanted(bodies=True, timestamps=self.envelope)

    def refuse(self, records: Records) -> BadRows:  # noqa: ARG002  # the protocol's
        """Return no row: the decoder has rejected what is no value of a schema."""
        return NO_BAD_ROWS

    def encoder(self) -> Encoder:
        """Return an encoder for a new object."""
        return AvroEncoder(self)

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back, with any codec; raises ValueError if it is damaged."""
        return landed.rows(stream)

    def merger(self) -> AvroMerger:
        """Return what merges objects; blocks are copied as they are."""
        return AvroMerger(self.compress)


class AvroEncoder:
    """Writes one object container file."""

    def __init__(self, format_: AvroFormat) -> None:
        self._format = format_
        self._sync = b""

    def encode(self, block: Block) -> bytes:
        """Return the records of the block, and before the first the header of the file."""
        records = block.records
        if not len(records):
            return b""
        header = b"" if self._sync else self._header(block)
        values = records.values
        if values.null_count:
            raise ValueError(f"{records.topic_partition}: tombstones in a block of an Avro file")
        content = payload_bytes(_with_coordinates(records) if self._format.envelope else values)
        compressed = self._format.compress(content)
        size = varint(len(records)) + varint(len(compressed))
        return b"".join((header, size, compressed, self._sync))

    def finish(self) -> bytes:
        """Return nothing: a file ends with its last block, and has at least one."""
        return b""

    @property
    def held_bytes(self) -> int:
        """A small constant, because every block is compressed and written at once."""
        return _HELD_BYTES

    def _header(self, block: Block) -> bytes:
        schema = block.schema
        assert schema is not None, "the format asks for bodies, which have a schema"
        records = block.records
        seed = f"landfall/{records.topic_partition}/{records.offsets[0]}/{schema.digest}"
        self._sync = hashlib.md5(seed.encode(), usedforsecurity=False).digest()
        declared = enveloped(schema.text) if self._format.envelope else schema.text
        return AvroHeader(_metadata(schema, declared, self._format.codec), self._sync).written()


def _metadata(schema: RowSchema, declared: str, codec: Codec) -> Mapping[str, bytes]:
    """Return the metadata of a file: a map of bytes by name."""
    entries = {
        "avro.schema": declared,
        "avro.codec": COMPRESSORS[codec][0],
        f"{SCHEMA_KEY}-digest": schema.digest,
        f"{SCHEMA_KEY}-name": schema.name,
    }
    return {name: value.encode() for name, value in entries.items()}


def _with_coordinates(records: Records) -> pa.BinaryArray:
    """Return each payload with the fields of its envelope after it."""
    tp, times = records.topic_partition, records.timestamps
    topic = tp.topic.encode()
    fixed = varint(len(topic)) + topic + varint(tp.partition)
    dated = times != _NO_TIMESTAMP
    parts = [records.values, fixed, varints(records.offsets)]
    if dated.all():
        parts += [_PRESENT, varints(times)]
    else:
        present = pc.binary_join_element_wise(_PRESENT, varints(times), b"")
        parts.append(pc.if_else(pa.array(dated), present, _NULL))
    return pc.binary_join_element_wise(*parts, b"")


def _width(zigzag: int) -> int:
    return max(-(-zigzag.bit_length() // 7), 1)


def varints(numbers: Int64s) -> pa.BinaryArray:
    """Return each number as Avro's long."""
    rows = len(numbers)
    if not rows:
        return pa.array([], pa.binary())
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    shortest, longest = (_width(int(bound)) for bound in (zigzag.min(), zigzag.max()))
    octets = np.empty((rows, longest), np.uint8)
    for place in range(longest):
        octets[:, place] = zigzag >> np.uint64(7 * place)
    octets |= 0x80
    if shortest == longest:
        octets[:, -1] &= 0x7F
        return writables.of_width(octets.tobytes(), longest)
    widths = np.ones(rows, np.int64)
    for place in range(1, longest):
        widths += zigzag >= np.uint64(1 << 7 * place)
    octets[np.arange(rows), widths - 1] &= 0x7F
    bounds = np.zeros(rows + 1, np.int32)
    np.cumsum(widths, out=bounds[1:])
    written = octets[np.arange(longest) < widths[:, np.newaxis]]
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(written)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)
