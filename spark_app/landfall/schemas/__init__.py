"""Schemas that are not in the payloads: where they come from, and what they are called for ever.

``client`` asks a schema registry (the read side of Confluent's API, which Apicurio and Karapace
speak as well), ``cached`` asks it once per id and process, ``avro`` makes decoders of what it
answers. Nothing is ever written to a registry.

A schema with an id never changes, so what the registry says today is what it said when the payload
was written, and a range that is read again gives the same rows. Only one thing may change: an id
that nobody knew may be registered later. So a registry that is away is waited for
(``landfall.errors.SchemasAway``), and only an id that it answers about and does not know makes rows
bad.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

import msgspec


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
    references: tuple["Reference", ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses; ``name`` is how that calls it."""

    name: str
    text: str


def content_hash(schema: RegisteredSchema) -> str:
    """Return the SHA-256 of what the schema says, in hexadecimal.

    Two schemas have the same hash if they are written in the same language and are the same but for
    white space and the order of JSON members. For Avro this keeps logical types, defaults and
    aliases, which its Parsing Canonical Form (specification, "Parsing Canonical Form for Schemas")
    leaves out although they change what a reader sees. Protobuf is hashed as it is written.
    """
    parts = [
        schema.kind,
        _canonical(schema.kind, schema.text),
        *(
            part
            for reference in schema.references
            for part in (reference.name, _canonical(schema.kind, reference.text))
        ),
    ]
    # As a JSON list, so that no text can be taken for two.
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _canonical(kind: str, text: str) -> str:
    if kind == SchemaKind.PROTOBUF:
        return text
    try:
        return msgspec.json.encode(msgspec.json.decode(text), order="deterministic").decode()
    except (msgspec.DecodeError, RecursionError):
        return text
