"""The JSON of a message with its maps in order, and with the common values if they are wanted.

google.protobuf keeps a map in the order of a hash that is another one in every process; Landfall
must give the same bytes whenever a range is read. Here the keys of maps are sorted as text, and
fields stay in the order of their numbers.

With ``common`` values are as ``landfall.pipeline.common_values`` has them and not as ProtoJSON:
integers of 64 bits are numbers, a float is the double that it is, a number of an enum without a
name is text, and a Timestamp has six digits after the second. What a ``Struct``, a ``Value`` or an
``Any`` holds stays as it is: its type is not known here.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from landfall.pipeline.decoders.protobuf.schema import fields_of, is_map, types_inside

_STRUCTS = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.Any"})
"""Messages whose JSON is any object."""
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages whose JSON is the JSON of the value inside."""
_INT64S = frozenset({2, 4})
_FLOAT = 6
_ENUM = 8
"""FieldDescriptor.CPPTYPE_INT64 and UINT64, _FLOAT, _ENUM."""
_SECONDS = len("2026-11-21T04:00:00")


def ordered(descriptor: Any, found: Any, *, common: bool = False) -> Any:
    """Return the JSON values of a message, as google.protobuf gives them, with sorted maps.

    Args:
        descriptor: of the message.
        found: its JSON.
        common: whether values are the common ones.
    """
    if not common and not _has_maps(descriptor):
        return found
    if common and descriptor.full_name == _TIMESTAMP:
        return _common_time(found)
    if common and descriptor.full_name in _WRAPPERS:
        return _common(descriptor.fields_by_name["value"], found)
    if descriptor.full_name in _STRUCTS or not isinstance(found, dict):
        return _sorted(found)
    made = dict(found)
    for field in fields_of(descriptor):
        name = f"[{field.full_name}]" if field.is_extension else field.json_name
        if name in found and (common or field.message_type is not None):
            made[name] = _of_field(field, found[name], common=common)
    return made


def _of_field(field: Any, value: Any, *, common: bool) -> Any:
    if is_map(field):
        of = field.message_type.fields_by_name["value"]
        return {key: _one(of, value[key], common=common) for key in sorted(value)}
    if field.is_repeated:
        return [_one(field, item, common=common) for item in value]
    return _one(field, value, common=common)


def _one(field: Any, value: Any, *, common: bool) -> Any:
    """Return one value of a field, which may have more."""
    if field.message_type is not None:
        return ordered(field.message_type, value, common=common)
    return _common(field, value) if common else value


def _common(field: Any, value: Any) -> Any:
    kind = field.cpp_type
    if kind in _INT64S:
        return int(value)
    if kind == _FLOAT and not isinstance(value, str):
        # ProtoJSON has the shortest text that is the same float; it is another double.
        return float(np.float32(value))
    return str(value) if kind == _ENUM and value is not None else value


def _common_time(text: str) -> str:
    fraction = text[_SECONDS + 1 : -1]
    return f"{text[:_SECONDS]}.{fraction[:6]:0<6}Z"


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@lru_cache(4096)
def _has_maps(descriptor: Any) -> bool:
    """Return whether a message has a map anywhere inside."""
    return any(
        of.full_name in _STRUCTS or any(map(is_map, fields_of(of)))
        for of in types_inside(descriptor)
    )
