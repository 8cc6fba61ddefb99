"""Random payloads of a message type, by the encoding alone ("Encoding", protobuf.dev).

Most are valid; in others fields are unknown or of another wire type, numbers are longer than they
need be, messages come in parts, text is not UTF-8, and bytes are missing or changed.
"""

import struct
from typing import Any

from google.protobuf import descriptor_pb2
from hypothesis import strategies as st

Draw = Any
Field = descriptor_pb2.FieldDescriptorProto
VARINT, FIXED64, BYTES, START, END, FIXED32 = range(6)
WIRE = {
    Field.TYPE_DOUBLE: FIXED64, Field.TYPE_FLOAT: FIXED32, Field.TYPE_FIXED64: FIXED64,
    Field.TYPE_FIXED32: FIXED32, Field.TYPE_STRING: BYTES, Field.TYPE_BYTES: BYTES,
    Field.TYPE_SFIXED32: FIXED32, Field.TYPE_SFIXED64: FIXED64, Field.TYPE_MESSAGE: BYTES,
    Field.TYPE_GROUP: START,
}  # fmt: skip
INTEGERS = (
    *(0, 1, 2, 3, 5, 127, 128, 300),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32 + 5, 2**63, 2**64 - 1, 2**64 - 2**31),
)
TEXTS = (b"", b"a", b"b", b"\xc3\xa9", b"\0", b"x" * 130, b"true")
BAD_TEXTS = (b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc3")
DOUBLES = (0.0, -0.0, 1.5, -1e300, float("inf"), float("nan"))
FLOATS = (0.0, -0.0, 0.1, 3e38, float("-inf"), float("nan"))
LEVELS = 4


def varint(number: int, padding: int = 0) -> bytes:
    """A number as a varint, with bytes that say nothing."""
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    if not padding:
        return bytes([*made, number])
    return bytes([*made, number | 128, *[128] * (padding - 1), 0])


def tag(number: int, wire: int) -> bytes:
    """The tag of a field."""
    return varint(number << 3 | wire)


@st.composite
def payloads(draw: Draw, descriptor: Any, types: dict[str, Any], *, has_bad_text: bool) -> bytes:
    """A payload of a type; ``types`` are those that an Any may hold."""
    made = _Payload(draw, types, has_bad_text=has_bad_text).message(descriptor, 0)
    how = draw(st.integers(0, 11))
    if how == 0:
        return made[: draw(st.integers(0, len(made)))]
    if how == 1 and made:
        at = draw(st.integers(0, len(made) - 1))
        return made[:at] + bytes([draw(st.integers(0, 255))]) + made[at + 1 :]
    return made


class _Payload:
    def __init__(self, draw: Draw, types: dict[str, Any], *, has_bad_text: bool) -> None:
        self._draw, self._types = draw, types
        self._texts = TEXTS + BAD_TEXTS if has_bad_text else TEXTS

    def message(self, descriptor: Any, level: int) -> bytes:
        if descriptor.full_name == "google.protobuf.Any":
            return self._any(level)
        draw, parts = self._draw, list[bytes]()
        fields = list(descriptor.fields)
        if descriptor.is_extendable:
            fields += descriptor.file.pool.FindAllExtensions(descriptor)
        for _ in range(draw(st.integers(0, 5 if level < 2 else 2)) if fields else 0):
            parts.append(self._field(draw(st.sampled_from(fields)), level))
        if draw(st.integers(0, 7)) == 0:
            parts.append(self._unknown(draw(st.sampled_from((9, 55, 1, 2, 1003)))))
        return b"".join(parts)

    def _any(self, level: int) -> bytes:
        draw = self._draw
        name = draw(st.sampled_from((*self._types, "un.known", "")))
        url = draw(st.sampled_from(("type.googleapis.com/", "", "a/b/"))) + name
        value = draw(st.binary(max_size=3))
        if name in self._types and level < LEVELS:
            value = self.message(self._types[name], level + 1)
        return b"".join(
            tag(number, BYTES) + varint(len(part)) + part
            for number, part in ((1, url.encode()), (2, value))
            if part
        )

    def _field(self, field: Any, level: int) -> bytes:
        draw = self._draw
        if draw(st.integers(0, 19)) == 0:
            return self._unknown(field.number)
        of = field.message_type
        if of is not None and level >= LEVELS:
            return b""
        if of is not None and of.GetOptions().map_entry:
            entry = self._entry(of, level + 1)
            return tag(field.number, BYTES) + self._length(entry) + entry
        if of is not None:
            return self._submessage(field, of, level)
        wire = WIRE.get(field.type, VARINT)
        if field.is_repeated and wire != BYTES and draw(st.booleans()):
            packed = b"".join(self._scalar(field) for _ in range(draw(st.integers(0, 3))))
            return tag(field.number, BYTES) + self._length(packed) + packed
        return tag(field.number, wire) + self._scalar(field)

    def _submessage(self, field: Any, of: Any, level: int) -> bytes:
        parts = []
        for _ in range(self._draw(st.sampled_from((1, 1, 2)))):
            inner = self.message(of, level + 1)
            if field.type == Field.TYPE_GROUP:
                parts.append(tag(field.number, START) + inner + tag(field.number, END))
            else:
                parts.append(tag(field.number, BYTES) + self._length(inner) + inner)
        return b"".join(parts)

    def _entry(self, of: Any, level: int) -> bytes:
        draw, (key, value) = self._draw, (of.fields_by_number[1], of.fields_by_number[2])
        parts = [
            self._field(field, level)
            for field in (key, value)
            for _ in range(draw(st.sampled_from((1, 1, 1, 0, 2))))
        ]
        if draw(st.integers(0, 5)) == 0:
            parts.append(self._unknown(draw(st.sampled_from((3, 99)))))
        return b"".join(draw(st.permutations(parts)) if draw(st.booleans()) else parts)

    def _scalar(self, field: Any) -> bytes:
        draw = self._draw
        if field.type in {Field.TYPE_STRING, Field.TYPE_BYTES}:
            text: bytes = draw(st.sampled_from(self._texts))
            return self._length(text) + text
        if field.type == Field.TYPE_DOUBLE:
            return struct.pack("<d", draw(st.sampled_from(DOUBLES)))
        if field.type == Field.TYPE_FLOAT:
            return struct.pack("<f", draw(st.sampled_from(FLOATS)))
        number = draw(st.sampled_from(INTEGERS))
        if field.type == Field.TYPE_ENUM and draw(st.booleans()):
            known = draw(st.sampled_from([value.number for value in field.enum_type.values]))
            number = known % 2**64
        match WIRE.get(field.type, VARINT):
            case 5:
                return struct.pack("<I", number % 2**32)
            case 1:
                return struct.pack("<Q", number)
        return varint(number, draw(st.sampled_from((0, 0, 0, 1))) if number < 2**56 else 0)

    def _length(self, content: bytes) -> bytes:
        return varint(len(content), self._draw(st.sampled_from((0, 0, 0, 0, 1))))

    def _unknown(self, number: int) -> bytes:
        """A field of any wire type, with a number that may be one of another wire type."""
        wire = self._draw(st.sampled_from((VARINT, FIXED64, BYTES, START, FIXED32)))
        content = {
            VARINT: b"\x01", FIXED64: b"12345678", BYTES: b"\x02zz", FIXED32: b"1234",
            START: tag(3, VARINT) + b"\x05" + tag(number, END),
        }[wire]  # fmt: skip
        return tag(number, wire) + content
