"""Whole messages as columns, one for each field: what ``Wanted.own_columns`` asks for.

==================================  ==============================================================
field                               column
==================================  ==============================================================
numbers, bool, string, bytes        the type itself; uint32 and uint64 are unsigned
enum                                string: its name, and the number if it has none
message, repeated, map              struct, list, map, whose entries are sorted by key
google.protobuf.Timestamp           timestamp in UTC, cut to microseconds
google.protobuf.…Value              the type that it wraps, which may be null
a message inside itself, Struct,    string: JSON
Value, ListValue
==================================  ==============================================================

A field without presence that is absent is its default, one with presence null, as everywhere in
this package. Of a key that a map has twice the last value counts, as in google.protobuf. Extensions
have no columns.

ptars reads whole columns; what it reads otherwise than google.protobuf, or not at all, is read
message by message: columns with JSON in them, and rows with several members of a ``oneof``, with
an unknown number of a closed enum, or with a Timestamp out of range.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders.arrow_values import named
from landfall.pipeline.decoders.protobuf.batches import is_time, times, unknown_numbers
from landfall.pipeline.decoders.protobuf.schema import (
    arrow_scalar,
    is_map,
    reading_name,
    symbols_of,
)
from landfall.pipeline.records import Int64s

Bools: TypeAlias = npt.NDArray[np.bool_]

TIMES = pa.timestamp("us", "UTC")
_STRING = pa.string()
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_STRUCTS = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))


@dataclass(frozen=True)
class ScalarValue:
    """A number, text or bytes; an enum if it has symbols, which is open or closed."""

    wire: pa.DataType
    symbols: Mapping[int, str] | None = None
    is_wrapper: bool = False
    is_closed: bool = False

    @property
    def arrow(self) -> pa.DataType:
        """The type of the column."""
        return self.wire if self.symbols is None else pa.string()


@dataclass(frozen=True)
class TimestampMessage:
    """A Timestamp."""

    arrow: pa.DataType = TIMES


@dataclass(frozen=True)
class JsonMessage:
    """A message without a type that has an end: its JSON."""

    descriptor: Any
    arrow: pa.DataType = _STRING


@dataclass(frozen=True)
class StructMessage:
    """A message; ``oneofs`` are the names of the members of each."""

    fields: tuple["MessageField", ...]
    oneofs: tuple[tuple[str, ...], ...]

    @property
    def arrow(self) -> pa.DataType:
        """The type of the column."""
        return pa.struct([(member.name, member.arrow) for member in self.fields])


Type: TypeAlias = ScalarValue | TimestampMessage | JsonMessage | StructMessage


@dataclass(frozen=True)
class MessageField:
    """A field: its descriptor, the type of its values, and of its keys if it is a map."""

    field: Any
    type: Type
    key: ScalarValue | None = None

    @property
    def name(self) -> str:
        """The name of the field."""
        return str(self.field.name)

    @cached_property
    def reading_name(self) -> str:
        """The name of the field where google.protobuf reads it."""
        return reading_name(self.field)

    @property
    def is_list(self) -> bool:
        """Return whether it is repeated, and no map."""
        return bool(self.field.is_repeated) and self.key is None

    @property
    def arrow(self) -> pa.DataType:
        """The type of the column."""
        if self.key is not None:
            return pa.map_(self.key.arrow, self.type.arrow)
        return pa.list_(self.type.arrow) if self.is_list else self.type.arrow


def members(descriptor: Any, inside: tuple[str, ...] = ()) -> StructMessage:
    """Return the type of a message."""
    inside = (*inside, descriptor.full_name)
    fields = tuple(_member(field, inside) for field in descriptor.fields)
    oneofs = tuple(
        tuple(field.name for field in oneof.fields)
        for oneof in descriptor.oneofs
        if len(oneof.fields) > 1
    )
    return StructMessage(fields, oneofs)


def _member(field: Any, inside: tuple[str, ...]) -> MessageField:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return MessageField(field, _type(value, inside), ScalarValue(arrow_scalar(key)))
    return MessageField(field, _type(field, inside))


def _type(field: Any, inside: tuple[str, ...]) -> Type:
    of = field.message_type
    if of is None:
        is_closed = field.enum_type is not None and field.enum_type.is_closed
        return ScalarValue(arrow_scalar(field), symbols_of(field), is_closed=is_closed)
    if of.full_name == _TIMESTAMP:
        return TimestampMessage()
    if of.full_name in _WRAPPERS:
        return ScalarValue(arrow_scalar(of.fields_by_name["value"]), is_wrapper=True)
    if of.full_name in _STRUCTS or of.full_name in inside:
        return JsonMessage(of)
    return members(of, inside)


# ------------------------------------------------------------------------------- columns of ptars


def same_wire(member: MessageField, type_: pa.DataType) -> bool:
    """Return whether ptars gives a column of the type that ``column`` reads."""
    if member.key is not None:
        return (
            pa.types.is_map(type_)
            and type_.key_type == member.key.wire
            and _same(member.type, type_.item_type)
        )
    if member.is_list:
        return pa.types.is_list(type_) and _same(member.type, type_.value_type)
    return _same(member.type, type_)


def _same(type_: Type, wire: pa.DataType) -> bool:
    match type_:
        case TimestampMessage():
            return is_time(wire)
        case ScalarValue(is_wrapper=True):
            fields = list(wire) if pa.types.is_struct(wire) else []
            return [(field.name, field.type) for field in fields] == [("value", type_.wire)]
        case ScalarValue():
            return bool(type_.wire == wire)
        case StructMessage():
            names = [member.name for member in type_.fields]
            return (
                pa.types.is_struct(wire)
                and [field.name for field in wire] == names
                and all(map(same_wire, type_.fields, [field.type for field in wire]))
            )
    return False


def column(member: MessageField, made: pa.Array, odd: Bools) -> pa.Array:
    """Return a column of ptars in the type of the member.

    Args:
        member: the field.
        made: what ptars has read, without an offset.
        odd: gets the rows that must be read message by message.
    """
    if member.key is None and not member.is_list:
        return _values(member.type, made, odd)
    offsets = made.offsets.to_numpy()
    inner = made.items if member.key is not None else made.values
    odd_items = np.zeros(len(inner), np.bool_)
    items = _values(member.type, inner, odd_items)
    if odd_items.any():
        counts = np.concatenate([[0], np.cumsum(odd_items)])
        odd |= counts[offsets[1:]] > counts[offsets[:-1]]
    if member.key is None:
        return pa.ListArray.from_arrays(pa.array(offsets), items, type=member.arrow)
    return _map(member, offsets, made.keys, items)


def _values(type_: Type, made: pa.Array, odd: Bools) -> pa.Array:
    match type_:
        case ScalarValue(is_wrapper=True):
            # ``field`` alone would show what is below a null.
            return pc.struct_field(made, [0])
        case ScalarValue(symbols=None):
            return made
        case ScalarValue(symbols=dict() as symbols):
            if type_.is_closed:
                odd |= unknown_numbers(made, list(symbols))
            return named(made, symbols)
        case TimestampMessage():
            return times(made, TIMES, odd)
        case StructMessage():
            return _struct(type_, made, odd)
    raise AssertionError(type_)


def _struct(type_: StructMessage, made: pa.StructArray, odd: Bools) -> pa.Array:
    inner = [column(member, made.field(i), odd) for i, member in enumerate(type_.fields)]
    mark_oneofs(type_.oneofs, made, odd)
    if not inner:
        validity = made.buffers()[0]
        return pa.Array.from_buffers(type_.arrow, len(made), [validity])
    mask = made.is_null() if made.null_count else None
    return pa.StructArray.from_arrays(inner, fields=list(type_.arrow), mask=mask)


def mark_oneofs(
    oneofs: Sequence[tuple[str, ...]], made: pa.StructArray | pa.RecordBatch, odd: Bools
) -> None:
    """Add the rows to ``odd`` that have several members of a oneof, where the last counts."""
    for oneof in oneofs:
        columns = [
            made.column(name) if isinstance(made, pa.RecordBatch) else made.field(name)
            for name in oneof
        ]
        odd |= np.sum([np.asarray(column.is_valid()) for column in columns], axis=0) > 1


def _map(member: MessageField, offsets: Int64s, keys: pa.Array, items: pa.Array) -> pa.Array:
    """Return a map with the entries of each row sorted by key, the last of each key."""
    sizes = np.diff(offsets)
    if len(sizes) and sizes.max() > 1:
        owners = np.repeat(np.arange(len(sizes)), sizes)
        texts = keys.cast(pa.string()) if pa.types.is_boolean(keys.type) else keys
        codes = pc.rank(texts, tiebreaker="dense").to_numpy()
        order = np.lexsort((np.arange(len(codes)), codes, owners))
        is_last = np.ones(len(order), np.bool_)
        is_last[:-1] = (np.diff(owners[order]) != 0) | (np.diff(codes[order]) != 0)
        order = order[is_last]
        keys, items = keys.take(pa.array(order)), items.take(pa.array(order))
        sizes = np.bincount(owners[order], minlength=len(sizes))
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(bounds), keys, items, type=member.arrow)


# ------------------------------------------------------------------------------ message by message


@dataclass(frozen=True)
class WholeMessageReader:
    """Reads the values of columns from one message.

    Attributes:
        json: returns the JSON of a message as text; raises ValueError.
    """

    json: Any

    def values(self, message: Any, fields: Sequence[MessageField]) -> list[object]:
        """Return the value of each field as ``pa.array`` takes it.

        Raises:
            ValueError: a value has no place in its column.
        """
        return [self._field(message, member) for member in fields]

    def _field(self, message: Any, member: MessageField) -> object:
        field, name = member.field, member.reading_name
        if field.has_presence and not field.is_repeated and not message.HasField(name):
            return None
        found = getattr(message, name)
        if member.key is not None:
            return [(key, self._value(member.type, found[key])) for key in sorted(found)]
        if member.is_list:
            return [self._value(member.type, item) for item in found]
        return self._value(member.type, found)

    def _value(self, type_: Type, found: Any) -> object:
        match type_:
            case ScalarValue():
                value = found.value if type_.is_wrapper else found
                return value if type_.symbols is None else type_.symbols.get(value, str(value))
            case TimestampMessage():
                micros = found.seconds * 10**6 + found.nanos // 1000
                if not -(2**63) <= micros < 2**63:
                    raise ValueError("a Timestamp out of range")
                return micros
            case JsonMessage():
                return self.json(found)
            case StructMessage():
                return {member.name: self._field(found, member) for member in type_.fields}
