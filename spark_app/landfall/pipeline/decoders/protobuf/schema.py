"""Message types from a set of descriptors, and the leaves that later stages read from them.

A set of descriptors is what ``protoc --include_imports --descriptor_set_out=FILE`` writes, a
``google.protobuf.FileDescriptorSet`` (google/protobuf/descriptor.proto). ``message_class`` is the
seam for schemas from a registry: whatever gives a descriptor set and a message name can use it.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from landfall.pipeline.decoders import Path
from landfall.pipeline.decoders.typed_columns import TIMESTAMP

TIMES = TIMESTAMP
"""The type of a leaf that is a ``google.protobuf.Timestamp``, cut to microseconds."""
MAX_FIELDS = 20_000
"""Fields of a message that are read as columns."""
MAX_LEVELS = 100
"""Messages inside of each other; google.protobuf reads no more in a payload."""

_TIMESTAMP = "google.protobuf.Timestamp"
# The numbers of FieldDescriptor.CPPTYPE_*, which google.protobuf has not made an enum.
_INT32, _INT64, _UINT32, _UINT64, _DOUBLE, _FLOAT, _BOOL, _ENUM, _STRING, _MESSAGE = range(1, 11)
_BYTES = 12
"""FieldDescriptor.TYPE_BYTES; bytes and strings have one CPPTYPE."""
_ARROW: Mapping[int, pa.DataType] = {
    _INT32: pa.int32(),
    _INT64: pa.int64(),
    _UINT32: pa.uint32(),
    _UINT64: pa.uint64(),
    _DOUBLE: pa.float64(),
    _FLOAT: pa.float32(),
    _BOOL: pa.bool_(),
    _ENUM: pa.int32(),
    _STRING: pa.string(),
}


@dataclass(frozen=True, eq=False)
class Leaf:
    """A value that a later stage reads. Compared by identity.

    Attributes:
        path: the fields' descriptors from the message down.
        how: ``json`` as JSON text, ``number`` an enum as its number, ``plain`` otherwise.
    """

    path: tuple[Any, ...]
    how: str

    @property
    def field(self) -> Any:
        """The descriptor of the field itself."""
        return self.path[-1]

    @property
    def wire(self) -> pa.DataType:
        """The type of the value before an enum is named."""
        if self.how == "json":
            return pa.string()
        return TIMES if self.field.cpp_type == _MESSAGE else arrow_scalar(self.field)

    @property
    def symbols(self) -> Mapping[int, str] | None:
        """The names of an enum's numbers, if it is to be named."""
        return symbols_of(self.field) if self.how == "plain" else None

    @property
    def arrow(self) -> pa.DataType:
        """The type of the column it makes."""
        return pa.string() if self.symbols is not None else self.wire


def arrow_scalar(field: Any) -> pa.DataType:
    """Return the type of a field that is no message, before an enum is named."""
    return pa.binary() if field.type == _BYTES else _ARROW[field.cpp_type]


def symbols_of(field: Any) -> Mapping[int, str] | None:
    """Return the names of an enum's numbers; None if the field is no enum."""
    if field.cpp_type != _ENUM:
        return None
    return {value.number: value.name for value in reversed(field.enum_type.values)}


def load(descriptors: str | None, file: str | None) -> bytes:
    """Return a serialized descriptor set that is given in base64 or as a file.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        if file is not None:
            with open(file, "rb") as opened:  # noqa: PTH123  # the pipeline imports no pathlib
                return opened.read()
        return base64.b64decode("".join((descriptors or "").split()), validate=True)
    except (OSError, binascii.Error) as error:
        name = "descriptors" if file is None else "file"
        raise ValueError(f"options: {name}: {error}") from error


def message_class(descriptors: bytes, message: str) -> Any:
    """Return the class of a message of a serialized ``FileDescriptorSet``.

    Raises:
        ValueError: it is no descriptor set, lacks a file, or has no such message; or the package
            protobuf is not installed.
    """
    try:
        from google.protobuf import (  # noqa: PLC0415  # an extra
            descriptor_pb2,
            descriptor_pool,
            message_factory,
        )
        from google.protobuf.message import DecodeError  # noqa: PLC0415
    except ImportError as error:
        raise ValueError(
            f"Protobuf needs the package protobuf, pip install 'landfall[protobuf]': {error}"
        ) from error
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    except DecodeError as error:
        raise ValueError(f"options: descriptors are no FileDescriptorSet: {error}") from error
    pool = descriptor_pool.DescriptorPool()
    try:
        # protoc writes a file after those it imports.
        for each in files:
            pool.Add(each)
        found = pool.FindMessageTypeByName(message)
    except (KeyError, TypeError) as error:
        names = sorted(name for each in files for name in _names(each))
        raise ValueError(
            f"options: message {message!r} cannot be made: {error}; the descriptors have "
            f"{', '.join(names) or 'no messages'}"
        ) from error
    try:
        # Makes the classes of all messages inside as well.
        return message_factory.GetMessageClass(found)
    except RecursionError:
        raise ValueError(f"message {message} has too many messages inside of each other") from None


def _names(file: Any) -> list[str]:
    package = f"{file.package}." if file.package else ""
    return [f"{package}{each.name}" for each in file.message_type]


def resolve(descriptor: Any, path: Path) -> tuple[Any, ...]:
    """Return the descriptors of the fields on a path of names.

    Raises:
        ValueError: there is no such field, or the path leads through one that is no single message.
    """
    fields: list[Any] = []
    at = descriptor
    for part in path:
        if at is None or (fields and is_repeated(fields[-1])):
            raise ValueError(f"field {'.'.join(path)!r} is inside of something that is no message")
        if part not in at.fields_by_name:
            names = ", ".join(at.fields_by_name)
            raise ValueError(
                f"message {at.full_name} has no field {part!r}; its fields are {names}"
            )
        fields.append(at.fields_by_name[part])
        at = fields[-1].message_type
    return tuple(fields)


def is_repeated(field: Any) -> bool:
    """Whether a field is a list or a map."""
    return bool(field.is_repeated)


def is_single(field: Any) -> bool:
    """Whether a field is a number, text, bytes, an enum or a Timestamp, once."""
    is_message = field.message_type is not None
    return not is_repeated(field) and (not is_message or field.message_type.full_name == _TIMESTAMP)


def index_path(descriptor: Any) -> tuple[int, ...]:
    """Return where a message is in its file: its index, after those of the messages around it."""
    path: list[int] = []
    at = descriptor
    while at is not None:
        around = at.containing_type
        siblings = (
            around.nested_types
            if around is not None
            else list(at.file.message_types_by_name.values())
        )
        path.append([each.full_name for each in siblings].index(at.full_name))
        at = around
    return tuple(reversed(path))


def is_small(descriptor: Any) -> bool:
    """Whether all fields of a message can be columns, with those of the messages inside.

    A message type counts wherever a field has it, for there it has columns of its own, but not
    inside itself. Sixty messages that have the next one twice have more fields than memory holds,
    and ptars ends the process then.
    """
    left = MAX_FIELDS
    waiting: list[tuple[Any, frozenset[str]]] = [(descriptor, frozenset())]
    while waiting and left >= 0:
        of, outside = waiting.pop()
        left -= len(of.fields)
        inside = outside | {of.full_name}
        if len(inside) > MAX_LEVELS:
            return False
        types = (field.message_type for field in of.fields)
        waiting += [(t, inside) for t in types if t is not None and t.full_name not in inside]
    return left >= 0
