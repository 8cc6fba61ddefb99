"""Parses messages with google.protobuf, which decides what a payload holds.

Python's google.protobuf alone deviates in five cases from what a payload or its schema contains.
Types are therefore changed before it reads them, and messages are checked afterwards:

=================================  ===============================================================
case                               what is done here
=================================  ===============================================================
a field is called ``DESCRIPTOR``   fields have names here that hide no method of messages
or ``ListFields``                  (``reading_name``), and their own in columns and JSON
two fields have one JSON name,     such fields have their own names in JSON (``json_names``);
as ``foo_bar`` and ``fooBar``      google.protobuf refuses the type or keeps one of the values
an entry of a map has an unknown   the unknown field is left out, as everywhere else; Python's
field                              google.protobuf leaves out the entry
text of proto2 or with             the payload is malformed, as one of proto3 with such text is;
``utf8_validation = NONE`` is      google.protobuf gives ``bytes`` as the value of a string
not UTF-8
an ``Any`` has an unknown type     its JSON is ``{"@type": …, "value": "<base64>"}``;
                                   google.protobuf has none
=================================  ===============================================================
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any

from landfall.pipeline.decoders.protobuf.schema import (
    READING_PREFIX,
    fields_of,
    is_map,
    is_of_google,
    json_names,
    message_protos,
    pool_of,
    types_inside,
    without_json_names,
)
from landfall.pipeline.decoders.protobuf.together import varint

_ANY = "google.protobuf.Any"
_INT32 = 5
_STRING = 9
_ENUM = 14
"""FieldDescriptor.TYPE_…"""


class MalformedMessageError(ValueError):
    """The payload is no message of the type, or has no JSON."""


@dataclass(frozen=True)
class MessageType:
    """Reads the messages of one type.

    Attributes:
        parse: parses a payload.
        parse_entries: parses a payload as a type that has a list of entries where this one has a
            map; None if it has neither maps nor extensions.
        unchecked: the full names of the types inside with text that ``parse`` does not check, and
            of those that hold such types.
        errors: what ``parse`` raises.
    """

    parse: Callable[[bytes], Any]
    parse_entries: Callable[[bytes], Any] | None
    unchecked: frozenset[str]
    errors: tuple[type[Exception], ...]

    def read(self, payload: bytes) -> Any:
        """Return a payload as a message.

        Raises:
            MalformedMessageError: it is none, or has text that is not UTF-8.
        """
        try:
            if self.parse_entries is not None:
                message = self.parse_entries(payload)
                message.DiscardUnknownFields()
                payload = message.SerializePartialToString()
            message = self.parse(payload)
        except self.errors as error:
            raise MalformedMessageError(described(error)) from error
        if self.unchecked and (path := self._bad_text(message)) is not None:
            raise MalformedMessageError(f"{path}: not UTF-8")
        return message

    def _bad_text(self, message: Any) -> str | None:
        """Return the path of a field with text that is not UTF-8."""
        for field, value in message.ListFields():
            try:
                path = self._bad_text_in(field, value)
            except UnicodeDecodeError:  # the key of a map
                path = ""
            if path is not None:
                return f"{field.full_name if field.is_extension else original_name(field)}{path}"
        return None

    def _bad_text_in(self, field: Any, value: Any) -> str | None:
        """Return where inside of a field such text is; an empty path for the field itself."""
        inner = field.message_type
        if field.type == _STRING:
            texts = value if field.is_repeated else (value,)
            return "" if any(isinstance(text, bytes) for text in texts) else None
        if inner is None or inner.full_name not in self.unchecked:
            return None
        if isinstance(value, Mapping):
            field = inner.fields_by_name["value"]
            paths = [self._bad_text_in(field, value[key]) for key in value]
            return next((path for path in paths if path is not None), None)
        for message in value if field.is_repeated else (value,):
            if (path := self._bad_text(message)) is not None:
                return f".{path}"
        return None


class Types:
    """The message types of a set of descriptors, as they are read."""

    def __init__(self, files: Sequence[Any], *, proto_names: bool) -> None:
        """Take files as ``schema.file_protos`` returns them."""
        from google.protobuf import json_format, message_factory, wrappers_pb2  # noqa: PLC0415
        from google.protobuf.message import DecodeError, EncodeError  # noqa: PLC0415  # an extra

        errors = (DecodeError, EncodeError, json_format.Error, ValueError, TypeError)
        self.errors = (*errors, RecursionError, OverflowError, KeyError)
        self._class_of = message_factory.GetMessageClass
        self._unknown_any = wrappers_pb2.BytesValue
        self._to_dict = json_format.MessageToDict
        self._files = files
        self._pool = pool_of(_readable(file, proto_names=proto_names) for file in files)
        self._entries_pool: Any = None
        self._known: dict[str, MessageType] = {}
        self._with_any: dict[str, bool] = {}

    def class_of(self, name: str) -> Any:
        """Return the class of the messages of a type."""
        return self._class_of(self._pool.FindMessageTypeByName(name))

    def of(self, name: str) -> MessageType:
        """Return what reads the messages of a type."""
        if name not in self._known:
            message = self.class_of(name)
            self._known[name] = MessageType(
                message.FromString,
                self._parser_of_entries(message.DESCRIPTOR),
                _holding(message.DESCRIPTOR, self._is_unchecked),
                self.errors,
            )
        return self._known[name]

    def as_dict(self, message: Any, *, zeros: bool = False) -> Mapping[str, Any]:
        """Return a message that was read as the plain values of its JSON.

        Args:
            message: the message.
            zeros: whether fields without presence are there if they hold the default of their type.

        Raises:
            MalformedMessageError: it has none.
        """
        try:
            if self._has_any(message.DESCRIPTOR):
                message = deepcopy(message)
                self._open(message)
            made: Mapping[str, Any] = self._to_dict(
                message, descriptor_pool=self, always_print_fields_with_no_presence=zeros
            )
        except MalformedMessageError:
            raise
        except self.errors as error:
            text = str(error).replace(READING_PREFIX, "")
            raise MalformedMessageError(f"no JSON: {text}") from error
        return made

    def FindMessageTypeByName(self, name: str) -> Any:  # noqa: N802  # as json_format calls it
        """Return the type of an opened ``Any``."""
        try:
            return self._pool.FindMessageTypeByName(name)
        except KeyError:
            return self._unknown_any.DESCRIPTOR

    def _parser_of_entries(self, descriptor: Any) -> Callable[[bytes], Any] | None:
        fields = chain.from_iterable(map(fields_of, types_inside(descriptor)))
        # An empty list of an extension is absent as one of a field is, once it was written.
        if not any(is_map(field) or field.is_extension for field in fields):
            return None
        if self._entries_pool is None:
            self._entries_pool = pool_of(map(_with_lists, self._files))
        made = self._class_of(self._entries_pool.FindMessageTypeByName(descriptor.full_name))
        parser: Callable[[bytes], Any] = made.FromString
        return parser

    def _is_unchecked(self, field: Any) -> bool:
        """Return whether google.protobuf takes text in a field that is not UTF-8."""
        if field.type != _STRING:
            return False
        try:
            self._class_of(field.containing_type).FromString(
                varint(field.number << 3 | 2) + b"\x01\xff"
            )
        except self.errors:
            return False
        return True

    def _has_any(self, descriptor: Any) -> bool:
        name = descriptor.full_name
        if name not in self._with_any:
            self._with_any[name] = any(of.full_name == _ANY for of in types_inside(descriptor))
        return self._with_any[name]

    def _open(self, message: Any) -> None:
        """Read the messages in every ``Any``; one of an unknown type becomes a BytesValue."""
        if message.DESCRIPTOR.full_name == _ANY:
            self._open_any(message)
            return
        for field, value in message.ListFields():
            if field.message_type is not None and self._has_any(field.message_type):
                values = value if field.is_repeated else (value,)
                # Of a map with an Any inside the values are messages.
                for item in value.values() if isinstance(value, Mapping) else values:
                    self._open(item)

    def _open_any(self, message: Any) -> None:
        name = message.type_url.rpartition("/")[2]
        if self.FindMessageTypeByName(name) is self._unknown_any.DESCRIPTOR:
            message.value = self._unknown_any(value=message.value).SerializeToString()
            return
        inner = self.of(name).read(message.value)
        if self._has_any(inner.DESCRIPTOR):
            self._open(inner)
        message.value = inner.SerializePartialToString()


def described(error: Exception) -> str:
    """Return the error of google.protobuf without the type that it names first."""
    return str(error).rpartition(": ")[2]


def original_name(field: Any) -> str:
    """Return the name that the schema gives to a field of ``Types``."""
    return str(field.name).removeprefix(READING_PREFIX)


def _readable(file: Any, *, proto_names: bool) -> Any:
    """Return a file whose fields have the names of ``reading_name``, and those that JSON has."""
    made = deepcopy(file)
    keeps_names = is_of_google(f"{file.package}.")
    for message in message_protos(made.message_type):
        names = {} if proto_names else json_names(message)
        for field in message.field:
            field.json_name = names.get(field.number, field.name)
            if not (keeps_names or message.options.map_entry):
                field.name = READING_PREFIX + field.name
    return made


def _with_lists(file: Any) -> Any:
    """Return a file in which maps are lists of entries.

    Enums in entries are numbers, for an unknown one of a closed enum must not be left out alone.
    """
    made = without_json_names(file)
    for message in message_protos(made.message_type):
        if message.options.map_entry:
            message.options.ClearField("map_entry")
            for field in message.field:
                if field.type == _ENUM:
                    field.type = _INT32
                    field.ClearField("type_name")
    return made


def _holding(descriptor: Any, is_sought: Callable[[Any], bool]) -> frozenset[str]:
    """Return the full names of all types inside that hold a field that is sought, or such types."""
    outside: dict[str, set[str]] = {}
    waiting = []
    for of in types_inside(descriptor):
        for field in fields_of(of):
            if field.message_type is not None:
                outside.setdefault(field.message_type.full_name, set()).add(of.full_name)
            elif is_sought(field):
                waiting.append(of.full_name)
    found = set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += outside.get(name, ())
    return frozenset(found)
