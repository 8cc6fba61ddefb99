"""A reader of Hadoop SequenceFiles, version 6.

It is written from Hadoop's description of the format and shares no code with the writer. Memory
holds what lies between two sync marks; with block compression, that is a block. Keys of landed
objects are LongWritable (the offset) or BytesWritable (a MessagePack map: 1 offset, 2 key, 3
timestamp), values are BytesWritable. Other files have keys and values of any class.
"""

import bz2
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

import msgpack
import pyarrow as pa

from landfall_audit.memory_limit import bounded
from landfall_audit.objects.avro_blocks import number, unzstd

Record: TypeAlias = tuple[int, bytes | None, int | None, bytes]
"""Offset, Kafka key, Kafka timestamp, payload."""
Decompress: TypeAlias = Callable[[bytes], bytes]

_READ_BYTES = 1 << 20
_HADOOP = "org.apache.hadoop.io."
_ESCAPE = b"\xff" * 4


@dataclass(frozen=True)
class SequenceHeader:
    """The header of a file.

    Attributes:
        key: the class of the keys.
        value: the class of the values.
        decompress: makes the contents of compressed values or blocks.
        has_blocks: whether records are compressed in blocks.
        sync: the bytes after the escape in a sync mark.
    """

    key: str
    value: str
    decompress: Decompress
    has_blocks: bool
    sync: bytes

    @property
    def mark(self) -> bytes:
        """A sync mark."""
        return _ESCAPE + self.sync


def read_header(stream: BinaryIO) -> SequenceHeader:
    """Read up to the first record or block.

    Raises:
        ValueError, EOFError: it is no SequenceFile, or damaged.
    """
    magic, key, value = _exactly(stream, 4), _string(stream), _string(stream)
    if magic != b"SEQ\x06":
        raise ValueError(f"not a SequenceFile: {magic!r}")
    compressed, blocks = (bool(flag) for flag in _exactly(stream, 2))
    decompress = bounded()(_codec(_string(stream))) if compressed else bytes
    # The metadata: pairs of names and values that carry nothing Landfall needs.
    for _ in range(int.from_bytes(_exactly(stream, 4), "big")):
        _string(stream), _string(stream)
    return SequenceHeader(key, value, decompress, blocks, _exactly(stream, 16))


def pairs(
    stream: BinaryIO, header: SequenceHeader, is_over: Callable[[int], bool] = lambda _: False
) -> Iterator[tuple[bytes, bytes]]:
    """Every key and value in order, as they are serialized.

    Args:
        stream: the file, after its header or at a sync mark.
        header: its header.
        is_over: asked at each sync mark, given how many bytes of it are read, whether to end there.
    """
    return (_in_blocks if header.has_blocks else _in_records)(stream, header, is_over)


def records(stream: BinaryIO) -> Iterator[Record]:
    """Every record of a landed object in order.

    Raises:
        ValueError, EOFError, zlib.error: the file has another format, or it is damaged.
    """
    header = read_header(stream)
    if header.value != f"{_HADOOP}BytesWritable":
        raise ValueError(f"not a SequenceFile of payloads: {header.value}")
    decode_key = _KEYS.get(header.key)
    if decode_key is None:
        raise ValueError(f"unknown key class {header.key}")
    for key_bytes, value_bytes in pairs(stream, header):
        yield (*decode_key(key_bytes), payload(value_bytes))


def content(class_: str, written: bytes) -> bytes | None:
    """Return what a serialized key or value holds; of an unknown class, the bytes as they are."""
    match class_.removeprefix(_HADOOP):
        case "BytesWritable":
            return payload(written)
        case "Text":
            stream = _BytesStream(written)
            text = _exactly(stream, _number(stream))
            if not stream.at_end:
                raise ValueError("a text whose length is not the one it states")
            return text
        case "NullWritable":
            return None
    return written


def _in_blocks(
    stream: BinaryIO, header: SequenceHeader, is_over: Callable[[int], bool]
) -> Iterator[tuple[bytes, bytes]]:
    while mark := stream.read(4):
        if is_over(len(mark)):
            return
        if mark + _exactly(stream, 16) != header.mark:
            raise ValueError("a block without a sync mark before it")
        count = _number(stream)
        keys = _block_column(stream, header.decompress)
        values = _block_column(stream, header.decompress)
        if not len(keys) == len(values) == count:
            raise ValueError(
                f"a block of {count} records with {len(keys)} keys and {len(values)} values"
            )
        yield from zip(keys, values, strict=True)


def _block_column(stream: BinaryIO, decompress: Decompress) -> list[bytes]:
    lengths = _BytesStream(decompress(_exactly(stream, _number(stream))))
    content = _BytesStream(decompress(_exactly(stream, _number(stream))))
    found = []
    while not lengths.at_end:
        found.append(_exactly(content, _number(lengths)))
    if not content.at_end:
        raise ValueError("a block with more bytes than its records have")
    return found


def _in_records(
    stream: BinaryIO, header: SequenceHeader, is_over: Callable[[int], bool]
) -> Iterator[tuple[bytes, bytes]]:
    while start := stream.read(4):
        length = int.from_bytes(start + _exactly(stream, 4 - len(start)), "big", signed=True)
        if length == -1:
            if is_over(4):
                return
            if _exactly(stream, 16) != header.sync:
                raise ValueError("a sync mark that is not the file's")
            continue
        key_length = int.from_bytes(_exactly(stream, 4), "big", signed=True)
        key = _exactly(stream, key_length)
        yield key, header.decompress(_exactly(stream, length - key_length))


class _BytesStream:
    """Bytes as a stream that knows its end, which ``io.BytesIO`` reveals only by reading."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._content)

    def read(self, count: int) -> bytes:
        start, self._at = self._at, min(self._at + count, len(self._content))
        return self._content[start : self._at]


def _exactly(stream: "BinaryIO | _BytesStream", count: int) -> bytes:
    """Exactly so many bytes, read in chunks: a damaged length never allocates what it claims."""
    if count < 0:
        raise ValueError(f"a negative length of {count}")
    taken = stream.read(min(count, _READ_BYTES))
    chunks, left = [taken], count - len(taken)
    while left:
        more = stream.read(min(left, _READ_BYTES))
        if not more:
            raise EOFError(f"{left} bytes are missing at the end")
        chunks.append(more)
        left -= len(more)
    return b"".join(chunks)


def _number(stream: "BinaryIO | _BytesStream") -> int:
    """Hadoop's variable-length integer (``WritableUtils.readVLong``)."""
    first = int.from_bytes(_exactly(stream, 1), "big", signed=True)
    if first >= -112:
        return first
    negative = first < -120
    value = int.from_bytes(_exactly(stream, -120 - first if negative else -112 - first), "big")
    return ~value if negative else value


def _string(stream: BinaryIO) -> str:
    return _exactly(stream, _number(stream)).decode()


def _codec(name: str) -> Decompress:
    decompress = _CODECS.get(name.removeprefix(f"{_HADOOP}compress."))
    if decompress is None:
        raise ValueError(f"unknown codec {name}")
    return decompress


def _inflate(compressed: bytes) -> bytes:
    # 47 = 15 (the largest window) + 32 (detect zlib or gzip framing by the first bytes).
    return zlib.decompress(compressed, 47)


def _unsnappy(compressed: bytes) -> bytes:
    """Blocks of chunks: a block begins with the size of its contents, a chunk with its own size."""
    stream, found = _BytesStream(compressed), []
    while not stream.at_end:
        missing = int.from_bytes(_exactly(stream, 4), "big")
        while missing > 0:
            chunk = _exactly(stream, int.from_bytes(_exactly(stream, 4), "big"))
            size, _ = number(chunk, 0, signed=False)
            found.append(pa.decompress(chunk, size, "snappy", asbytes=True))
            missing -= size
    return b"".join(found)


_CODECS: dict[str, Decompress] = {
    "DefaultCodec": _inflate,
    "DeflateCodec": _inflate,
    "GzipCodec": _inflate,
    "BZip2Codec": bz2.decompress,
    "ZStandardCodec": unzstd,
    "SnappyCodec": _unsnappy,
}
"""By the classes of Hadoop's codecs."""


def payload(written: bytes) -> bytes:
    """The bytes of a BytesWritable."""
    if int.from_bytes(written[:4], "big") != len(written) - 4:
        raise ValueError("a payload whose length is not the one it states")
    return written[4:]


def _long(key: bytes) -> tuple[int, bytes | None, int | None]:
    return int.from_bytes(key, "big", signed=True), None, None


def _packed(key: bytes) -> tuple[int, bytes | None, int | None]:
    fields = msgpack.unpackb(payload(key), strict_map_key=False)
    if not isinstance(fields, dict) or not isinstance(fields.get(1), int):
        raise ValueError(f"a key without an offset: {fields!r:.100}")  # noqa: TRY004  # damaged data
    return fields[1], fields.get(2), fields.get(3)


_KEYS = {f"{_HADOOP}LongWritable": _long, f"{_HADOOP}BytesWritable": _packed}
