"""Decoder ``Thrift``: every payload is one struct, in Thrift's binary or compact protocol.

============  =========  ==========================================================================
option        default    meaning
============  =========  ==========================================================================
``struct``    required   the name of the struct, union or exception
``idl``       none       the Thrift IDL as text, without includes
``file``      none       instead of ``idl``: the path of the IDL, which may include more
``sha256``    none       the checksum that the file must have (``schema.load``)
``protocol``  Binary     ``Binary`` or ``Compact``
============  =========  ==========================================================================

A part of a path is a field's name or, as in Secor's ``message.timestamp.id``, its id. A payload is
decoded if it is exactly one struct (``protocols`` has the rules). Absent fields are null; defaults
of the IDL are not filled in. Text is checked to be UTF-8 where it is read.

As JSON a struct is an object of its present fields by name, in the order of the IDL: numbers as
numbers, as Apache's ``TSimpleJSONProtocol`` writes them, enums by name (a number that has none
stays a number), binary in base64, maps as objects whose keys are text, and NaN and infinities as
text, as in the JSON mapping of Protobuf. As a field or a String column an enum is its name, as an
integer column its number. With ``decode.values: Common`` JSON has the name or the digits, too.

``cursors`` reads plain payloads of the binary protocol, whole columns at a time; ``protocols`` all
other payloads, one by one, which is also what JSON and columns of type Json cost. The extension
writes plain payloads of the compact protocol in the binary one; pure Python reads them one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import msgspec
import numpy as np
import pyarrow as pa

from landfall.api.spec import ColumnType
from landfall.native import hot_path
from landfall.pipeline.decoders import Decoded, Path, Wanted, arrow_values
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.row_schemas import (
    SCHEMA_ID,
    SCHEMA_NAME,
    SchemaRows,
    same_for_all,
)
from landfall.pipeline.decoders.thrift.cursors import Ids, ThriftScan
from landfall.pipeline.decoders.thrift.own import ThriftColumns
from landfall.pipeline.decoders.thrift.protocols import (
    PROTOCOLS,
    MalformedStructError,
    ThriftRecord,
    read,
)
from landfall.pipeline.decoders.thrift.schema import ThriftScalar, ThriftStruct, load, resolve
from landfall.pipeline.decoders.thrift.values import How, ThriftLeaf, json_text
from landfall.pipeline.decoders.typed_columns import TypedColumn, typed_columns
from landfall.pipeline.pinned import PinnedFile, pinned_as
from landfall.pipeline.records import Records


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Thrift``."""

    struct: str
    idl: str | None = None
    file: str | None = None
    sha256: str | None = None
    protocol: Literal["Binary", "Compact"] = "Binary"


@dataclass(frozen=True)
class ThriftDecoder:
    """Decodes Thrift structs.

    Attributes:
        schema: the struct.
        protocol: the name of the protocol.
        fields: the leaf of each wanted path.
        columns: the leaf of each typed column.
        wanted: what the later stages need.
        files: the file of the IDL, if it is in one.
        own: reads whole structs as columns, if that is wanted.
        has_schemas: the decoder can give columns by the payloads' own schema.
    """

    schema: ThriftStruct
    protocol: str
    fields: Mapping[Path, ThriftLeaf]
    columns: tuple[ThriftLeaf, ...]
    wanted: Wanted
    files: tuple[PinnedFile, ...] = ()
    own: ThriftColumns | None = None
    has_schemas: ClassVar[bool] = True

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "ThriftDecoder":
        """Build the decoder.

        Raises:
            ValueError: an option is wrong, a field is not in the struct, or a column cannot be read
                from its field; or the extra ``thrift`` is not installed.
        """
        checked = read_options(options, Options)
        if (checked.idl is None) == (checked.file is None):
            raise ValueError("options: give the IDL as idl or as file")
        if checked.sha256 is not None and checked.file is None:
            raise ValueError("option sha256: is for a file")
        schema, checksum = load(checked.idl, checked.file, checked.struct, wanted.read_file)
        files = (pinned_as(checked.file, checksum, checked.sha256),) if checked.file else ()
        _check(wanted)
        known: dict[object, ThriftLeaf] = {}
        fields = {
            path: _field(schema, path, known) for path in wanted.fields if path != SCHEMA_NAME
        }
        typed = typed_columns(wanted.schema) if wanted.schema is not None else ()
        columns = tuple(_column(schema, column, known, wanted) for column in typed)
        own = ThriftColumns.of(schema) if wanted.own_columns else None
        return cls(
            schema=schema,
            protocol=checked.protocol,
            fields=fields,
            columns=columns,
            wanted=wanted,
            files=files,
            own=own,
        )

    def decode(self, records: Records) -> Decoded:
        """Return every row that is one struct, with its fields and columns."""
        leaves = tuple(dict.fromkeys((*self.fields.values(), *self.columns)))
        payloads = records.values
        in_binary = self._in_binary(payloads) if self._is_plain(leaves) else None
        present = np.asarray(payloads.is_valid())
        own: Sequence[pa.Array] = ()
        if in_binary is None:
            arrays: Sequence[pa.Array] = [pa.nulls(len(payloads), leaf.arrow) for leaf in leaves]
            own = self.own.nulls(len(payloads)) if self.own else ()
            alone = present
        else:
            scan = ThriftScan(in_binary, self.schema, self._scanned_ids(leaves))
            arrays = _scanned(scan, leaves)
            own = self.own.scanned(scan) if self.own else ()
            alone = scan.odd & present
        errors: dict[int, str] = {}
        found = self._one_by_one(payloads, np.flatnonzero(alone).tolist(), errors)
        columns = {
            leaf: _patched(column, leaf, found, errors)
            for leaf, column in zip(leaves, arrays, strict=True)
        }
        if self.wanted.json:
            records = records.with_values(self._json(len(payloads), found, errors))
        read_fields = {path: columns[leaf] for path, leaf in self.fields.items()}
        fields = arrow_values.field_values(read_fields, errors, common=self.wanted.common)
        if SCHEMA_NAME in self.wanted.fields:
            fields[SCHEMA_NAME] = same_for_all(self.schema.name, len(records))
        if self.own is not None:
            batch = self.own.batch(own, found, errors)
            by_schema = (SchemaRows(self.own.schema, np.arange(len(records)), batch),)
            return Decoded(records, fields, by_schema=by_schema).reject(errors)
        typed = [columns[leaf] for leaf in self.columns]
        return arrow_values.decoded(
            records=records, wanted=self.wanted, fields=fields, columns=typed, errors=errors
        )

    def _is_plain(self, leaves: Sequence[ThriftLeaf]) -> bool:
        """Return whether ``cursors`` can read all that is wanted."""
        return (
            not self.wanted.json
            and all(leaf.is_plain for leaf in leaves)
            and (self.own is None or self.own.is_plain)
        )

    def _in_binary(self, payloads: pa.BinaryArray) -> pa.BinaryArray | None:
        """Return the payloads in the binary protocol, those that are not plain empty.

        None if they are in the compact protocol, and pure Python runs.
        """
        if self.protocol == "Binary":
            return payloads
        if (module := hot_path().module) is None:
            return None
        selected = (*payloads.buffers(), payloads.offset, len(payloads), None)
        bounds, content = (pa.py_buffer(buffer) for buffer in module.thrift_binary(selected))
        return pa.Array.from_buffers(pa.binary(), len(payloads), [None, bounds, content])

    def _scanned_ids(self, leaves: Sequence[ThriftLeaf]) -> Sequence[Ids]:
        own = self.own.leaves() if self.own else ()
        return tuple(dict.fromkeys((*(leaf.ids for leaf in leaves), *own)))

    def _one_by_one(
        self, payloads: pa.BinaryArray, rows: Sequence[int], errors: dict[int, str]
    ) -> Mapping[int, ThriftRecord]:
        open_ = PROTOCOLS[self.protocol]
        found = {}
        for row in rows:
            try:
                found[row] = read(open_(payloads[row].as_py()), self.schema)
            except MalformedStructError as error:
                errors[row] = f"thrift: {error}"
        return found

    def _json(
        self, rows: int, found: Mapping[int, ThriftRecord], errors: dict[int, str]
    ) -> pa.BinaryArray:
        objects: list[bytes | None] = [None] * rows
        for row, record in found.items():
            try:
                objects[row] = json_text(record, self.schema, common=self.wanted.common)
            except MalformedStructError as error:
                errors[row] = f"thrift: {error}"
        return pa.array(objects, pa.binary())


def _field(schema: ThriftStruct, path: Path, known: dict[object, ThriftLeaf]) -> ThriftLeaf:
    ids, type_ = resolve(schema, path)
    if not isinstance(type_, ThriftScalar):
        raise ValueError(f"field {'.'.join(path)!r} is a {type_.wire.name}, not a single value")  # noqa: TRY004  # as for any wrong option
    return known.setdefault((ids, "plain"), ThriftLeaf(ids, type_, "plain"))


def _column(
    schema: ThriftStruct, column: TypedColumn, known: dict[object, ThriftLeaf], wanted: Wanted
) -> ThriftLeaf:
    ids, type_ = resolve(schema, column.path)
    how: How = "plain"
    if column.type is ColumnType.JSON:
        how = "json"
    elif not isinstance(type_, ThriftScalar):
        raise ValueError(f"column {column.name}: only Json holds a {type_.wire.name}")
    elif type_.symbols and column.type is not ColumnType.STRING:
        how = "number"
    leaf = known.setdefault((ids, how), ThriftLeaf(ids, type_, how, wanted.common))
    arrow_values.check(column, leaf.arrow)
    return leaf


def _check(wanted: Wanted) -> None:
    if wanted.bodies:
        raise ValueError("the format copies payloads of the decoder Avro, not of Thrift")
    if SCHEMA_ID in wanted.fields:
        raise ValueError("{schema:id} is for payloads with a schema of a registry")


def _scanned(scan: ThriftScan, leaves: Sequence[ThriftLeaf]) -> Sequence[pa.Array]:
    """Return the columns of the plain rows."""
    arrays = []
    for leaf in leaves:
        assert isinstance(leaf.type, ThriftScalar), "only these are plain"
        column = scan.column(leaf.ids, leaf.type)
        arrays.append(arrow_values.named(column, leaf.type.symbols) if leaf.is_name else column)
    return arrays


def _patched(
    column: pa.Array, leaf: ThriftLeaf, found: Mapping[int, ThriftRecord], errors: dict[int, str]
) -> pa.Array:
    """Return a column with the values of the rows that were read one by one; adds to ``errors``."""
    if not found:
        return column
    values: list[object] = []
    for row, record in found.items():
        try:
            values.append(leaf.of(record))
        except MalformedStructError as error:
            values.append(None)
            errors.setdefault(row, f"thrift: {error}")
    return arrow_values.patched(column, list(found), pa.array(values, leaf.arrow))
