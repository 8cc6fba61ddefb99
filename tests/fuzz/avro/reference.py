"""What a payload of Avro holds, as the specification and the documentation of the decoder say.

It reads one value at a time and shares no code with the decoder. fastavro is asked whether it reads
the same.
"""

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.fuzz.avro.schemas import PRIMITIVES, Declared, full_name, kind_of

DAY = {("int", "time-millis"): 86_400_000, ("long", "time-micros"): 86_400_000_000}
MAX_EMPTY = 256
"""Items of a type that takes no bytes."""


class BadError(Exception):
    """A payload is not one value of its schema, or a value is none of its type."""


@dataclass(frozen=True)
class Wrong:
    """A value that is none of its type, but has an end: what is after it can be read."""

    raw: object


@dataclass(frozen=True)
class Branch:
    """The value of a union, and which branch it is of."""

    number: int
    value: Any


class Reference:
    """Reads payloads of a schema."""

    def __init__(self, schema: Declared) -> None:
        self.schema = schema
        self.named: dict[str, Declared] = {}
        self._learn(schema)

    def _learn(self, declared: Declared) -> None:
        match declared:
            case list():
                for branch in declared:
                    self._learn(branch)
            case {"type": "record", "fields": fields}:
                self.named[full_name(declared)] = declared
                for field in fields:
                    self._learn(field["type"])
            case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
                self._learn(inner)
            case {"type": "enum" | "fixed"}:
                self.named[full_name(declared)] = declared

    def of(self, declared: Declared) -> Declared:
        """A type as it is declared; primitive types as objects, too."""
        if isinstance(declared, str):
            return {"type": declared} if declared in PRIMITIVES else self.named[declared]
        return declared

    def value(self, payload: bytes) -> Any:
        """The value that a payload is.

        Raises:
            BadError: it is none; values inside may still be ``Wrong``.
        """
        value, end = self._read(self.schema, payload, 0)
        if end != len(payload):
            raise BadError("left over")
        return value

    def _read(  # noqa: C901, PLR0911, PLR0912  # a table
        self, declared: Declared, data: bytes, at: int
    ) -> tuple[Any, int]:
        of = self.of(declared)
        match of:
            case list():
                number, at = varint(data, at)
                if not 0 <= number < len(of):
                    raise BadError("branch")
                value, at = self._read(of[number], data, at)
                return Branch(number, value), at
            case {"type": "null"}:
                return None, at
            case {"type": "boolean"}:
                found = cut(data, at, 1)
                if found[0] > 1:
                    raise BadError("boolean")
                return found[0] == 1, at + 1
            case {"type": "int" | "long" as kind}:
                number, at = varint(data, at)
                if kind == "int" and not -(2**31) <= number < 2**31:
                    raise BadError("int")
                day = DAY.get((kind, of.get("logicalType")))
                is_wrong = day is not None and not 0 <= number < day
                return (Wrong(number) if is_wrong else number), at
            case {"type": "float"}:
                return struct.unpack("<f", cut(data, at, 4))[0], at + 4
            case {"type": "double"}:
                return struct.unpack("<d", cut(data, at, 8))[0], at + 8
            case {"type": "string" | "bytes" as kind}:
                size, at = varint(data, at)
                content = cut(data, at, size)
                return (
                    _text(content) if kind == "string" else value_of_bytes(of, content)
                ), at + size
            case {"type": "fixed", "size": size}:
                return value_of_bytes(of, cut(data, at, size)), at + size
            case {"type": "enum", "symbols": symbols}:
                number, at = varint(data, at)
                if not 0 <= number < len(symbols):
                    raise BadError("symbol")
                return symbols[number], at
            case {"type": "record", "fields": fields}:
                made = {}
                for field in fields:
                    made[field["name"]], at = self._read(field["type"], data, at)
                return made, at
            case {"type": "array", "items": items}:
                return self._items(data, at, lambda at: self._read(items, data, at))
            case {"type": "map", "values": values}:
                entries, at = self._items(data, at, lambda at: self._entry(values, data, at))
                return _map(entries), at
        raise AssertionError(of)

    def _entry(self, values: Declared, data: bytes, at: int) -> tuple[tuple[Any, Any], int]:
        key, at = self._read("string", data, at)
        value, at = self._read(values, data, at)
        return (key, value), at

    def _items(self, data: bytes, at: int, read: Any) -> tuple[list[Any], int]:
        made, empty = list[Any](), 0
        while True:
            count, at = varint(data, at)
            block_end = None
            if count < 0:
                size, at = varint(data, at)
                cut(data, at, size)
                count, block_end = -count, at + size
            if count == 0:
                return made, at
            for _ in range(count):
                before = at
                item, at = read(at)
                made.append(item)
                empty += at == before
                if empty > MAX_EMPTY:
                    raise BadError("empty items")
            if block_end not in {None, at}:
                raise BadError("size of a block")

    # ------------------------------------------------------------------------ what is made of it

    def plain(  # noqa: PLR0911  # a table
        self, declared: Declared, value: Any
    ) -> Any:
        """As fastavro has it without logical types."""
        of = self.of(declared)
        match of, value:
            case _, Wrong(raw):
                return raw
            case list(), Branch(number, inner):
                return self.plain(of[number], inner)
            case {"type": "record", "fields": fields}, _:
                return {f["name"]: self.plain(f["type"], value[f["name"]]) for f in fields}
            case {"type": "array", "items": items}, _:
                return [self.plain(items, each) for each in value]
            case {"type": "map", "values": values}, _:
                return {key: self.plain(values, each) for key, each in value.items()}
            case {"type": "bytes" | "fixed"}, Decoded(raw=raw):
                return raw
        return value

    def json(  # noqa: C901, PLR0911  # a table
        self, declared: Declared, value: Any
    ) -> Any:
        """As the JSON of the decoder's documentation."""
        of = self.of(declared)
        match of, value:
            case list(), Branch(number, inner):
                made = self.json(of[number], inner)
                names = members(of)
                is_plain = kind_of(of[number]) == "null" or len(names) == 1
                return made if is_plain else {names[kind_of(of[number])]: made}
            case {"type": "record", "fields": fields}, _:
                return {f["name"]: self.json(f["type"], value[f["name"]]) for f in fields}
            case {"type": "array", "items": items}, _:
                return [self.json(items, each) for each in value]
            case {"type": "map", "values": values}, _:
                return {key: self.json(values, each) for key, each in value.items()}
            case _, Decoded(text=text):
                return text
            case _, bytes():
                return value.decode("latin-1")
            case _, float() if value != value:  # noqa: PLR0124  # not a number
                return "NaN"
            case _, float() if abs(value) == float("inf"):
                return "Infinity" if value > 0 else "-Infinity"
        return value

    def column(  # noqa: PLR0911  # a table
        self, declared: Declared, value: Any, inside: frozenset[str] = frozenset()
    ) -> Any:
        """As a column of the schema itself, with times as numbers."""
        of = self.of(declared)
        match of, value:
            case list(), Branch(number, inner):
                kind, names = kind_of(of[number]), members(of)
                if kind == "null" or len(names) == 1:
                    return self.column(of[number], inner, inside)
                made = dict.fromkeys(names.values())
                return made | {names[kind]: self.column(of[number], inner, inside)}
            case {"type": "record", "fields": fields}, _:
                name = full_name(of)
                if name in inside:
                    return Text(self.json(of, value))
                within = inside | {name}
                made = {f["name"]: self.column(f["type"], value[f["name"]], within) for f in fields}
                return made or "{}"
            case {"type": "array", "items": items}, _:
                return [self.column(items, each, inside) for each in value]
            case {"type": "map", "values": values}, _:
                return {key: self.column(values, each, inside) for key, each in value.items()}
            case _, Decoded(text=text, column=column):
                return text if column is None else column
        return value


@dataclass(frozen=True)
class Decoded:
    """Bytes of a logical type.

    Attributes:
        raw: the bytes.
        text: the value in JSON.
        column: the value in a column, if it is not the text.
    """

    raw: bytes
    text: str
    column: Decimal | None = None


@dataclass(frozen=True)
class Text:
    """A column of JSON, whatever its white space and digits."""

    content: Any


def members(union: Declared) -> Mapping[str, str]:
    """The members of a union in JSON and columns, by type."""
    kinds = [kind for kind in map(kind_of, union) if kind != "null"]
    short = [kind.rpartition(".")[2] for kind in kinds]
    return {k: s if short.count(s) == 1 else k for k, s in zip(kinds, short, strict=True)}


def wrong_inside(value: Any) -> bool:
    """Whether there is a ``Wrong`` in a value."""
    match value:
        case Wrong():
            return True
        case Branch(value=inner):
            return wrong_inside(inner)
        case dict():
            return any(wrong_inside(key) or wrong_inside(each) for key, each in value.items())
        case list():
            return any(map(wrong_inside, value))
    return False


def _map(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
    made = dict(entries)
    # An entry that a later one replaces may be what makes the payload bad.
    wrong = [
        (key, value) for key, value in entries if wrong_inside(value) and made[key] is not value
    ]
    return made | ({Wrong("replaced"): wrong[0][1]} if wrong else {})


def _text(content: bytes) -> Any:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return Wrong(content)


def value_of_bytes(declared: Declared, content: bytes) -> Any:
    """Bytes as the value of their logical type."""
    size = declared.get("size")
    if declared.get("logicalType") == "uuid" and size == 16:
        return Decoded(content, str(uuid.UUID(bytes=content)))
    if declared.get("logicalType") != "decimal":
        return content
    precision, scale = declared["precision"], declared["scale"]
    if precision > 76 or (size is not None and 10**precision > 2 ** (8 * size - 1)):
        return content
    unscaled = int.from_bytes(content, "big", signed=True)
    if not content or abs(unscaled) >= 10**precision:
        return Wrong(content)
    value = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    return Decoded(content, f"{value:f}", value if precision <= 38 else None)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and the position behind it."""
    number = shift = 0
    while True:
        if at >= len(data):
            raise BadError("ends")
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            break
        if shift > 63:
            raise BadError("64 bits")
    if number >= 2**64:
        raise BadError("64 bits")
    return (number >> 1) ^ -(number & 1), at


def cut(data: bytes, at: int, size: int) -> bytes:
    """So many bytes."""
    if not 0 <= size <= len(data) - at:
        raise BadError("ends")
    return data[at : at + size]


def without_logical(declared: Declared) -> Declared:
    """The schema without logical types."""
    match declared:
        case list():
            return [without_logical(each) for each in declared]
        case {"type": "record", "fields": fields}:
            inner = [{**field, "type": without_logical(field["type"])} for field in fields]
            return {**declared, "fields": inner}
        case {"type": "array", "items": items}:
            return {"type": "array", "items": without_logical(items)}
        case {"type": "map", "values": values}:
            return {"type": "map", "values": without_logical(values)}
        case dict():
            return {
                k: v for k, v in declared.items() if k not in {"logicalType", "precision", "scale"}
            }
    return declared
