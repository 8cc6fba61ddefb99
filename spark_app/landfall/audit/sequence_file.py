"""A reader of Hadoop's SequenceFiles, version 6, written from Hadoop's description of them and from nothing of Landfall's.

One file at a time: what stands between two sync marks is in memory, for block compression a block.
Keys are LongWritable (the offset) or BytesWritable (a MessagePack map: 1 offset, 2 key, 3
timestamp), values BytesWritable.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeAlias

import msgpack

Record: TypeAlias = tuple[int, bytes | None, int | None, bytes]
"""Offset, Kafka key, Kafka timestamp, payload."""
Unpack: TypeAlias = Callable[[bytes], bytes]

_PIECE_BYTES = 1 << 20
_HADOOP = "org.apache.hadoop.io."


def records(stream: BinaryIO) -> Iterator[Record]:
    """Every record in order.

    Raises:
        ValueError, EOFError, zlib.error: it is none of these files, or it is damaged.
    """
    magic, key, value = _exactly(stream, 4), _string(stream), _string(stream)
    if magic != b"SEQ\x06" or value != f"{_HADOOP}BytesWritable":
        raise ValueError(f"no SequenceFile of payloads: {magic!r}, {value}")
    opened = (
        _long
        if key == f"{_HADOOP}LongWritable"
        else _packed
        if key == f"{_HADOOP}BytesWritable"
        else None
    )
    if opened is None:
        raise ValueError(f"keys of {key}")
    compressed, blocks = (bool(flag) for flag in _exactly(stream, 2))
    unpack = _codec(_string(stream)) if compressed else bytes
    for _ in range(int.from_bytes(_exactly(stream, 4), "big")):
        _string(stream), _string(stream)
    sync = _exactly(stream, 16)
    for key_bytes, value_bytes in (_of_blocks if blocks else _of_records)(stream, sync, unpack):
        yield (*opened(key_bytes), _payload(value_bytes))


def _of_blocks(stream: BinaryIO, sync: bytes, unpack: Unpack) -> Iterator[tuple[bytes, bytes]]:
    while mark := stream.read(4):
        if mark + _exactly(stream, 16) != b"\xff\xff\xff\xff" + sync:
            raise ValueError("no sync mark before a block")
        count = _number(stream)
        keys, values = _block_column(stream, unpack), _block_column(stream, unpack)
        if not len(keys) == len(values) == count:
            raise ValueError(
                f"a block of {count} records with {len(keys)} keys and {len(values)} values"
            )
        yield from zip(keys, values, strict=True)


def _block_column(stream: BinaryIO, unpack: Unpack) -> list[bytes]:
    lengths = _Bytes(unpack(_exactly(stream, _number(stream))))
    content = _Bytes(unpack(_exactly(stream, _number(stream))))
    found = []
    while not lengths.at_end:
        found.append(_exactly(content, _number(lengths)))
    if not content.at_end:
        raise ValueError("a block with bytes of no record")
    return found


def _of_records(stream: BinaryIO, sync: bytes, unpack: Unpack) -> Iterator[tuple[bytes, bytes]]:
    while start := stream.read(4):
        length = int.from_bytes(start + _exactly(stream, 4 - len(start)), "big", signed=True)
        if length == -1:
            if _exactly(stream, 16) != sync:
                raise ValueError("another sync mark than the file's")
            continue
        key_length = int.from_bytes(_exactly(stream, 4), "big", signed=True)
        yield _exactly(stream, key_length), unpack(_exactly(stream, length - key_length))


class _Bytes:
    """Some bytes as a stream: cheaper than ``io.BytesIO`` where the end matters."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._content)

    def read(self, count: int) -> bytes:
        start, self._at = self._at, min(self._at + count, len(self._content))
        return self._content[start : self._at]


def _exactly(stream: "BinaryIO | _Bytes", count: int) -> bytes:
    """So many bytes, asked for in pieces: what a damaged length says is never made room for."""
    if count < 0:
        raise ValueError(f"a length of {count}")
    taken = stream.read(min(count, _PIECE_BYTES))
    pieces, left = [taken], count - len(taken)
    while left:
        more = stream.read(min(left, _PIECE_BYTES))
        if not more:
            raise EOFError(f"{left} bytes are missing at the end")
        pieces.append(more)
        left -= len(more)
    return b"".join(pieces)


def _number(stream: "BinaryIO | _Bytes") -> int:
    """Hadoop's variable-length integer."""
    first = int.from_bytes(_exactly(stream, 1), "big", signed=True)
    if first >= -112:
        return first
    negative = first < -120
    value = int.from_bytes(_exactly(stream, -120 - first if negative else -112 - first), "big")
    return ~value if negative else value


def _string(stream: BinaryIO) -> str:
    return _exactly(stream, _number(stream)).decode()


def _codec(name: str) -> Unpack:
    """Both of zlib's framings are told apart by what they start with."""
    if name not in {f"{_HADOOP}compress.DefaultCodec", f"{_HADOOP}compress.GzipCodec"}:
        raise ValueError(f"codec {name}")
    return lambda packed: zlib.decompress(packed, 47)


def _payload(written: bytes) -> bytes:
    if int.from_bytes(written[:4], "big") != len(written) - 4:
        raise ValueError("a payload that is not as long as it says")
    return written[4:]


def _long(key: bytes) -> tuple[int, bytes | None, int | None]:
    return int.from_bytes(key, "big", signed=True), None, None


def _packed(key: bytes) -> tuple[int, bytes | None, int | None]:
    fields = msgpack.unpackb(_payload(key), strict_map_key=False)
    if not isinstance(fields, dict) or not isinstance(fields.get(1), int):
        raise ValueError(f"a key without an offset: {fields!r:.100}")  # noqa: TRY004  # damaged data
    return fields[1], fields.get(2), fields.get(3)
