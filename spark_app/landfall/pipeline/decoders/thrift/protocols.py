"""Reads one payload at a time, in Thrift's binary or compact protocol, into plain values.

A payload is read if it is exactly one struct: all lengths and counts lie within it, no type id is
unknown, and nothing follows the struct. As in Apache Thrift, fields that the IDL does not have are
skipped, and so are fields of another type than the IDL declares. A repeated field replaces the one
before. A required field that is missing is an error, as in Apache's generated ``validate``. Nesting
is limited to 64 levels (Apache's ``TConfiguration.DEFAULT_RECURSION_DEPTH``), in skipped parts too.

Sources: "Thrift Binary protocol encoding" and "Thrift Compact protocol encoding", doc/specs in the
Apache Thrift repository. Own code, because thriftpy2 and Apache's accelerated reader recurse as
deep as a payload demands, and allocate what it demands, before they look at its length.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from mmap import mmap
from typing import Protocol, TypeAlias

from landfall.pipeline.decoders.thrift.schema import (
    INTEGERS,
    ThriftItems,
    ThriftMap,
    ThriftStruct,
    Type,
    WireType,
)

Value: TypeAlias = object
"""Numbers and booleans as they are, strings as bytes, structs as ``ThriftRecord``, lists, sets as
lists, and maps as lists of pairs."""

MAX_DEPTH = 64


class MalformedStructError(ValueError):
    """The payload is not one struct of the protocol."""


class ThriftRecord(dict[int, Value]):
    """The fields of a struct by id."""


class Payload(Protocol):
    """A payload, and the position in it that is read next."""

    def fields(self) -> Iterator[tuple[int, WireType, bool | None]]:
        """Iterate over the ids and types of a struct's fields; the caller reads each value.

        In the compact protocol the value of a boolean comes with its type.
        """
        ...

    def scalar(self, wire: WireType) -> Value:
        """Read a number, a boolean or bytes."""
        ...

    def items(self) -> tuple[WireType, int]:
        """Read the type and number of the items of a list or set."""
        ...

    def pairs(self) -> tuple[WireType, WireType, int]:
        """Read the types and number of the pairs of a map."""
        ...

    def finish(self) -> None:
        """Raise MalformedError if there is more."""
        ...


class _Bytes:
    """Bytes that are read from a position, as both protocols do."""

    def __init__(self, data: bytes | mmap, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise MalformedStructError(f"ends inside a value at byte {len(self.data)}")
        start = self.at
        self.at += size
        return self.data[start : self.at]

    def byte(self) -> int:
        at = self.at
        if at >= len(self.data):
            raise MalformedStructError(f"ends inside a value at byte {at}")
        self.at = at + 1
        return self.data[at]

    def count(self, number: int, least: int) -> int:
        # Every item takes a byte at least, so this bounds what is allocated.
        if not 0 <= number * least <= len(self.data) - self.at:
            raise MalformedStructError(f"{number} items do not fit at byte {self.at}")
        return number

    def finish(self) -> None:
        if self.at < len(self.data):
            raise MalformedStructError(f"{len(self.data) - self.at} bytes after the struct")


class _Binary(_Bytes):
    """A payload in the binary protocol."""

    def fields(self) -> Iterator[tuple[int, WireType, bool | None]]:
        while wire := self.byte():
            yield self._integer(2), _wire(wire), None

    def scalar(self, wire: WireType) -> Value:
        match wire:
            case WireType.BOOL:
                return self.byte() != 0
            case WireType.DOUBLE:
                return struct.unpack(">d", self.take(8))[0]
            case WireType.STRING:
                return self.take(self._integer(4))
            case WireType.UUID:
                return self.take(16)
            case _:
                return self._integer(INTEGERS[wire])

    def items(self) -> tuple[WireType, int]:
        wire, number = self.byte(), self.count(self._integer(4), 1)
        return _wire(wire) if number else WireType.STOP, number

    def pairs(self) -> tuple[WireType, WireType, int]:
        key = self.byte()
        value = self.byte()
        number = self.count(self._integer(4), 2)
        return (_wire(key), _wire(value), number) if number else (WireType.STOP, WireType.STOP, 0)

    def _integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)


COMPACT_WIRES: Mapping[int, WireType] = {
    1: WireType.BOOL,
    2: WireType.BOOL,
    3: WireType.BYTE,
    4: WireType.I16,
    5: WireType.I32,
    6: WireType.I64,
    7: WireType.DOUBLE,
    8: WireType.STRING,
    9: WireType.LIST,
    10: WireType.SET,
    11: WireType.MAP,
    12: WireType.STRUCT,
    13: WireType.UUID,
}
"""The types by their numbers in the compact protocol, which has two for booleans: true, false."""


class CompactPayload(_Bytes):
    """A payload in the compact protocol."""

    def fields(self) -> Iterator[tuple[int, WireType, bool | None]]:
        """See ``Payload``."""
        last = 0
        while header := self.byte():
            delta, kind = header >> 4, header & 15
            last = last + delta if delta else self._zigzag(16)
            wire = self._wire(kind)
            yield last, wire, kind == 1 if wire is WireType.BOOL else None

    def scalar(self, wire: WireType) -> Value:
        """See ``Payload``."""
        if wire is WireType.STRING:
            return self.take(self._varint(32))
        match wire:
            case WireType.BOOL:
                return self.byte() == 1
            case WireType.BYTE:
                return int.from_bytes(self.take(1), signed=True)
            case WireType.DOUBLE:
                return struct.unpack("<d", self.take(8))[0]
            case WireType.UUID:
                return self.take(16)
            case _:
                return self._zigzag(INTEGERS[wire] * 8)

    def items(self) -> tuple[WireType, int]:
        """See ``Payload``."""
        header = self.byte()
        number, kind = header >> 4, header & 15
        number = self.count(self._varint(32) if number == 15 else number, 1)
        # An empty list may name no type, but none that does not exist, as in Apache's readers.
        wire = self._wire(kind) if kind or number else WireType.STOP
        return wire if number else WireType.STOP, number

    def pairs(self) -> tuple[WireType, WireType, int]:
        """See ``Payload``."""
        number = self._varint(32)
        if not number:
            return WireType.STOP, WireType.STOP, 0
        header = self.byte()
        return self._wire(header >> 4), self._wire(header & 15), self.count(number, 2)

    def _wire(self, kind: int) -> WireType:
        if kind not in COMPACT_WIRES:
            raise MalformedStructError(f"unknown type {kind} before byte {self.at}")
        return COMPACT_WIRES[kind]

    def _varint(self, bits: int) -> int:
        number = self.byte()
        if number < 0x80:
            return number
        number, shift = number & 0x7F, 7
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise MalformedStructError(
                    f"a number of more than {bits} bits before byte {self.at}"
                )
        if number >> bits:
            raise MalformedStructError(f"a number of more than {bits} bits before byte {self.at}")
        return number

    def _zigzag(self, bits: int) -> int:
        number = self._varint(bits)
        return (number >> 1) ^ -(number & 1)


PROTOCOLS: Mapping[str, Callable[[bytes], Payload]] = {"Binary": _Binary, "Compact": CompactPayload}
"""Opens a payload in the protocol of this name."""


def read(payload: Payload, schema: ThriftStruct) -> ThriftRecord:
    """Return the struct that a payload is.

    Raises:
        MalformedStructError: it is not exactly one struct of this schema.
    """
    record = _struct(payload, schema, 1)
    payload.finish()
    return record


def _struct(payload: Payload, schema: ThriftStruct | None, depth: int) -> ThriftRecord:
    record = ThriftRecord()
    fields = schema.fields if schema else {}
    for id_, wire, flag in payload.fields():
        field = fields.get(id_)
        fits = field is not None and field.type.wire is wire
        value = (
            flag
            if flag is not None
            else _value(payload, wire, field.type if field and fits else None, depth)
        )
        if fits:
            record[id_] = value
    for id_, field in fields.items():
        if field.required and id_ not in record:
            raise MalformedStructError(f"required field {field.name} is missing")
    return record


def _value(payload: Payload, wire: WireType, type_: Type | None, depth: int) -> Value:
    """Read a value; what is read without a type is skipped by the caller."""
    if wire not in _NESTED:
        return payload.scalar(wire)
    if depth >= MAX_DEPTH:
        raise MalformedStructError(f"more than {MAX_DEPTH} levels")
    match wire:
        case WireType.STRUCT:
            return _struct(payload, type_ if isinstance(type_, ThriftStruct) else None, depth + 1)
        case WireType.MAP:
            return _pairs(payload, type_ if isinstance(type_, ThriftMap) else None, depth + 1)
        case _:
            return _items(payload, type_ if isinstance(type_, ThriftItems) else None, depth + 1)


def _items(payload: Payload, type_: ThriftItems | None, depth: int) -> list[Value]:
    wire, number = payload.items()
    item = type_.item if type_ and type_.item.wire is wire else None
    if item is None:
        # Nothing is kept of what is skipped.
        for _ in range(number):
            _value(payload, wire, None, depth)
        if type_ and number:
            raise MalformedStructError(f"a list of {wire.name} in place of {type_.item.wire.name}")
        return []
    return [_value(payload, wire, item, depth) for _ in range(number)]


def _pairs(payload: Payload, type_: ThriftMap | None, depth: int) -> list[tuple[Value, Value]]:
    key_wire, value_wire, number = payload.pairs()
    key = type_.key if type_ and type_.key.wire is key_wire else None
    value = type_.value if type_ and type_.value.wire is value_wire else None
    if key is None or value is None:
        for _ in range(number):
            _value(payload, key_wire, None, depth)
            _value(payload, value_wire, None, depth)
        if type_ and number:
            raise MalformedStructError(
                f"a map of {key_wire.name} to {value_wire.name} in place of another"
            )
        return []
    return [
        (_value(payload, key_wire, key, depth), _value(payload, value_wire, value, depth))
        for _ in range(number)
    ]


_KNOWN = set(WireType) - {WireType.STOP}
_NESTED = {WireType.STRUCT, WireType.MAP, WireType.SET, WireType.LIST}


def _wire(number: int) -> WireType:
    if number not in _KNOWN:
        raise MalformedStructError(f"unknown type {number}")
    return WireType(number)
