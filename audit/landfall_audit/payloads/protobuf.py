"""Protobuf payloads, read by ``google.protobuf`` alone, one by one."""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from landfall_audit.payloads import (
    BadPayload,
    Instant,
    Named,
    Schemas,
    Undecided,
    common_values,
    comparable,
    json_documents,
    of_json,
    option_files,
)
from landfall_audit.payloads.proto_files import file_set
from landfall_audit.spec import ColumnSection, ColumnTypeName, DecodeSection

Message: TypeAlias = Any
Field: TypeAlias = Any
_SCHEMAS_KEPT = 1000
_WELL_KNOWN = "google.protobuf."
_TIMESTAMP = f"{_WELL_KNOWN}Timestamp"
_JSON_MESSAGES = {f"{_WELL_KNOWN}{name}" for name in ("Struct", "Value", "ListValue")}
_WRAPPERS = {
    f"{_WELL_KNOWN}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


class Symbol(str):
    """The name of an enum's value; its number, if it has no name."""

    __slots__ = ("number",)
    number: int


@dataclass(frozen=True)
class MessagePayloads:
    """Reads messages of one type."""

    descriptor: Any
    pool: Any
    has_proto_names: bool
    has_zeros: bool = False

    @classmethod
    def of(cls, files: Any, name: str, *, has_proto_names: bool) -> "MessagePayloads":
        """The messages of this name.

        Raises:
            Undecided: google.protobuf refuses the descriptors.
        """
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in files.file:
                pool.Add(file)
            return cls(pool.FindMessageTypeByName(name), pool, has_proto_names)
        except (TypeError, ValueError, KeyError) as error:
            raise Undecided(f"descriptors that google.protobuf refuses: {error}") from None

    def parse(self, body: bytes) -> Message:
        """The message that a payload is.

        Raises:
            BadPayload: it is none.
        """
        message = message_factory.GetMessageClass(self.descriptor)()
        try:
            message.ParseFromString(body)
        except (DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadPayload(f"protobuf: {error}") from None
        _check_text(message)
        return message

    def as_json(self, body: bytes) -> object:
        """The form of the message as JSON, by Protobuf's own mapping."""
        message = self.parse(body)
        try:
            text = json_format.MessageToJson(
                message,
                preserving_proto_field_name=self.has_proto_names,
                descriptor_pool=self.pool,
            )
        except (TypeError, AttributeError):
            raise Undecided("JSON of an Any of an unknown type, or of odd names") from None
        except (ValueError, json_format.Error) as error:
            raise BadPayload(f"protobuf: no JSON: {error}") from None
        return of_json(json_documents.value_of(text.encode()))

    def as_common_json(self, body: bytes) -> object:
        """The form of the message as JSON with ``values: Common``."""
        return of_json(self._common(self.parse(body)))

    def _common(self, message: Message) -> object:
        name = message.DESCRIPTOR.full_name
        if name == _TIMESTAMP:
            return common_values.instant(message.seconds * 10**6 + message.nanos // 1000)
        if name in _WRAPPERS:
            return self._common_value(message.DESCRIPTOR.fields_by_name["value"], message.value)
        if name.startswith(_WELL_KNOWN):
            return self._own_json(message)
        found = {}
        for field, value in self._values_of(message):
            if field.is_extension:
                raise Undecided("an extension of Protobuf as JSON with common values")
            found[field.name if self.has_proto_names else field.json_name] = self._field(
                field, value
            )
        return found

    def _values_of(self, message: Message) -> Iterator[tuple[Field, Any]]:
        """The fields that JSON has; with ``has_zeros`` also zeros of fields without presence."""
        yield from message.ListFields()
        if self.has_zeros:
            sent = {field.number for field, _ in message.ListFields()}
            for field in message.DESCRIPTOR.fields:
                if field.number not in sent and not field.has_presence:
                    yield field, getattr(message, field.name)

    def plain(self, body: bytes) -> Mapping[str, Any]:
        """The message as an object with common values, zeros included."""
        found = replace(self, has_zeros=True)._common(self.parse(body))  # noqa: SLF001  # its own
        if not isinstance(found, Mapping):
            raise Undecided(f"{self.descriptor.full_name} as an envelope")
        return found

    def _field(self, field: Field, value: Any) -> object:
        if _is_map(field):
            of = field.message_type.fields_by_name["value"]
            return {_map_key(key): self._common_value(of, value[key]) for key in value}
        if field.is_repeated:
            return [self._common_value(field, item) for item in value]
        return self._common_value(field, value)

    def _common_value(self, field: Field, value: Any) -> object:
        if field.message_type is not None:
            return self._common(value)
        if field.enum_type is not None and field.enum_type.full_name == f"{_WELL_KNOWN}NullValue":
            return None
        if field.enum_type is not None:
            return str(_symbol(field, value))
        if isinstance(value, bytes):
            return common_values.of_bytes(value)
        return common_values.of_float(value) if isinstance(value, float) else value

    def _own_json(self, message: Message) -> object:
        """Return google.protobuf's JSON of a message of its own, such as a Duration."""
        if message.DESCRIPTOR.full_name == f"{_WELL_KNOWN}Any":
            raise Undecided("an Any as JSON with common values")
        try:
            text = json_format.MessageToJson(message, descriptor_pool=self.pool)
        except (ValueError, json_format.Error) as error:
            raise BadPayload(f"protobuf: no JSON: {error}") from None
        return json_documents.value_of(text.encode())

    @cached_property
    def why_no_columns(self) -> str:
        """Return why the columns of the message are not compared, or empty."""
        return next(_without_column(self.descriptor, ()), "")

    def columns(self, body: bytes) -> Named:
        """The columns of the message, by their names."""
        if self.why_no_columns:
            raise Undecided(self.why_no_columns)
        return tuple(sorted(_fields(self.parse(body))))

    def document(self, body: bytes) -> Mapping[str, object]:
        """The fields of the message, by their names."""
        return _document(self.parse(body))


Find: TypeAlias = Callable[[bytes], tuple[MessagePayloads, bytes]]
"""The type of a payload's message, and what comes after its header."""


def finder(decode: DecodeSection, schemas: Schemas) -> Find:
    """Return the function that finds the type of a payload's message.

    Raises:
        Undecided: there are no descriptors.
    """
    options, has_names = decode.options, bool(decode.options.get("protoNames"))
    if options.keys() & {"descriptors", "file"}:
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(_descriptors(options))
        except (ValueError, DecodeError) as error:
            raise Undecided(f"descriptors that google.protobuf refuses: {error}") from None
        fixed = MessagePayloads.of(files, str(options.get("message")), has_proto_names=has_names)
        has_header = options.get("framing") == "Confluent"
        return lambda payload: (fixed, _indexes(payload)[1] if has_header else payload)
    if decode.registry is None or options.get("schemaId") == "Header":
        raise Undecided("Protobuf whose schema comes before no payload")
    return _by_id(decode.registry.urls[0], schemas, options.get("message"), has_names=has_names)


def _by_id(registry: str, schemas: Schemas, wanted: object, *, has_names: bool) -> Find:
    @lru_cache(_SCHEMAS_KEPT)
    def files_of(schema_id: int) -> Any:
        stored = schemas.find(registry, schema_id)
        try:  # protoc decides what the text of a schema means
            return file_set(stored.text, stored.references)
        except ValueError as error:
            raise Undecided(f"schema {schema_id}, which protoc refuses: {error}") from None

    @lru_cache(_SCHEMAS_KEPT)
    def messages_of(schema_id: int, indexes: tuple[int, ...]) -> MessagePayloads:
        files = files_of(schema_id)
        name = _message_at(files.file[-1], indexes)
        return MessagePayloads.of(files, name, has_proto_names=has_names)

    def find(payload: bytes) -> tuple[MessagePayloads, bytes]:
        indexes, body = _indexes(payload)
        number = int.from_bytes(payload[1:5], "big", signed=True)
        if number < 0:
            raise BadPayload("protobuf: no id of a schema")
        found = messages_of(number, indexes)
        if wanted not in {None, found.descriptor.full_name}:
            raise BadPayload(f"protobuf: message {found.descriptor.full_name}")
        return found, body

    return find


def _message_at(file: Any, indexes: tuple[int, ...]) -> str:
    """The full name of the message at a path of indexes."""
    names, messages = [file.package] if file.package else [], file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise BadPayload(f"protobuf: the schema has no message at {indexes}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def adapted(column: ColumnSection, value: object) -> object:
    """A value as the type of the column reads it."""
    is_number = column.type in {ColumnTypeName.INT32, ColumnTypeName.INT64}
    if isinstance(value, Symbol):
        return value.number if is_number else str(value)
    if isinstance(value, str) and column.type is ColumnTypeName.BINARY:
        raise Undecided("text as Binary")
    if isinstance(value, list | dict):
        raise Undecided("a column of messages, lists or maps")
    return value


def _descriptors(options: Mapping[str, object]) -> bytes:
    if "descriptors" in options:
        return base64.b64decode("".join(str(options["descriptors"]).split()))
    return option_files.content(options, "file")


def _indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """The indexes of the message, after a schema's id, and what comes after them."""
    if len(payload) < 6 or payload[0]:
        raise BadPayload("protobuf: no header")
    count, at = _varint(payload, 5)
    found = []
    for _ in range(count):
        index, at = _varint(payload, at)
        found.append(index)
    return tuple(found) or (0,), payload[at:]


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag, and the position after it."""
    found = shift = 0
    while True:
        if at >= len(payload) or shift > 63:
            raise BadPayload("protobuf: the header ends inside a number")
        found |= (payload[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if payload[at - 1] < 0x80:
            return (found >> 1) ^ -(found & 1), at


# ------------------------------------------------------------------------------------- messages


def _is_map(field: Field) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def _values(field: Field, value: Any) -> Iterator[tuple[Field, Any]]:
    """Each single value that a field holds, with its field."""
    if _is_map(field):
        key, inner = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for name in value:
            yield key, name
            yield inner, value[name]
    elif field.is_repeated:
        yield from ((field, item) for item in value)
    else:
        yield field, value


def _map_key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _check_text(message: Message) -> None:
    """Raise BadPayload if text is not UTF-8, which google.protobuf then has as bytes."""
    for field, value in message.ListFields():
        for of, single in _values(field, value):
            if of.message_type is not None:
                _check_text(single)
            elif of.type == of.TYPE_STRING and isinstance(single, bytes):
                raise BadPayload(f"protobuf: {field.name}: not UTF-8")


def _without_column(descriptor: Any, inside: tuple[str, ...]) -> Iterator[str]:
    """Return why fields of messages have columns that are not compared."""
    name = descriptor.full_name
    if name in inside or name in _JSON_MESSAGES:
        yield f"{name} is JSON in a column"
        return
    if not descriptor.fields:
        yield f"{name} has no fields"
    for field in descriptor.fields:
        if field.message_type is not None and field.message_type.full_name not in _WRAPPERS:
            yield from _without_column(field.message_type, (*inside, name))
        if not inside and field.name.startswith("_"):
            yield f"{field.name} may be called otherwise"


def _fields(message: Message) -> Iterator[tuple[str, object]]:
    for field in message.DESCRIPTOR.fields:
        yield field.name, _column_form(message, field)


def _column_form(message: Message, field: Field) -> object:
    value = getattr(message, field.name)
    if _is_map(field):
        of_key, of_value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        entries = ((_form(of_key, key), _form(of_value, value[key])) for key in value)
        return "map", tuple(sorted(entries, key=lambda entry: str(entry[0])))
    if field.is_repeated:
        return "list", tuple(_form(field, item) for item in value)
    if field.has_presence and not message.HasField(field.name):
        return None
    return _form(field, value)


def _form(field: Field, value: Any) -> object:
    if field.message_type is None:
        return comparable(_plain(field, value))
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return value.seconds * 10**6 + value.nanos // 1000
    if name in _WRAPPERS:
        return comparable(value.value)
    return "struct", tuple(sorted(_fields(value)))


def _plain(field: Field, value: Any) -> object:
    if field.enum_type is None:
        return value
    return str(_symbol(field, value))


def _symbol(field: Field, number: int) -> Symbol:
    known = field.enum_type.values_by_number.get(number)
    found = Symbol(known.name if known else number)
    found.number = number
    return found


def _document(message: Message) -> Mapping[str, object]:
    return {
        field.name: _document_value(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _document_value(field: Field, value: Any) -> object:
    if field.is_repeated:
        return []
    if field.enum_type is not None:
        return _symbol(field, value)
    if field.message_type is None:
        return value
    if field.message_type.full_name == _TIMESTAMP:
        return Instant(value.seconds * 10**6 + value.nanos // 1000)
    return _document(value)
