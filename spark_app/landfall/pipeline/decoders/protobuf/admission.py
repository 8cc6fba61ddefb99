"""Admits messages to ptars: only those that it reads as google.protobuf does.

google.protobuf decides what a payload holds; ptars is only faster. ``refusal`` is the exact rule,
by the descriptors alone. Each message type it admits is compared with google.protobuf on random
descriptors and payloads (``tests/fuzz/protobuf.py``); a difference that is found there becomes
another line of the rule, or a check of what ptars has read (``batches``, ``whole``):

- an unknown number of a closed enum, several members of a oneof, and a Timestamp out of range are
  seen in what ptars reads, and their rows are read again by google.protobuf,
- Timestamps and wrappers are read as any other message (``plain``),
- payloads that ptars refuses, such as those with text that is not UTF-8, are read by it as well.
"""

from collections.abc import Iterator
from typing import Any

from landfall.pipeline.decoders.protobuf.schema import (
    fields_of,
    is_small,
    message_protos,
    pool_of,
    types_inside,
)

_GROUP = 10
"""FieldDescriptor.TYPE_GROUP, which a field with DELIMITED encoding has, too."""
_GOOGLE, _PLAIN = "google.protobuf", "landfall.plain"
_OF_VALUES = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_SPECIAL = frozenset({"Timestamp", *(f"{kind}Value" for kind in _OF_VALUES)})
"""Messages of ``_GOOGLE`` for which ptars has columns of their own."""


def refusal(descriptor: Any) -> str | None:
    """Return why ptars must not read messages of this type; None if it may."""
    if not is_small(descriptor):
        return "too many fields or levels"
    for file in files_of(descriptor.file):
        if (why := _of_file(file)) is not None:
            return why
    for of in types_inside(descriptor):
        if (why := _of_type(of)) is not None:
            return f"{of.full_name}: {why}"
    return None


def files_of(file: Any) -> list[Any]:
    """Return a file and all that it imports, first what is imported."""
    return list(_files(file, {}).values())


def plain(descriptor: Any) -> tuple[list[Any], Any]:
    """Return the files of a message and its descriptor as ptars gets them.

    Of a Timestamp or wrapper in several parts ptars keeps the last part, where a message is all of
    them together, as ptars knows of any other message. So they have other names here.
    """
    protos = list(map(_proto, files_of(descriptor.file)))
    moved = set[str]()
    for proto in protos:
        names = {message.name for message in proto.message_type}
        if proto.package == _GOOGLE and names & _SPECIAL:
            proto.package = _PLAIN
            moved |= {f".{_GOOGLE}.{name}" for name in names}
        for field in _fields_of_file(proto):
            if field.type_name in moved:
                field.type_name = field.type_name.replace(_GOOGLE, _PLAIN, 1)
    pool = pool_of(protos)
    name = descriptor.full_name
    is_moved = f".{name}" in moved
    made = pool.FindMessageTypeByName(name.replace(_GOOGLE, _PLAIN, 1) if is_moved else name)
    return [pool.FindFileByName(proto.name) for proto in protos], made


def _fields_of_file(proto: Any) -> Iterator[Any]:
    yield from proto.extension
    for message in message_protos(proto.message_type):
        yield from message.field
        yield from message.extension


def _of_file(file: Any) -> str | None:
    """Return why ptars cannot take the file; it panics on such files for every message."""
    proto = _proto(file)
    names = {message.name for message in proto.message_type}
    if proto.package == _GOOGLE and names & _SPECIAL and names - _SPECIAL:
        return f"{file.name}: a Timestamp or wrapper next to other messages"
    if proto.syntax not in {"", "proto2", "proto3"}:
        return f"{file.name}: editions"
    for message in message_protos(proto.message_type):
        folded = [_folded(field.name) for field in message.field]
        if len(set(folded)) < len(folded):
            return f"{file.name}: {message.name}: names that differ in case or underscores only"
    return None


def _of_type(of: Any) -> str | None:
    """Why ptars reads a message otherwise than google.protobuf, or not at all."""
    if of.GetOptions().message_set_wire_format:
        return "a message set"
    for field in fields_of(of):
        if field.is_extension:
            return "extensions"
        if field.type == _GROUP:
            return f"{field.name} is a group"
    return None


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _proto(file: Any) -> Any:
    from google.protobuf import descriptor_pb2  # noqa: PLC0415  # an extra

    made = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(made)
    return made


def _files(file: Any, known: dict[str, Any]) -> dict[str, Any]:
    if file.name not in known:
        for dependency in file.dependencies:
            _files(dependency, known)
        known[file.name] = file
    return known
