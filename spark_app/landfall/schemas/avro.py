"""Decoder ``Avro``: payloads of Avro, with their schema from a registry or the same for all.

| option | default | meaning |
|---|---|---|
| ``schema`` | none | the schema of all payloads, as JSON; they have no header then |
| ``schemaFile`` | none | the same, in a file that every driver and executor has |
| ``readerSchema`` | ``Writer`` | read as: ``Writer``, ``Latest`` or a schema as JSON |
| ``subject`` | ``<topic>-value`` | whose latest schema ``Latest`` is; of keys ``<topic>-key`` |
| ``pin`` | of the driver | the name under which ``Latest`` stays the same schema |
| ``maxPrecision`` | none | decimals are read with so many digits at most; more are bad rows |
| ``connectTypes`` | false | ``connect.name`` counts as a logical type |
| ``schemaId`` | ``Payload`` | ``Header``: ids may be in record headers |

Without ``schema`` and ``schemaFile`` payloads begin with Confluent's header, and
``spec.decode.registry`` names the registry of their schemas. A payload is decoded if it is exactly
one value of its schema; one byte too few or too many, and it is bad. Tombstones pass, with every
field absent. See ``landfall.pipeline.decoders.avro`` for how, and ``values`` there for the types.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import msgspec

from landfall.ledger.names.schema_ids import is_pin
from landfall.pipeline.decoders import Decoded, UsedSchema, Wanted
from landfall.pipeline.decoders.avro.branches import branch_nodes
from landfall.pipeline.decoders.avro.nested import MapNode, RecordNode
from landfall.pipeline.decoders.avro.rows import (
    NO_ID,
    AvroRows,
    AvroSchemas,
    UnknownSchemaError,
    compiled,
)
from landfall.pipeline.decoders.avro.schema import (
    Schema,
    parse_schema,
    with_connect_types,
    with_max_precision,
)
from landfall.pipeline.decoders.avro.values import places
from landfall.pipeline.decoders.confluent import Framing, SchemaId
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.pipeline.decoders.typed_columns import typed_columns
from landfall.pipeline.pinned import PinnedFile
from landfall.pipeline.records import Records
from landfall.schemas import RegisteredSchema, SchemaKind
from landfall.schemas.cached import CachedRegistry, registry_at
from landfall.schemas.client import RegistryOptions
from landfall.schemas.fixed_text import FixedText

_WRITER, _LATEST = "Writer", "Latest"


class Options(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Options of ``Avro``; ``registry`` is ``spec.decode.registry``."""

    schema: str | None = None
    schema_file: str | None = None
    sha256: str | None = None
    reader_schema: str = _WRITER
    subject: str | None = None
    pin: str = ""
    max_precision: Annotated[int, msgspec.Meta(ge=1, le=76)] | None = None
    connect_types: bool = False
    schema_id: Literal["Payload", "Header"] = "Payload"
    registry: RegistryOptions | None = None


@dataclass(frozen=True)
class AvroDecoder:
    """Decodes Avro.

    Attributes:
        rows: decodes them.
        files: the file of the schema, if it is in one.
        has_schemas: the decoder can give columns and bodies by the payloads' own schemas.
    """

    rows: AvroRows
    files: tuple[PinnedFile, ...] = ()
    has_schemas: ClassVar[bool] = True

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "AvroDecoder":
        """Build the decoder. No registry is asked before the first payload.

        Raises:
            ValueError: an option is wrong, a schema is none, or it has no field that is wanted.
        """
        read = read_options(options, Options)
        sources = [
            name
            for name, value in (
                ("schema", read.schema),
                ("schemaFile", read.schema_file),
                ("decode.registry", read.registry),
            )
            if value is not None
        ]
        if len(sources) != 1:
            given = " and ".join(sources) or "none"
            raise ValueError(
                f"options: Avro needs one of schema, schemaFile and decode.registry, got {given}"
            )
        fixed = FixedText.of(read.schema, read.schema_file, read.sha256)
        reader = _reader(read)
        if wanted.bodies:
            _check_copied(read)
        if SCHEMA_ID in wanted.fields and read.registry is None:
            raise ValueError("{schema:id} needs decode.registry, for only there schemas have ids")
        if read.registry is not None:
            if isinstance(reader, Schema):
                _check(reader, None, wanted)
            registry = registry_at(read.registry)
            schemas: AvroSchemas = RegistrySchemas(
                registry, reader, read.subject, wanted.is_key, read.pin
            )
            framing = Framing("avro", read.schema_id == "Header", wanted.is_key)
            return cls(AvroRows(_read_as(schemas, read), wanted, framing))
        if isinstance(reader, str):
            raise ValueError("option readerSchema: Latest needs decode.registry")  # noqa: TRY004  # a wrong option
        writer = _parsed_text(fixed)
        _check(writer, reader, wanted)
        schemas = _read_as(FixedSchema(writer, reader), read)
        return cls(AvroRows(schemas, wanted, None), fixed.files)

    def decode(self, records: Records) -> Decoded:
        """Return every row that is exactly one value of its schema.

        Raises:
            SchemasAway: a schema cannot be asked for now.
        """
        return self.rows.decode(records)


@dataclass(frozen=True)
class FixedSchema(AvroSchemas):
    """The same schema for all payloads."""

    writer: Schema
    reader: Schema | None

    def resolve(self, topic: str, schema_id: SchemaId) -> tuple[Schema, Schema | None]:  # noqa: ARG002  # the protocol's
        """Return the schema."""
        return self.writer, self.reader


@dataclass(frozen=True)
class TypedSchemas(AvroSchemas):
    """Other schemas, read with other logical types.

    Attributes:
        schemas: the other ones.
        max_precision: the digits that decimals have at most; None for their own.
        connect_types: whether the names of Kafka Connect count as logical types.
    """

    schemas: AvroSchemas
    max_precision: int | None
    connect_types: bool

    def used(self, topic: str, schema_id: SchemaId) -> Iterable[UsedSchema]:
        """Return what the other ones use."""
        return self.schemas.used(topic, schema_id)

    def resolve(self, topic: str, schema_id: SchemaId) -> tuple[Schema, Schema | None]:
        """Return the writer's schema, and with other logical types what it is read as."""
        writer, reader = self.schemas.resolve(topic, schema_id)
        reader = reader or writer
        if self.connect_types:
            reader = with_connect_types(reader)
        if self.max_precision is not None:
            reader = with_max_precision(reader, self.max_precision)
        return writer, reader


def _read_as(schemas: AvroSchemas, options: Options) -> AvroSchemas:
    if options.max_precision is None and not options.connect_types:
        return schemas
    return TypedSchemas(schemas, options.max_precision, options.connect_types)


@dataclass(frozen=True)
class RegistrySchemas(AvroSchemas):
    """The schemas of a registry.

    Attributes:
        registry: knows the schemas.
        reader: what payloads are read as; None as they were written, or ``Latest``.
        subject: the subject of ``Latest``; None for the topic's.
        is_key: whether the payloads are keys.
        pin: the name under which ``Latest`` stays the same; empty for this process alone.
    """

    registry: CachedRegistry
    reader: Schema | str | None
    subject: str | None
    is_key: bool = False
    pin: str = ""

    def used(self, topic: str, schema_id: SchemaId) -> Iterator[UsedSchema]:
        """Return the schemas that ``resolve`` returned, as they are registered."""
        if schema_id != NO_ID and (writer := self.registry.by_id(schema_id)):
            yield self.registry.used(writer, schema_id)
        if self.reader == _LATEST:
            latest = self.registry.latest(self._subject(topic), self.pin)
            yield self.registry.used(latest, None)

    def resolve(self, topic: str, schema_id: SchemaId) -> tuple[Schema, Schema | None]:
        """Return the writer's schema, and the reader's if it is another.

        Raises:
            UnknownSchemaError: the registry does not know the id, or has no Avro there; or there is
                no id, as with tombstones, and no reader's schema.
            SchemasAway: it cannot be found out now.
        """
        if schema_id == NO_ID:
            return self._of_tombstones(topic), None
        try:
            registered = self.registry.by_id(schema_id)
            if registered is None:
                raise UnknownSchemaError(f"avro: schema id {schema_id} is not in the registry")
            writer = _parsed(registered)
        except ValueError as error:
            raise UnknownSchemaError(f"avro: schema id {schema_id}: {error}") from error
        if isinstance(self.reader, Schema) or self.reader is None:
            return writer, self.reader
        return writer, self._latest(topic)

    def _of_tombstones(self, topic: str) -> Schema:
        if self.reader is None:
            raise UnknownSchemaError("avro: a tombstone, which has no schema")
        return self.reader if isinstance(self.reader, Schema) else self._latest(topic)

    def _latest(self, topic: str) -> Schema:
        subject = self._subject(topic)
        try:
            return _parsed(self.registry.latest(subject, self.pin))
        except ValueError as error:
            raise UnknownSchemaError(f"avro: subject {subject}: {error}") from error

    def _subject(self, topic: str) -> str:
        return self.subject or f"{topic}-{'key' if self.is_key else 'value'}"


def asks_for_latest(options: Mapping[str, object]) -> bool:
    """Return whether a decoder with these options asks which schema is the latest."""
    return options.get("readerSchema") == _LATEST


def resolved(options: Mapping[str, object], text: str) -> tuple[Schema, Schema | None]:
    """Return a schema of payloads, and the schema that a decoder reads them as if it is another.

    Args:
        options: of the decoder, without any that give the schema of payloads. The latest schema of
            a subject is taken to be this one.
        text: the schema, as JSON.

    Raises:
        ValueError: an option is wrong, or the text is no schema.
    """
    read = read_options({**options, "schema": text}, Options)
    reader = _reader(read)
    fixed = FixedSchema(parse_schema(text), reader if isinstance(reader, Schema) else None)
    return _read_as(fixed, read).resolve("", NO_ID)


def _parsed(registered: RegisteredSchema) -> Schema:
    if registered.kind != SchemaKind.AVRO:
        raise ValueError(f"the schema is {registered.kind}, not AVRO")
    return parse_schema(registered.text, [reference.text for reference in registered.references])


def _reader(options: Options) -> Schema | str | None:
    if options.pin and not is_pin(options.pin):
        raise ValueError("option pin: expected at most 63 lowercase letters, digits and dashes")
    if options.reader_schema == _LATEST:
        return _LATEST
    if options.reader_schema == _WRITER:
        return None
    try:
        return parse_schema(options.reader_schema)
    except ValueError as error:
        raise ValueError(f"option readerSchema: {error}") from error


def _check_copied(options: Options) -> None:
    """Return if payloads are read as they were written."""
    if options.reader_schema != _WRITER:
        raise ValueError(
            "option readerSchema: a format that copies payloads copies them as they were written;"
            " leave it out, or set Writer"
        )
    if options.max_precision is not None:
        raise ValueError("option maxPrecision: a format that copies payloads changes none")
    if options.connect_types:
        raise ValueError("option connectTypes: a format that copies payloads changes none")


def _parsed_text(given: FixedText) -> Schema:
    """The schema of all payloads."""
    try:
        return parse_schema(given.text or "")
    except ValueError as error:
        raise ValueError(f"option {given.option}: {error}") from error


def _check(writer: Schema, reader: Schema | None, wanted: Wanted) -> None:
    """Return if all that is wanted is in the schema."""
    node = compiled(writer, reader, wanted)
    typed = typed_columns(wanted.schema) if wanted.schema is not None else ()
    for path in (*wanted.fields, *(declared.path for declared in typed)):
        is_known = path in {SCHEMA_ID, SCHEMA_NAME} or places(node, path)
        if not is_known:
            raise ValueError(f"no field {'.'.join(path)!r} in the Avro schema")
    if wanted.json and not all(
        isinstance(inner, RecordNode | MapNode) for inner, _ in branch_nodes(node)
    ):
        raise ValueError("the Avro schema is no record, so its values are no JSON objects")
