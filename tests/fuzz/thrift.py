"""Decoder Thrift beside Apache Thrift, on random IDLs and payloads in both protocols.

Apache's readers of single values read what is compared: fields, declared columns, columns of the
IDL and JSON. Payloads have fields that the IDL does not have or has with another type, repeated
and missing ones, in any order, and damaged bytes.
"""

import base64
import math
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from unittest.mock import patch

from hypothesis import strategies as st
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol, readVarint
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer, TTransportException

from landfall.api.spec import Column
from landfall.pipeline import decoders
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.thrift import ThriftDecoder
from landfall.pipeline.decoders.thrift.schema import load
from landfall.pipeline.decoders.typed_columns import schema_of
from tests.fuzz.compared import (
    BadError,
    column_rows,
    decode,
    expected,
    field_rows,
    json_rows,
    own_rows,
    parsed,
    same,
)

MAX_LEVELS = 64

# ------------------------------------------------------------------------------------------ schemas


@dataclass(frozen=True)
class Scalar:
    """A scalar; ``symbols`` are those of an enum."""

    name: str
    wire: int
    symbols: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Items:
    """A list or a set."""

    wire: int
    item: "Type"

    @property
    def name(self) -> str:
        """As the IDL has it."""
        return f"{'list' if self.wire == TType.LIST else 'set'}<{self.item.name}>"


@dataclass(frozen=True)
class Map:
    """A map."""

    key: "Type"
    value: "Type"
    wire: int = TType.MAP

    @property
    def name(self) -> str:
        """As the IDL has it."""
        return f"map<{self.key.name}, {self.value.name}>"


@dataclass(eq=False)
class Struct:
    """A struct, a union or an exception."""

    kind: str
    name: str
    fields: "tuple[Field, ...]" = ()
    wire: int = TType.STRUCT

    def __repr__(self) -> str:
        """As the IDL has it."""
        fields = "".join(f"  {field}\n" for field in self.fields)
        return f"{self.kind} {self.name} {{\n{fields}}}"


Type: TypeAlias = Scalar | Items | Map | Struct


@dataclass(frozen=True)
class Field:
    """A field of a struct."""

    id: int
    name: str
    type: Type
    requiredness: str
    default: str = ""

    def __repr__(self) -> str:
        """As the IDL has it."""
        return f"{self.id}: {self.requiredness} {self.type.name} {self.name}{self.default}"


SCALARS = (
    Scalar("bool", TType.BOOL), Scalar("byte", TType.BYTE), Scalar("i8", TType.BYTE),
    Scalar("i16", TType.I16), Scalar("i32", TType.I32), Scalar("i64", TType.I64),
    Scalar("double", TType.DOUBLE), Scalar("string", TType.STRING),
    Scalar("binary", TType.STRING),
)  # fmt: skip
ENUMS = (
    Scalar("E0", TType.I32, ((0, "A"), (1, "B"), (5, "C"))),
    Scalar("E1", TType.I32, ((-1, "X"), (2**31 - 1, "Y"))),
)
FIELD_IDS = (1, 2, 3, 4, 5, 14, 15, 16, 17, 32, 127, 128, 300, 32_767, -1, -300)
NAMES = ("a", "b", "c", "d", "e", "f", "key", "value", "type", "id", "A", "_x", "fields", "items")


@st.composite
def structs(draw: Any) -> Struct:
    """A struct of an IDL, which may have others, and itself, in it."""
    known: list[Struct] = []
    for i in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(("struct", "struct", "struct", "union", "exception")))
        made = Struct(kind, f"S{i}")
        others = (*known, made)
        ids = draw(st.lists(st.sampled_from(FIELD_IDS), min_size=1, max_size=5, unique=True))
        names = draw(st.permutations(NAMES))
        is_plain = draw(st.booleans())
        known.append(made)
        made.fields = tuple(
            _field(draw, id_, name, made, known if is_plain else others, is_plain=is_plain)
            for id_, name in zip(ids, names, strict=False)
        )
    return known[-1]


def _field(
    draw: Any, id_: int, name: str, of: Struct, known: Sequence[Struct], *, is_plain: bool
) -> Field:
    inner = [each for each in known if each is not of or not is_plain]
    type_ = _type(draw, inner, 0 if is_plain else draw(st.integers(0, 2)))
    requiredness = "optional"
    if of.kind != "union":
        choices = ("", "optional", "", "optional", "" if type_ is of else "required")
        requiredness = draw(st.sampled_from(choices))
    has_default = type_.name in {"i32", "i64"} and draw(st.integers(0, 3)) == 0
    return Field(id_, name, type_, requiredness, " = 7" if has_default else "")


def _type(draw: Any, known: Sequence[Struct], depth: int) -> Type:
    which = draw(st.integers(0, 7))
    if depth and which in {0, 1}:
        wire = draw(st.sampled_from((TType.LIST, TType.SET)))
        return Items(wire, _type(draw, known, depth - 1))
    if depth and which == 2:
        return Map(_type(draw, known, depth - 1), _type(draw, known, depth - 1))
    if known and which in {3, 4}:
        return draw(st.sampled_from(known))  # type: ignore[no-any-return]  # one of these
    return draw(st.sampled_from(ENUMS if which == 5 else SCALARS))  # type: ignore[no-any-return]  # one of these


def idl(struct: Struct) -> str:
    """The IDL that has a struct and what is in it."""
    enums = [
        f"enum {enum.name} {{ {', '.join(f'{name} = {n}' for n, name in enum.symbols)} }}"
        for enum in ENUMS
    ]
    return "\n".join([*enums, *map(repr, reversed(list(_closure(struct, []))))])


def _closure(struct: Struct, known: list[Struct]) -> list[Struct]:
    # In the order of their names, those that are used after those that use them.
    waiting: list[Type] = [struct]
    while waiting:
        match waiting.pop():
            case Struct() as each if each not in known:
                known.append(each)
                waiting += [field.type for field in each.fields]
            case Items() as items:
                waiting.append(items.item)
            case Map() as map_:
                waiting += [map_.key, map_.value]
    return sorted(known, key=lambda each: each.name, reverse=True)


# ----------------------------------------------------------------------------------------- payloads

INTEGERS = {TType.BYTE: 8, TType.I16: 16, TType.I32: 32, TType.I64: 64}
TEXTS = ("", "a", "b", "é", "\U0001f600", "\x00", '"\\\n', "1", "true", "x" * 130)
BYTES = (b"", b"a", b"\xff", b"\xed\xa0\x80", b"caf\xe9")
DOUBLES = (0.0, -0.0, 1.5, -1.0, 1e300, 5e-324, 0.1, 1e16, 1e-7, math.inf, -math.inf, math.nan)
WIRES = (*INTEGERS, TType.BOOL, TType.DOUBLE, TType.STRING, TType.STRUCT, TType.MAP, TType.LIST,
         TType.SET, TType.UUID)  # fmt: skip


class Writer:
    """Writes random structs with Apache's protocols."""

    def __init__(self, draw: Any, protocol: str) -> None:
        self._draw = draw
        self._buffer = TMemoryBuffer()
        self._to = PROTOCOLS[protocol](self._buffer)
        self._has_bad_text = draw(st.integers(0, 3)) == 0

    def payload(self, struct: Struct) -> bytes:
        """The bytes of a struct."""
        self._struct(struct, 1)
        written: bytes = self._buffer.getvalue()
        return written

    def _struct(self, struct: Struct | None, depth: int) -> None:
        self._to.writeStructBegin("")
        for id_, type_ in self._chosen(struct, depth):
            wire = type_ if isinstance(type_, int) else type_.wire
            self._to.writeFieldBegin("", wire, id_)
            self._value(type_, depth)
            self._to.writeFieldEnd()
        self._to.writeFieldStop()
        self._to.writeStructEnd()

    def _chosen(self, struct: Struct | None, depth: int) -> list[tuple[int, Type | int]]:
        """Ids, and the types or, of what the IDL does not have, wires of the fields to write."""
        chosen: list[tuple[int, Type | int]] = []
        for field in struct.fields if struct else ():
            what = self._draw(st.integers(0, 19))
            is_left_out = what == 0 or (depth > 3 and isinstance(field.type, Struct))
            if is_left_out or (what < 6 and field.requiredness != "required"):
                continue
            chosen.append((field.id, field.type if what < 18 else self._wire()))
            if what == 19:
                chosen.append((field.id, field.type))
        if self._draw(st.integers(0, 3)) == 0:
            chosen.append((self._draw(st.sampled_from((*FIELD_IDS, 6, 7))), self._wire()))
        if self._draw(st.integers(0, 4)) == 0:
            chosen = self._draw(st.permutations(chosen))
        return chosen

    def _wire(self) -> int:
        return self._draw(st.sampled_from(WIRES))  # type: ignore[no-any-return]  # one of these

    def _number(self, depth: int) -> int:
        most = 2 if depth < 4 else 0
        # More than 14 items have another form in the compact protocol.
        return 15 if self._draw(st.integers(0, 40)) == 40 else self._draw(st.integers(0, most))

    def _value(self, type_: Type | int, depth: int) -> None:
        match type_:
            case Scalar():
                self._scalar(type_.wire, type_)
            case Struct():
                self._struct(type_, depth + 1)
            case Items():
                self._items(type_.wire, type_.item, depth + 1)
            case Map():
                self._pairs(type_.key, type_.value, depth + 1)
            case TType.STRUCT:
                self._struct(None, depth + 1)
            case TType.LIST | TType.SET:
                self._items(type_, self._wire() if depth < 3 else TType.BOOL, depth + 1)
            case TType.MAP:
                self._pairs(TType.STRING, self._wire() if depth < 3 else TType.I16, depth + 1)
            case _:
                self._scalar(type_, None)

    def _items(self, wire: int, item: Type | int, depth: int) -> None:
        if self._draw(st.integers(0, 19)) == 0:
            item = self._wire()
        number = self._number(depth)
        begin = self._to.writeListBegin if wire == TType.LIST else self._to.writeSetBegin
        begin(item if isinstance(item, int) else item.wire, number)
        for _ in range(number):
            self._value(item, depth)
        end = self._to.writeListEnd if wire == TType.LIST else self._to.writeSetEnd
        end()

    def _pairs(self, key: Type | int, value: Type | int, depth: int) -> None:
        if self._draw(st.integers(0, 19)) == 0:
            value = self._wire()
        number = self._number(depth)
        wires = [each if isinstance(each, int) else each.wire for each in (key, value)]
        self._to.writeMapBegin(*wires, number)
        for _ in range(number):
            self._value(key, depth)
            self._value(value, depth)
        self._to.writeMapEnd()

    def _scalar(self, wire: int, type_: Scalar | None) -> None:
        draw, to = self._draw, self._to
        match wire:
            case TType.BOOL:
                to.writeBool(draw(st.booleans()))
            case TType.DOUBLE:
                to.writeDouble(draw(st.sampled_from(DOUBLES)))
            case TType.STRING:
                is_text = type_ is not None and type_.name == "string" and not self._has_bad_text
                texts = st.sampled_from([text.encode() for text in TEXTS])
                to.writeBinary(draw(texts if is_text else st.one_of(texts, st.sampled_from(BYTES))))
            case TType.UUID:
                to.writeUuid(uuid.UUID(int=draw(st.sampled_from((0, 2**127 + 7)))))
            case _:
                bits = INTEGERS[wire]
                limits = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, 1, -1, 5, 63, 64, -65)
                number = draw(st.sampled_from(limits))
                names = {8: "writeByte", 16: "writeI16", 32: "writeI32", 64: "writeI64"}
                getattr(to, names[bits])(number)


@st.composite
def payloads(draw: Any, struct: Struct, protocol: str) -> bytes | None:
    """A payload, whole or damaged, or a tombstone."""
    how = draw(st.integers(0, 11))
    if how == 0:
        return None
    payload = Writer(draw, protocol).payload(struct)
    at = draw(st.integers(0, max(0, len(payload) - 1)))
    if how == 1:
        return payload[:at]
    if how == 2:
        return payload + draw(st.binary(min_size=1, max_size=3))  # type: ignore[no-any-return]  # drawn
    if how in {3, 4}:
        byte = draw(st.sampled_from((0, 1, 2, 3, 8, 11, 12, 13, 14, 15, 16, 17, 127, 128, 255)))
        return payload[:at] + bytes([byte]) + payload[at + 1 :]
    return payload


# ---------------------------------------------------------------------------------------- reference


class _Compact(TCompactProtocol):  # type: ignore[misc]  # without types
    """Refuses numbers that have more bits than their type, which Apache's Python reader takes."""

    last = (0, 0)

    def _TCompactProtocol__readVarint(self) -> int:  # noqa: N802  # Apache's private name
        before = self.trans.cstringio_buf.tell()
        number: int = readVarint(self.trans)
        self.last = (number, self.trans.cstringio_buf.tell() - before)
        return number

    def check(self, bits: int) -> None:
        number, octets = self.last
        if number >> bits or octets > -(-bits // 7):
            raise BadError(f"a number of more than {bits} bits")


PROTOCOLS: dict[str, Any] = {"Binary": TBinaryProtocol, "Compact": _Compact}


class Record(dict[int, Any]):
    """The fields of a struct by id."""


class Reference:
    """Reads one payload with Apache's readers of single values."""

    def __init__(self, protocol: str, payload: bytes) -> None:
        self._size = len(payload)
        self._buffer = TMemoryBuffer(payload)
        self._of = PROTOCOLS[protocol](self._buffer)
        self._is_compact = protocol == "Compact"

    def read(self, struct: Struct) -> Record:
        """The struct that the payload is; raises BadError."""
        try:
            record = self._struct(struct, 1)
        except (EOFError, TProtocolException, TTransportException, KeyError) as error:
            raise BadError(str(error)) from error
        if self._left():
            raise BadError("bytes after the struct")
        return record

    def _left(self) -> int:
        return self._size - int(self._buffer.cstringio_buf.tell())

    def _check_stop(self) -> None:
        # Apache takes any byte without a type for a stop; only zero is one.
        place = self._buffer.cstringio_buf.tell()
        header = self._buffer.cstringio_buf.read(1)
        self._buffer.cstringio_buf.seek(place)
        if header and header[0] and not header[0] & 15:
            raise BadError("a stop with more in it")

    def _check(self, bits: int) -> None:
        if self._is_compact:
            self._of.check(bits)

    def _struct(self, struct: Struct | None, depth: int) -> Record:
        fields = {field.id: field for field in struct.fields} if struct else {}
        record = Record()
        self._of.readStructBegin()
        while True:
            if self._is_compact:
                self._of.last = (0, 0)
                self._check_stop()
            _, wire, id_ = self._of.readFieldBegin()
            if wire == TType.STOP:
                break
            self._check(16)
            field = fields.get(id_)
            fits = field is not None and field.type.wire == wire
            value = self._value(wire, field.type if fits and field else None, depth)
            if fits:
                record[id_] = value
            self._of.readFieldEnd()
        self._of.readStructEnd()
        if any(f.requiredness == "required" and f.id not in record for f in fields.values()):
            raise BadError("a required field is missing")
        return record

    def _value(self, wire: int, type_: Type | None, depth: int) -> Any:  # noqa: C901, PLR0911  # one line for each case
        if wire in {TType.STRUCT, TType.LIST, TType.SET, TType.MAP} and depth == MAX_LEVELS:
            raise BadError("too many levels")
        match wire:
            case TType.STRUCT:
                return self._struct(type_ if isinstance(type_, Struct) else None, depth + 1)
            case TType.LIST | TType.SET:
                return self._items(wire, type_ if isinstance(type_, Items) else None, depth + 1)
            case TType.MAP:
                return self._pairs(type_ if isinstance(type_, Map) else None, depth + 1)
            case TType.BOOL:
                return self._of.readBool()
            case TType.DOUBLE:
                return self._of.readDouble()
            case TType.STRING:
                return self._of.readBinary()
            case TType.UUID:
                return self._of.readUuid()
            case TType.BYTE:
                return self._of.readByte()
            case _ if wire in INTEGERS:
                number = getattr(self._of, f"readI{INTEGERS[wire]}")()
                self._check(INTEGERS[wire])
                return number
        raise BadError(f"unknown type {wire}")

    def _items(self, wire: int, type_: Items | None, depth: int) -> list[Any]:
        begin = self._of.readListBegin if wire == TType.LIST else self._of.readSetBegin
        item_wire, number = begin()
        item = type_.item if type_ and type_.item.wire == item_wire else None
        if not 0 <= number <= self._left():
            raise BadError("more items than bytes")
        found = [self._value(item_wire, item, depth) for _ in range(number)]
        if type_ and number and item is None:
            raise BadError("items of another type")
        (self._of.readListEnd if wire == TType.LIST else self._of.readSetEnd)()
        return found

    def _pairs(self, type_: Map | None, depth: int) -> list[tuple[Any, Any]]:
        key_wire, value_wire, number = self._of.readMapBegin()
        fits = type_ and type_.key.wire == key_wire and type_.value.wire == value_wire
        if not 0 <= 2 * number <= self._left():
            raise BadError("more pairs than bytes")
        key, value = (type_.key, type_.value) if fits and type_ else (None, None)
        found = [
            (self._value(key_wire, key, depth), self._value(value_wire, value, depth))
            for _ in range(number)
        ]
        if type_ and number and not fits:
            raise BadError("pairs of other types")
        self._of.readMapEnd()
        return found


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise BadError("not UTF-8") from error


def _symbol(value: int, type_: Scalar) -> str | int:
    return dict(type_.symbols).get(value, value)


def as_json(value: Any, type_: Type) -> Any:  # noqa: PLR0911  # one line for each case
    """A value as parsed JSON, objects as pairs."""
    match type_:
        case Struct():
            return [
                (field.name, as_json(value[field.id], field.type))
                for field in type_.fields
                if field.id in value
            ]
        case Items():
            return [as_json(each, type_.item) for each in value]
        case Map():
            if value and not isinstance(type_.key, Scalar):
                raise BadError("keys that are no scalars")
            assert isinstance(type_.key, Scalar) or not value
            pairs = {
                _key(as_json(key, type_.key)): as_json(each, type_.value) for key, each in value
            }
            return list(pairs.items())
    if type_.name == "string":
        return _text(value)
    if type_.name == "binary":
        return base64.b64encode(value).decode()
    if type_.name == "double" and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _symbol(value, type_) if type_.symbols else value


def _key(plain: Any) -> str:
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def as_column(value: Any, type_: Type, inside: tuple[Struct, ...]) -> Any:  # noqa: PLR0911  # one line for each case
    """A value of the columns of the IDL."""
    match type_:
        case Struct() if type_ in inside:
            return parsed_text(value, type_)
        case Struct():
            within = (*inside, type_)
            return {
                field.name: as_column(value[field.id], field.type, within)
                if field.id in value
                else None
                for field in type_.fields
            }
        case Items():
            return [as_column(each, type_.item, inside) for each in value]
        case Map():
            pairs = [
                (as_column(key, type_.key, inside), as_column(each, type_.value, inside))
                for key, each in value
            ]
            if isinstance(type_.key, Scalar):
                return list(dict(pairs).items())
            return [{"key": key, "value": each} for key, each in pairs]
    if type_.name == "string":
        return _text(value)
    return str(_symbol(value, type_)) if type_.symbols else value


class parsed_text:  # noqa: N801  # stands for text that is compared as parsed JSON
    """JSON text, which is compared as parsed."""

    def __init__(self, value: Any, type_: Type) -> None:
        self._parsed = as_json(value, type_)

    def __repr__(self) -> str:
        """As the parsed text shows itself."""
        return f"json {_plain_pairs(self._parsed)!r}"


def _plain_pairs(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain_pairs, value))
    return list(map(_plain_pairs, value)) if isinstance(value, list) else value


class _Json:
    """JSON text of the decoder's."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        """As the parsed text shows itself."""
        return f"json {parsed(self._text)!r}"


# ------------------------------------------------------------------------------------------- checks


_LOAD = lru_cache(8)(load)


@dataclass(frozen=True)
class Case:
    """Payloads of a struct of an IDL."""

    struct: Struct
    protocol: str
    payloads: tuple[bytes | None, ...]

    def __repr__(self) -> str:
        """All of it, as one can read it."""
        rows = [None if payload is None else payload.hex(" ") for payload in self.payloads]
        return f"\n{idl(self.struct)}\nstruct {self.struct.name}, {self.protocol}: {rows}"

    def _repr_pretty_(self, printer: Any, _is_cycle: bool) -> None:
        printer.text(repr(self))

    def decoder(self, wanted: Wanted) -> ThriftDecoder:
        """The decoder of the struct."""
        options = {"idl": idl(self.struct), "struct": self.struct.name, "protocol": self.protocol}
        # Parsing the IDL takes ten times as long as all the rest of a case.
        with patch.object(decoders.thrift, "load", _LOAD):
            return ThriftDecoder.of(options, wanted)


@st.composite
def cases(draw: Any) -> Case:
    """A random case."""
    struct = draw(structs())
    protocol = draw(st.sampled_from(("Binary", "Binary", "Compact")))
    rows = draw(st.lists(payloads(struct, protocol), min_size=1, max_size=6))
    return Case(struct, protocol, tuple(rows))


CASES = cases()


def check(case: Case) -> Sequence[str]:
    """Compare the decoder with the reference; see ``tests.fuzz``."""
    is_good = expected(case.payloads, lambda payload: _read(case, payload), None)
    _check_json(case)
    _check_own(case)
    _check_fields(case)
    _check_declared(case, with_json=False)
    _check_declared(case, with_json=True)
    return [case.protocol, *["good rows"] * len(is_good)]


def _read(case: Case, payload: bytes) -> Record:
    return Reference(case.protocol, payload).read(case.struct)


def _check_json(case: Case) -> None:
    decoded = decode(case.decoder(Wanted(json=True)), case.payloads)
    wanted = expected(case.payloads, lambda p: as_json(_read(case, p), case.struct), None)
    same(json_rows(decoded), wanted, "JSON", decoded)


def _check_own(case: Case) -> None:
    decoded = decode(case.decoder(Wanted(columns=True, own_columns=True)), case.payloads)
    nothing = {field.name: None for field in case.struct.fields}
    wanted = expected(case.payloads, lambda p: as_column(_read(case, p), case.struct, ()), nothing)
    found = {row: _with_json(value, case.struct, ()) for row, value in own_rows(decoded).items()}
    same(found, wanted, "columns of the IDL", decoded)


def _with_json(value: Any, type_: Type, inside: tuple[Struct, ...]) -> Any:  # noqa: PLR0911  # one line for each case
    if value is None:
        return None
    match type_:
        case Struct() if type_ in inside:
            return _Json(value)
        case Struct():
            within = (*inside, type_)
            types = {field.name: field.type for field in type_.fields}
            return {name: _with_json(each, types[name], within) for name, each in value.items()}
        case Items():
            return [_with_json(each, type_.item, inside) for each in value]
        case Map() if isinstance(type_.key, Scalar):
            return [(key, _with_json(each, type_.value, inside)) for key, each in value]
        case Map():
            return [
                {
                    "key": _with_json(each["key"], type_.key, inside),
                    "value": _with_json(each["value"], type_.value, inside),
                }
                for each in value
            ]
    return value


def _leaves(struct: Struct, path: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    for field in struct.fields:
        place = (*path, field)
        yield place
        if isinstance(field.type, Struct) and len(place) < 3:
            yield from _leaves(field.type, place)


def _at(record: Any, path: tuple[Field, ...]) -> Any:
    for field in path:
        if record is None or field.id not in record:
            return None
        record = record[field.id]
    return record


def _check_fields(case: Case) -> None:
    paths = {
        tuple(f.name if len(path) % 2 else str(f.id) for f in path): path
        for path in _leaves(case.struct)
        if isinstance(path[-1].type, Scalar) and all(f.id > 0 for f in path)
    }
    decoded = decode(case.decoder(Wanted(tuple(paths))), case.payloads)

    def values(payload: bytes) -> Any:
        record = _read(case, payload)
        return {
            name: _field_value(_at(record, path), path[-1].type) for name, path in paths.items()
        }

    wanted = expected(case.payloads, values, dict.fromkeys(paths))
    same(field_rows(decoded), wanted, "fields", decoded)


def _field_value(value: Any, type_: Type) -> Any:
    assert isinstance(type_, Scalar)
    if value is None:
        return None
    if type_.name == "string":
        return _text(value)
    if type_.name == "binary":
        return base64.b64encode(value).decode()
    return str(_symbol(value, type_)) if type_.symbols else value


TYPES = {
    "bool": "Boolean", "byte": "Int64", "i8": "Int32", "i16": "Int32", "i32": "Int64",
    "i64": "Int32", "double": "Float64", "string": "String", "binary": "Binary", "E0": "String",
    "E1": "Int64",
}  # fmt: skip


def _check_declared(case: Case, *, with_json: bool) -> None:
    paths = [
        path for path in _leaves(case.struct) if with_json or isinstance(path[-1].type, Scalar)
    ]
    if not paths:
        return
    columns = [
        Column(
            name=f"c{i}",
            type="Json" if with_json and i % 2 else TYPES.get(path[-1].type.name, "Json"),  # type: ignore[arg-type]  # pydantic converts the text
            field=".".join(field.name for field in path),
        )
        for i, path in enumerate(paths)
    ]
    decoded = decode(case.decoder(Wanted(schema=schema_of(columns))), case.payloads)

    def values(payload: bytes) -> Any:
        record = _read(case, payload)
        return {
            column.name: _declared_value(_at(record, path), path[-1].type, column.type)
            for column, path in zip(columns, paths, strict=True)
        }

    wanted = expected(case.payloads, values, {column.name: None for column in columns})
    is_json = {column.name for column in columns if column.type == "Json"}
    found = {
        row: {
            name: _Json(each) if name in is_json and each is not None else each
            for name, each in value.items()
        }
        for row, value in column_rows(decoded).items()
    }
    same(found, wanted, "declared columns", decoded)


def _declared_value(value: Any, type_: Type, column: str) -> Any:
    if value is None:
        return None
    if column == "Json":
        return parsed_text(value, type_)
    assert isinstance(type_, Scalar)
    if column == "Int32" and not -(2**31) <= value < 2**31:
        raise BadError("out of range")
    if type_.symbols and column == "String":
        return str(_symbol(value, type_))
    return _text(value) if column == "String" else value
