"""JSON objects: every payload is checked in full, only the wanted fields become Python values.

A payload is good when it is exactly one JSON object: UTF-8, legal escapes and numbers, no NaN,
nothing after it. That holds for the parts nobody wants, too (msgspec skips them, but checks their
grammar; UTF-8 is checked by Arrow for all rows at once). Only a number that no double can hold goes
unnoticed in a part nobody wants. Of a repeated key the last one counts. A wanted field that is
absent, null, or below something that is no object is None. A tombstone is a bad row.

Speed comes from three tiers, each giving the same rows. Payloads are taken in pieces that fit a
processor's cache, since a payload is copied out of its Arrow buffer before msgspec reads it; a
piece that fails one tier takes the next:

1. a Struct type made of the wanted paths, all integers: one int64 array each;
2. the same with values of any type;
3. row by row, where a row is bad or of an odd shape.
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
"""The values of every leaf, a row each."""
Extracted: TypeAlias = tuple[Values, Mapping[int, str]]
"""Values, and what is wrong, by row."""

_PIECE_BYTES = 256 * 1024
"""Of payload decoded at a time: what fits a processor's second cache."""

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NOT_SHARED = {ColumnType.BINARY, ColumnType.JSON}
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Json takes none."""


@dataclass(frozen=True)
class Json:
    """JSON objects.

    Attributes:
        fields: the leaf of each wanted path.
        schema: of typed columns, if any are declared.
        columns: the leaf of each of them.
        layers: Struct types that hold all leaves; None if a name cannot stand in one.
    """

    fields: Mapping[Path, Leaf]
    schema: pa.Schema | None
    columns: tuple[Leaf, ...]
    layers: tuple[Layer, ...] | None

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Json":
        """Build the decoder.

        Raises:
            ValueError: there are options.
        """
        read_options(options, Options)
        typed = typed_columns(wanted.schema) if wanted.schema is not None else ()
        columns = tuple(Leaf(column.path, JSON_TYPES[column.type]) for column in typed)
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
        """Every row that is a JSON object, with its fields and columns."""
        values, errors = self._values(records.values)
        fields = {path: values[leaf] for path, leaf in self.fields.items()}
        if self.schema is None:
            return Decoded(records, fields).reject(errors)
        batch, wrong = record_batch(self.schema, [_listed(values[leaf]) for leaf in self.columns])
        return Decoded(records, fields, batch).reject({**wrong, **errors})

    def _values(self, payloads: pa.BinaryArray) -> Extracted:
        """The values of every leaf, None where a payload is null, and what is wrong with the others, by row."""
        if not payloads.null_count:
            return self._columns(payloads)
        rows = np.flatnonzero(pc.is_valid(payloads))
        values, errors = self._columns(payloads.take(pa.array(rows)))
        spread = {leaf: _spread(column, rows, len(payloads)) for leaf, column in values.items()}
        return spread, {int(rows[row]): error for row, error in errors.items()}

    def _columns(self, payloads: pa.BinaryArray) -> Extracted:
        """The same without nulls."""
        step = max(1, _PIECE_BYTES * len(payloads) // max(1, payloads.nbytes))
        starts = range(0, max(1, len(payloads)), step)
        return _concatenated([self._piece(payloads.slice(start, step)) for start in starts], step)

    def _piece(self, payloads: pa.BinaryArray) -> Extracted:
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
        made: list[list[object]] = [[layer.nothing] * len(payloads) for layer in self.layers or ()]
        odd: list[int] = []
        for row, payload in enumerate(payloads):
            try:
                payload.decode()
                for objects, layer in zip(made, self.layers or (), strict=True):
                    objects[row] = layer.any.decode(payload)
            except _UNREADABLE:
                odd.append(row)
        columns: dict[Leaf, list[object]] = {leaf: [None] * len(payloads) for leaf in self._leaves}
        for objects, layer in zip(made, self.layers or (), strict=True):
            columns |= layer.columns(objects)
        errors = {}
        for row in odd if self.layers is not None else range(len(payloads)):
            try:
                document = _document(payloads[row])
                for leaf, column in columns.items():
                    column[row] = _found(document, leaf)
            except _UNREADABLE as error:
                errors[row] = f"json: {error}"
        return {leaf: _narrowed(column) for leaf, column in columns.items()}, errors

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
    """The layer's values, if every row gives them."""
    try:
        if layer.ints is not None:
            return layer.int_columns(list(map(layer.ints.decode, payloads)))
    except (OverflowError, msgspec.ValidationError):
        pass  # all of it is JSON so far, only not all integers
    columns = layer.columns(list(map(layer.any.decode, payloads)))
    return {leaf: _narrowed(column) for leaf, column in columns.items()}


def _concatenated(pieces: Sequence[Extracted], step: int) -> Extracted:
    """Pieces of ``step`` rows, but for the last, as one."""
    values: dict[Leaf, FieldValues] = {}
    for leaf in pieces[0][0]:
        columns = [piece[leaf] for piece, _ in pieces]
        if all(isinstance(column, np.ndarray) for column in columns):
            values[leaf] = np.concatenate(columns)
        else:
            values[leaf] = [value for column in columns for value in _listed(column)]
    errors = {
        i * step + row: error for i, (_, wrong) in enumerate(pieces) for row, error in wrong.items()
    }
    return values, errors


def _document(payload: bytes) -> Mapping[str, msgspec.Raw]:
    payload.decode()
    return _OBJECT.decode(payload)


def _found(document: Mapping[str, msgspec.Raw], leaf: Leaf) -> object:
    """A leaf's value, or None if there is none; a DecodeError that names the path if it is of a wrong type."""
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


def _narrowed(column: list[object]) -> FieldValues:
    if set(map(type, column)) != {int}:
        return column
    try:
        return np.array(column, np.int64)
    except OverflowError:
        return column


def _spread(column: FieldValues, rows: Int64s, length: int) -> FieldValues:
    spread: list[object] = [None] * length
    for row, value in zip(rows.tolist(), _listed(column), strict=True):
        spread[row] = value
    return spread


def _listed(column: FieldValues) -> list[object]:
    return column if isinstance(column, list) else column.tolist()
