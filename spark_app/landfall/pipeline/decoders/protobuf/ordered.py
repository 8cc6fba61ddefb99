"""The JSON of a message with its maps in order.

google.protobuf keeps a map in the order of a hash that is another one in every process; Landfall
must give the same bytes whenever a range is read. Here the keys of maps are sorted as text, and
fields stay in the order of their numbers.
"""

from functools import lru_cache
from typing import Any

_STRUCTS = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.Any"})
"""Messages whose JSON is any object."""


def ordered(descriptor: Any, found: Any) -> Any:
    """Return the JSON values of a message, as google.protobuf gives them, with sorted maps."""
    if not _has_maps(descriptor):
        return found
    if descriptor.full_name in _STRUCTS or not isinstance(found, dict):
        return _sorted(found)
    made = dict(found)
    for field in descriptor.fields:
        name = field.json_name if field.json_name in found else field.name
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


def is_map(field: Any) -> bool:
    """Whether a field is a map."""
    of = field.message_type
    return of is not None and bool(field.is_repeated) and of.GetOptions().map_entry


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


@lru_cache(4096)
def _has_maps(descriptor: Any) -> bool:
    """Whether a message has a map anywhere inside."""
    seen, left = set(), [descriptor]
    while left:
        at = left.pop()
        if at.full_name in _STRUCTS or any(map(is_map, at.fields)):
            return True
        if at.full_name not in seen:
            seen.add(at.full_name)
            left += [field.message_type for field in at.fields if field.message_type is not None]
    return False
