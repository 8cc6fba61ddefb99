"""Message types from a set of descriptors, and the leaves that later stages read from them.

A set of descriptors is what ``protoc --include_imports --descriptor_set_out=FILE`` writes, a
``google.protobuf.FileDescriptorSet`` (google/protobuf/descriptor.proto). ``message_class`` is the
seam for schemas from a registry: any source of a descriptor set and a message name can use it.
"""

import base64
import binascii
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from landfall.errors import how_to_install
from landfall.pipeline.decoders import Path
from landfall.pipeline.decoders.typed_columns import TIMESTAMP

TIMES = TIMESTAMP
"""The type of a leaf that is a ``google.protobuf.Timestamp``, cut to microseconds."""
MAX_FIELDS = 20_000
"""Fields of a message that are read as columns."""
MAX_LEVELS = 100
"""Messages inside of each other; google.protobuf reads no more in a payload."""

READING_PREFIX = "landfall_reads_"
"""Begins the names of fields where google.protobuf reads them."""

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
class ProtobufLeaf:
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

    @cached_property
    def reading_names(self) -> tuple[str, ...]:
        """The names of the path where google.protobuf reads it."""
        return tuple(map(reading_name, self.path))

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


def load(descriptors: str | None, file: str | None, read_file: Callable[[str], bytes]) -> bytes:
    """Return a serialized descriptor set that is given in base64 or as a file.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        if file is not None:
            return read_file(file)
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
    files = file_protos(descriptors)
    try:
        # google.protobuf refuses some names in JSON, which only ``reading`` needs.
        found = pool_of(map(without_json_names, files)).FindMessageTypeByName(message)
    except (KeyError, TypeError) as error:
        names = sorted(name for file in files for name in _names(file))
        raise ValueError(
            f"options: message {message!r} cannot be made: {error}; the descriptors have "
            f"{', '.join(names) or 'no messages'}"
        ) from error
    from google.protobuf import message_factory  # noqa: PLC0415  # an extra

    try:
        # Makes the classes of all messages inside as well.
        return message_factory.GetMessageClass(found)
    except RecursionError:
        raise ValueError(f"message {message} has too many messages inside of each other") from None


def file_protos(descriptors: bytes) -> tuple[Any, ...]:
    """Return the files of a serialized ``FileDescriptorSet``.

    Raises:
        ValueError: it is no descriptor set; or the package protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2  # noqa: PLC0415  # an extra
        from google.protobuf.message import DecodeError  # noqa: PLC0415
    except ImportError as error:
        raise ValueError(
            f"Protobuf needs the package protobuf: {how_to_install('protobuf')} ({error})"
        ) from error
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    except DecodeError as error:
        raise ValueError(f"options: descriptors are no FileDescriptorSet: {error}") from error
    return tuple(files)


def pool_of(files: Iterable[Any]) -> Any:
    """Return a pool with these files, which follow those that they import, as protoc writes them.

    Raises:
        TypeError: one is not valid.
    """
    from google.protobuf import descriptor_pool  # noqa: PLC0415  # an extra

    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    return pool


def without_json_names(file: Any) -> Any:
    """Return a file whose fields have no other names in JSON than their own."""
    made = deepcopy(file)
    for message in message_protos(made.message_type):
        for field in message.field:
            field.json_name = field.name
    return made


def json_names(message: Any) -> dict[int, str]:
    """Return the names in JSON of the fields that a ``DescriptorProto`` describes, by number.

    Fields that would have the same name have their own ones.
    """
    names = {field.number: _json_name(field) for field in message.field}
    own = {field.number: str(field.name) for field in message.field}
    while True:
        counts = Counter(names.values())
        doubled = [n for n, name in names.items() if counts[name] > 1 and name != own[n]]
        if not doubled:
            return names
        names |= {number: own[number] for number in doubled}


def _json_name(field: Any) -> str:
    if field.json_name:
        return str(field.json_name)
    first, *more = str(field.name).split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in more)


def message_protos(messages: Iterable[Any]) -> Iterator[Any]:
    """Return what describes messages, and the messages declared inside of them."""
    waiting = list(messages)
    while waiting:
        message = waiting.pop()
        yield message
        waiting += message.nested_type


def reading_name(field: Any) -> str:
    """Return the name that a field has where google.protobuf reads it.

    With its own one called ``ListFields`` would hide the method with which messages are read, and
    one whose own name is another's in JSON would be refused. Types of Google that google.protobuf
    itself reads fields of, and entries of maps, keep the names.
    """
    of = field.containing_type
    keeps_names = is_of_google(of.full_name) or of.GetOptions().map_entry
    name = str(field.name)
    return name if keeps_names else READING_PREFIX + name


def is_of_google(name: str) -> bool:
    """Return whether a name is in the package of the types that google.protobuf itself reads."""
    return name.startswith("google.protobuf.")


def _names(file: Any) -> list[str]:
    package = f"{file.package}." if file.package else ""
    return [f"{package}{message.name}" for message in file.message_type]


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
    """Return whether a field is a list or a map."""
    return bool(field.is_repeated)


def is_map(field: Any) -> bool:
    """Return whether a field is a map."""
    of = field.message_type
    return of is not None and bool(field.is_repeated) and of.GetOptions().map_entry


def fields_of(descriptor: Any) -> list[Any]:
    """Return the fields of a message, and the extensions of it that the descriptors have."""
    fields = list(descriptor.fields)
    if descriptor.is_extendable:
        extensions = descriptor.file.pool.FindAllExtensions(descriptor)
        fields += sorted(extensions, key=lambda field: field.number)
    return fields


def types_inside(descriptor: Any) -> list[Any]:
    """Return the types of a message and of all messages that it can hold, each once.

    What an ``Any`` holds is not known, so it is not among them.
    """
    found = {descriptor.full_name: descriptor}
    waiting = [descriptor]
    while waiting:
        for field in fields_of(waiting.pop()):
            of = field.message_type
            if of is not None and of.full_name not in found:
                found[of.full_name] = of
                waiting.append(of)
    return list(found.values())


def is_single(field: Any) -> bool:
    """Return whether a field is a number, text, bytes, an enum or a Timestamp, once."""
    is_message = field.message_type is not None
    return not is_repeated(field) and (not is_message or field.message_type.full_name == _TIMESTAMP)


def index_path(descriptor: Any) -> tuple[int, ...]:
    """Return the place of a message in its file: the indexes of outer messages, then its own."""
    path: list[int] = []
    at = descriptor
    while at is not None:
        around = at.containing_type
        siblings = (
            around.nested_types
            if around is not None
            else list(at.file.message_types_by_name.values())
        )
        path.append([sibling.full_name for sibling in siblings].index(at.full_name))
        at = around
    return tuple(reversed(path))


def is_small(descriptor: Any) -> bool:
    """Return whether all fields of a message can be columns, including messages inside.

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
