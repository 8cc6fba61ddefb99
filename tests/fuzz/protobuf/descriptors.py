"""Random files of Protobuf: proto2, proto3 and editions, with whatever these can hold."""

from collections.abc import Sequence
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from hypothesis import strategies as st

Draw = Any
Field = descriptor_pb2.FieldDescriptorProto
FEATURES = descriptor_pb2.FeatureSet

SYNTAXES = ("proto3", "proto2", "editions")
# Names that hide a method or each other, that are Python's, and that differ in little.
NAMES = (
    "a", "b", "c", "d", "key", "value", "user_id", "userid", "userId", "ID", "id", "foo_bar",
    "fooBar", "FooBar", "_x", "x_", "x__1", "DESCRIPTOR", "ListFields", "HasField", "FromString",
    "CopyFrom", "Extensions", "__class__", "__deepcopy__",
    "class", "None", "self", "type_url", "seconds",
)  # fmt: skip
PLAIN_NAMES = ("a", "b", "c", "d", "e", "f", "g", "h")
NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 127, 999, 18_999, 20_000, 2**29 - 1)
SCALARS = (
    Field.TYPE_DOUBLE, Field.TYPE_FLOAT, Field.TYPE_INT64, Field.TYPE_UINT64, Field.TYPE_INT32,
    Field.TYPE_FIXED64, Field.TYPE_FIXED32, Field.TYPE_BOOL, Field.TYPE_STRING, Field.TYPE_BYTES,
    Field.TYPE_UINT32, Field.TYPE_SFIXED32, Field.TYPE_SFIXED64, Field.TYPE_SINT32,
    Field.TYPE_SINT64, Field.TYPE_STRING,
)  # fmt: skip
KEYS = tuple(
    kind for kind in SCALARS if kind not in {Field.TYPE_DOUBLE, Field.TYPE_FLOAT, Field.TYPE_BYTES}
)
ENUM_NUMBERS = (0, 1, 2, 5, -1, 127, 128, 2**31 - 1, -(2**31))
KNOWN: dict[str, Any] = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    )
}  # fmt: skip
KNOWN_MESSAGES = tuple(
    (file.name, f".{message.full_name}")
    for file in KNOWN.values()
    for message in file.message_types_by_name.values()
)
EXTENSIONS = range(1000, 1004)


class Writer:
    """Draws one file.

    Attributes:
        file: what is drawn.
    """

    def __init__(self, draw: Draw, name: str, known: "Sequence[Writer]") -> None:
        self._draw = draw
        self.file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=name)
        self.syntax = draw(st.sampled_from(SYNTAXES))
        self.file.dependency.extend(writer.file.name for writer in known)
        if self.syntax == "proto2":
            self.file.syntax = "proto2"
        elif self.syntax == "proto3":
            self.file.syntax = "proto3"
        else:
            self.file.syntax, self.file.edition = "editions", descriptor_pb2.EDITION_2023
            if draw(st.integers(0, 3)) == 0:
                self.file.options.features.utf8_validation = FEATURES.NONE
        self._names = NAMES if draw(st.integers(0, 2)) == 0 else PLAIN_NAMES
        self._imports_known = draw(st.integers(0, 1)) == 1
        # google.protobuf refuses maps of enums without zero.
        self.without_zero: set[str] = set().union(*(writer.without_zero for writer in known))
        self.messages: list[str] = [name for writer in known for name in writer.messages]
        self.open_enums: list[str] = [name for writer in known for name in writer.open_enums]
        self.closed_enums: list[str] = [name for writer in known for name in writer.closed_enums]
        self.extendable: list[str] = [name for writer in known for name in writer.extendable]
        self._write(name)

    def _write(self, package: str) -> None:
        for i in range(self._draw(st.integers(0, 2))):
            self._enum(package, f"E{i}")
        made: list[tuple[Any, str]] = []
        for i in range(self._draw(st.integers(1, 3))):
            outer = made[-1] if made and self._draw(st.booleans()) else None
            path = f"{outer[1]}.M{i}" if outer else f".{package}.M{i}"
            message = (outer[0].nested_type if outer else self.file.message_type).add(name=f"M{i}")
            made.append((message, path))
            self.messages.append(path)
        for message, path in made:
            self._message(message, path)
        if self.syntax != "proto3" and self.extendable and self._draw(st.integers(0, 2)) == 0:
            for number in EXTENSIONS[: self._draw(st.integers(1, 3))]:
                extendee = self._draw(st.sampled_from(self.extendable))
                field = self.file.extension.add(name=f"x{number}_{package}", number=number)
                field.extendee = extendee
                # Another file may extend the same message.
                field.number = number + (10 if package == "b" else 0)
                self._type(field, self.file, f".{package}", may_be_map=False)

    def _enum(self, package: str, name: str) -> None:
        draw, enum = self._draw, self.file.enum_type.add(name=name)
        numbers = draw(st.lists(st.sampled_from(ENUM_NUMBERS), min_size=1, max_size=4))
        is_closed = self.syntax == "proto2"
        if self.syntax == "editions" and draw(st.booleans()):
            enum.options.features.enum_type, is_closed = FEATURES.CLOSED, True
        if not is_closed:
            numbers = [0, *numbers]
        if len(set(numbers)) < len(numbers):
            enum.options.allow_alias = True
        for i, number in enumerate(numbers):
            enum.value.add(name=f"{name}_V{i}", number=number)
        (self.closed_enums if is_closed else self.open_enums).append(f".{package}.{name}")
        if 0 not in numbers:
            self.without_zero.add(f".{package}.{name}")

    def _message(self, message: Any, path: str) -> None:
        draw = self._draw
        numbers = draw(st.lists(st.sampled_from(NUMBERS), unique=True, max_size=6))
        names = draw(
            st.lists(
                st.sampled_from(self._names),
                unique=True,
                min_size=len(numbers),
                max_size=len(numbers),
            )
        )
        oneofs = draw(st.integers(0, 1))
        for name, number in zip(names, numbers, strict=True):
            field = message.field.add(name=name, number=number)
            self._type(field, message, path, may_be_map=True)
            if draw(st.integers(0, 5)) == 0:
                field.json_name = draw(st.sampled_from((*names, "json", "[x]")))
            if oneofs and draw(st.booleans()):
                self._put_in_oneof(field)
        if any(field.HasField("oneof_index") for field in message.field):
            message.oneof_decl.add(name="choice")
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}_optional")
        if self.syntax != "proto3" and draw(st.integers(0, 3)) == 0:
            message.extension_range.add(start=EXTENSIONS[0], end=EXTENSIONS[-1] + 100)
            self.extendable.append(path)

    def _put_in_oneof(self, field: Any) -> None:
        if field.label == Field.LABEL_OPTIONAL and not field.proto3_optional:
            field.oneof_index = 0
            field.ClearField("default_value")
            field.options.features.ClearField("field_presence")

    def _type(self, field: Any, around: Any, path: str, *, may_be_map: bool) -> None:
        draw = self._draw
        kinds = ["scalar", "scalar", "scalar", "message"]
        kinds += ["enum"] * bool(self._enums())
        kinds += ["known"] * self._imports_known
        kinds += ["map"] * may_be_map + ["group"] * (self.syntax != "proto3")
        kind = draw(st.sampled_from(kinds))
        if kind == "map":
            self._map(field, around, path)
            return
        field.label = draw(st.sampled_from((Field.LABEL_OPTIONAL, Field.LABEL_REPEATED)))
        self._value(field, kind)
        self._presence(field, is_extension=not may_be_map)
        self._encoding(field)

    def _value(self, field: Any, kind: str) -> None:
        draw = self._draw
        if kind == "scalar":
            field.type = draw(st.sampled_from(SCALARS))
        elif kind == "enum":
            field.type, field.type_name = Field.TYPE_ENUM, draw(st.sampled_from(self._enums()))
        elif kind == "known":
            file, name = draw(st.sampled_from(KNOWN_MESSAGES))
            field.type, field.type_name = Field.TYPE_MESSAGE, name
            if file not in self.file.dependency:
                self.file.dependency.append(file)
        else:
            field.type = Field.TYPE_MESSAGE
            field.type_name = draw(st.sampled_from(self.messages))
            if kind == "group" and self.syntax == "proto2":
                field.type = Field.TYPE_GROUP
            elif kind == "group":
                field.options.features.message_encoding = FEATURES.DELIMITED

    def _presence(self, field: Any, *, is_extension: bool) -> None:
        draw = self._draw
        if field.label == Field.LABEL_REPEATED or is_extension:
            return
        if self.syntax == "proto2" and draw(st.integers(0, 3)) == 0:
            field.label = Field.LABEL_REQUIRED
        elif self.syntax == "proto3" and draw(st.booleans()):
            field.proto3_optional = True
        elif self.syntax == "editions" and draw(st.booleans()):
            presences = [FEATURES.EXPLICIT, FEATURES.LEGACY_REQUIRED]
            is_message = field.type in {Field.TYPE_MESSAGE, Field.TYPE_GROUP}
            if not is_message and field.type_name not in self.closed_enums:
                presences.append(FEATURES.IMPLICIT)
            field.options.features.field_presence = draw(st.sampled_from(presences))
        is_implicit = field.options.features.field_presence == FEATURES.IMPLICIT
        if self.syntax != "proto3" and not is_implicit and draw(st.booleans()):
            self._default(field)

    def _default(self, field: Any) -> None:
        if field.type in {Field.TYPE_INT32, Field.TYPE_UINT64, Field.TYPE_DOUBLE}:
            field.default_value = "7"
        elif field.type == Field.TYPE_STRING:
            field.default_value = "none"

    def _encoding(self, field: Any) -> None:
        draw = self._draw
        is_packable = field.label == Field.LABEL_REPEATED and field.type not in {
            Field.TYPE_STRING, Field.TYPE_BYTES, Field.TYPE_MESSAGE, Field.TYPE_GROUP,
        }  # fmt: skip
        if is_packable and draw(st.booleans()):
            if self.syntax == "editions":
                field.options.features.repeated_field_encoding = draw(
                    st.sampled_from((FEATURES.PACKED, FEATURES.EXPANDED))
                )
            else:
                field.options.packed = draw(st.booleans())
        is_text = field.type == Field.TYPE_STRING
        if is_text and self.syntax == "editions" and draw(st.booleans()):
            field.options.features.utf8_validation = draw(
                st.sampled_from((FEATURES.VERIFY, FEATURES.NONE))
            )

    def _map(self, field: Any, message: Any, path: str) -> None:
        draw = self._draw
        base = "".join(word[:1].upper() + word[1:] for word in field.name.split("_")) + "Entry"
        taken = {nested.name for nested in message.nested_type}
        name = base if base not in taken else f"{base}{field.number}"
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        key = entry.field.add(name="key", number=1, label=Field.LABEL_OPTIONAL)
        key.type = draw(st.sampled_from(KEYS))
        value = entry.field.add(name="value", number=2, label=Field.LABEL_OPTIONAL)
        kinds = ["scalar", "message"] + ["enum"] * bool(self._enums())
        kinds += ["known"] * self._imports_known
        self._value(value, draw(st.sampled_from(kinds)))
        if value.type_name in self.without_zero:
            value.type = Field.TYPE_INT32
            value.ClearField("type_name")
        field.label, field.type = Field.LABEL_REPEATED, Field.TYPE_MESSAGE
        field.type_name = f"{path}.{name}"

    def _enums(self) -> list[str]:
        return self.open_enums + (self.closed_enums if self.syntax != "proto3" else [])


@st.composite
def descriptor_sets(draw: Draw) -> tuple[Any, str]:
    """A set of descriptors and the name of a message in it."""
    writers: list[Writer] = []
    for name in ("a", "b")[: draw(st.integers(1, 2))]:
        writers.append(Writer(draw, name, writers))
    files = [writer.file for writer in writers]
    needed = {name for file in files for name in file.dependency if name in KNOWN}
    made = descriptor_pb2.FileDescriptorSet()
    for name in sorted(needed):
        KNOWN[name].CopyToProto(made.file.add())
    made.file.extend(files)
    message = draw(st.sampled_from(writers[-1].messages))
    return made, message.removeprefix(".")
