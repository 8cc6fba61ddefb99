"""Files for the readers of ``landfall.formats``, and all that they read from their parts."""

import bz2
import gzip
import io
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import fastavro
import pyarrow as pa
import zstandard

from landfall.formats.parts import FileBytes, FilePart, FileReader

Found = tuple[int, bytes | None, bytes | None, str | None]
"""A record that was read: position, value, key, error."""
SYNC = bytes(range(100, 116))
PACKAGE = "org.apache.hadoop.io."


def read_parts(reader: FileReader, file: FileBytes, parts: Iterable[FilePart]) -> list[Found]:
    """Read all records of these parts, one part after the other."""
    found: list[Found] = []
    for part in parts:
        for chunk in reader.read(file, part):
            assert len(chunk), "chunks have records"
            keys = [None] * len(chunk) if chunk.keys is None else chunk.keys.to_pylist()
            positions, values = chunk.positions.tolist(), chunk.values.to_pylist()
            assert len(positions) == len(values) == len(keys)
            assert chunk.columns is None or len(chunk.columns) == len(chunk)
            errors = [chunk.errors.get(row) for row in range(len(chunk))]
            found += zip(positions, values, keys, errors, strict=True)
    return found


def read_all(reader: FileReader, file: FileBytes, part_bytes: int = 2**40) -> list[Found]:
    """Read a file in the parts that the reader cuts it into."""
    return read_parts(reader, file, reader.parts(file.name, file.size, part_bytes))


def values(found: Sequence[Found]) -> list[bytes | None]:
    """Return the payloads alone."""
    return [value for _, value, _, _ in found]


def parts_at(size: int, cuts: Iterable[int]) -> list[FilePart]:
    """Return the parts of a file that is cut at these bytes, as far as they are inside it."""
    bounds = sorted({0, size, *(cut for cut in cuts if 0 < cut < size)})
    return [FilePart(*bound) for bound in pairwise(bounds)] or [FilePart(0, 0)]


def compressed(suffix: str, content: bytes, at: int = 0) -> bytes:
    """Return the content compressed as files of this suffix are, as two members if ``at``."""
    members = [content[:at], content[at:]] if at else [content]
    return b"".join(_MEMBER[suffix](member) for member in members)


def _lz4(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(content)
    made: bytes = sink.getvalue().to_pybytes()
    return made


_MEMBER: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".zst": lambda content: zstandard.ZstdCompressor(write_checksum=True).compress(content),
    ".bz2": bz2.compress,
    ".lz4": _lz4,
}
SUFFIXES = tuple(_MEMBER)


@dataclass(frozen=True)
class SequenceFileOf:
    """A SequenceFile as Hadoop writes it (``SequenceFile.Writer`` and its two subclasses).

    Attributes:
        kind: ``None``, ``Record`` or ``Block`` compression, with zlib.
        sync_every: how many records there are between two sync marks, or in a block.
        classes: of keys and values.
    """

    kind: str
    sync_every: int
    classes: tuple[str, str] = (f"{PACKAGE}BytesWritable", f"{PACKAGE}Text")

    def of(self, rows: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Return the file with these serialized keys and values."""
        is_compressed, is_block = self.kind != "None", self.kind == "Block"
        codec = text(f"{PACKAGE}compress.DefaultCodec") if is_compressed else b""
        out = [b"SEQ\x06", *map(text, self.classes), bytes([is_compressed, is_block]), codec]
        out += [struct.pack(">i", 1), text("made"), text("by a test"), SYNC]
        for start in range(0, len(rows), self.sync_every):
            group = rows[start : start + self.sync_every]
            if is_block or start:
                out += [b"\xff\xff\xff\xff", SYNC]
            out += [_block(group)] if is_block else [self._record(*row) for row in group]
        return b"".join(out)

    def _record(self, key: bytes, value: bytes) -> bytes:
        value = zlib.compress(value) if self.kind == "Record" else value
        return struct.pack(">ii", len(key) + len(value), len(key)) + key + value


def _block(rows: Sequence[tuple[bytes, bytes]]) -> bytes:
    out = [vint(len(rows))]
    for column in zip(*rows, strict=True):
        for buffer in (b"".join(vint(len(each)) for each in column), b"".join(column)):
            packed = zlib.compress(buffer)
            out += [vint(len(packed)), packed]
    return b"".join(out)


def vint(number: int) -> bytes:
    """Return a number as ``WritableUtils.writeVInt`` does."""
    if number < 128:
        return bytes([number])
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([144 - len(digits)]) + digits


def text(content: str | bytes) -> bytes:
    """Return a serialized ``Text``."""
    written = content.encode() if isinstance(content, str) else content
    return vint(len(written)) + written


def bytes_writable(content: bytes) -> bytes:
    """Return a serialized ``BytesWritable``."""
    return struct.pack(">i", len(content)) + content


def avro_file(
    schema: object, rows: Sequence[object], sync_bytes: int, codec: str = "null"
) -> bytes:
    """Return an Avro file of fastavro's, whose blocks have about this many bytes."""
    made = io.BytesIO()
    parsed = fastavro.parse_schema(schema)  # type: ignore[arg-type]  # any JSON
    fastavro.writer(made, parsed, rows, codec=codec, sync_interval=sync_bytes, sync_marker=SYNC)
    return made.getvalue()


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A ``FileBytes`` in memory."""

    name: str
    content: bytes

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.content)

    def read(self, start: int, end: int, /) -> bytes:
        """Return exactly these bytes.

        Raises:
            ValueError: they are not all in the file.
        """
        if not 0 <= start <= end <= len(self.content):
            raise ValueError(f"{self.name}: no bytes [{start}, {end}) in {len(self.content)}")
        return self.content[start:end]
