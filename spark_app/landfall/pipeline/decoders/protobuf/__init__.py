"""Decoder ``Protobuf``: every payload is one message of a type that a set of descriptors has.

===============  =========  =======================================================================
option           default    meaning
===============  =========  =======================================================================
``message``      required   the full name of the message, such as ``shop.Click``
``descriptors``  none       what ``protoc --include_imports --descriptor_set_out`` writes, in base64
``file``         none       instead of ``descriptors``: the path of that file
``sha256``       none       the checksum that the file must have
``framing``      None       ``Confluent``: magic byte, schema id and message indexes come first
``protoNames``   false      whether JSON has the names of the ``.proto`` file, not lowerCamelCase
===============  =========  =======================================================================

Fields are paths of names. A payload is decoded if google.protobuf parses it; what a field holds is
what that library reports, too: a field without presence that is absent is its default (proto3:
zero, empty text), one with presence (``optional``, messages, members of a ``oneof``) is null.
Fields that the type does not have are skipped. Nesting is limited to 100 levels, as in
google.protobuf.

As a field or a String column an enum is its name, and the number if it has none; as an integer
column it is its number. ``google.protobuf.Timestamp`` is a Timestamp column, or ISO-8601 text as a
field, cut to microseconds. Bytes are a Binary column, or base64 text as a field. Everything else, a
message, list or map, is a Json column. JSON is Protobuf's own mapping ("ProtoJSON Format",
protobuf.dev), as google.protobuf.json_format makes it: 64-bit integers as text, enums by name,
bytes in base64, fields without presence left out if they have their default. With ``decode.values:
Common`` its values are as in ``landfall.pipeline.common_values``.

google.protobuf parses every payload, because it alone decides which are messages; ``batches`` then
reads whole columns with ptars, a quarter of the time that reading fields one by one takes, where
``admission`` permits that. ``messages`` reads what ptars would read otherwise, and JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import ColumnType
from landfall.pipeline.decoders import Decoded, Path, Wanted, arrow_values
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.protobuf.batches import Batches, handler_of
from landfall.pipeline.decoders.protobuf.framing import frames
from landfall.pipeline.decoders.protobuf.messages import ProtobufMessages, array
from landfall.pipeline.decoders.protobuf.own import ProtobufColumns
from landfall.pipeline.decoders.protobuf.reading import MalformedMessageError
from landfall.pipeline.decoders.protobuf.schema import (
    ProtobufLeaf,
    index_path,
    is_single,
    load,
    message_class,
    resolve,
)
from landfall.pipeline.decoders.row_schemas import (
    SCHEMA_ID,
    SCHEMA_NAME,
    SchemaRows,
    same_for_all,
)
from landfall.pipeline.decoders.typed_columns import TypedColumn, typed_columns
from landfall.pipeline.pinned import PinnedFile, pinned_as
from landfall.pipeline.records import Records


class Options(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Options of ``Protobuf``."""

    message: str
    descriptors: str | None = None
    file: str | None = None
    sha256: str | None = None
    framing: Literal["None", "Confluent"] = "None"
    proto_names: bool = False


@dataclass(frozen=True)
class FixedProtobufDecoder:
    """Decodes Protobuf messages.

    Attributes:
        indexes: where the message is in its file, if payloads are framed.
        messages: reads one message.
        batches: reads columns of messages; None if it cannot.
        fields: the leaf of each wanted path.
        columns: the leaf of each typed column.
        wanted: what the later stages need.
        files: the file of the descriptors, if they are in one.
        own: reads whole messages as columns, if that is wanted.
        has_schemas: the decoder can give columns by the payloads' own schemas.
    """

    indexes: tuple[int, ...] | None
    messages: ProtobufMessages
    batches: Batches | None
    fields: Mapping[Path, ProtobufLeaf]
    columns: tuple[ProtobufLeaf, ...]
    wanted: Wanted
    files: tuple[PinnedFile, ...] = ()
    own: ProtobufColumns | None = None
    has_schemas: ClassVar[bool] = True

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "FixedProtobufDecoder":
        """Build the decoder.

        Raises:
            ValueError: an option is wrong, a field is not in the message, or a column cannot be
                read from its field; or the extra ``protobuf`` is not installed.
        """
        checked = read_options(options, Options)
        if (checked.descriptors is None) == (checked.file is None):
            raise ValueError("options: give the descriptors as descriptors or as file")
        if checked.sha256 is not None and checked.file is None:
            raise ValueError("option sha256: is for a file")
        data, name = load(checked.descriptors, checked.file, wanted.read_file), checked.file
        files = (pinned_as(name, sha256(data).hexdigest(), checked.sha256),) if name else ()
        descriptor = message_class(data, checked.message).DESCRIPTOR
        _check(wanted)
        known: dict[object, ProtobufLeaf] = {}
        fields = {
            path: _field(descriptor, path, known) for path in wanted.fields if path != SCHEMA_NAME
        }
        typed = typed_columns(wanted.schema) if wanted.schema is not None else ()
        columns = tuple(_column(descriptor, column, known) for column in typed)
        messages = ProtobufMessages.of(
            checked.message,
            data,
            proto_names=checked.proto_names,
            common=wanted.common,
            zeros=wanted.zeros,
        )
        handler = handler_of(descriptor)
        is_whole = wanted.json or (wanted.own_columns and not known)
        return cls(
            indexes=index_path(descriptor) if checked.framing == "Confluent" else None,
            messages=messages,
            batches=None if is_whole else Batches.of(handler, tuple(known.values())),
            fields=fields,
            columns=columns,
            wanted=wanted,
            files=files,
            own=ProtobufColumns.of(descriptor, messages, handler) if wanted.own_columns else None,
        )

    def decode(self, records: Records) -> Decoded:
        """Return every row that is one message, with its fields and columns."""
        payloads, errors = records.values, dict[int, str]()
        if self.indexes is not None:
            framed = frames(payloads, self.indexes)
            payloads, errors = framed.bodies, framed.errors
        if self.own is not None and not self.fields:
            errors |= self.messages.unreadable(_only(payloads, _good(payloads, errors)))
            read: Mapping[ProtobufLeaf, pa.Array] = {}
            found: Mapping[int, object] = {}
        else:
            read, found = self._columns(payloads, errors)
        absent = np.asarray(payloads.is_null())
        columns = {leaf: _finished(column, leaf, absent) for leaf, column in read.items()}
        if self.wanted.json:
            records = records.with_values(self._json(len(payloads), found, errors))
        read_fields = {path: columns[leaf] for path, leaf in self.fields.items()}
        fields = arrow_values.field_values(read_fields, errors, common=self.wanted.common)
        if SCHEMA_NAME in self.wanted.fields:
            fields[SCHEMA_NAME] = same_for_all(self.messages.name, len(records))
        if self.own is not None:
            own = self.own.read(payloads, errors)
            by_schema = (SchemaRows(self.own.schema, np.arange(len(records)), own),)
            return Decoded(records, fields, by_schema=by_schema).reject(errors)
        typed = [columns[leaf] for leaf in self.columns]
        return arrow_values.decoded(
            records=records, wanted=self.wanted, fields=fields, columns=typed, errors=errors
        )

    def _columns(
        self, payloads: pa.BinaryArray, errors: dict[int, str]
    ) -> tuple[Mapping[ProtobufLeaf, pa.Array], Mapping[int, object]]:
        """Return a column per leaf, and the messages that were read one by one."""
        leaves = tuple(dict.fromkeys((*self.fields.values(), *self.columns)))
        present = np.array(payloads.is_valid())
        columns: Sequence[pa.Array] = [pa.nulls(len(payloads), leaf.wire) for leaf in leaves]
        alone = present
        if self.batches is not None:
            errors |= self.messages.unreadable(payloads)
            present[list(errors)] = False
            columns, odd = self.batches.read(_only(payloads, present))
            columns = [columns[self.batches.leaves.index(leaf)] for leaf in leaves]
            alone = odd & present
        found: dict[int, object] = {}
        for row in np.flatnonzero(alone).tolist():
            try:
                found[row] = self.messages.read(payloads[row].as_py())
            except MalformedMessageError as error:
                errors[row] = f"protobuf: {error}"
        return {
            leaf: self._patched(column, leaf, found, errors)
            for leaf, column in zip(leaves, columns, strict=True)
        }, found

    def _patched(
        self,
        column: pa.Array,
        leaf: ProtobufLeaf,
        found: Mapping[int, object],
        errors: dict[int, str],
    ) -> pa.Array:
        """Return a column with the values of messages that were read one by one."""
        if not found:
            return column
        values: list[object] = []
        for row, message in found.items():
            try:
                values.append(self.messages.value(message, leaf))
            except MalformedMessageError as error:
                values.append(None)
                errors.setdefault(row, f"protobuf: {error}")
        out_of_range: dict[int, str] = {}
        more = array(values, leaf, out_of_range)
        rows = list(found)
        for i, text in out_of_range.items():
            errors.setdefault(rows[i], text)
        return arrow_values.patched(column, rows, more)

    def _json(
        self, rows: int, found: Mapping[int, object], errors: dict[int, str]
    ) -> pa.BinaryArray:
        objects: list[bytes | None] = [None] * rows
        for row, message in found.items():
            try:
                objects[row] = self.messages.json(message)
            except MalformedMessageError as error:
                errors.setdefault(row, f"protobuf: {error}")
        return pa.array(objects, pa.binary())


def _check(wanted: Wanted) -> None:
    if wanted.bodies:
        raise ValueError("the format copies payloads of the decoder Avro, not of Protobuf")
    if SCHEMA_ID in wanted.fields:
        raise ValueError("{schema:id} needs decode.registry, for only there schemas have ids")


def _good(payloads: pa.BinaryArray, errors: Mapping[int, str]) -> npt.NDArray[np.bool_]:
    good = np.array(payloads.is_valid())
    good[list(errors)] = False
    return good


def _only(payloads: pa.BinaryArray, rows: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    """Return payloads that are null but in some rows, shape (rows,)."""
    return payloads if rows.all() else pc.if_else(pa.array(rows), payloads, None)


def _field(descriptor: object, path: Path, known: dict[object, ProtobufLeaf]) -> ProtobufLeaf:
    fields = resolve(descriptor, path)
    if not is_single(fields[-1]):
        raise ValueError(f"field {'.'.join(path)!r} is not a single value")
    return known.setdefault((path, "plain"), ProtobufLeaf(fields, "plain"))


def _column(
    descriptor: object, column: TypedColumn, known: dict[object, ProtobufLeaf]
) -> ProtobufLeaf:
    fields = resolve(descriptor, column.path)
    how = "plain"
    if column.type is ColumnType.JSON:
        how = "json"
    elif not is_single(fields[-1]):
        raise ValueError(f"column {column.name}: only Json holds a message, a list or a map")
    elif fields[-1].enum_type is not None and column.type is not ColumnType.STRING:
        how = "number"
    leaf = known.setdefault((column.path, how), ProtobufLeaf(fields, how))
    arrow_values.check(column, leaf.arrow)
    return leaf


def _finished(column: pa.Array, leaf: ProtobufLeaf, absent: npt.NDArray[np.bool_]) -> pa.Array:
    """Return a column in which enums are named, and rows without a payload are null."""
    if absent.any():
        # ptars reads a null as a message without fields.
        column = pa.concat_arrays([column, pa.nulls(1, column.type)]).take(
            pa.array(np.where(absent, len(column), np.arange(len(column))))
        )
    symbols = leaf.symbols
    return column if symbols is None else arrow_values.named(column, symbols)
