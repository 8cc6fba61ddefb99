"""Values of Thrift structs as later stages see them: as fields, in typed columns, and as JSON."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec
import pyarrow as pa

from landfall.pipeline import common_values
from landfall.pipeline.decoders.thrift.cursors import Ids, arrow_type
from landfall.pipeline.decoders.thrift.protocols import MalformedStructError, ThriftRecord, Value
from landfall.pipeline.decoders.thrift.schema import (
    ThriftItems,
    ThriftMap,
    ThriftScalar,
    ThriftStruct,
    Type,
    WireType,
)

How: TypeAlias = Literal["json", "number", "plain"]

_JSON = msgspec.json.Encoder()


@dataclass(frozen=True, eq=False)
class ThriftLeaf:
    """A value that a later stage reads: the ids that lead to it, and how it is read.

    Compared by identity.

    Attributes:
        ids: ids of the fields from the struct down.
        type: the field's type in the IDL.
        how: ``json`` as JSON text, ``number`` an enum as its number, ``plain`` otherwise.
        common: whether JSON has the values of ``common_values``.
    """

    ids: Ids
    type: Type
    how: How
    common: bool = False

    @property
    def is_plain(self) -> bool:
        """Return whether ``cursors`` can read it."""
        return (
            self.how != "json"
            and isinstance(self.type, ThriftScalar)
            and self.type.wire is not WireType.UUID
        )

    @cached_property
    def arrow(self) -> pa.DataType:
        """The type of the column it makes."""
        if self.how == "json" or not isinstance(self.type, ThriftScalar):
            return pa.string()
        return pa.string() if self.is_name else arrow_type(self.type)

    @property
    def is_name(self) -> bool:
        """Return whether it is an enum, as its name."""
        return (
            isinstance(self.type, ThriftScalar) and bool(self.type.symbols) and self.how == "plain"
        )

    @cached_property
    def is_text(self) -> bool:
        """Return whether its column is text."""
        return bool(self.arrow == pa.string())

    def of(self, record: ThriftRecord) -> object:
        """Return the value in a struct, None if it is absent.

        Raises:
            MalformedStructError: the value is text that is not UTF-8, or JSON cannot hold it.
        """
        value: Value = record
        for id_ in self.ids:
            if not isinstance(value, ThriftRecord) or id_ not in value:
                return None
            value = value[id_]
        if self.how == "json":
            return json_text(value, self.type, common=self.common).decode()
        return str(as_json(value, self.type)) if self.is_text else value


def json_text(value: Value, type_: Type, *, common: bool = False) -> bytes:
    """Return a value as JSON; with ``common`` as ``common_values`` has it.

    Raises:
        MalformedStructError: text is not UTF-8, or the key of a map is a struct or a container.
    """
    return _JSON.encode(as_json(value, type_, common=common))


def as_json(value: Value, type_: Type, *, common: bool = False) -> object:
    """Return a value as the plain values that JSON has; NaN and infinities are text.

    With ``common`` a number of an enum that has no name is text, too, as it is as a field.

    Raises:
        MalformedStructError: text is not UTF-8, or the key of a map is a struct or a container.
    """
    match type_:
        case ThriftScalar():
            return _scalar(value, type_, common=common)
        case ThriftStruct() if isinstance(value, ThriftRecord):
            return {
                field.name: as_json(value[id_], field.type, common=common)
                for id_, field in type_.fields.items()
                if id_ in value
            }
        case ThriftItems() if isinstance(value, list):
            return [as_json(item, type_.item, common=common) for item in value]
        case ThriftMap() if isinstance(value, list):
            return {
                _key(key, type_.key): as_json(inner, type_.value, common=common)
                for key, inner in value
            }
    raise TypeError(f"{type_} has no value {value!r}")


def _scalar(value: Value, type_: ThriftScalar, *, common: bool = False) -> object:
    match value:
        case bytes() if type_.wire is WireType.UUID:
            return str(UUID(bytes=value))
        case bytes() if type_.is_binary:
            return common_values.base64_text(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError as error:
                raise MalformedStructError(f"not UTF-8: {error.reason}") from error
        case float() if not math.isfinite(value):
            return _NOT_FINITE.get(value, "NaN")
        case int() if type_.symbols:
            return type_.symbols.get(value, str(value) if common else value)
        case _:
            return value


_NOT_FINITE: Mapping[float, str] = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _key(key: Value, type_: Type) -> str:
    if not isinstance(type_, ThriftScalar):
        raise MalformedStructError(f"a map whose keys are of type {type_.wire.name} has no JSON")
    plain = _scalar(key, type_)
    return str(plain).lower() if isinstance(plain, bool) else str(plain)
