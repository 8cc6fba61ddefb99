"""Values of Avro as JSON, decoded one by one in plain Python.

Source: Apache Avro 1.12 specification, "Binary Encoding", "Logical Types".
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import orjson

from landfall_audit.objects.avro_blocks import number

Decode: TypeAlias = Callable[[bytes, int], tuple[str, int]]
"""Returns the JSON of the value at a position, and the position after it.

Raises:
    ValueError, IndexError, struct.error: there is no such value.
"""

_Item = TypeVar("_Item")

_DAYS: Mapping[object, int] = {
    ("int", "time-millis"): 86_400_000,
    ("long", "time-micros"): 86_400_000_000,
}
"""How many units a day has, by the type of a time of day."""
_MAX_DECIMAL_DIGITS = 76
"""A decimal of more digits is landed as its bytes."""


class AvroJson:
    """Makes payloads of the records of a schema. A schema that is no record has one, ``value``."""

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, Decode] = {}
        self._has_wrong = False
        self._decode = self._of(schema, "")
        while isinstance(schema, dict) and isinstance(schema["type"], dict):
            schema = schema["type"]
        self._is_record = isinstance(schema, dict) and schema["type"] in ("record", "error")

    def payload(self, data: bytes, at: int) -> tuple[bytes, int]:
        """The payload of the record at a position, and the position after it.

        It is the bytes of the record if it holds a value that its type does not have, such as text
        that is not UTF-8.
        """
        self._has_wrong = False
        text, end = self._decode(data, at)
        if end > len(data):
            raise ValueError("a record ends inside a value")
        if self._has_wrong:
            return data[at:end], end
        return (text if self._is_record else f'{{"value":{text}}}').encode(), end

    def _of(self, declared: Any, namespace: str) -> Decode:
        """Decodes the values of a type."""
        if isinstance(declared, list):
            return self._union(declared, namespace)
        about = {"type": declared} if isinstance(declared, str) else declared
        match about["type"]:
            case dict() | list() as inner:
                return self._of(inner, namespace)
            case "array":
                return self._array(self._of(about["items"], namespace))
            case "map":
                return self._map(self._of(about["values"], namespace))
            case "record" | "error" | "enum" | "fixed" as kind:
                return self._declared(kind, about, namespace)
        return self._leaf(about, namespace)

    def _leaf(self, about: Mapping[str, Any], namespace: str) -> Decode:
        kind = about["type"]
        match kind:
            case "int" | "long":
                return self._whole_number(_DAYS.get((kind, about.get("logicalType"))))
            case "string":
                return self._sized(self._text)
            case "bytes":
                return self._sized(self._bytes(about, None))
        if kind in _OF_FIXED_SIZE:
            return _OF_FIXED_SIZE[kind]
        name = _full_name(kind, namespace)
        known = name if name in self._named else kind

        def decode(data: bytes, at: int) -> tuple[str, int]:
            # It is looked up now, because a record may be inside itself.
            return self._named[known](data, at)

        return decode

    def _declared(self, kind: str, about: Mapping[str, Any], namespace: str) -> Decode:
        name = _full_name(about["name"], about.get("namespace", namespace))
        self._named[name] = _not_yet
        match kind:
            case "enum":
                symbols = [_quoted(symbol) for symbol in about["symbols"]]
                made = _enum(symbols)
            case "fixed":
                size, text = int(about["size"]), self._bytes(about, int(about["size"]))
                made = lambda data, at: (text(_cut(data, at, size)), at + size)  # noqa: E731
            case _:
                inside = name.rpartition(".")[0]
                made = _RecordDecoder(
                    [
                        (f"{_quoted(member['name'])}:", self._of(member["type"], inside))
                        for member in about["fields"]
                    ]
                )
        self._named[name] = made
        return made

    def _union(self, branches: Sequence[Any], namespace: str) -> Decode:
        decoders = [self._of(branch, namespace) for branch in branches]
        kinds = [_kind(branch, namespace) for branch in branches]
        present = [kind for kind in kinds if kind != "null"]
        short = [kind.rpartition(".")[2] for kind in present]

        def tag(kind: str) -> str | None:
            if kind == "null" or len(present) == 1:
                return None
            name = kind.rpartition(".")[2]
            return _quoted(name if short.count(name) == 1 else kind)

        tags = [tag(kind) for kind in kinds]

        def decode(data: bytes, at: int) -> tuple[str, int]:
            branch, at = number(data, at)
            if branch < 0:
                raise ValueError(f"branch {branch}")
            text, at = decoders[branch](data, at)
            return (text if tags[branch] is None else f"{{{tags[branch]}:{text}}}"), at

        return decode

    def _whole_number(self, day: int | None) -> Decode:
        def decode(data: bytes, at: int) -> tuple[str, int]:
            value, at = number(data, at)
            if day is not None and not 0 <= value < day:
                self._has_wrong = True
            return str(value), at

        return decode

    def _sized(self, text_of: Callable[[bytes], str]) -> Decode:
        def decode(data: bytes, at: int) -> tuple[str, int]:
            size, at = number(data, at)
            return text_of(_cut(data, at, size)), at + size

        return decode

    def _text(self, value: bytes) -> str:
        try:
            return _quoted(value.decode())
        except UnicodeDecodeError:
            self._has_wrong = True
            return ""

    def _bytes(self, about: Mapping[str, Any], size: int | None) -> Callable[[bytes], str]:
        """The text of bytes: of a decimal, a UUID, or of the code points 0 to 255."""
        if _is_decimal(about, size):
            limit, scale = 10 ** about["precision"], about.get("scale", 0)
            return lambda value: self._decimal(value, limit, scale)
        if about.get("logicalType") == "uuid" and size == 16:
            return lambda value: f'"{UUID(bytes=value)}"'
        return lambda value: _quoted(value.decode("latin-1"))

    def _decimal(self, value: bytes, limit: int, scale: int) -> str:
        unscaled = int.from_bytes(value, "big", signed=True)
        if not value or abs(unscaled) >= limit:
            self._has_wrong = True
        digits = tuple(map(int, str(abs(unscaled))))
        return f'"{Decimal((int(unscaled < 0), digits, -scale)):f}"'

    def _array(self, decode_item: Decode) -> Decode:
        def decode(data: bytes, at: int) -> tuple[str, int]:
            found, at = _items(decode_item, data, at)
            return f"[{','.join(found)}]", at

        return decode

    def _map(self, decode_value: Decode) -> Decode:
        decode_key = self._sized(self._text)

        def entry(data: bytes, at: int) -> tuple[tuple[str, str], int]:
            key, at = decode_key(data, at)
            value, at = decode_value(data, at)
            return (key, value), at

        def decode(data: bytes, at: int) -> tuple[str, int]:
            found, at = _items(entry, data, at)
            # Of a key that comes twice the last value counts.
            return f"{{{','.join(map(':'.join, dict(found).items()))}}}", at

        return decode


def _items(
    decode_item: Callable[[bytes, int], tuple[_Item, int]], data: bytes, at: int
) -> tuple[list[_Item], int]:
    """The items of an array or a map, and the position after it."""
    found: list[_Item] = []
    while True:
        count, at = number(data, at)
        if count < 0:
            _, at = number(data, at)
        if not count:
            return found, at
        for _ in range(abs(count)):
            item, at = decode_item(data, at)
            found.append(item)


@dataclass(frozen=True)
class _RecordDecoder:
    """Decodes a record, given its members and how each is decoded."""

    members: Sequence[tuple[str, Decode]] = field(repr=False)

    def __call__(self, data: bytes, at: int) -> tuple[str, int]:
        texts = []
        for name, decode in self.members:
            text, at = decode(data, at)
            texts.append(name + text)
        return f"{{{','.join(texts)}}}", at


def _enum(symbols: Sequence[str]) -> Decode:
    def decode(data: bytes, at: int) -> tuple[str, int]:
        symbol, at = number(data, at)
        if symbol < 0:
            raise ValueError(f"symbol {symbol}")
        return symbols[symbol], at

    return decode


def _not_yet(data: bytes, at: int) -> tuple[str, int]:
    raise AssertionError(f"a type that is being declared: {data!r:.20} at {at}")


def _cut(data: bytes, at: int, size: int) -> bytes:
    if not 0 <= size <= len(data) - at:
        raise ValueError("a record ends inside a value")
    return data[at : at + size]


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _real(value: float) -> str:
    if value != value:  # noqa: PLR0124  # not a number
        return '"NaN"'
    if value in {float("inf"), float("-inf")}:
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return orjson.dumps(value).decode()


def _is_decimal(about: Mapping[str, Any], size: int | None) -> bool:
    """Return whether bytes, or a fixed of a size, are a decimal that has room there."""
    precision, scale = about.get("precision"), about.get("scale", 0)
    if about.get("logicalType") != "decimal" or not isinstance(precision, int):
        return False
    if not 0 < precision <= _MAX_DECIMAL_DIGITS or not 0 <= scale <= precision:
        return False
    return size is None or (size > 0 and 10**precision <= 2 ** (8 * min(size, 40) - 1))


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _kind(branch: Any, namespace: str) -> str:
    """Return the name that identifies a branch of a union: its type, or its full name."""
    if isinstance(branch, str):
        return branch if branch in _PRIMITIVES else _full_name(branch, namespace)
    kind = branch["type"]
    if isinstance(kind, dict):
        return _kind(kind, namespace)
    if kind in {"record", "error", "enum", "fixed"}:
        return _full_name(branch["name"], branch.get("namespace", namespace))
    return kind if kind in {"array", "map"} else _kind(kind, namespace)


_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_OF_FIXED_SIZE: Mapping[str, Decode] = {
    "null": lambda _, at: ("null", at),
    "boolean": lambda data, at: (("false", "true")[data[at]], at + 1),
    "float": lambda data, at: (_real(struct.unpack_from("<f", data, at)[0]), at + 4),
    "double": lambda data, at: (_real(struct.unpack_from("<d", data, at)[0]), at + 8),
}
