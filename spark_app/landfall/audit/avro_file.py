"""Reads Avro object container files record by record, in plain Python.

It knows the encoding and nothing of the writer's: a schema is JSON, and ``_end_of`` walks over one
value. A record of the file is its last four fields, if they are Landfall's coordinates, and before
them the bytes of the payload.

Source: Apache Avro 1.12 specification, "Binary Encoding", "Object Container Files".
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from typing import Any, BinaryIO

import pyarrow as pa
import zstandard

_COORDINATES = ["_topic", "_partition", "_offset", "_timestamp"]
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NAMED = {"record", "error", "enum", "fixed"}


def records(stream: BinaryIO) -> Iterator[str | tuple[int | None, bytes]]:
    """Yield the digest of the payloads' schema, then offset and bytes of each payload.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        yield from _records(stream)
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"damaged: {type(error).__name__}: {error}") from error


def _records(stream: BinaryIO) -> Iterator[str | tuple[int | None, bytes]]:
    if stream.read(4) != b"Obj\x01":
        raise ValueError("not an Avro object container file")
    metadata = _metadata(stream)
    schema = json.loads(metadata["avro.schema"])
    types = _Types(schema)
    yield metadata.get("landfall-schema-digest", b"").decode()
    sync = _exactly(stream, 16)
    while (count := _long(stream, at_end=True)) is not None:
        content = _plain(metadata.get("avro.codec", b"null"), _exactly(stream, _length(stream)))
        if _exactly(stream, 16) != sync:
            raise ValueError("another sync marker")
        at = 0
        for _ in range(count):
            body, offset, at = types.row(content, at)
            yield offset, body
        if at != len(content):
            raise ValueError("bytes left over in a block")


def _metadata(stream: BinaryIO) -> Mapping[str, bytes]:
    found = {}
    while count := _length(stream):
        for _ in range(count):
            name = _exactly(stream, _length(stream)).decode()
            found[name] = _exactly(stream, _length(stream))
    return found


def _exactly(stream: BinaryIO, size: int) -> bytes:
    taken = stream.read(size)
    while len(taken) < size:
        more = stream.read(size - len(taken))
        if not more:
            raise ValueError("the file ends early")
        taken += more
    return taken


def _length(stream: BinaryIO) -> int:
    number = _long(stream)
    if number is None or number < 0:
        raise ValueError(f"a length of {number}")
    return number


def _long(stream: BinaryIO, *, at_end: bool = False) -> int | None:
    value = shift = 0
    while True:
        byte = stream.read(1)
        if not byte:
            if at_end and not shift:
                return None
            raise ValueError("the file ends early")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _plain(codec: bytes, data: bytes) -> bytes:
    match codec:
        case b"deflate":
            return zlib.decompress(data, -15)
        case b"zstandard":
            return zstandard.ZstdDecompressor().decompressobj().decompress(data)
        case b"snappy":
            plain = pa.decompress(
                data[:-4], _number(data, 0, signed=False)[0], "snappy"
            ).to_pybytes()
            if struct.pack(">I", zlib.crc32(plain)) != data[-4:]:
                raise ValueError("another checksum")
            return bytes(plain)
        case b"null":
            return data
    raise ValueError(f"codec {codec!r}")


def _number(data: bytes, at: int, *, signed: bool = True) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("a record ends inside a number")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return ((value >> 1) ^ -(value & 1) if signed else value), at
        shift += 7


class _Types:
    """The types of a schema: where a value of each ends."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, tuple[Any, str]] = {}
        self._learn(schema, "")
        fields = schema.get("fields", []) if isinstance(schema, dict) else []
        has_offsets = [field["name"] for field in fields[-4:]] == _COORDINATES
        self._payload = fields[:-4] if has_offsets else None
        self._namespace = self._name(schema, "").rpartition(".")[0] if fields else ""

    def row(self, data: bytes, at: int) -> tuple[bytes, int | None, int]:
        """The payload of a record, its offset, and the position behind the record."""
        if self._payload is None:
            end = self._end_of(self._schema, "", data, at)
            return data[at:end], None, end
        end = at
        for field in self._payload:
            end = self._end_of(field["type"], self._namespace, data, end)
        size, after = _number(data, end)
        _, after = _number(data, after + size)
        offset, after = _number(data, after)
        branch, after = _number(data, after)
        if branch:
            _, after = _number(data, after)
        if after > len(data):
            raise ValueError("a record ends inside a value")
        return data[at:end], offset, after

    def _name(self, declared: Any, namespace: str) -> str:
        name, own = str(declared["name"]), declared.get("namespace", namespace)
        return name if "." in name or not own else f"{own}.{name}"

    def _learn(self, declared: Any, namespace: str) -> None:
        if isinstance(declared, list):
            for each in declared:
                self._learn(each, namespace)
        elif isinstance(declared, dict):
            if declared.get("type") in _NAMED:
                name = self._name(declared, namespace)
                self._named[name] = (declared, namespace)
                namespace = name.rpartition(".")[0]
            inner = [declared.get(key) for key in ("type", "items", "values")]
            for each in (*inner, *(field["type"] for field in declared.get("fields", []))):
                self._learn(each, namespace)

    def _end_of(self, declared: Any, namespace: str, data: bytes, at: int) -> int:
        """The position behind the value at ``at``."""
        if isinstance(declared, list):
            branch, at = _number(data, at)
            return self._end_of(declared[branch], namespace, data, at)
        kind = declared if isinstance(declared, str) else declared["type"]
        if not isinstance(kind, str):
            return self._end_of(kind, namespace, data, at)
        if kind in {"int", "long", "enum", "string", "bytes"}:
            number, at = _number(data, at)
            return at + number if kind in {"string", "bytes"} else at
        if kind in _SIZES:
            return at + _SIZES[kind]
        if isinstance(declared, dict) and kind in {"record", "error", "fixed", "array", "map"}:
            return self._end_of_complex(declared, namespace, data, at)
        names = (kind if "." in kind or not namespace else f"{namespace}.{kind}", kind)
        known, around = self._named[names[0] if names[0] in self._named else names[1]]
        return self._end_of(known, around, data, at)

    def _end_of_complex(self, declared: Any, namespace: str, data: bytes, at: int) -> int:
        kind = declared["type"]
        if kind == "fixed":
            return at + int(declared["size"])
        if kind in {"record", "error"}:
            inside = self._name(declared, namespace).rpartition(".")[0]
            for field in declared["fields"]:
                at = self._end_of(field["type"], inside, data, at)
            return at
        items = ["string", declared["values"]] if kind == "map" else [declared["items"]]
        while True:
            count, at = _number(data, at)
            if count < 0:
                _, at = _number(data, at)
            if not count:
                return at
            for each in chain.from_iterable(repeat(items, abs(count))):
                at = self._end_of(each, namespace, data, at)
