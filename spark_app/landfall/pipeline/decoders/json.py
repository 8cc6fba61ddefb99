"""Decoder ``Json``: validates every payload as one JSON object and extracts only the wanted fields.

A payload is decoded if it is exactly one JSON object: UTF-8, legal escapes and numbers, no NaN,
nothing after it. This holds for the fields that are not wanted, too: msgspec skips them but checks
their grammar, and Arrow checks UTF-8 for all rows at once. The one exception is a number too large
for a double, which goes unnoticed in a field that is not wanted. Of a repeated key the last value
counts. A wanted field is None if it is absent, null, or inside something that is not an object. A
tombstone has every field absent.

There are three ways to decode, which all give the same rows; each is tried when the faster one
before it fails:

1. with a Struct type of the wanted paths in which every field is an integer: one int64 array each;
2. with the same Struct type and fields of any type;
3. row by row, for rows that are bad or have an unusual shape.

Payloads are decoded in slabs that fit in the processor's cache, because each payload is copied out
of its Arrow buffer before msgspec reads it. A slab that one way cannot decode goes to the next way,
so one bad row slows down its own slab only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import ColumnType
from landfall.pipeline.decoders import Decoded, Path, Wanted
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.structs import Layer, Leaf, layers
from landfall.pipeline.decoders.typed_columns import JSON_TYPES, record_batch, typed_columns
from landfall.pipeline.records import FieldValues, Int64s, Records

Values: TypeAlias = Mapping[Leaf, FieldValues]
"""The values of every leaf, one per row."""
Extracted: TypeAlias = tuple[Values, Mapping[int, str]]
"""Values, and errors by row."""

_SLAB_BYTES = 256 * 1024
"""Payload bytes decoded at a time, so that they fit in a processor's L2 cache."""

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NOT_SHARED = {ColumnType.BINARY, ColumnType.JSON}
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Json``: none."""


@dataclass(frozen=True)
class Json:
    """Decodes JSON objects.

    Attributes:
        fields: the leaf of each wanted path.
        schema: the schema of the typed columns, if the group declares any.
        columns: the leaf of each typed column.
        layers: Struct types that together hold all leaves; None if a Struct cannot have one of the
            field names, and every payload is decoded row by row.
    """

    fields: Mapping[Path, Leaf]
    schema: pa.Schema | None
    columns: tuple[Leaf, ...]
    layers: tuple[Layer, ...] | None

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Json":
        """Build the decoder.

        Raises:
            ValueError: an option is given.
        """
        read_options(options, Options)
        typed = typed_columns(wanted.schema) if wanted.schema is not None else ()
        columns = tuple(Leaf(column.path, JSON_TYPES[column.type]) for column in typed)
        # A wanted field that is also a typed column is decoded once, if the column's Python value
        # is what the field would be.
        shared = {
            leaf.path: leaf
            for leaf, column in zip(columns, typed, strict=True)
            if column.type not in _NOT_SHARED
        }
        fields = {path: shared.get(path) or Leaf(path) for path in wanted.fields}
        leaves = tuple(dict.fromkeys((*fields.values(), *columns)))
        nameable = all(leaf.nameable for leaf in leaves)
        return cls(fields, wanted.schema, columns, layers(leaves) if nameable else None)

    def decode(self, records: Records) -> Decoded:
        """Return every row that is a JSON object, with its fields and columns."""
        values, errors = self._values(records.values)
        fields = {path: values[leaf] for path, leaf in self.fields.items()}
        if self.schema is None:
            return Decoded(records, fields).reject(errors)
        batch, column_errors = record_batch(
            self.schema, [_as_list(values[leaf]) for leaf in self.columns]
        )
        return Decoded(records, fields, batch).reject({**column_errors, **errors})

    def _values(self, payloads: pa.BinaryArray) -> Extracted:
        """Return the values of every leaf, None where a payload is null, and errors by row."""
        if not payloads.null_count:
            return self._values_without_nulls(payloads)
        rows = np.flatnonzero(pc.is_valid(payloads))
        values, errors = self._values_without_nulls(payloads.take(pa.array(rows)))
        spread = {leaf: _spread(column, rows, len(payloads)) for leaf, column in values.items()}
        return spread, {int(rows[row]): error for row, error in errors.items()}

    def _values_without_nulls(self, payloads: pa.BinaryArray) -> Extracted:
        step = max(1, _SLAB_BYTES * len(payloads) // max(1, payloads.nbytes))
        # An empty column is one empty slab, so that every leaf gets a column.
        starts = range(0, max(1, len(payloads)), step)
        return _concatenate([self._slab(payloads.slice(start, step)) for start in starts], step)

    def _slab(self, payloads: pa.BinaryArray) -> Extracted:
        rows = payloads.to_pylist()
        if self.layers is not None and _is_utf8(payloads):
            try:
                values: dict[Leaf, FieldValues] = {}
                for layer in self.layers:
                    values |= _layer_values(layer, rows)
            except _UNREADABLE:
                pass
            else:
                return values, {}
        return self._row_by_row(rows)

    def _row_by_row(self, payloads: Sequence[bytes]) -> Extracted:
        layers = self.layers or ()
        by_layer: list[list[object]] = [[layer.nothing] * len(payloads) for layer in layers]
        unread: list[int] = []
        for row, payload in enumerate(payloads):
            try:
                payload.decode()  # for its errors alone: msgspec does not check skipped strings
                for objects, layer in zip(by_layer, layers, strict=True):
                    objects[row] = layer.any.decode(payload)
            except _UNREADABLE:
                unread.append(row)
        columns: dict[Leaf, list[object]] = {leaf: [None] * len(payloads) for leaf in self._leaves}
        for objects, layer in zip(by_layer, layers, strict=True):
            columns |= layer.columns(objects)
        # What a Struct cannot read may still be an object, such as one with text where a nested
        # object is wanted. Only here is a payload called bad, and the error names the field.
        errors = {}
        for row in unread if self.layers is not None else range(len(payloads)):
            try:
                document = _parse_object(payloads[row])
                for leaf, column in columns.items():
                    column[row] = _find(document, leaf)
            except _UNREADABLE as error:
                errors[row] = f"json: {error}"
        return {leaf: _as_int64s(column) for leaf, column in columns.items()}, errors

    @property
    def _leaves(self) -> tuple[Leaf, ...]:
        return (*self.fields.values(), *self.columns)


def _is_utf8(payloads: pa.BinaryArray) -> bool:
    try:
        payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _layer_values(layer: Layer, payloads: Sequence[bytes]) -> Values:
    """Return the layer's values; raises an error of ``_UNREADABLE`` if any row fails."""
    try:
        if layer.ints is not None:
            return layer.int_columns(list(map(layer.ints.decode, payloads)))
    except (OverflowError, msgspec.ValidationError):
        pass  # the payloads are JSON so far, but not all values are integers
    columns = layer.columns(list(map(layer.any.decode, payloads)))
    return {leaf: _as_int64s(column) for leaf, column in columns.items()}


def _concatenate(slabs: Sequence[Extracted], step: int) -> Extracted:
    """Join slabs; each but the last has ``step`` rows."""
    values: dict[Leaf, FieldValues] = {}
    for leaf in slabs[0][0]:
        columns = [slab[leaf] for slab, _ in slabs]
        if all(isinstance(column, np.ndarray) for column in columns):
            values[leaf] = np.concatenate(columns)
        else:
            values[leaf] = [value for column in columns for value in _as_list(column)]
    errors = {
        i * step + row: error
        for i, (_, slab_errors) in enumerate(slabs)
        for row, error in slab_errors.items()
    }
    return values, errors


def _parse_object(payload: bytes) -> Mapping[str, msgspec.Raw]:
    payload.decode()
    return _OBJECT.decode(payload)


def _find(document: Mapping[str, msgspec.Raw], leaf: Leaf) -> object:
    """Return a leaf's value, or None if it is absent.

    Raises:
        msgspec.DecodeError: the value has the wrong type; the message names the path.
    """
    level = document
    for part in leaf.path[:-1]:
        try:
            level = _OBJECT.decode(level.get(part, b"{}"))
        except msgspec.ValidationError:
            return None
    raw = level.get(leaf.path[-1])
    try:
        return None if raw is None else msgspec.json.decode(raw, type=leaf.type)
    except msgspec.DecodeError as error:
        raise msgspec.DecodeError(f"{'.'.join(leaf.path)}: {error}") from error


def _as_int64s(column: list[object]) -> FieldValues:
    """Return the column as an int64 array if it can be one, else unchanged."""
    # ``type`` and not ``isinstance``: True and False must stay booleans.
    if set(map(type, column)) != {int}:
        return column
    try:
        return np.array(column, np.int64)
    except OverflowError:
        return column


def _spread(column: FieldValues, rows: Int64s, length: int) -> FieldValues:
    """Return a column of ``length`` rows that has these values at ``rows`` and None elsewhere."""
    spread: list[object] = [None] * length
    for row, value in zip(rows.tolist(), _as_list(column), strict=True):
        spread[row] = value
    return spread


def _as_list(column: FieldValues) -> list[object]:
    return column if isinstance(column, list) else column.tolist()
