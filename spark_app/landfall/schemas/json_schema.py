"""Decoder ``JsonSchema``: JSON objects, checked against a schema from a registry, or one for all.

===============  =========  =======================================================================
option           default    meaning
===============  =========  =======================================================================
``schema``       none       the schema of all payloads; they have no header then
``schemaFile``   none       the same, in a file that every driver and executor has
``sha256``       none       the checksum that the file must have
``validate``     true       whether a payload that its schema does not allow is bad
``schemaId``     Payload    ``Header``: ids may be in record headers instead of before the payload
===============  =========  =======================================================================

Without ``schema`` and ``schemaFile`` payloads begin with Confluent's header, and
``spec.decode.registry`` names the registry of their schemas. What follows is read as the decoder
``Json`` reads it, so it must be one JSON object; fields and typed columns are as in ``Json``. As
JSON a payload is landed without its header. ``title`` is the name of a schema, as for Kafka
Connect (Confluent, ``JsonSchemaData``).

A schema is read by the draft that its ``$schema`` names, and by draft 7 without one, which is the
draft of Confluent's clients. ``$ref`` may lead into the schema itself and to the references that it
is registered with; nothing is fetched from elsewhere. ``format`` is an annotation, as the drafts
have it since 2019-09, and checks nothing. A pattern that takes too many steps makes a row bad.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal
from urllib.parse import unquote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.errors import how_to_install
from landfall.pipeline.bounded_cache import BoundedCache
from landfall.pipeline.decoders import Decoded, Path, UsedSchema, Wanted
from landfall.pipeline.decoders.bodies import without_header
from landfall.pipeline.decoders.confluent import NO_SCHEMA, Framed, Framing, SchemaId
from landfall.pipeline.decoders.half_pairs import without_half_pairs
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.pipeline.pinned import PinnedFile
from landfall.pipeline.records import FieldValues, Records
from landfall.schemas import RegisteredSchema, SchemaKind, UnusableSchemaError
from landfall.schemas.cached import CachedRegistry, registry_at
from landfall.schemas.client import RegistryOptions
from landfall.schemas.fixed_text import FixedText

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SHOWN = 200
"""How many characters of what is wrong with a payload are shown."""
_BACKTRACKS = 100_000
"""How many steps back a pattern may take in one text."""


class Options(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Options of ``JsonSchema``; ``registry`` is ``spec.decode.registry``."""

    schema: str | None = None
    schema_file: str | None = None
    sha256: str | None = None
    validate: bool = True
    schema_id: Literal["Payload", "Header"] = "Payload"
    registry: RegistryOptions | None = None


@dataclass(frozen=True)
class JsonSchemaDecoder:
    """Decodes JSON objects that have schemas.

    Attributes:
        json: reads the objects.
        options: of the decoder.
        wanted: what the later stages need.
        registry: knows the schemas; None if there is one for all.
        fixed: checks every payload; None if each has its own schema.
        files: the file of the schema, if it is in one.
        has_schemas: routes can have the name of a payload's schema, and its id.
    """

    json: JsonDecoder
    options: Options
    wanted: Wanted
    registry: CachedRegistry | None
    fixed: "Validator | None"
    files: tuple[PinnedFile, ...] = ()
    _validators: BoundedCache[SchemaId, "Validator | str"] = field(
        default_factory=BoundedCache, repr=False
    )
    has_schemas: ClassVar[bool] = True

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "JsonSchemaDecoder":
        """Build the decoder. No registry is asked before the first payload.

        Raises:
            ValueError: an option is wrong, or the schema is none; or the extra ``jsonschema`` is
                not installed.
        """
        read = read_options(options, Options)
        given = FixedText.of(read.schema, read.schema_file, read.sha256)
        text = given.text
        if text is None and read.registry is None:
            raise ValueError("options: JsonSchema needs schema, schemaFile or decode.registry")
        if wanted.by_schema:
            raise ValueError("a JSON Schema has no columns of its own; declare decode.columns")
        if SCHEMA_ID in wanted.fields and text is not None:
            raise ValueError("{schema:id} needs decode.registry, for only there schemas have ids")
        fixed = None
        if text is not None:
            try:
                fixed = Validator.of(RegisteredSchema(SchemaKind.JSON, text))
            except ValueError as error:
                raise ValueError(f"option {given.option}: {error}") from error
        elif read.validate:
            _library()
        registry = registry_at(read.registry) if read.registry and text is None else None
        paths = tuple(path for path in wanted.fields if path not in {SCHEMA_ID, SCHEMA_NAME})
        json = JsonDecoder.of({}, replace(wanted, fields=paths))
        return cls(
            json=json,
            options=read,
            wanted=wanted,
            registry=registry,
            fixed=fixed,
            files=given.files,
        )

    def decode(self, records: Records) -> Decoded:
        """Return every row that is a JSON object which its schema allows.

        Raises:
            Retry: a schema cannot be asked for now.
        """
        if self.registry is None:
            return self._by_fixed(records)
        framing = Framing("json", self.options.schema_id == "Header", self.wanted.is_key)
        frames = framing.frames(records)
        errors, used = dict(frames.errors), dict[UsedSchema, None]()
        present = frames.codes != NO_SCHEMA
        bodies = without_header(records.values, present, frames.header_bytes)
        names: dict[int, str] = {}
        for code in np.unique(frames.codes[present]).tolist():
            rows, schema_id = np.flatnonzero(frames.codes == code), frames.ids[code]
            checks = self._validator(self.registry, schema_id, used)
            if isinstance(checks, str):
                errors |= dict.fromkeys(rows.tolist(), checks)
                continue
            names[code] = checks.name
            if self.options.validate:
                of_schema = checks.errors(bodies.take(pa.array(rows)))
                errors |= {int(rows[i]): error for i, error in of_schema.items()}
        landed = records.with_values(bodies) if self.wanted.json else records
        whole = Decoded(landed, self._fields(frames, names), used=tuple(used))
        return self._decoded(whole, bodies, errors)

    def _by_fixed(self, records: Records) -> Decoded:
        """Return every row that the only schema allows."""
        fixed = self.fixed
        errors = fixed.errors(records.values) if fixed and self.options.validate else {}
        fields: dict[Path, FieldValues] = {}
        if SCHEMA_NAME in self.wanted.fields:
            name = pa.scalar(fixed.name if fixed else "")
            fields[SCHEMA_NAME] = pc.if_else(records.values.is_valid(), name, None)
        return self._decoded(Decoded(records, fields), records.values, errors)

    def _fields(self, frames: Framed, names: Mapping[int, str]) -> Mapping[Path, FieldValues]:
        """Return the schema fields that routes want; None for tombstones and bad rows."""
        of_codes: dict[Path, list[object]] = {
            SCHEMA_ID: [*frames.ids, None],
            SCHEMA_NAME: [*(names.get(code) for code in range(len(frames.ids))), None],
        }
        return {
            # Of rows without a schema the code is -1, and so their value is the last one.
            path: np.array(values, object)[frames.codes].tolist()
            for path, values in of_codes.items()
            if path in self.wanted.fields
        }

    def _decoded(
        self, decoded: Decoded, bodies: pa.BinaryArray, errors: Mapping[int, str]
    ) -> Decoded:
        if errors:
            good = np.ones(len(bodies), np.bool_)
            good[list(errors)] = False
            bodies = pc.if_else(pa.array(good), bodies, None)
        return self.json.decode_bodies(decoded, bodies, errors)

    def _validator(
        self, registry: CachedRegistry, schema_id: SchemaId, used: dict[UsedSchema, None]
    ) -> "Validator | str":
        """Return the validator of a schema's payloads, or why they are bad."""
        try:
            schema = registry.by_id(schema_id)
        except UnusableSchemaError as error:  # not kept: it may be mended later
            return f"json: schema id {schema_id}: {error}"
        if schema is None:  # not kept: it may be registered later
            return f"json: schema id {schema_id} is not in the registry"
        used[registry.used(schema, schema_id)] = None
        if (kept := self._validators.get(schema_id)) is not None:
            return kept
        try:
            found: Validator | str = Validator.of(schema)
        except ValueError as error:
            found = f"json: schema id {schema_id}: {error}"
        return self._validators.add(schema_id, found, schema.size)


@dataclass(frozen=True)
class Validator:
    """Checks payloads against a schema.

    Attributes:
        validator: the library's.
        problems: what the library raises for a payload.
        name: the title of the schema; empty if it has none.
    """

    validator: Any
    problems: tuple[type[Exception], ...]
    name: str = ""

    @classmethod
    def of(cls, schema: RegisteredSchema) -> "Validator":
        """Build it.

        Raises:
            ValueError: it is no JSON Schema, or uses something that is not there.
        """
        library = _library()
        if schema.kind != SchemaKind.JSON:
            raise ValueError(f"the schema is {schema.kind}, not JSON")
        known = {reference.name: _parsed(reference.text) for reference in schema.references}

        def retrieve(uri: str) -> object:
            # A relative name is resolved against the schema's own address.
            for name, document in known.items():
                if uri == name or uri.rstrip("#").endswith(f"/{name}"):
                    return document
            raise ValueError(f"{uri} is not among the schema's references")

        document = _parsed(schema.text)
        _check_size(document, known)
        has_draft = isinstance(document, dict) and "$schema" in document
        build = library.validator_for if has_draft else library.Draft7Validator
        try:
            validator = build(
                document,
                retriever=retrieve,
                validate_formats=False,
                pattern_options=library.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
            )
        except (library.ReferencingError, ValueError) as error:
            raise ValueError(f"no schema that can be used: {_shown(error)}") from error
        title = document.get("title") if isinstance(document, dict) else None
        name = title if isinstance(title, str) else ""
        return cls(validator, (ValueError, RecursionError, OverflowError), name)

    def errors(self, payloads: pa.BinaryArray) -> dict[int, str]:
        """Return why payloads are not allowed, by row; what is no JSON is left to ``Json``."""
        errors: dict[int, str] = {}
        validate = self.validator.validate
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                document = None if payload is None else _document(payload)
            except _UNREADABLE:
                continue
            if payload is None:
                continue
            try:
                validate(document)
            except self.problems as error:
                errors[row] = f"json: not what the schema allows: {_shown(error)}"
        return errors


def _check_size(document: object, references: Mapping[str, object]) -> None:
    try:
        count = applied(document, references)
    except RecursionError:
        raise ValueError("schemas are nested too deeply") from None
    if count > MAX_APPLIED:
        raise ValueError(f"applies more than {MAX_APPLIED} schemas to one value")


def _library() -> Any:
    try:
        import jsonschema_rs  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ValueError(
            f"JsonSchema needs the package jsonschema-rs: {how_to_install('jsonschema')} ({error})"
        ) from error
    return jsonschema_rs


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except _UNREADABLE as error:
        raise ValueError(f"not JSON: {error}") from error


def _document(payload: bytes) -> object:
    try:
        return msgspec.json.decode(payload)
    except _UNREADABLE:
        return msgspec.json.decode(without_half_pairs(payload))


def _shown(error: Exception) -> str:
    said = str(error).strip()
    return (said.splitlines() or [type(error).__name__])[0][:_SHOWN]


# How often a JSON Schema is applied to one value, counted before any value is checked.
#
# Forty definitions, each ``allOf`` twice the next one, are two kilobytes, and are applied a million
# million times to a payload of two bytes: a worker would never come back. The library has no bound
# of its own. What is counted is applied to the same value (JSON Schema 2020-12, core, sections
# 8.2.3 and 10.2: references and in-place applicators); what is inside of a value is checked again
# only as often as the value has members.

MAX_APPLIED = 100_000
"""How many schemas may be applied to one value; that takes about two milliseconds."""
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_BY_NAME = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def applied(document: object, references: Mapping[str, object]) -> int:
    """Return how many schemas are applied to one value, at most.

    References by JSON Pointer and to whole other documents are followed. A schema that leads back
    to itself counts once, for that is how often the library applies it.

    Args:
        document: the schema, as JSON values.
        references: other documents by the name by which schemas refer to them.

    Raises:
        RecursionError: schemas are nested too deeply.
    """
    return _SchemaCount(references).of(document, document)


@dataclass(frozen=True)
class _SchemaCount:
    references: Mapping[str, object]
    known: dict[int, int] = field(default_factory=dict)

    def of(self, schema: object, document: object) -> int:
        """Return the count of a schema inside of a document."""
        if not isinstance(schema, dict):
            return 1
        if id(schema) not in self.known:
            self.known[id(schema)] = 0  # while it is being counted
            inner = sum(
                self.of(subschema, inside) for subschema, inside in self._inner(schema, document)
            )
            self.known[id(schema)] = 1 + inner
        return self.known[id(schema)]

    def _inner(
        self, schema: Mapping[str, object], document: object
    ) -> Iterator[tuple[object, object]]:
        """The schemas that are applied to the same value, each with its document."""
        for key in _LISTS:
            several = schema.get(key)
            if isinstance(several, list):
                yield from ((subschema, document) for subschema in several)
        yield from ((schema[key], document) for key in _SINGLE if key in schema)
        for key in _BY_NAME:
            named = schema.get(key)
            if isinstance(named, dict):
                yield from ((subschema, document) for subschema in named.values())
        for key in _REFERENCES:
            if isinstance(target := schema.get(key), str):
                yield from self._target(target, document)

    def _target(self, reference: str, document: object) -> Iterator[tuple[object, object]]:
        name, _, pointer = reference.partition("#")
        found = document
        if name:
            named = (d for n, d in self.references.items() if name == n or name.endswith(f"/{n}"))
            found = next(named, None)
        inside = found
        for escaped in unquote(pointer).split("/")[1:]:
            step = escaped.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                return
        yield found, inside
