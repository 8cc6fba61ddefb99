"""Hadoop SequenceFiles, version 6, as Secor writes them and as Hadoop's own reader opens them without native libraries.

| option | default | |
|---|---|---|
| ``keyMode`` | ``Legacy`` | LongWritable: the offset; or ``MessagePack``: BytesWritable, see docs/adr/0001 |
| ``compression`` | ``Block`` | or ``Record`` (each value by itself), ``None`` |
| ``tombstones`` | ``Empty`` | a record without a value is written as an empty one, as Secor does; or ``DeadLetter`` |
| ``extension`` | ``.seq`` | Secor's files have only its codec's, ``""``, ``.deflate`` or ``.gz`` |
| codec | ``Deflate`` | Hadoop's DefaultCodec; or ``Gzip``, ``None`` (only and always with ``compression: None``) |

Values are BytesWritable: the payload. Headers are not stored; Legacy stores neither keys nor
timestamps.

With ``Block``, a block of rows is a block of the file. Otherwise a sync mark stands at the start of
every block of rows and then about every 100 kB, as Hadoop does it. The mark itself, random with
Hadoop, is made from the topic partition and the first offset, so that the same rows give the same
bytes and yet no landed file carries the mark of another.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Codec
from landfall.formats import Block, Encoder, Row, codecs, sequencereader, text, writables
from landfall.formats.options import Options, Tombstones
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import BadRows, Records

Compress = Callable[[codecs.Bytes], bytes]

_SYNC_ESCAPE = b"\xff\xff\xff\xff"
_SYNC_INTERVAL = 5 * 1024 * (4 + 16)
"""Bytes between two sync marks: Hadoop's SequenceFile.SYNC_INTERVAL."""
_BYTES_WRITABLE = "org.apache.hadoop.io.BytesWritable"
_LONG_WRITABLE = "org.apache.hadoop.io.LongWritable"
_HELD_BYTES = 1024


class KeyMode(StrEnum):
    """What a record's key holds."""

    LEGACY = "Legacy"
    MESSAGE_PACK = "MessagePack"


class Compression(StrEnum):
    """What is compressed as one."""

    BLOCK = "Block"
    RECORD = "Record"
    NONE = "None"


COMPRESSORS: Mapping[Codec, tuple[str, Compress]] = MappingProxyType(
    {
        Codec.DEFLATE: ("org.apache.hadoop.io.compress.DefaultCodec", codecs.deflated),
        Codec.GZIP: ("org.apache.hadoop.io.compress.GzipCodec", codecs.gzipped),
    }
)


@dataclass(frozen=True)
class SequenceFile:
    """The format ``SequenceFile``."""

    key_mode: KeyMode
    compression: Compression
    codec: Codec
    tombstones: Tombstones
    extension: str

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "SequenceFile":
        """Build it from ``spec.output``'s codec and options; ValueError names a wrong one."""
        left = Options(options)
        plain = Codec.NONE in (options.get("compression"), options.get("codec"))
        file = cls(
            key_mode=left.choice("keyMode", KeyMode.LEGACY),
            compression=left.choice(
                "compression", Compression.NONE if plain else Compression.BLOCK
            ),
            codec=left.choice(
                "codec", Codec.NONE if plain else Codec.DEFLATE, (*COMPRESSORS, Codec.NONE)
            ),
            tombstones=left.tombstones(Tombstones.EMPTY, Tombstones.DEAD_LETTER),
            extension=left.extension(".seq"),
        )
        left.close()
        if plain and (file.compression, file.codec) != (Compression.NONE, Codec.NONE):
            raise ValueError(
                f"option compression: {file.compression} does not go with codec {file.codec}"
            )
        return file

    @property
    def wanted(self) -> Wanted:
        """Payloads as they are, and what MessagePack keys are made of."""
        packed = self.key_mode is KeyMode.MESSAGE_PACK
        return Wanted(timestamps=packed, keys=packed)

    @property
    def block_bytes(self) -> int:
        """Bytes of payload in a good block."""
        return text.BLOCK_BYTES

    def refuse(self, records: Records) -> BadRows:
        """Tombstones, if the option says so."""
        return text.refused(
            (text.tombstones(records.values, self.tombstones), "a tombstone has no value")
        )

    def encoder(self) -> Encoder:
        """An encoder for a new object."""
        return SequenceFileEncoder(self)

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back, whatever its key mode, compression and codec; ValueError if it is damaged."""
        return sequencereader.rows(stream)


class SequenceFileEncoder:
    """Writes one SequenceFile."""

    def __init__(self, file: SequenceFile) -> None:
        self._file = file
        self._sync = b""

    def encode(self, block: Block) -> bytes:
        """The block's records; before the first, the file's header."""
        records = block.records
        if not len(records):
            return b""
        header = (
            b"" if self._sync else self._header(f"{records.topic_partition}/{records.offsets[0]}")
        )
        body = self._block if self._file.compression is Compression.BLOCK else self._records
        return header + body(records)

    def finish(self) -> bytes:
        """Nothing; the header, if there was no record."""
        return b"" if self._sync else self._header("")

    @property
    def held_bytes(self) -> int:
        """Next to nothing: every block is compressed and written at once."""
        return _HELD_BYTES

    def _header(self, seed: str) -> bytes:
        file = self._file
        self._sync = hashlib.md5(f"landfall/{seed}".encode(), usedforsecurity=False).digest()
        key = _LONG_WRITABLE if file.key_mode is KeyMode.LEGACY else _BYTES_WRITABLE
        flags = bytes(
            (file.compression is not Compression.NONE, file.compression is Compression.BLOCK)
        )
        codec = writables.text(COMPRESSORS[file.codec][0]) if file.codec in COMPRESSORS else b""
        no_metadata = bytes(4)
        return (
            b"SEQ\x06"
            + writables.text(key)
            + writables.text(_BYTES_WRITABLE)
            + flags
            + codec
            + no_metadata
            + self._sync
        )

    def _keys(self, records: Records) -> pa.BinaryArray:
        if self._file.key_mode is KeyMode.LEGACY:
            return writables.of_width(records.offsets.astype(">i8").tobytes(), 8)
        return writables.bytes_writables(writables.messagepack_keys(records))

    def _block(self, records: Records) -> bytes:
        """A sync mark, the count, and four compressed runs: key lengths, keys, value lengths, values."""
        compress = COMPRESSORS[self._file.codec][1]
        out = [_SYNC_ESCAPE, self._sync, writables.vint(len(records))]
        for column in (self._keys(records), _values(records)):
            lengths = writables.vints(pc.binary_length(column).to_numpy().astype(np.int64))
            for run in (lengths, column):
                compressed = compress(text.payload_bytes(run))
                out += (writables.vint(len(compressed)), compressed)
        return b"".join(out)

    def _records(self, records: Records) -> bytes:
        """Each record as its length, its key's length, its key and its (compressed) value, with sync marks between."""
        keys, values = self._keys(records), _values(records)
        if self._file.compression is Compression.RECORD:
            # Hadoop's layout asks for a compressor run per value: the one per-record loop here, and
            # as slow as it looks.
            compress = COMPRESSORS[self._file.codec][1]
            values = pa.array([compress(value.as_buffer()) for value in values], pa.binary())
        key_bytes, value_bytes = (
            pc.binary_length(column).to_numpy().astype(np.int64) for column in (keys, values)
        )
        before = np.cumsum(8 + key_bytes + value_bytes) - (8 + key_bytes + value_bytes)
        marked = np.diff(before // _SYNC_INTERVAL, prepend=-1) > 0
        marks = pc.if_else(pa.array(marked), _SYNC_ESCAPE + self._sync, b"")
        lengths = writables.int32s(key_bytes + value_bytes), writables.int32s(key_bytes)
        return bytes(
            text.payload_bytes(pc.binary_join_element_wise(marks, *lengths, keys, values, b""))
        )


def _values(records: Records) -> pa.BinaryArray:
    return writables.bytes_writables(
        records.values.fill_null(b"") if records.values.null_count else records.values
    )
