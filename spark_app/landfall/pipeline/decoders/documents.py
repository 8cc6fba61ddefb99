"""Extracts wanted values from self-describing payloads, JSON or MessagePack, with msgspec.

A ``WireFormat`` defines how a payload of one format is read; the rest is the same for all. There
are three ways to decode, which all give the same rows; each is tried when the faster one before it
fails:

1. with a Struct type of the wanted paths in which every field is an integer: one int64 array each;
2. with the same Struct type and fields of any type;
3. row by row, for rows that are bad or have an unusual shape.

Payloads are decoded in slabs that fit in the processor's cache, because each payload is copied out
of its Arrow buffer before msgspec reads it. A slab that one way cannot decode goes to the next way,
so one bad row slows down its own slab only.

Of a repeated key the last value counts. A wanted value is None if it is absent, null, or inside
something that is not an object. A null payload has every value absent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import ColumnType, ValueType
from landfall.pipeline.decoders import Path, Wanted
from landfall.pipeline.decoders.nested_columns import placed
from landfall.pipeline.decoders.structs import Layer, StructLeaf, layers
from landfall.pipeline.decoders.typed_columns import typed_columns
from landfall.pipeline.records import FieldValues, Int64s

Values: TypeAlias = Mapping[StructLeaf, FieldValues]
"""The values of every leaf, one per row."""
Extracted: TypeAlias = tuple[Values, Mapping[int, str]]
"""Values, and errors by row."""

UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""What msgspec raises for a payload that it cannot read.

ValueError it raises for a time that the calendar does not have, and for text that is not UTF-8.
"""

_SLAB_BYTES = 256 * 1024
"""Payload bytes decoded at a time, so that they fit in a processor's L2 cache."""
_NOT_SHARED = {
    ColumnType.BINARY,
    ColumnType.JSON,
    ColumnType.DECIMAL,
    ColumnType.LIST,
    ColumnType.STRUCT,
}


@dataclass(frozen=True)
class WireFormat:
    """How one format is read.

    Attributes:
        name: begins the error messages.
        decoder: makes a msgspec decoder of a type.
        objects: decodes an object whose values stay encoded; the keys may be of any type.
        empty: an object without fields.
        is_text: whether a payload is UTF-8 as a whole, also where it is not read.
        type_of: the type that must be found for a declared type.
    """

    name: str
    decoder: Callable[[Any], Any]
    objects: Any
    empty: bytes
    is_text: bool
    type_of: Callable[[ValueType], Any]


@dataclass(frozen=True)
class Documents:
    """Extracts the same values from every payload.

    Attributes:
        wire: how a payload is read.
        fields: the leaf of each wanted path.
        columns: the leaf of each typed column.
        layers: Struct types that together hold all leaves; None if a Struct cannot have one of the
            field names, and every payload is decoded row by row.
    """

    wire: WireFormat
    fields: Mapping[Path, StructLeaf]
    columns: tuple[StructLeaf, ...]
    layers: tuple[Layer, ...] | None

    @classmethod
    def of(cls, wire: WireFormat, wanted: Wanted) -> "Documents":
        """Return what extracts the wanted fields and typed columns."""
        typed = typed_columns(wanted.schema) if wanted.schema is not None else ()
        columns = tuple(StructLeaf(column.path, wire.type_of(column.declared)) for column in typed)
        # A wanted field that is also a typed column is decoded once, if the column's Python value
        # is what the field would be.
        shared = {
            leaf.path: leaf
            for leaf, column in zip(columns, typed, strict=True)
            if column.type not in _NOT_SHARED
        }
        fields = {path: shared.get(path) or StructLeaf(path) for path in wanted.fields}
        leaves = tuple(dict.fromkeys((*fields.values(), *columns)))
        nameable = all(leaf.nameable for leaf in leaves)
        return cls(wire, fields, columns, layers(leaves, wire.decoder) if nameable else None)

    def extract(self, payloads: pa.BinaryArray) -> Extracted:
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
        if self.layers is not None and (not self.wire.is_text or _is_utf8(payloads)):
            try:
                values: dict[StructLeaf, FieldValues] = {}
                for layer in self.layers:
                    values |= _layer_values(layer, rows)
            except UNREADABLE:
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
                self._check_text(payload)
                for objects, layer in zip(by_layer, layers, strict=True):
                    objects[row] = layer.any.decode(payload)
            except UNREADABLE:
                unread.append(row)
        columns: dict[StructLeaf, list[object]] = {
            leaf: [None] * len(payloads) for leaf in self._leaves
        }
        for objects, layer in zip(by_layer, layers, strict=True):
            columns |= layer.columns(objects)
        # What a Struct cannot read may still be an object, such as one with text where a nested
        # object is wanted. Only here is a payload called bad, and the error names the field.
        errors = {}
        for row in unread if self.layers is not None else range(len(payloads)):
            try:
                self._check_text(payloads[row])
                document = self.wire.objects.decode(payloads[row])
                for leaf, column in columns.items():
                    column[row] = self._find(document, leaf)
            except UNREADABLE as error:
                errors[row] = f"{self.wire.name}: {error}"
        return {leaf: _as_int64s(column) for leaf, column in columns.items()}, errors

    @property
    def _leaves(self) -> tuple[StructLeaf, ...]:
        return (*self.fields.values(), *self.columns)

    def _check_text(self, payload: bytes) -> None:
        if not self.wire.is_text:
            return
        try:
            payload.decode()  # for its errors alone: msgspec does not check skipped strings
        except UnicodeDecodeError as error:
            message = f"not UTF-8: {error.reason} at byte {error.start}"
            raise msgspec.DecodeError(message) from error

    def _find(self, document: Mapping[object, msgspec.Raw], leaf: StructLeaf) -> object:
        """Return a leaf's value, or None if it is absent.

        Raises:
            msgspec.DecodeError: the value has the wrong type; the message names the path.
        """
        level = document
        for part in leaf.path[:-1]:
            try:
                level = self.wire.objects.decode(level.get(part, self.wire.empty))
            except msgspec.ValidationError:
                return None
        raw = level.get(leaf.path[-1])
        try:
            return None if raw is None else self.wire.decoder(leaf.type).decode(raw)
        except (msgspec.DecodeError, ValueError) as error:
            raise msgspec.DecodeError(placed(".".join(leaf.path), error)) from error


def as_list(column: FieldValues) -> list[object]:
    """Return the values of an extracted column as a list."""
    return column if isinstance(column, list) else column.tolist()


def _is_utf8(payloads: pa.BinaryArray) -> bool:
    try:
        payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _layer_values(layer: Layer, payloads: Sequence[bytes]) -> Values:
    """Return the layer's values; raises an error of ``UNREADABLE`` if any row fails."""
    try:
        if layer.ints is not None:
            return layer.int_columns(list(map(layer.ints.decode, payloads)))
    except (OverflowError, msgspec.ValidationError):
        pass  # the payloads can be read so far, but not all values are integers
    columns = layer.columns(list(map(layer.any.decode, payloads)))
    return {leaf: _as_int64s(column) for leaf, column in columns.items()}


def _concatenate(slabs: Sequence[Extracted], step: int) -> Extracted:
    """Join slabs; each but the last has ``step`` rows."""
    values: dict[StructLeaf, FieldValues] = {}
    for leaf in slabs[0][0]:
        columns = [slab[leaf] for slab, _ in slabs]
        if all(isinstance(column, np.ndarray) for column in columns):
            values[leaf] = np.concatenate(columns)
        else:
            values[leaf] = [value for column in columns for value in as_list(column)]
    errors = {
        i * step + row: error
        for i, (_, slab_errors) in enumerate(slabs)
        for row, error in slab_errors.items()
    }
    return values, errors


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
    for row, value in zip(rows.tolist(), as_list(column), strict=True):
        spread[row] = value
    return spread
