"""A reader of Hadoop SequenceFiles, version 6.

It is written from Hadoop's description of the format and shares no code with the writer. Memory
holds what lies between two sync marks; with block compression, that is a block. Keys are
LongWritable (the offset) or BytesWritable (a MessagePack map: 1 offset, 2 key, 3 timestamp), values
are BytesWritable.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeAlias

import msgpack

Record: TypeAlias = tuple[int, bytes | None, int | None, bytes]
"""Offset, Kafka key, Kafka timestamp, payload."""
Decompress: TypeAlias = Callable[[bytes], bytes]

_READ_BYTES = 1 << 20
_HADOOP = "org.apache.hadoop.io."


def records(stream: BinaryIO) -> Iterator[Record]:
    """Every record in order.

    Raises:
        ValueError, EOFError, zlib.error: the file has another format, or it is damaged.
    """
    magic, key, value = _exactly(stream, 4), _string(stream), _string(stream)
    if magic != b"SEQ\x06" or value != f"{_HADOOP}BytesWritable":
        raise ValueError(f"not a SequenceFile of payloads: {magic!r}, {value}")
    decode_key = _KEYS.get(key)
    if decode_key is None:
        raise ValueError(f"unknown key class {key}")
    compressed, blocks = (bool(flag) for flag in _exactly(stream, 2))
    decompress = _codec(_string(stream)) if compressed else bytes
    # The metadata: pairs of names and values that carry nothing Landfall needs.
    for _ in range(int.from_bytes(_exactly(stream, 4), "big")):
        _string(stream), _string(stream)
    sync = _exactly(stream, 16)
    pairs = (_in_blocks if blocks else _in_records)(stream, sync, decompress)
    for key_bytes, value_bytes in pairs:
        yield (*decode_key(key_bytes), _payload(value_bytes))


def _in_blocks(
    stream: BinaryIO, sync: bytes, decompress: Decompress
) -> Iterator[tuple[bytes, bytes]]:
    while mark := stream.read(4):
        if mark + _exactly(stream, 16) != b"\xff\xff\xff\xff" + sync:
            raise ValueError("a block without a sync mark before it")
        count = _number(stream)
        keys, values = _block_column(stream, decompress), _block_column(stream, decompress)
        if not len(keys) == len(values) == count:
            raise ValueError(
                f"a block of {count} records with {len(keys)} keys and {len(values)} values"
            )
        yield from zip(keys, values, strict=True)


def _block_column(stream: BinaryIO, decompress: Decompress) -> list[bytes]:
    lengths = _Bytes(decompress(_exactly(stream, _number(stream))))
    content = _Bytes(decompress(_exactly(stream, _number(stream))))
    found = []
    while not lengths.at_end:
        found.append(_exactly(content, _number(lengths)))
    if not content.at_end:
        raise ValueError("a block with more bytes than its records have")
    return found


def _in_records(
    stream: BinaryIO, sync: bytes, decompress: Decompress
) -> Iterator[tuple[bytes, bytes]]:
    while start := stream.read(4):
        length = int.from_bytes(start + _exactly(stream, 4 - len(start)), "big", signed=True)
        if length == -1:
            if _exactly(stream, 16) != sync:
                raise ValueError("a sync mark that is not the file's")
            continue
        key_length = int.from_bytes(_exactly(stream, 4), "big", signed=True)
        yield _exactly(stream, key_length), decompress(_exactly(stream, length - key_length))


class _Bytes:
    """Bytes as a stream that knows its end, which ``io.BytesIO`` reveals only by reading."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._content)

    def read(self, count: int) -> bytes:
        start, self._at = self._at, min(self._at + count, len(self._content))
        return self._content[start : self._at]


def _exactly(stream: "BinaryIO | _Bytes", count: int) -> bytes:
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


def _number(stream: "BinaryIO | _Bytes") -> int:
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
    if name not in {f"{_HADOOP}compress.DefaultCodec", f"{_HADOOP}compress.GzipCodec"}:
        raise ValueError(f"unknown codec {name}")
    # 47 = 15 (the largest window) + 32 (detect zlib or gzip framing by the first bytes).
    return lambda compressed: zlib.decompress(compressed, 47)


def _payload(written: bytes) -> bytes:
    if int.from_bytes(written[:4], "big") != len(written) - 4:
        raise ValueError("a payload whose length is not the one it states")
    return written[4:]


def _long(key: bytes) -> tuple[int, bytes | None, int | None]:
    return int.from_bytes(key, "big", signed=True), None, None


def _packed(key: bytes) -> tuple[int, bytes | None, int | None]:
    fields = msgpack.unpackb(_payload(key), strict_map_key=False)
    if not isinstance(fields, dict) or not isinstance(fields.get(1), int):
        raise ValueError(f"a key without an offset: {fields!r:.100}")  # noqa: TRY004  # damaged data
    return fields[1], fields.get(2), fields.get(3)


_KEYS = {f"{_HADOOP}LongWritable": _long, f"{_HADOOP}BytesWritable": _packed}
