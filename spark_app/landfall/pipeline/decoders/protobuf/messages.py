"""Reads values and JSON from one message at a time, as ``reading`` parses it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from landfall.pipeline.decoders.protobuf.ordered import ordered
from landfall.pipeline.decoders.protobuf.reading import MessageType, Types, described
from landfall.pipeline.decoders.protobuf.schema import (
    TIMES,
    ProtobufLeaf,
    file_protos,
    is_repeated,
)
from landfall.pipeline.decoders.protobuf.together import Together

_FEW, _MANY_BYTES = 64, 2**26
"""Payloads that are parsed one by one, and the bytes of payloads that are parsed together."""


@dataclass(frozen=True)
class ProtobufMessages:
    """Reads messages of one type.

    Attributes:
        name: the full name of the type.
        type: reads a message.
        types: all types of the descriptors.
        together: parses many payloads at once; None if that cannot be.
        common: whether JSON has the common values, see ``ordered``.
        zeros: whether JSON has fields without presence that hold the default of their type.
    """

    name: str
    type: MessageType
    types: Types
    together: Together | None = None
    common: bool = False
    zeros: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        descriptors: bytes,
        *,
        proto_names: bool,
        common: bool = False,
        zeros: bool = False,
    ) -> "ProtobufMessages":
        """Return what reads messages of a type of a serialized ``FileDescriptorSet``."""
        types = Types(file_protos(descriptors), proto_names=proto_names)
        together = Together.of(types.class_of(name).DESCRIPTOR, types.errors)
        return cls(name, types.of(name), types, together, common=common, zeros=zeros)

    def read(self, payload: bytes) -> Any:
        """Return a payload as a message.

        Raises:
            MalformedError: it is none, or has text that is not UTF-8.
        """
        return self.type.read(payload)

    def unreadable(self, payloads: pa.BinaryArray) -> dict[int, str]:
        """Return what is wrong with payloads that are no message, by row."""
        parse, wrong = self.type.parse, dict[int, str]()
        for start, few in self._doubtful(payloads, 0):
            for row, payload in enumerate(few.to_pylist(), start):
                try:
                    if payload is not None:
                        parse(payload)
                except self.type.errors as error:
                    wrong[row] = f"protobuf: {described(error)}"
        return wrong

    def _doubtful(
        self, payloads: pa.BinaryArray, start: int
    ) -> Iterator[tuple[int, pa.BinaryArray]]:
        """Yield the first row and the payloads of each slice that may hold non-messages."""
        if self.together is None or len(payloads) <= _FEW:
            yield start, payloads
        elif payloads.nbytes > _MANY_BYTES or not self.together.are_messages(payloads):
            half = len(payloads) // 2
            yield from self._doubtful(payloads.slice(0, half), start)
            yield from self._doubtful(payloads.slice(half), start + half)

    def json(self, message: Any) -> bytes:
        """Return a message as JSON, by Protobuf's JSON mapping.

        Raises:
            MalformedError: it has none, such as a Timestamp out of range.
        """
        return _encode(self._plain(message))

    def value(self, message: Any, leaf: ProtobufLeaf) -> object:
        """Return a leaf's value, None if it is absent.

        Raises:
            MalformedError: the value has no JSON.
        """
        at, (*outside, name) = message, leaf.reading_names
        for step in outside:
            if not at.HasField(step):
                return None
            at = getattr(at, step)
        if leaf.how == "json":
            text = self._plain(at).get(at.DESCRIPTOR.fields_by_name[name].json_name)
            return None if text is None else _encode(text).decode()
        if leaf.field.has_presence and not at.HasField(name):
            return None
        assert not is_repeated(leaf.field), "only Json columns hold lists"
        value = getattr(at, name)
        return value.seconds * 10**6 + value.nanos // 1000 if leaf.wire == TIMES else value

    def _plain(self, message: Any) -> Mapping[str, Any]:
        found = self.types.as_dict(message, zeros=self.zeros)
        made: Mapping[str, Any] = ordered(message.DESCRIPTOR, found, common=self.common)
        return made


def array(values: list[object], leaf: ProtobufLeaf, errors: dict[int, str]) -> pa.Array:
    """Return values that ``ProtobufMessages.value`` gave as a column of the type ``leaf.wire``.

    A Timestamp beyond 64 bits of microseconds is null and an error, by its position.
    """
    if leaf.wire != TIMES:
        return pa.array(values, leaf.wire)
    for i, value in enumerate(values):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            errors[i] = f"protobuf: {leaf.field.name}: a Timestamp out of range"
            values[i] = None
    return pa.array(values, pa.int64()).cast(TIMES)


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
