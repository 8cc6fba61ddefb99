"""Decodes payloads by decoders of the auditor's own: a record in, values out.

The writer decodes in columns, with Arrow, msgspec, ptars and the native extension. Here each record
is decoded alone, by ``json``, ``msgpack``, ``google.protobuf``, and plain Python for Avro and text,
and ``typed_values`` reads the documented types of columns. ``tests/unit/audit/test_payloads.py``
lands every example of the documentation and audits it.

Values are compared as ``comparable`` makes them: each kind of value has one form, from any library.
What a decoder has no rule for is ``Undecided``, never a guess: such records count as unchecked.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

Path: TypeAlias = tuple[str, ...]
Named: TypeAlias = tuple[tuple[str, object], ...]
"""Columns and their values, in the order of their names."""


class BadPayload(Exception):  # noqa: N818  # states a fact, like StopIteration
    """The record must be a dead letter; the text gives the reason."""


class AuditLeftOut(BadPayload):
    """The record must have no row and be no dead letter: it is no change of a row."""


class Undecided(Exception):  # noqa: N818
    """There is no rule for the record, or for what is asked; the text gives the reason."""


class JsonNumber(str):
    """A number of JSON, as it is written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment: microseconds since 1970 UTC, rounded down."""

    micros: int


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """The expected rows of a group.

    Attributes:
        of: makes of value, key, headers and Kafka timestamp what the row must hold. Raises
            BadPayload and Undecided.
        unchecked: columns that are not compared, and why.
    """

    of: Callable[["SourceRecord"], Any]
    unchecked: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record in Kafka, as far as rows are made of it."""

    value: bytes | None
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int | None


class Schemas(Protocol):
    """Schemas of registries, as they were stored."""

    def find(self, registry: str, schema_id: int) -> "SchemaTexts":
        """The schema of an id. Raises Undecided."""
        ...


class SchemaTexts(Protocol):
    """A schema, and the schemas that it refers to."""

    @property
    def text(self) -> str:
        """The schema itself."""
        ...

    @property
    def references(self) -> Sequence[tuple[str, str]]:
        """Names and texts of the schemas that it refers to."""
        ...


def comparable(value: object) -> object:
    """A hashable form of a value, equal for equal values of one kind only."""
    if isinstance(value, JsonNumber):
        return of_number(value)
    if isinstance(value, Mapping):
        items = [(str(name), comparable(inner)) for name, inner in value.items()]
        return "object", tuple(sorted(items, key=lambda item: item[0]))
    if isinstance(value, list | tuple):
        return "list", tuple(map(comparable, value))
    form = _FORMS.get(type(value))
    if form is None:
        raise Undecided(f"a value of type {type(value).__name__}")
    return form(value)


def of_double(value: float) -> object:
    """The form of a double: NaN equals NaN, and -0.0 is not 0.0."""
    return "double", "nan" if math.isnan(value) else repr(value)


def of_number(text: str) -> object:
    """The form of a number of JSON: ``1.50`` is ``1.5``, and ``12.0`` is ``12``."""
    number = Decimal(text)
    if number == 0:
        return "number", "-0" if number.is_signed() and not _is_integer(text) else "0"
    return "number", number


def _is_integer(text: str) -> bool:
    return not set(text) & set(".eE")


def of_json(value: object) -> object:
    """The form of a value that is landed as JSON, of any number type."""
    match value:
        case bool():
            return comparable(value)
        case int():
            return of_number(str(value))
        case float():
            if not math.isfinite(value):
                raise BadPayload(f"JSON has no number {value}")
            return of_number(repr(value))
        case Mapping():
            items = [(str(name), of_json(inner)) for name, inner in value.items()]
            return "object", tuple(sorted(items, key=lambda item: item[0]))
        case list() | tuple():
            return "list", tuple(map(of_json, value))
        case _:
            return comparable(value)


def _itself(value: object) -> object:
    return value


_FORMS: Mapping[type, Callable[[Any], object]] = {
    type(None): _itself,
    str: _itself,
    bytes: _itself,
    int: _itself,
    bool: lambda value: ("true" if value else "false", "bool"),
    float: of_double,
    Decimal: lambda value: ("decimal", value),
    Instant: lambda value: value.micros,
}
