"""Writes values of landed rows as Avro, as their producer would with another schema.

A landed value may have another type of Python than the payload's: a time in microseconds where the
payload has milliseconds, JSON text where it has a record. It is written as the schema has it if
nothing is lost. A value that the schema cannot hold is an error that names the field; none is made
to fit: a number is no text.

A field without a value gets its default, else null, else the empty value of its type (``0``, no
text, the first symbol): a new field has no value in earlier rows, and its producer will write one.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from landfall import untrusted_json
from landfall.pipeline.decoders.avro import schema as avro
from landfall.pipeline.decoders.avro.binary import REAL, blocks, number, prefixed
from landfall.pipeline.decoders.avro.defaults import encode_default
from landfall.pipeline.decoders.avro.plan import member_names
from landfall.pipeline.decoders.avro.schema import Schema, Type, kind_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.date()
_MICROSECOND = timedelta(microseconds=1)
_BITS: Mapping[str, int] = {"int": 32, "long": 64}
_PER_UNIT: Mapping[str, tuple[int, int]] = {
    "millis": (1, 1000),
    "micros": (1, 1),
    "nanos": (1000, 1),
}
"""Numbers of a unit, and microseconds that they are."""
_MAX_LEVELS = 50
"""How deep empty values are made: a type inside itself has no end."""


class CannotHoldError(ValueError):
    """The schema cannot hold a value; the message names the field and quotes the value."""


def encode_value(schema: Schema, value: object) -> bytes:
    """Return a value as Avro's binary encoding, without a header.

    Args:
        schema: of the payload.
        value: as ``plain_rows`` or JSON has it; a record is a mapping.

    Raises:
        CannotHoldError: the schema cannot hold it.
    """
    return _ValueWriter(schema).value(schema.root, value, "")


@dataclass(frozen=True)
class _ValueWriter:
    schema: Schema

    def value(  # noqa: PLR0911  # a table
        self, type_: Type, value: Any, path: str
    ) -> bytes:
        """Return a value of a type; see ``encode_value``."""
        resolved = self.schema.resolve(type_)
        match resolved:
            case avro.Union():
                return self._union(resolved, value, path)
            case avro.Primitive():
                return _primitive(resolved, value, path)
            case avro.Enum():
                return _enum(resolved, value, path)
            case avro.Fixed():
                return _fixed(resolved, value, path)
        # Types inside themselves, and columns of type Json, are text in files.
        inner = _parsed(value, path) if isinstance(value, str) else value
        match resolved, inner:
            case avro.Array(), list() | tuple():
                items = enumerate(inner)
                return blocks([self.value(resolved.items, v, f"{path}[{i}]") for i, v in items])
            case avro.Map(), Mapping():
                return blocks([self._entry(resolved, k, v, path) for k, v in inner.items()])
            case avro.Record(), Mapping():
                return b"".join(self._field(field, inner, path) for field in resolved.fields)
        raise _refusal(resolved, value, path)

    def _entry(self, type_: avro.Map, key: object, value: object, path: str) -> bytes:
        written = prefixed(str(key).encode())
        return written + self.value(type_.values, value, f"{path}.{key}")

    def _field(self, field: avro.Field, values: Mapping[str, object], path: str) -> bytes:
        inside = f"{path}.{field.name}".lstrip(".")
        for name in (field.name, *field.aliases):
            if name in values:
                return self.value(field.type, values[name], inside)
        return self._absent(field, inside)

    def _absent(self, field: avro.Field, path: str) -> bytes:
        if field.has_default:
            try:
                return encode_default(self.schema, field.type, field.default, path)
            except ValueError as error:
                raise CannotHoldError(str(error)) from None
        return self.value(field.type, self._empty(field.type, path, 0), path)

    def _empty(self, type_: Type, path: str, level: int) -> object:
        """The empty value of a type: null if it may be."""
        if level > _MAX_LEVELS:
            raise CannotHoldError(f"{path}: it is inside itself without an end")
        match resolved := self.schema.resolve(type_):
            case avro.Union() if any(kind_of(branch) == "null" for branch in resolved.branches):
                return None
            case avro.Union():
                return self._empty(resolved.branches[0], path, level + 1)
            case avro.Record():
                fields = [field for field in resolved.fields if not field.has_default]
                return {field.name: self._empty(field.type, path, level + 1) for field in fields}
        return _empty_of(resolved)

    def _union(self, union: avro.Union, value: Any, path: str) -> bytes:
        """Return a value of the branch whose member it is, or of the first one that holds it."""
        branches = list(enumerate(union.branches))
        present = [(place, branch) for place, branch in branches if kind_of(branch) != "null"]
        if value is None:
            present = [pair for pair in branches if pair not in present]
        elif len(present) > 1 and isinstance(value, Mapping):
            present, value = _member(present, value)
        # A whole number is no floating-point number if the union has both.
        for place, branch in sorted(present, key=lambda pair: kind_of(pair[1]) in REAL):
            try:
                return number(place) + self.value(branch, value, path)
            except CannotHoldError:
                if len(present) == 1:
                    raise
        raise _refusal(union, value, path)


def _empty_of(type_: Type) -> object:
    match type_:
        case avro.Enum():
            return type_.symbols[0]
        case avro.Fixed():
            return bytes(type_.size)
        case avro.Primitive() if type_.logical is None or type_.logical.name != "decimal":
            return _EMPTY[type_.type]
        case avro.Primitive():
            return 0
    return [] if isinstance(type_, avro.Array) else {}


_EMPTY: Mapping[str, object] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "bytes": b"",
    "string": "",
}


def _member(
    present: Sequence[tuple[int, Type]], value: Mapping[str, object]
) -> tuple[list[tuple[int, Type]], object]:
    """Return the branch that a struct with a member for each branch has a value of, and that."""
    names = member_names([branch for _, branch in present])
    given = [name for name, inner in value.items() if inner is not None]
    if len(given) == 1 and given[0] in names:
        return [present[names.index(given[0])]], value[given[0]]
    return [*present], value


def _refusal(type_: Type, value: object, path: str) -> CannotHoldError:
    kinds = list(type_.branches) if isinstance(type_, avro.Union) else [type_]
    names = " or ".join(map(_text, kinds))
    quoted = "null" if value is None else f"{value!r:.60}"
    return CannotHoldError(f"{path or 'the value'}: {quoted} is no {names}")


def _text(type_: Type) -> str:
    logical = getattr(type_, "logical", None)
    return f"{kind_of(type_)} ({logical.name})" if logical else kind_of(type_)


def _parsed(text: str, path: str) -> object:
    try:
        return untrusted_json.decode(text)
    except ValueError:
        raise CannotHoldError(f"{path or 'the value'}: {text!r:.60} is no JSON") from None


def _enum(type_: avro.Enum, value: object, path: str) -> bytes:
    if value in type_.symbols:
        return number(type_.symbols.index(str(value)))
    known = ", ".join(type_.symbols[:10])
    raise CannotHoldError(f"{path}: {value!r:.60} is no symbol of {type_.name}, which has {known}")


def _fixed(type_: avro.Fixed, value: object, path: str) -> bytes:
    written = _bytes(type_, type_.logical, value, path)
    if isinstance(value, Decimal | int) and len(written) < type_.size:
        written = int.from_bytes(written, signed=True).to_bytes(type_.size, signed=True)
    if len(written) != type_.size:
        raise CannotHoldError(f"{path}: {len(written)} bytes are no {_text(type_)}")
    return written


def _primitive(type_: avro.Primitive, value: Any, path: str) -> bytes:
    match type_.type, value:
        case "null", None:
            return b""
        case "boolean", bool():
            return b"\1" if value else b"\0"
        case "int" | "long", _:
            return number(_integer(type_, value, path))
        case "float" | "double", int() | float() | Decimal() if not isinstance(value, bool):
            try:
                return REAL[type_.type](float(value))
            except OverflowError:
                raise _refusal(type_, value, path) from None
        case "bytes", _:
            return prefixed(_bytes(type_, type_.logical, value, path))
        case "string", _:
            return prefixed(_string(type_, value, path))
    raise _refusal(type_, value, path)


def _integer(type_: avro.Primitive, value: Any, path: str) -> int:
    found = _whole(type_, value)
    bits = _BITS[type_.type]
    if found is None or not -(2 ** (bits - 1)) <= found < 2 ** (bits - 1):
        raise _refusal(type_, value, path)
    return found


def _whole(  # noqa: PLR0911  # a table
    type_: avro.Primitive, value: Any
) -> int | None:
    """Return a value as a whole number, times in the unit of the type; None if it is none."""
    match value:
        case int() if not isinstance(value, bool):
            return value
        case float() | Decimal() if value == value // 1:
            return int(value)
        case datetime():
            utc = value if value.tzinfo else value.replace(tzinfo=UTC)
            return _in_units(type_, (utc - _EPOCH) // _MICROSECOND)
        case date():
            return (value - _EPOCH_DAY).days
        case str() if type_.logical is not None and type_.logical.name.startswith("time-"):
            return _whole(type_, _clock(value))  # as ORC's files have it
        case time():
            since = datetime.combine(_EPOCH_DAY, value.replace(tzinfo=UTC)) - _EPOCH
            return _in_units(type_, since // _MICROSECOND)
    return None


def _clock(text: str) -> time | None:
    try:
        return time.fromisoformat(text)
    except ValueError:
        return None


def _in_units(type_: avro.Primitive, micros: int) -> int | None:
    """Return microseconds in the unit of the type, which is milliseconds if it names none."""
    name = type_.logical.name if type_.logical else "millis"
    numbers, each = _PER_UNIT.get(name.rpartition("-")[2], (1, 86_400_000_000))
    return micros * numbers // each


def _bytes(
    type_: avro.Primitive | avro.Fixed, logical: avro.Logical | None, value: object, path: str
) -> bytes:
    if logical is not None and logical.name == "decimal" and not isinstance(value, bytes):
        return _decimal(type_, logical, value, path)
    if logical is not None and logical.name == "uuid" and isinstance(value, str):
        try:
            return uuid.UUID(value).bytes
        except ValueError:
            raise _refusal(type_, value, path) from None
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
    raise _refusal(type_, value, path)


def _decimal(type_: Type, logical: avro.Logical, value: object, path: str) -> bytes:
    try:
        exact = Decimal(value if isinstance(value, int | str | Decimal) else str(value))
        unscaled = int(exact.scaleb(logical.scale))
    except (InvalidOperation, ValueError, OverflowError):
        raise _refusal(type_, value, path) from None
    if Decimal(unscaled).scaleb(-logical.scale) != exact or abs(unscaled) >= 10**logical.precision:
        raise CannotHoldError(
            f"{path}: {value!r:.60} is no decimal of {logical.precision} digits, "
            f"{logical.scale} of them after the point"
        )
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, signed=True)


def _string(type_: avro.Primitive, value: object, path: str) -> bytes:
    match value:
        case str():
            return value.encode()
        case bytes():
            try:
                return value.decode().encode()
            except UnicodeDecodeError:
                raise _refusal(type_, value, path) from None
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z").encode()
        case datetime() | date() | time():
            return value.isoformat().encode()
        case Decimal():
            return f"{value:f}".encode()
    raise _refusal(type_, value, path)
