"""What a payload holds, by google.protobuf, apart from the decoder that is tested.

Here fields have names made of their numbers, so that none can hide a method of google.protobuf or
another field in JSON; their real names come from the descriptors.
"""

import base64
import json
import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.internal.type_checkers import ToShortestFloat
from google.protobuf.message import DecodeError

from tests.fuzz.protobuf.payloads import BYTES, END, START, VARINT, WIRE, varint

Field = descriptor_pb2.FieldDescriptorProto
WRAPPED = {f"google.protobuf.{kind}Value" for kind in (
    "Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes",
)}  # fmt: skip
STRUCTS = {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}
TIMESTAMP = "google.protobuf.Timestamp"


class BadError(Exception):
    """The payload is to be a dead letter."""


class Reference:
    """Reads payloads of a message type of a set of descriptors."""

    def __init__(self, files: Any, name: str, *, proto_names: bool) -> None:
        self._names: dict[tuple[str, int], tuple[str, str]] = {}
        self._proto_names = proto_names
        self.pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            self.pool.Add(self._neutral(deepcopy(file)))
        self.descriptor = self.pool.FindMessageTypeByName(name)
        self.type = message_factory.GetMessageClass(self.descriptor)

    def _neutral(self, file: Any) -> Any:
        if not file.package.startswith("google."):
            for message in file.message_type:
                self._rename(message, f"{file.package}.{message.name}")
        return file

    def _rename(self, message: Any, path: str) -> None:
        names = {field.number: json_name(field) for field in message.field}
        while True:
            taken = list(names.values())
            clashing = [
                field
                for field in message.field
                if taken.count(names[field.number]) > 1 and names[field.number] != field.name
            ]
            if not clashing:
                break
            names |= {field.number: field.name for field in clashing}
        for field in message.field:
            self._names[path, field.number] = field.name, names[field.number]
            if not message.options.map_entry:
                field.name, field.json_name = f"f{field.number}", f"j{field.number}"
        for nested in message.nested_type:
            self._rename(nested, f"{path}.{nested.name}")

    def name(self, field: Any) -> str:
        """The real name of a field."""
        known = self._names.get((field.containing_type.full_name, field.number))
        return known[0] if known else str(field.name)

    def json_name(self, field: Any) -> str:
        """The name of a field in JSON."""
        if field.is_extension:
            return f"[{field.full_name}]"
        known = self._names.get((field.containing_type.full_name, field.number))
        if known is None:
            return str(field.name if self._proto_names else field.json_name)
        return known[0] if self._proto_names else known[1]

    def message(self, payload: bytes, descriptor: Any = None) -> Any:
        """The message of a payload.

        Raises:
            BadError: it is none, or a string of it is not UTF-8.
        """
        of = descriptor or self.descriptor
        message_type = message_factory.GetMessageClass(of)
        try:
            message_type.FromString(payload)
            message = message_type.FromString(clean(payload, of))
        except (DecodeError, RecursionError) as error:
            raise BadError(str(error)) from error
        if any(isinstance(text, bytes) for text in texts(message)):
            raise BadError("not UTF-8")
        return message

    def columns(self, message: Any, outside: tuple[str, ...] = ()) -> dict[str, Any]:
        """The columns of a message, with times as microseconds.

        Raises:
            BadError: a Timestamp is out of range, or a message has no JSON.
        """
        inside = (*outside, message.DESCRIPTOR.full_name)
        return {self.name(f): self._column(message, f, inside) for f in message.DESCRIPTOR.fields}

    def _column(self, message: Any, field: Any, inside: tuple[str, ...]) -> Any:
        if field.has_presence and not field.is_repeated and not message.HasField(field.name):
            return None
        value = getattr(message, field.name)
        if is_map(field):
            inner = field.message_type.fields_by_number[2]
            return [(key, self._value(inner, value[key], inside)) for key in sorted(value)]
        if field.is_repeated:
            return [self._value(field, each, inside) for each in value]
        return self._value(field, value, inside)

    def _value(self, field: Any, value: Any, inside: tuple[str, ...]) -> Any:
        if field.enum_type is not None:
            return enum_name(field, value)
        if field.message_type is None:
            return value
        name = field.message_type.full_name
        if name == TIMESTAMP:
            return micros(value)
        if name in WRAPPED:
            return value.value
        if name in STRUCTS or name in inside:
            return self.json(value)
        # A struct without fields is stored as the text of its JSON.
        return self.columns(value, inside) if field.message_type.fields else "{}"

    def json(self, message: Any) -> str:
        """The JSON of a message.

        Raises:
            BadError: it has none.
        """
        try:
            made = self._json(message)
        except (json_format.Error, ValueError, TypeError, DecodeError) as error:
            raise BadError(str(error)) from error
        return json.dumps(made, ensure_ascii=False, separators=(",", ":"))

    def _json(self, message: Any) -> Any:
        name = message.DESCRIPTOR.full_name
        if name == "google.protobuf.Any":
            return sorted_maps(self._any_json(message))
        if is_special(name):
            return sorted_maps(json_format.MessageToDict(message))
        # Of lists, only an empty one of an extension is among the fields.
        found = ((f, v) for f, v in message.ListFields() if not f.is_repeated or len(v))
        return {self.json_name(field): self.field_json(field, value) for field, value in found}

    def field_json(self, field: Any, value: Any) -> Any:
        """The JSON of a field that is there."""
        if is_map(field):
            inner = field.message_type.fields_by_number[2]
            made = {key_text(key): self._one_json(inner, value[key]) for key in value}
            return dict(sorted(made.items()))
        if field.is_repeated:
            return [self._one_json(field, each) for each in value]
        return self._one_json(field, value)

    def _one_json(self, field: Any, value: Any) -> Any:
        if field.message_type is not None:
            return self._json(value)
        if field.enum_type is not None:
            if field.enum_type.full_name == "google.protobuf.NullValue":
                return None
            known = field.enum_type.values_by_number.get(value)
            return known.name if known else value
        return scalar_json(field, value)

    def _any_json(self, message: Any) -> Any:
        if not message.type_url and not message.value:
            return {}
        made = {"@type": message.type_url}
        try:
            of = self.pool.FindMessageTypeByName(message.type_url.split("/")[-1])
        except KeyError:
            return made | {"value": base64.b64encode(message.value).decode()}
        inner = self.message(message.value, of)
        if of.full_name == "google.protobuf.Any" or is_special(of.full_name):
            return made | {"value": self._json(inner)}
        return made | self._json(inner)


def is_special(name: str) -> bool:
    """Whether a type has a JSON of its own."""
    return (
        name in WRAPPED
        or name in STRUCTS
        or name in {TIMESTAMP, "google.protobuf.Duration", "google.protobuf.FieldMask"}
    )


def json_name(field: Any) -> str:
    """The name in JSON that a field has of itself."""
    if field.json_name:
        return str(field.json_name)
    made, is_upper = "", False
    for letter in field.name:
        made += "" if letter == "_" else letter.upper() if is_upper else letter
        is_upper = letter == "_"
    return made


def key_text(key: Any) -> str:
    """The key of a map in JSON."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def scalar_json(field: Any, value: Any) -> Any:
    """The JSON of a number, text or bytes."""
    if field.type == Field.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return ToShortestFloat(value) if field.type == Field.TYPE_FLOAT else value
    is_long = field.cpp_type in {2, 4}  # CPPTYPE_INT64, CPPTYPE_UINT64
    return str(value) if is_long else value


def sorted_maps(value: Any) -> Any:
    """JSON whose objects are sorted by key, as those of special types are."""
    if isinstance(value, dict):
        return {key: sorted_maps(value[key]) for key in sorted(value)}
    return [sorted_maps(each) for each in value] if isinstance(value, list) else value


def enum_name(field: Any, number: int) -> str:
    """The first name of a number of an enum."""
    names = (value.name for value in field.enum_type.values if value.number == number)
    return next(names, str(number))


def micros(value: Any) -> int:
    """A Timestamp as microseconds."""
    made: int = value.seconds * 10**6 + value.nanos // 1000
    if not -(2**63) <= made < 2**63:
        raise BadError("out of range")
    return made


def is_map(field: Any) -> bool:
    """Whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def texts(message: Any) -> Iterator[Any]:
    """All strings of a message; bytes are strings that are not UTF-8."""
    for field, value in message.ListFields():
        fields = [(field, value)]
        if is_map(field):
            inner = field.message_type.fields_by_number[2]
            try:
                fields = [(inner, value[each]) for each in value]
            except UnicodeDecodeError:
                yield b""
                continue
        elif field.is_repeated:
            fields = [(field, each) for each in value]
        for of, each in fields:
            if of.message_type is not None:
                yield from texts(each)
            elif of.type == Field.TYPE_STRING:
                yield each


# ------------------------------------------------------------------------------------- wire format


def clean(payload: bytes, descriptor: Any) -> bytes:
    """A payload without the unknown fields of the entries of maps, which google.protobuf drops."""
    try:
        made, end = _clean(payload, 0, descriptor, 0)
    except (IndexError, ValueError):
        return payload  # no message, as google.protobuf finds out, too
    return made if end == len(payload) else payload


def _clean(data: bytes, at: int, descriptor: Any, group: int) -> tuple[bytes, int]:
    made, known = list[tuple[Any, bytes]](), _fields(descriptor)
    is_entry = descriptor is not None and descriptor.GetOptions().map_entry
    while at < len(data):
        tag, body = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == END:
            if number != group:
                raise ValueError
            return _joined(made, is_entry=is_entry), body
        field = known.get(number)
        content, at = _clean_field(data, at, body, field)
        if not is_entry or (field is not None and WIRE.get(field.type, VARINT) == wire):
            made.append((field, content))
    if group:
        raise IndexError
    return _joined(made, is_entry=is_entry), at


def _joined(parts: Sequence[tuple[Any, bytes]], *, is_entry: bool) -> bytes:
    """The fields of a message; of several enums in an entry the last, be it known or not."""
    if is_entry:
        last = {field.number: i for i, (field, _) in enumerate(parts)}
        parts = [
            (field, content)
            for i, (field, content) in enumerate(parts)
            if field.enum_type is None or i == last[field.number]
        ]
    return b"".join(content for _, content in parts)


def _clean_field(data: bytes, start: int, body: int, field: Any) -> tuple[bytes, int]:
    tag = _varint(data, start)[0]
    inner = field.message_type if field is not None else None
    is_group = field is not None and field.type == Field.TYPE_GROUP
    if tag & 7 == START:
        content, at = _clean(data, body, inner if is_group else None, tag >> 3)
        return varint(tag) + content + varint(tag + 1), at
    at = _skip(data, body, tag & 7)
    if tag & 7 != BYTES or inner is None or is_group:
        return data[start:at], at
    size, body = _varint(data, body)
    content = clean(data[body : body + size], inner)
    return varint(tag) + varint(len(content)) + content, at


def _fields(descriptor: Any) -> dict[int, Any]:
    if descriptor is None:
        return {}
    fields = list(descriptor.fields)
    if descriptor.is_extendable:
        fields += descriptor.file.pool.FindAllExtensions(descriptor)
    return {field.number: field for field in fields}


def _skip(data: bytes, at: int, wire: int) -> int:
    match wire:
        case 0:
            at = _varint(data, at)[1]
        case 1:
            at += 8
        case 2:
            size, at = _varint(data, at)
            at += size
        case 5:
            at += 4
        case _:
            raise ValueError
    if at > len(data):
        raise IndexError
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
