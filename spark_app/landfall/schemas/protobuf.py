"""Decoder ``Protobuf`` with a schema registry; without one, see ``pipeline.decoders``.

===============  =========  =======================================================================
option           default    meaning
===============  =========  =======================================================================
``message``      none       the full name of the message that every payload must be; any otherwise
``protoNames``   false      whether JSON has the names of the ``.proto`` file, not lowerCamelCase
``schemaId``     Payload    ``Header``: ids may be in record headers instead of before the payload
===============  =========  =======================================================================

A payload is Confluent's header, the indexes of the message in the file of its schema, and the
message: the number of indexes and each index as a zigzag varint, a lone 00 for the first message
(Confluent documentation, "Wire format"). Where a record header has the id, the indexes follow it
there. Payloads of one message are decoded together, as ``pipeline.decoders.protobuf`` does.

A field that the schema of a payload does not have is absent, for another version may have it. A
column that cannot be read from the type that its field has in a schema makes the rows of this
schema bad.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
import pyarrow as pa

from landfall.pipeline.bounded_cache import BoundedCache
from landfall.pipeline.decoders import Decoded, Decoder, Path, UsedSchema, Wanted
from landfall.pipeline.decoders import protobuf as fixed
from landfall.pipeline.decoders.avro.parts import AvroPart, empty_part, merge
from landfall.pipeline.decoders.bodies import without_header
from landfall.pipeline.decoders.confluent import NO_SCHEMA, Framed, Framing, SchemaId
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.protobuf.framing import message_indexes
from landfall.pipeline.decoders.protobuf.schema import message_class, resolve
from landfall.pipeline.decoders.row_schemas import (
    SCHEMA_ID,
    SCHEMA_NAME,
    SchemaRows,
    same_for_all,
)
from landfall.pipeline.decoders.typed_columns import TypedColumn, typed_columns
from landfall.pipeline.records import FieldValues, Int64s, Records
from landfall.schemas import UnusableSchemaError
from landfall.schemas.cached import CachedRegistry, registry_at
from landfall.schemas.client import RegistryOptions
from landfall.schemas.proto_files import check_installed, file_set

Indexes = tuple[int, ...]


class Options(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Options of ``Protobuf`` with a registry."""

    registry: RegistryOptions
    message: str | None = None
    proto_names: bool = False
    schema_id: Literal["Payload", "Header"] = "Payload"


@dataclass(frozen=True)
class ProtobufDecoder:
    """Decodes Protobuf messages whose schemas a registry has.

    Attributes:
        registry: knows the schemas.
        options: of the decoder.
        wanted: what the later stages need.
        has_schemas: as of the decoder without a registry.
    """

    registry: CachedRegistry
    options: Options
    wanted: Wanted
    _decoders: BoundedCache[tuple[SchemaId, Indexes], "_OfMessage | str"] = field(
        default_factory=BoundedCache, repr=False
    )
    _files: BoundedCache[SchemaId, Any] = field(default_factory=BoundedCache, repr=False)
    has_schemas: ClassVar[bool] = getattr(fixed.FixedProtobufDecoder, "has_schemas", False)

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> Decoder:
        """Build the decoder: this one if there is a registry and no descriptors are given.

        Raises:
            ValueError: an option is wrong, or a package is not installed.
        """
        if options.keys().isdisjoint({"registry"}) or not options.keys().isdisjoint(
            {"descriptors", "file"}
        ):
            rest = {name: value for name, value in options.items() if name != "registry"}
            return fixed.FixedProtobufDecoder.of(rest, wanted)
        checked = read_options(options, Options)
        check_installed()
        if wanted.bodies:
            raise ValueError("the format copies payloads of the decoder Avro, not of Protobuf")
        return cls(registry_at(checked.registry), checked, wanted)

    def decode(self, records: Records) -> Decoded:
        """Return every row that is one message of its schema.

        Raises:
            Retry: a schema cannot be asked for now.
        """
        framing = Framing("protobuf", self.options.schema_id == "Header", self.wanted.is_key)
        frames = framing.frames(records)
        parts, used = [], dict[UsedSchema, None]()
        for code in np.unique(frames.codes).tolist():
            rows = np.flatnonzero(frames.codes == code)
            if code == NO_SCHEMA:
                parts.append(self._without_schema(rows, frames))
                continue
            with suppress(UnusableSchemaError):  # its rows are bad, with the reason
                if schema := self.registry.by_id(frames.ids[code]):
                    used[self.registry.used(schema, frames.ids[code])] = None
            parts += self._of_schema(records, rows, frames, code)
        whole = merge(parts, self.wanted) if parts else empty_part(np.arange(0), self.wanted)
        if self.wanted.json:
            records = records.with_values(whole.payloads)
        by_schema = whole.by_schema if self.wanted.by_schema else None
        decoded = Decoded(
            records, whole.fields, whole.columns, by_schema=by_schema, used=tuple(used)
        )
        return decoded.reject(whole.errors)

    def _without_schema(self, rows: Int64s, frames: Framed) -> AvroPart:
        what = "protobuf: a tombstone, which has no schema" if self.wanted.by_schema else None
        part = empty_part(rows, self.wanted, what)
        errors = {
            i: frames.errors[row] for i, row in enumerate(rows.tolist()) if row in frames.errors
        }
        return replace(part, errors={**part.errors, **errors})

    def _of_schema(
        self, records: Records, rows: Int64s, frames: Framed, code: int
    ) -> Iterator[AvroPart]:
        """The parts of the rows of one schema: one or two for each message in it."""
        of_schema, rest = records.take(rows), frames.rests[code]
        if rest is None:
            found, sizes = _by_indexes(of_schema.values, frames.header_bytes[rows])
        else:
            indexes, end = message_indexes(rest, 0)
            found = {tuple(indexes) if end else None: np.arange(len(rows))}
            sizes = frames.header_bytes[rows]
        for message, places in found.items():
            decoder = self._decoder(frames.ids[code], message)
            if isinstance(decoder, str):
                yield empty_part(rows[places], self.wanted, f"protobuf: {decoder}")
                continue
            values = of_schema.values.take(pa.array(places))
            bodies = without_header(values, np.ones(len(places), np.bool_), sizes[places])
            yield from decoder.parts(rows[places], of_schema.take(places).with_values(bodies))

    def _decoder(self, schema_id: SchemaId, indexes: Indexes | None) -> "_OfMessage | str":
        """Return the decoder of a schema's message, or why its rows are bad."""
        if indexes is None:
            return "malformed message indexes"
        files = self._files_of(schema_id)
        if isinstance(files, str):
            return files
        key = (schema_id, indexes)
        if (kept := self._decoders.get(key)) is not None:
            return kept
        name = _message_at(files.file[-1], indexes)
        if name is None:  # not kept, for payloads may have any indexes
            return f"schema {schema_id} has no message at the indexes {list(indexes)}"
        if self.options.message not in {None, name}:
            return f"message {name} in place of {self.options.message}"
        try:
            found: _OfMessage | str = _OfMessage.of(files, name, schema_id, self)
        except ValueError as error:
            found = f"schema {schema_id}: {error}"
        return self._decoders.add(key, found, files.ByteSize())

    def _files_of(self, schema_id: SchemaId) -> Any:
        """The files of a schema, its own last; or what is wrong with it."""
        if (kept := self._files.get(schema_id)) is not None:
            return kept
        try:
            schema = self.registry.by_id(schema_id)
        except UnusableSchemaError as error:  # not kept: it may be mended later
            return f"schema id {schema_id}: {error}"
        if schema is None:  # not kept: it may be registered later
            return f"schema id {schema_id} is not in the registry"
        try:
            found = file_set(schema)
        except ValueError as error:
            return self._files.add(schema_id, f"schema id {schema_id}: {error}", schema.size)
        return self._files.add(schema_id, found, found.ByteSize())


@dataclass(frozen=True)
class _OfMessage:
    """Reads one message of one schema.

    Attributes:
        decoder: reads what the message has.
        wanted: what the later stages need.
        schema_id: of the schema.
        absent: wanted fields that the message does not have.
    """

    decoder: Decoder
    wanted: Wanted
    schema_id: SchemaId
    absent: tuple[Path, ...]

    @classmethod
    def of(cls, files: Any, name: str, schema_id: SchemaId, of: ProtobufDecoder) -> "_OfMessage":
        """Build it.

        Raises:
            ValueError: a column cannot be read from its field.
        """
        content, wanted = files.SerializeToString(), of.wanted
        descriptor = message_class(content, name).DESCRIPTOR
        fields = tuple(path for path in wanted.fields if _has(descriptor, path))
        columns = [
            field
            for field, column in zip(wanted.schema or (), _typed(wanted), strict=True)
            if _has(descriptor, column.path)
        ]
        options = {
            "message": name,
            "descriptors": base64.b64encode(content).decode(),
            "protoNames": of.options.proto_names,
        }
        present = replace(wanted, fields=fields, schema=pa.schema(columns) if columns else None)
        absent = tuple(path for path in wanted.fields if path not in fields and path != SCHEMA_ID)
        return cls(fixed.FixedProtobufDecoder.of(options, present), wanted, schema_id, absent)

    def parts(self, rows: Int64s, records: Records) -> Iterator[AvroPart]:
        """Read messages, which are the rows ``rows`` of the whole."""
        decoded = self.decoder.decode(records)
        kept = np.arange(len(rows)) if decoded.positions is None else decoded.positions
        if decoded.bad:
            bad = empty_part(rows[decoded.bad.rows], self.wanted)
            yield replace(bad, errors=dict(enumerate(decoded.bad.errors)))
        columns, errors = self._columns(decoded, len(kept))
        by_schema = decoded.by_schema or ()
        yield AvroPart(
            rows=rows[kept],
            fields={**decoded.fields, **self._fields(len(kept))},
            columns=columns,
            payloads=decoded.records.values if self.wanted.json else None,
            errors=errors,
            by_schema=tuple(SchemaRows(s.schema, rows[kept][s.rows], s.columns) for s in by_schema),
        )

    def _fields(self, rows: int) -> Mapping[Path, FieldValues]:
        fields: dict[Path, FieldValues] = dict.fromkeys(self.absent, pa.nulls(rows, pa.string()))
        if SCHEMA_ID in self.wanted.fields:
            fields[SCHEMA_ID] = same_for_all(self.schema_id, rows)
        return fields

    def _columns(self, decoded: Decoded, rows: int) -> tuple[pa.RecordBatch | None, dict[int, str]]:
        """The declared columns, those that the message does not have among them."""
        if self.wanted.schema is None:
            return None, {}
        errors: dict[int, str] = {}
        arrays = []
        for column in self.wanted.schema:
            if decoded.columns is not None and column.name in decoded.columns.schema.names:
                arrays.append(decoded.columns.column(column.name))
                continue
            arrays.append(pa.nulls(rows, column.type))
            if not column.nullable:
                errors = dict.fromkeys(range(rows), f"column {column.name}: null") | errors
        fields = [pa.field(column.name, column.type) for column in self.wanted.schema]
        return pa.record_batch(arrays, schema=pa.schema(fields)), errors


def _typed(wanted: Wanted) -> Sequence[TypedColumn]:
    return typed_columns(wanted.schema) if wanted.schema is not None else ()


def _has(descriptor: Any, path: Path) -> bool:
    """Return whether a message has a field; what its schema itself is called is no field of it."""
    if path == SCHEMA_NAME:
        return True
    try:
        resolve(descriptor, path)
    except ValueError:
        return False
    return True


def _message_at(file: Any, indexes: Indexes) -> str | None:
    """Return the full name of the message at an index path of a file; None if there is none."""
    messages, steps = file.message_type, [file.package] if file.package else []
    for index in indexes:
        if index >= len(messages):
            return None
        steps.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(steps)


def _by_indexes(
    payloads: pa.BinaryArray, header_bytes: Int64s
) -> tuple[dict[Indexes | None, Int64s], Int64s]:
    """Return rows by the message indexes after the id, and where the bodies begin.

    Rows whose indexes are malformed are under None.
    """
    sizes = header_bytes + 1
    rows = len(payloads)
    offsets = np.frombuffer(payloads.buffers()[1], np.int32)[payloads.offset :][: rows + 1]
    content = np.frombuffer(payloads.buffers()[2], np.uint8)
    is_long = np.diff(offsets) > header_bytes
    # Nearly every payload of the first message has the lone 00, which needs no second look.
    at = np.where(is_long, offsets[:-1] + header_bytes, 0)
    is_first = is_long & (content[at] == 0)
    found: dict[Indexes | None, list[int]] = {}
    for row in np.flatnonzero(~is_first).tolist():
        indexes, end = message_indexes(payloads[row].as_py(), int(header_bytes[row]))
        sizes[row] = end
        found.setdefault(tuple(indexes) if end else None, []).append(row)
    by_indexes = {indexes: np.array(of, np.int64) for indexes, of in found.items()}
    first = np.flatnonzero(is_first)
    if len(first):
        more = by_indexes.get((0,), np.empty(0, np.int64))
        by_indexes[0,] = np.sort(np.concatenate([first, more]))
    return by_indexes, sizes
