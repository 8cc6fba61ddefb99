"""Format ``SequenceFile``: Hadoop SequenceFiles, version 6, in the way Secor writes them.

Hadoop's own reader opens them without native libraries.

| option | default | meaning |
|---|---|---|
| ``keyMode`` | ``Legacy`` | or ``MessagePack``, see below |
| ``compression`` | ``Block`` | or ``Record`` (each value separately), ``None`` |
| ``tombstones`` | ``Empty`` | write them like empty payloads; or ``DeadLetter`` |
| ``extension`` | ``.seq`` | Secor's files have the codec's: ``""``, ``.deflate``, ``.gz`` |
| codec | ``Deflate`` | or ``Gzip``, ``None``; ``None`` if and only if ``compression`` is |

A key is a LongWritable with the offset (``Legacy``) or a BytesWritable with a MessagePack map of
offset, timestamp and Kafka key (``MessagePack``, see docs/adr/0001). A value is a BytesWritable
with the payload. Headers are not stored; ``Legacy`` stores neither Kafka keys nor timestamps.
``Deflate`` is Hadoop's DefaultCodec.

With ``Block``, each block of rows is a block of the file. Otherwise there is a sync marker at the
start of each block of rows and then about every 100 kB, as in Hadoop. The marker, which Hadoop
chooses at random, is derived from the topic partition and the first offset, so that the same rows
give the same bytes and two files still have different markers.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Codec
from landfall.formats import Block, Encoder, Row, codecs, text
from landfall.formats.options import FormatOptions, Tombstones
from landfall.formats.sequencefile import landed, writables
from landfall.formats.sequencefile.contents import BYTES_WRITABLE, LONG_WRITABLE
from landfall.formats.sequencefile.file import ESCAPE, SequenceFileHeader
from landfall.formats.sequencefile.merging import SequenceMerger
from landfall.formats.slices import payload_bytes
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import BadRows, Records

Compress = Callable[[codecs.Bytes, int | None], bytes]

_SYNC_INTERVAL = 5 * 1024 * (4 + 16)
"""Bytes between two sync markers: Hadoop's SequenceFile.SYNC_INTERVAL."""
_HELD_BYTES = 1024


class KeyMode(StrEnum):
    """The contents of the keys."""

    LEGACY = "Legacy"
    MESSAGE_PACK = "MessagePack"


class CompressionUnit(StrEnum):
    """The unit of compression."""

    BLOCK = "Block"
    RECORD = "Record"
    NONE = "None"


COMPRESSORS: Mapping[Codec, tuple[str, Compress]] = MappingProxyType(
    {
        Codec.DEFLATE: ("org.apache.hadoop.io.compress.DefaultCodec", codecs.deflate),
        Codec.GZIP: ("org.apache.hadoop.io.compress.GzipCodec", codecs.gzip),
    }
)


@dataclass(frozen=True)
class SequenceFileFormat:
    """The format ``SequenceFile``."""

    key_mode: KeyMode
    compression: CompressionUnit
    codec: Codec
    tombstones: Tombstones
    extension: str
    level: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "SequenceFileFormat":
        """Build the format from ``spec.output``; ValueError names a wrong option."""
        unread = FormatOptions(options)
        # Either of the two options set to None implies the other.
        plain = Codec.NONE in (options.get("compression"), options.get("codec"))
        file = cls(
            key_mode=unread.choice("keyMode", KeyMode.LEGACY),
            compression=unread.choice(
                "compression", CompressionUnit.NONE if plain else CompressionUnit.BLOCK
            ),
            codec=unread.choice(
                "codec", Codec.NONE if plain else Codec.DEFLATE, (*COMPRESSORS, Codec.NONE)
            ),
            tombstones=unread.tombstones(Tombstones.EMPTY, Tombstones.DEAD_LETTER),
            extension=unread.extension(".seq"),
        )
        file = replace(file, level=unread.level(file.codec))
        unread.close()
        if plain and (file.compression, file.codec) != (CompressionUnit.NONE, Codec.NONE):
            raise ValueError(
                f"option compression: {file.compression} cannot be used with codec {file.codec}"
            )
        return file

    @property
    def wanted(self) -> Wanted:
        """MessagePack keys need timestamps and Kafka keys."""
        packed = self.key_mode is KeyMode.MESSAGE_PACK
        return Wanted(timestamps=packed, keys=packed)

    @property
    def block_bytes(self) -> int:
        """See ``text.BLOCK_BYTES``."""
        return text.BLOCK_BYTES

    def refuse(self, records: Records) -> BadRows:
        """Return tombstones as bad rows if ``tombstones`` is ``DeadLetter``."""
        return text.bad_rows(
            (
                text.tombstones(records.values, self.tombstones),
                "a tombstone, and option tombstones is DeadLetter",
            )
        )

    def encoder(self) -> Encoder:
        """Return an encoder for a new object."""
        return SequenceFileEncoder(self)

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back, with any key mode, compression and codec.

        Raises:
            ValueError: the object is damaged.
        """
        return landed.rows(stream)

    def merger(self) -> SequenceMerger:
        """Return what merges objects; blocks and records are copied as they are."""
        return SequenceMerger()


class SequenceFileEncoder:
    """Writes one SequenceFile."""

    def __init__(self, file: SequenceFileFormat) -> None:
        self._file = file
        self._sync = b""

    def encode(self, block: Block) -> bytes:
        """Return the records of the block, and before the first the header of the file."""
        records = block.records
        if not len(records):
            return b""
        header = (
            b"" if self._sync else self._header(f"{records.topic_partition}/{records.offsets[0]}")
        )
        body = self._block if self._file.compression is CompressionUnit.BLOCK else self._records
        return header + body(records)

    def finish(self) -> bytes:
        """Return nothing, or the header if there was no record."""
        return b"" if self._sync else self._header("")

    @property
    def held_bytes(self) -> int:
        """A small constant, because every block is compressed and written at once."""
        return _HELD_BYTES

    def _header(self, seed: str) -> bytes:
        file = self._file
        self._sync = hashlib.md5(f"landfall/{seed}".encode(), usedforsecurity=False).digest()
        return SequenceFileHeader(
            key=LONG_WRITABLE if file.key_mode is KeyMode.LEGACY else BYTES_WRITABLE,
            value=BYTES_WRITABLE,
            codec=COMPRESSORS[file.codec][0] if file.codec in COMPRESSORS else "",
            is_blocks=file.compression is CompressionUnit.BLOCK,
            sync=self._sync,
        ).written()

    def _block(self, records: Records) -> bytes:
        """Return a block: sync marker, count, key lengths, keys, value lengths, values.

        Each of the last four is compressed as a whole.
        """
        compress = COMPRESSORS[self._file.codec][1]
        out = [ESCAPE, self._sync, writables.vint(len(records))]
        is_legacy = self._file.key_mode is KeyMode.LEGACY
        write_keys = writables.offsets_written if is_legacy else writables.messagepack_keys_written
        for column in (write_keys(records), writables.values_written(records)):
            for part in (column.lengths, column.contents):
                compressed = compress(part, self._file.level)
                out += (writables.vint(len(compressed)), compressed)
        return b"".join(out)

    def _records(self, records: Records) -> bytes:
        """Return records with sync markers between: lengths of record and key, key, value."""
        keys = (
            writables.of_width(records.offsets.astype(">i8").tobytes(), 8)
            if self._file.key_mode is KeyMode.LEGACY
            else writables.bytes_writables(writables.messagepack_keys(records))
        )
        values = writables.values_as_writables(records)
        if self._file.compression is CompressionUnit.RECORD:
            # Hadoop's layout requires a compressor per value. This is the only loop over records
            # here, and it is slow.
            compress = COMPRESSORS[self._file.codec][1]
            values = pa.array(
                [compress(value.as_buffer(), self._file.level) for value in values], pa.binary()
            )
        key_bytes, value_bytes = (
            pc.binary_length(column).to_numpy().astype(np.int64) for column in (keys, values)
        )
        # A marker precedes the first record and each record that starts in a new interval.
        starts = np.cumsum(8 + key_bytes + value_bytes) - (8 + key_bytes + value_bytes)
        marked = np.diff(starts // _SYNC_INTERVAL, prepend=-1) > 0
        markers = pc.if_else(pa.array(marked), ESCAPE + self._sync, b"")
        lengths = writables.int32s(key_bytes + value_bytes), writables.int32s(key_bytes)
        return bytes(
            payload_bytes(pc.binary_join_element_wise(markers, *lengths, keys, values, b""))
        )
