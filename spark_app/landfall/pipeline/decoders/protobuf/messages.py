"""Reads one message at a time with google.protobuf, whose word counts on what a message holds."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from landfall.pipeline.decoders.protobuf.ordered import ordered
from landfall.pipeline.decoders.protobuf.schema import TIMES, Leaf, is_repeated
from landfall.pipeline.decoders.protobuf.together import Together

_FEW, _MANY_BYTES = 64, 2**26
"""Payloads that are parsed one by one, and the bytes of payloads that are parsed together."""


class MalformedError(ValueError):
    """The payload is no message of the type, or has no JSON."""


@dataclass(frozen=True)
class Messages:
    """Reads messages of one type.

    Attributes:
        parse: parses a payload.
        as_dict: returns a message as the plain values of its JSON.
        errors: what ``parse`` and ``as_dict`` raise.
        name: the full name of the type.
        together: parses many payloads at once; None if that cannot be.
    """

    parse: Callable[[bytes], Any]
    as_dict: Callable[[Any], Mapping[str, Any]]
    errors: tuple[type[Exception], ...]
    name: str = ""
    together: Together | None = None

    @classmethod
    def of(cls, message: Any, *, proto_names: bool) -> "Messages":
        """Return what reads messages of this class."""
        from google.protobuf import json_format  # noqa: PLC0415  # an extra
        from google.protobuf.message import DecodeError  # noqa: PLC0415

        def as_dict(read: Any) -> Mapping[str, Any]:
            made: Mapping[str, Any] = json_format.MessageToDict(
                read,
                preserving_proto_field_name=proto_names,
                descriptor_pool=message.DESCRIPTOR.file.pool,
            )
            return made

        errors = (DecodeError, json_format.Error, ValueError, TypeError, RecursionError)
        every = (*errors, OverflowError, KeyError)
        descriptor = message.DESCRIPTOR
        together = Together.of(descriptor, every)
        return cls(message.FromString, as_dict, every, descriptor.full_name, together)

    def read(self, payload: bytes) -> Any:
        """Return a payload as a message.

        Raises:
            MalformedError: it is none.
        """
        try:
            return self.parse(payload)
        except self.errors as error:
            raise MalformedError(_described(error)) from error

    def unreadable(self, payloads: pa.BinaryArray) -> dict[int, str]:
        """Return what is wrong with payloads that are no message, by row."""
        parse, wrong = self.parse, dict[int, str]()
        for start, few in self._doubtful(payloads, 0):
            for row, payload in enumerate(few.to_pylist(), start):
                try:
                    if payload is not None:
                        parse(payload)
                except self.errors as error:
                    wrong[row] = f"protobuf: {_described(error)}"
        return wrong

    def _doubtful(
        self, payloads: pa.BinaryArray, start: int
    ) -> Iterator[tuple[int, pa.BinaryArray]]:
        """Return slices with payloads that may be no messages, each behind its first row."""
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

    def value(self, message: Any, leaf: Leaf) -> object:
        """Return a leaf's value, None if it is absent.

        Raises:
            MalformedError: the value has no JSON, or is text that is not UTF-8.
        """
        at = message
        for field in leaf.path[:-1]:
            if not at.HasField(field.name):
                return None
            at = getattr(at, field.name)
        field = leaf.field
        if leaf.how == "json":
            found = self._plain(at)
            # With or without the option for names, one of them is the field's.
            text = found.get(field.json_name, found.get(field.name))
            return None if text is None else _encode(text).decode()
        if field.has_presence and not at.HasField(field.name):
            return None
        assert not is_repeated(field), "only Json columns hold lists"
        try:
            value = getattr(at, field.name)
        except UnicodeDecodeError as error:
            raise MalformedError(f"{field.name}: not UTF-8") from error
        return value.seconds * 10**6 + value.nanos // 1000 if leaf.wire == TIMES else value

    def _plain(self, message: Any) -> Mapping[str, Any]:
        try:
            found = self.as_dict(message)
        except self.errors as error:
            raise MalformedError(f"no JSON: {error}") from error
        made: Mapping[str, Any] = ordered(message.DESCRIPTOR, found)
        return made


def _described(error: Exception) -> str:
    # The library names the type of the message before.
    return str(error).rpartition(": ")[2]


def array(values: list[object], leaf: Leaf, errors: dict[int, str]) -> pa.Array:
    """Return values that ``Messages.value`` gave as a column of the type ``leaf.wire``.

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
