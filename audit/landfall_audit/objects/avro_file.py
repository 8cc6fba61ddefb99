"""Reads Avro object container files record by record, in plain Python.

It knows the encoding and nothing of the writer's: a schema is JSON, and ``_end_of`` walks over one
value. A record of the file is its last four fields, if they are Landfall's coordinates, and before
them the bytes of the payload.

Source: Apache Avro 1.12 specification, "Binary Encoding", "Object Container Files".
"""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any, BinaryIO

from landfall_audit import untrusted_json
from landfall_audit.objects.avro_blocks import SYNC_BYTES, exactly, number, read_block, read_header

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
    header = read_header(stream)
    types = _Types(untrusted_json.decode(header.schema))
    yield header.metadata.get("landfall-schema-digest", b"").decode()
    sync = exactly(stream, SYNC_BYTES)
    while block := read_block(stream, header, sync):
        count, content = block
        at = 0
        for _ in range(count):
            body, offset, at = types.row(content, at)
            yield offset, body
        if at != len(content):
            raise ValueError("bytes left over in a block")


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
        """The payload of a record, its offset, and the position after the record."""
        if self._payload is None:
            end = self._end_of(self._schema, "", data, at)
            return data[at:end], None, end
        end = at
        for field in self._payload:
            end = self._end_of(field["type"], self._namespace, data, end)
        size, after = number(data, end)
        _, after = number(data, after + size)
        offset, after = number(data, after)
        branch, after = number(data, after)
        if branch:
            _, after = number(data, after)
        if after > len(data):
            raise ValueError("a record ends inside a value")
        return data[at:end], offset, after

    def _name(self, declared: Any, namespace: str) -> str:
        name, own = str(declared["name"]), declared.get("namespace", namespace)
        return name if "." in name or not own else f"{own}.{name}"

    def _learn(self, declared: Any, namespace: str) -> None:
        if isinstance(declared, list):
            for branch in declared:
                self._learn(branch, namespace)
        elif isinstance(declared, dict):
            if declared.get("type") in _NAMED:
                name = self._name(declared, namespace)
                self._named[name] = (declared, namespace)
                namespace = name.rpartition(".")[0]
            inner = [declared.get(key) for key in ("type", "items", "values")]
            for type_ in (*inner, *(field["type"] for field in declared.get("fields", []))):
                self._learn(type_, namespace)

    def _end_of(self, declared: Any, namespace: str, data: bytes, at: int) -> int:
        """The position after the value at ``at``."""
        if isinstance(declared, list):
            branch, at = number(data, at)
            return self._end_of(declared[branch], namespace, data, at)
        kind = declared if isinstance(declared, str) else declared["type"]
        if not isinstance(kind, str):
            return self._end_of(kind, namespace, data, at)
        if kind in {"int", "long", "enum", "string", "bytes"}:
            size, at = number(data, at)
            return at + size if kind in {"string", "bytes"} else at
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
            count, at = number(data, at)
            if count < 0:
                _, at = number(data, at)
            if not count:
                return at
            for type_ in chain.from_iterable(repeat(items, abs(count))):
                at = self._end_of(type_, namespace, data, at)
