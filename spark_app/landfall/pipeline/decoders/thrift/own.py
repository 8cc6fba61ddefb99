"""Whole structs as columns, one for each field: what ``Wanted.own_columns`` asks for.

=============================  ==================================================================
type                           column
=============================  ==================================================================
bool, byte, i16, i32, i64      boolean, int8, int16, int32, int64
double, string, binary, uuid   double, string, binary, string
enum                           string: its name, and the number if it has none
struct, union, exception       struct
list, set                      list
map                            map; a list of structs if its keys are no scalars
a struct inside itself         string: JSON
=============================  ==================================================================

Absent fields are null. Of a key that a map has twice the last value counts, at the first one's
place. Structs of scalars and of such structs are read by ``cursors``, whole columns at a time, all
other structs one by one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

import pyarrow as pa

from landfall.pipeline.decoders import arrow_values
from landfall.pipeline.decoders.row_schemas import RowSchema, columns_digest
from landfall.pipeline.decoders.thrift.cursors import Ids, ThriftScan
from landfall.pipeline.decoders.thrift.protocols import MalformedStructError, ThriftRecord, Value
from landfall.pipeline.decoders.thrift.schema import (
    ThriftItems,
    ThriftMap,
    ThriftScalar,
    ThriftStruct,
    Type,
    WireType,
)
from landfall.pipeline.decoders.thrift.values import json_text

_ARROW: Mapping[WireType, pa.DataType] = {
    WireType.BOOL: pa.bool_(),
    WireType.BYTE: pa.int8(),
    WireType.I16: pa.int16(),
    WireType.I32: pa.int32(),
    WireType.I64: pa.int64(),
    WireType.DOUBLE: pa.float64(),
}
_TEXT: Mapping[bool, pa.DataType] = {False: pa.string(), True: pa.binary()}
_Inside: TypeAlias = tuple[ThriftStruct, ...]
MAX_FIELDS, MAX_LEVELS = 20_000, 100
"""Fields of a struct with those inside, and structs inside of each other, that are columns."""


@dataclass(frozen=True)
class ThriftColumns:
    """Reads structs of one type.

    Attributes:
        struct: the type.
        schema: of the rows.
        columns: the types of the columns.
        is_plain: whether ``cursors`` can read it.
    """

    struct: ThriftStruct
    schema: RowSchema
    columns: pa.Schema
    is_plain: bool

    @classmethod
    def of(cls, struct: ThriftStruct) -> "ThriftColumns":
        """Return what reads structs of this type.

        Raises:
            ValueError: the struct has no fields, or too many.
        """
        if not _is_small(struct):
            raise ValueError(
                f"struct {struct.name} has more than {MAX_FIELDS} fields, with nested "
                f"ones, or more than {MAX_LEVELS} levels"
            )
        if not struct.fields:
            raise ValueError(f"struct {struct.name} has no fields, so no columns")
        columns = pa.schema([(f.name, _arrow(f.type, (struct,))) for f in struct.fields.values()])
        schema = RowSchema(columns_digest(struct.name, columns), struct.name)
        return cls(struct, schema, columns, all(_is_plain(t) for t in _types(struct, ())))

    def leaves(self) -> Iterator[Ids]:
        """The ids of all scalars, for ``ThriftScan``."""
        yield from _leaves(self.struct, ())

    def scanned(self, scan: ThriftScan) -> list[pa.Array]:
        """Return the columns of a scan; what is odd means nothing."""
        return _scanned(scan, self.struct, ())

    def nulls(self, rows: int) -> list[pa.Array]:
        """Return columns without a value."""
        return [pa.nulls(rows, field.type) for field in self.columns]

    def batch(
        self, columns: Sequence[pa.Array], found: Mapping[int, ThriftRecord], errors: dict[int, str]
    ) -> pa.RecordBatch:
        """Return the columns with the rows that were read one by one; adds to ``errors``."""
        if found:
            values = []
            for row, record in found.items():
                try:
                    values.append(_members(record, self.struct, (self.struct,)))
                except MalformedStructError as error:
                    errors.setdefault(row, f"thrift: {error}")
                    values.append({})
            rows = list(found)
            columns = [
                arrow_values.patched(
                    column, rows, pa.array([value.get(field.name) for value in values], field.type)
                )
                for column, field in zip(columns, self.columns, strict=True)
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self.columns)


def _is_small(struct: ThriftStruct) -> bool:
    """Return whether all fields can be columns; a struct counts wherever a field has it."""
    left = MAX_FIELDS
    waiting: list[tuple[ThriftStruct, _Inside]] = [(struct, ())]
    while waiting and left >= 0:
        of, outside = waiting.pop()
        left -= len(of.fields)
        inside = (*outside, of)
        if len(inside) > MAX_LEVELS:
            return False
        types = (child for f in of.fields.values() for child in _structs(f.type))
        waiting += [(child, inside) for child in types if child not in inside]
    return left >= 0


def _structs(type_: Type) -> Iterator[ThriftStruct]:
    match type_:
        case ThriftStruct():
            yield type_
        case ThriftItems():
            yield from _structs(type_.item)
        case ThriftMap():
            yield from _structs(type_.key)
            yield from _structs(type_.value)


def _arrow(type_: Type, inside: _Inside) -> pa.DataType:
    match type_:
        case ThriftScalar():
            return _ARROW[type_.wire] if _is_number(type_) else _TEXT[type_.is_binary]
        case ThriftStruct() if type_ in inside:
            return pa.string()
        case ThriftStruct():
            within = (*inside, type_)
            return pa.struct([(f.name, _arrow(f.type, within)) for f in type_.fields.values()])
        case ThriftItems():
            return pa.list_(_arrow(type_.item, inside))
        case ThriftMap():
            key, value = _arrow(type_.key, inside), _arrow(type_.value, inside)
            if isinstance(type_.key, ThriftScalar):
                return pa.map_(key, value)
            return pa.list_(pa.struct([("key", key), ("value", value)]))
    raise TypeError(type_)


def _is_number(scalar: ThriftScalar) -> bool:
    return not scalar.symbols and scalar.wire not in {WireType.STRING, WireType.UUID}


def _types(struct: ThriftStruct, inside: _Inside) -> Iterator[Type | None]:
    """All types in a struct; None for one that is inside itself."""
    if struct in inside:
        yield None
        return
    for field in struct.fields.values():
        if isinstance(field.type, ThriftStruct):
            yield from _types(field.type, (*inside, struct))
        else:
            yield field.type


def _is_plain(type_: Type | None) -> bool:
    return isinstance(type_, ThriftScalar) and type_.wire is not WireType.UUID


def _leaves(struct: ThriftStruct, ids: Ids) -> Iterator[Ids]:
    for id_, field in struct.fields.items():
        if isinstance(field.type, ThriftStruct):
            yield from _leaves(field.type, (*ids, id_))
        else:
            yield (*ids, id_)


def _scanned(scan: ThriftScan, struct: ThriftStruct, ids: Ids) -> list[pa.Array]:
    columns = []
    for id_, field in struct.fields.items():
        place = (*ids, id_)
        if isinstance(field.type, ThriftStruct):
            inner = _scanned(scan, field.type, place)
            type_ = _arrow(field.type, ())
            absent = pa.array(~scan.has_struct(place))
            if inner:
                columns.append(pa.StructArray.from_arrays(inner, fields=list(type_), mask=absent))
            else:
                made = pa.array(
                    [None if is_absent else {} for is_absent in absent.to_pylist()], type_
                )
                columns.append(made)
            continue
        assert isinstance(field.type, ThriftScalar), "only these are plain"
        column = scan.column(place, field.type)
        if field.type.symbols:
            columns.append(arrow_values.named(column, field.type.symbols))
        else:
            columns.append(column.cast(_arrow(field.type, ())))
    return columns


def _members(record: ThriftRecord, struct: ThriftStruct, inside: _Inside) -> dict[str, object]:
    return {
        field.name: _value(record[id_], field.type, inside)
        for id_, field in struct.fields.items()
        if id_ in record
    }


def _value(value: Value, type_: Type, inside: _Inside) -> object:
    match type_:
        case ThriftScalar():
            return _scalar(value, type_)
        case ThriftStruct() if isinstance(value, ThriftRecord):
            if type_ in inside:
                return json_text(value, type_).decode()
            return _members(value, type_, (*inside, type_))
        case ThriftItems() if isinstance(value, list):
            return [_value(item, type_.item, inside) for item in value]
        case ThriftMap() if isinstance(value, list):
            pairs = [
                (_value(key, type_.key, inside), _value(inner, type_.value, inside))
                for key, inner in value
            ]
            if isinstance(type_.key, ThriftScalar):
                return list(dict(pairs).items())
            return [{"key": key, "value": inner} for key, inner in pairs]
    raise TypeError(f"{type_} has no value {value!r}")


def _scalar(value: Value, type_: ThriftScalar) -> object:
    match value:
        case bytes() if type_.wire is WireType.UUID:
            return str(UUID(bytes=value))
        case bytes() if not type_.is_binary:
            try:
                return value.decode()
            except UnicodeDecodeError as error:
                raise MalformedStructError(f"not UTF-8: {error.reason}") from error
        case int() if type_.symbols:
            return type_.symbols.get(value, str(value))
    return value
