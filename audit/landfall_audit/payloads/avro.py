"""Avro payloads, read by plain Python, value by value.

Source: Apache Avro 1.12 specification, "Binary Encoding", "Logical Types".
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

from landfall_audit.objects.avro_blocks import number
from landfall_audit.payloads import (
    BadPayload,
    Instant,
    JsonNumber,
    Named,
    Undecided,
    common_values,
    comparable,
    of_json,
)
from landfall_audit.spec import ColumnSection, ColumnTypeName

Decode: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""The value at a position, and the position after it."""
_DAMAGED = (ValueError, IndexError, struct.error, KeyError, TypeError)
_MAX_PRECISION = 38
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class AvroRecord(dict[str, Any]):
    """The fields of a record, by name."""


class Pairs(dict[str, Any]):
    """The entries of a map. Of a key that comes twice the last value counts."""


class Single(float):
    """A number of 32 bits."""


@dataclass(frozen=True, slots=True)
class UnionValue:
    """A value of a union of several types, and how these are called."""

    tags: Sequence[str]
    tag: str
    value: Any


@dataclass(frozen=True, slots=True)
class LogicalValue:
    """A number with a meaning.

    Attributes:
        kind: date, time or timestamp.
        raw: as the payload has it.
        micros: microseconds; of a date days.
        is_local: whether it is a time without a zone.
    """

    kind: str
    raw: int
    micros: int
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Digits:
    """A decimal, and the precision that its schema names."""

    value: Decimal
    precision: int


_PER_MICRO: Mapping[str, tuple[str, int, int]] = {
    "time-millis": ("time", 1000, 1),
    "time-micros": ("time", 1, 1),
    "timestamp-millis": ("timestamp", 1000, 1),
    "timestamp-micros": ("timestamp", 1, 1),
    "timestamp-nanos": ("timestamp", 1, 1000),
    "local-timestamp-millis": ("timestamp", 1000, 1),
    "local-timestamp-micros": ("timestamp", 1, 1),
    "local-timestamp-nanos": ("timestamp", 1, 1000),
    "date": ("date", 1, 1),
}
_OF_TYPE = {
    "date": "int",
    "time-millis": "int",
}
"""The type under a logical type; all other numeric logical types are ``long``."""


class AvroPayloads:
    """Reads values of one schema."""

    def __init__(self, schema: Any, references: Sequence[Any] = ()) -> None:
        """Prepare to read.

        Args:
            schema: as JSON has it.
            references: schemas whose names it uses, each after the schemas that it uses itself.

        Raises:
            Undecided: there is no rule for a type.
        """
        self._named: dict[str, Decode] = {}
        self._open: set[str] = set()
        try:
            for reference in references:
                self._of(reference, "")
            self._decode = self._of(schema, "")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Undecided(f"a schema of Avro that is odd: {error}") from None
        self._is_record = isinstance(schema, dict) and schema.get("type") in {"record", "error"}
        self._has_branches = isinstance(schema, list)

    @classmethod
    def of_text(cls, text: str, references: Sequence[str] = ()) -> "AvroPayloads":
        """Read a schema from its JSON."""
        try:
            return cls(json.loads(text), [json.loads(reference) for reference in references])
        except (ValueError, RecursionError) as error:
            raise Undecided(f"a schema of Avro that is no JSON: {error}") from None

    def value(self, body: bytes) -> Any:
        """The single value of a payload.

        Raises:
            BadPayload: it is none.
            Undecided: there is no rule for it.
        """
        try:
            found, end = self._decode(body, 0)
        except _DAMAGED as error:
            raise BadPayload(f"avro: {error}") from None
        if end != len(body):
            raise BadPayload(f"avro: ends at {end} of {len(body)} bytes")
        return found

    def columns(self, body: bytes) -> Named:
        """The columns of the schema, by their names."""
        found = self.value(body)
        if not self._is_record:
            return (("value", _form(found)),)
        if any(name.startswith("_") for name in found):
            raise Undecided("a field that may be called otherwise")
        return tuple(sorted((name, _form(value)) for name, value in found.items()))

    def as_json(self, body: bytes) -> object:
        """The form of the value as JSON."""
        return self._as_json(body, _json)

    def as_common_json(self, body: bytes) -> object:
        """The form of the value as JSON with ``values: Common``."""
        return self._as_json(body, _common_json)

    def _as_json(self, body: bytes, write: Callable[[Any], object]) -> object:
        found = self.value(body)
        if self._has_branches and isinstance(found, UnionValue):
            found = found.value
        if not isinstance(found, AvroRecord):
            raise Undecided("JSON of a value that is no record")
        return of_json(write(found))

    def document(self, body: bytes) -> Mapping[str, Any]:
        """The fields of the record."""
        if not self._is_record:
            raise Undecided("fields of a schema that is no record")
        found = _plain(self.value(body))
        assert isinstance(found, dict), "it is a record"
        return found

    # ------------------------------------------------------------------------------- the schema

    def _of(self, declared: Any, namespace: str) -> Decode:
        if isinstance(declared, list):
            return self._union(declared, namespace)
        about = {"type": declared} if isinstance(declared, str) else declared
        kind = about["type"]
        if isinstance(kind, dict | list):
            return self._of(kind, namespace)
        if kind in {"record", "error", "enum", "fixed"}:
            return self._declared(kind, about, namespace)
        if kind == "array":
            return _items(self._of(about["items"], namespace), list)
        if kind == "map":
            return _items(_pair(self._of(about["values"], namespace)), Pairs)
        return _leaf(about) or self._known(kind, namespace)

    def _known(self, kind: str, namespace: str) -> Decode:
        full = kind if "." in kind or not namespace else f"{namespace}.{kind}"
        name = full if full in self._named or full in self._open else kind
        if name in self._open:
            raise Undecided("a type of Avro inside itself")
        return self._named[name]

    def _declared(self, kind: str, about: Mapping[str, Any], namespace: str) -> Decode:
        own = about.get("namespace", namespace)
        name = about["name"] if "." in about["name"] or not own else f"{own}.{about['name']}"
        self._open.add(name)
        if kind == "enum":
            made = _enum(about["symbols"])
        elif kind == "fixed":
            made = _fixed(about, int(about["size"]))
        else:
            if not about["fields"]:
                raise Undecided("a record without fields")
            inside = name.rpartition(".")[0]
            made = _record([(f["name"], self._of(f["type"], inside)) for f in about["fields"]])
        self._open.remove(name)
        self._named[name] = made
        return made

    def _union(self, branches: Sequence[Any], namespace: str) -> Decode:
        decoders = [self._of(branch, namespace) for branch in branches]
        names = [self._name(branch, namespace) for branch in branches]
        present = [name for name in names if name != "null"]
        short = [name.rpartition(".")[2] for name in present]
        tags = [
            name.rpartition(".")[2] if short.count(name.rpartition(".")[2]) == 1 else name
            for name in names
        ]
        of_types = [tag for tag, name in zip(tags, names, strict=True) if name != "null"]

        def decode(data: bytes, at: int) -> tuple[Any, int]:
            branch, at = number(data, at)
            if not 0 <= branch < len(decoders):
                raise ValueError(f"branch {branch}")
            value, at = decoders[branch](data, at)
            if names[branch] == "null" or len(present) == 1:
                return value, at
            return UnionValue(of_types, tags[branch], value), at

        return decode

    def _name(self, branch: Any, namespace: str) -> str:
        if isinstance(branch, str):
            return branch
        kind = branch["type"]
        if isinstance(kind, dict):
            return self._name(kind, namespace)
        if kind in {"record", "error", "enum", "fixed"}:
            own = branch.get("namespace", namespace)
            name = str(branch["name"])
            return name if "." in name or not own else f"{own}.{name}"
        return str(kind)


def _record(members: Sequence[tuple[str, Decode]]) -> Decode:
    def decode(data: bytes, at: int) -> tuple[Any, int]:
        found = AvroRecord()
        for name, member in members:
            found[name], at = member(data, at)
        return found, at

    return decode


def _enum(symbols: Sequence[str]) -> Decode:
    def decode(data: bytes, at: int) -> tuple[Any, int]:
        symbol, at = number(data, at)
        if not 0 <= symbol < len(symbols):
            raise ValueError(f"symbol {symbol}")
        return symbols[symbol], at

    return decode


def _items(item: Decode, kind: Callable[[Any], Any]) -> Decode:
    def decode(data: bytes, at: int) -> tuple[Any, int]:
        found: list[Any] = []
        while True:
            count, at = number(data, at)
            if count < 0:
                _, at = number(data, at)
            if not count:
                return kind(found), at
            if abs(count) > len(data) + 256:
                raise Undecided("an array of items that take no bytes")
            for _ in range(abs(count)):
                value, at = item(data, at)
                found.append(value)

    return decode


def _pair(value: Decode) -> Decode:
    def decode(data: bytes, at: int) -> tuple[Any, int]:
        key, at = _text(data, at)
        found, at = value(data, at)
        return (key, found), at

    return decode


def _cut(data: bytes, at: int, size: int) -> bytes:
    if not 0 <= size <= len(data) - at:
        raise ValueError("ends inside a value")
    return data[at : at + size]


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = number(data, at)
    return _cut(data, at, size), at + size


def _text(data: bytes, at: int) -> tuple[str, int]:
    found, at = _bytes(data, at)
    try:
        return found.decode(), at
    except UnicodeDecodeError:
        raise Undecided("text of Avro that is not UTF-8") from None


def _null(_: bytes, at: int) -> tuple[None, int]:
    return None, at


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    return (False, True)[data[at]], at + 1


def _single(data: bytes, at: int) -> tuple[Single, int]:
    return Single(struct.unpack_from("<f", data, at)[0]), at + 4


def _double(data: bytes, at: int) -> tuple[float, int]:
    return struct.unpack_from("<d", data, at)[0], at + 8


def _integer(bits: int) -> Decode:
    def decode(data: bytes, at: int) -> tuple[int, int]:
        found, at = number(data, at)
        if not -(2 ** (bits - 1)) <= found < 2 ** (bits - 1):
            raise ValueError(f"more than {bits} bits")
        return found, at

    return decode


_PLAIN: Mapping[str, Decode] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer(32),
    "long": _integer(64),
    "float": _single,
    "double": _double,
    "bytes": _bytes,
    "string": _text,
}


def _leaf(about: Mapping[str, Any]) -> Decode | None:
    """Return the reader of a primitive type; None if it is the name of another."""
    kind, logical = about["type"], about.get("logicalType")
    if kind == "bytes" and logical == "decimal":
        return _decimal(about, _bytes, None)
    if logical in _PER_MICRO and kind == _OF_TYPE.get(str(logical), "long"):
        is_local = str(logical).startswith("local-")
        return _logical(_PLAIN[kind], *_PER_MICRO[str(logical)], is_local=is_local)
    return _PLAIN.get(kind)


def _logical(decode: Decode, kind: str, times: int, per: int, *, is_local: bool) -> Decode:
    def decoded(data: bytes, at: int) -> tuple[LogicalValue, int]:
        raw, at = decode(data, at)
        micros = raw * times // per
        if kind == "time" and not 0 <= micros < 86_400 * 10**6:
            raise ValueError(f"no time of a day: {raw}")
        return LogicalValue(kind, raw, micros, is_local), at

    return decoded


def _fixed(about: Mapping[str, Any], size: int) -> Decode:
    def decode(data: bytes, at: int) -> tuple[bytes, int]:
        return _cut(data, at, size), at + size

    if about.get("logicalType") == "decimal":
        return _decimal(about, decode, size)
    if about.get("logicalType") == "uuid" and size == 16:
        return lambda data, at: (str(UUID(bytes=_cut(data, at, 16))), at + 16)
    if about.get("logicalType") is not None:
        raise Undecided(f"logical type {about['logicalType']} of fixed")
    return decode


def _decimal(about: Mapping[str, Any], decode: Decode, size: int | None) -> Decode:
    precision, scale = about.get("precision"), about.get("scale", 0)
    if not isinstance(precision, int) or not 0 < precision <= 76 or not 0 <= scale <= precision:
        raise Undecided("a decimal of Avro of an odd precision")
    if size is not None and 10**precision > 2 ** (8 * min(size, 40) - 1):
        raise Undecided("a decimal of Avro that has no room")

    def decoded(data: bytes, at: int) -> tuple[Digits, int]:
        found, at = decode(data, at)
        unscaled = int.from_bytes(found, "big", signed=True)
        if not found or abs(unscaled) >= 10**precision:
            raise ValueError(f"not a decimal of {precision} digits")
        digits = tuple(map(int, str(abs(unscaled))))
        return Digits(Decimal((int(unscaled < 0), digits, -scale)), precision), at

    return decoded


# --------------------------------------------------------------------------------------- values


def _form(value: Any) -> object:
    """The form of a value in a column of the schema."""
    match value:
        case AvroRecord():
            return "struct", tuple(sorted((name, _form(inner)) for name, inner in value.items()))
        case Pairs():
            return "map", tuple(sorted((key, _form(inner)) for key, inner in value.items()))
        case list():
            return "list", tuple(map(_form, value))
        case UnionValue():
            tags = sorted(value.tags)
            of_tag = [(tag, _form(value.value) if tag == value.tag else None) for tag in tags]
            return "struct", tuple(of_tag)
        case LogicalValue() | Digits():
            return _form_of_meaning(value)
    return comparable(float(value) if isinstance(value, Single) else value)


def _form_of_meaning(value: LogicalValue | Digits) -> object:
    if isinstance(value, Digits):
        wide = value.precision > _MAX_PRECISION
        return f"{value.value:f}" if wide else ("decimal", value.value)
    if value.kind == "time":
        return "time", value.micros
    if value.kind == "timestamp" and not -(2**63) <= value.micros < 2**63:
        raise BadPayload("avro: a time that is no 64-bit number of microseconds")
    return value.micros


def _json(value: Any) -> object:
    """The value as it is written as JSON."""
    write = _AS_JSON.get(type(value))
    return value if write is None else write(value)


def _common_json(value: Any) -> object:
    """The value as it is written as JSON with ``values: Common``."""
    match value:
        case AvroRecord() | Pairs():
            return {name: _common_json(inner) for name, inner in value.items()}
        case list():
            return [_common_json(inner) for inner in value]
        case UnionValue():
            return {value.tag: _common_json(value.value)}
        case bytes():
            return common_values.of_bytes(value)
        case LogicalValue():
            return _common_time(value)
    return _json(value)


def _common_time(value: LogicalValue) -> str:
    if value.kind == "date":
        return common_values.day(value.raw)
    if value.kind == "time":
        return common_values.time_of_day(value.micros)
    write = common_values.wall_time if value.is_local else common_values.instant
    return write(value.micros)


def _json_number(value: float) -> object:
    if value != value:  # noqa: PLR0124  # not a number
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "Infinity" if value > 0 else "-Infinity"
    return JsonNumber(repr(float(value)))


_AS_JSON: Mapping[type, Callable[[Any], object]] = {
    AvroRecord: lambda value: {name: _json(inner) for name, inner in value.items()},
    Pairs: lambda value: {name: _json(inner) for name, inner in value.items()},
    list: lambda value: [_json(inner) for inner in value],
    UnionValue: lambda value: {value.tag: _json(value.value)},
    LogicalValue: lambda value: value.raw,
    Digits: lambda value: f"{value.value:f}",
    bytes: lambda value: value.decode("latin-1"),
    float: _json_number,
    Single: _json_number,
}


def _plain(value: Any) -> object:
    """The value with records and unions of several types as mappings, for paths."""
    if isinstance(value, AvroRecord):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, UnionValue):
        return {value.tag: _plain(value.value)}
    return value


_OF_LOGICAL: Mapping[tuple[str, ColumnTypeName], Callable[[LogicalValue], object]] = {
    ("date", ColumnTypeName.DATE): lambda day: date.fromordinal(day.raw + _EPOCH_DAY).isoformat(),
    ("date", ColumnTypeName.TIMESTAMP): lambda day: Instant(day.raw * 86_400 * 10**6),
    ("date", ColumnTypeName.INT32): lambda day: day.raw,
    ("time", ColumnTypeName.INT64): lambda time: time.raw,
    ("timestamp", ColumnTypeName.INT64): lambda time: time.raw,
    ("timestamp", ColumnTypeName.TIMESTAMP): lambda time: Instant(time.micros),
}
_AS_IT_IS: Mapping[type, frozenset[ColumnTypeName]] = {
    int: frozenset(
        {
            ColumnTypeName.INT32,
            ColumnTypeName.INT64,
            ColumnTypeName.FLOAT64,
            ColumnTypeName.TIMESTAMP,
        }
    ),
    float: frozenset({ColumnTypeName.FLOAT64}),
    str: frozenset({ColumnTypeName.STRING, ColumnTypeName.DATE, ColumnTypeName.TIMESTAMP}),
    bytes: frozenset({ColumnTypeName.BINARY, ColumnTypeName.DECIMAL}),
    bool: frozenset({ColumnTypeName.BOOLEAN}),
}


def adapted(column: ColumnSection, value: Any) -> object:
    """A value as the type of a declared column reads it."""
    if value is None:
        return None
    if isinstance(value, LogicalValue):
        read = _OF_LOGICAL.get((value.kind, column.type))
        if read is not None:
            return read(value)
    if isinstance(value, Digits) and column.type is ColumnTypeName.DECIMAL:
        return value.value
    if isinstance(value, Digits) and column.type is ColumnTypeName.STRING:
        return f"{value.value:f}"
    if isinstance(value, Single):
        value = float(value)
    if column.type in _AS_IT_IS.get(type(value), ()):
        return value
    raise Undecided(f"{type(value).__name__} of Avro as {column.type}")
