"""The JSON of a message with its maps in order.

google.protobuf keeps a map in the order of a hash that is another one in every process; Landfall
must give the same bytes whenever a range is read. Here the keys of maps are sorted as text, and
fields stay in the order of their numbers.
"""

from functools import lru_cache
from typing import Any

from landfall.pipeline.decoders.protobuf.schema import fields_of, is_map, types_inside

_STRUCTS = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.Any"})
"""Messages whose JSON is any object."""


def ordered(descriptor: Any, found: Any) -> Any:
    """Return the JSON values of a message, as google.protobuf gives them, with sorted maps."""
    if not _has_maps(descriptor):
        return found
    if descriptor.full_name in _STRUCTS or not isinstance(found, dict):
        return _sorted(found)
    made = dict(found)
    for field in fields_of(descriptor):
        name = f"[{field.full_name}]" if field.is_extension else field.json_name
        if name in found and field.message_type is not None:
            made[name] = _of_field(field, found[name])
    return made


def _of_field(field: Any, value: Any) -> Any:
    if is_map(field):
        of = field.message_type.fields_by_name["value"].message_type
        pairs = sorted(value.items())
        return {key: each if of is None else ordered(of, each) for key, each in pairs}
    if field.is_repeated:
        return [ordered(field.message_type, each) for each in value]
    return ordered(field.message_type, value)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


@lru_cache(4096)
def _has_maps(descriptor: Any) -> bool:
    """Whether a message has a map anywhere inside."""
    return any(
        of.full_name in _STRUCTS or any(map(is_map, fields_of(of)))
        for of in types_inside(descriptor)
    )
