"""Which messages ptars may read: those that it reads as google.protobuf does.

google.protobuf decides what a payload holds; ptars is only faster. ``refusal`` is the exact rule,
by the descriptors alone. Whatever it admits is compared with google.protobuf on random descriptors
and payloads (``tests/fuzz/protobuf.py``); a difference that is found there becomes another line of
the rule, or a check of what ptars has read (``batches``, ``whole``):

- an unknown number of a closed enum, several members of a oneof, and a Timestamp near the limits
  are seen in what ptars reads, and their rows are read again by google.protobuf,
- payloads that ptars refuses, such as those with text that is not UTF-8, are read by it as well.
"""

from typing import Any

from landfall.pipeline.decoders.protobuf.schema import (
    fields_of,
    is_map,
    is_small,
    message_protos,
    types_inside,
)

_GROUP = 10
"""FieldDescriptor.TYPE_GROUP, which a field with DELIMITED encoding has, too."""


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


def _of_file(file: Any) -> str | None:
    """Why ptars cannot take the file; it panics about such files, whatever message is read."""
    proto = _proto(file)
    if proto.syntax not in {"", "proto2", "proto3"}:
        return f"{file.name}: editions"
    for message in message_protos(proto.message_type):
        names = [_folded(field.name) for field in message.field]
        if len(set(names)) < len(names):
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
        if is_map(field):
            enum = field.message_type.fields_by_name["value"].enum_type
            if enum is not None and enum.values[0].number != 0:
                return f"{field.name} is a map of an enum without zero"
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
        for each in file.dependencies:
            _files(each, known)
        known[file.name] = file
    return known
