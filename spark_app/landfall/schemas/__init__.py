"""Schemas that are not in the payloads: where they come from, and what they are called for ever.

``client`` asks a schema registry (the read side of Confluent's API, which Apicurio and Karapace
speak as well), ``cached`` asks it once per id and keeps the answers that were used last, ``stored``
keeps the schemas alongside the ledger, ``avro`` makes decoders of them. Nothing is ever written to
a registry.

A schema with an id never changes, so the registry answers today as it did when the payload
was written, and a range that is read again gives the same rows. Only one thing may change: an id
that was unknown may be registered later. So a registry that is away is waited for
(``landfall.errors.SchemasAway``), and only an id that it answers about and does not know makes rows
bad: or one whose schema cannot be used as it is registered (``UnusableSchemaError``).
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from landfall import untrusted_json


class SchemaKind(StrEnum):
    """The language of a schema, as registries call it."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as it is registered.

    Attributes:
        kind: its language, one of ``SchemaKind`` or what only a newer registry knows.
        text: the schema itself.
        references: the schemas that it uses by name, each after those that it uses itself.
    """

    kind: str
    text: str
    references: tuple["SchemaReference", ...] = ()

    @property
    def size(self) -> int:
        """How many characters it has, with its references."""
        return len(self.text) + sum(
            len(reference.name) + len(reference.text) for reference in self.references
        )


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses; ``name`` is how that calls it."""

    name: str
    text: str


class UnusableSchemaError(ValueError):
    """A registry has a schema that cannot be used as it is registered: its rows are bad.

    The registry itself answers: the schema is too large, has too many
    references, or is no text.
    """


class _StoredSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schema as it is stored alongside a ledger; the names of the fields are persisted."""

    kind: str
    schema: str
    references: tuple[tuple[str, str], ...] = ()


def encode_schema(schema: RegisteredSchema) -> bytes:
    """Return the schema as JSON that is the same for all ways to write it.

    Two schemas give the same bytes if they are written in the same language and are the same but
    for white space and the order of JSON members. For Avro this keeps logical types, defaults and
    aliases, which its Parsing Canonical Form (specification, "Parsing Canonical Form for Schemas")
    leaves out although they change what a reader sees. Protobuf stays as it is written.
    """
    references = tuple((r.name, _canonical(schema.kind, r.text)) for r in schema.references)
    stored = _StoredSchema(schema.kind, _canonical(schema.kind, schema.text), references)
    return msgspec.json.encode(stored, order="deterministic")


def decode_schema(body: bytes) -> RegisteredSchema:
    """Return the schema that ``encode_schema`` wrote.

    Raises:
        ValueError: the bytes are none.
    """
    stored = untrusted_json.decode(body, type=_StoredSchema)
    references = tuple(SchemaReference(name, text) for name, text in stored.references)
    return RegisteredSchema(stored.kind, stored.schema, references)


def _canonical(kind: str, text: str) -> str:
    if kind == SchemaKind.PROTOBUF:
        return text
    try:
        return msgspec.json.encode(untrusted_json.decode(text), order="deterministic").decode()
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
