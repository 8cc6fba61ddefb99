"""Extracts wanted values from JSON with the extension: one pass over Arrow's buffers.

The extension accepts a payload only if ``Documents`` is sure to, with the very same values. What it
is not sure of, such as every bad payload, it leaves to ``Documents``. So values, errors and their
texts are the same with and without it for every payload. Left to Python are, in addition to bad
payloads: wanted text with escapes, wanted objects and arrays, keys with escapes or twice among
wanted ones, numbers beyond 64 bits or the exact range of a double, and nesting beyond 64 levels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from landfall.api.spec import ColumnType
from landfall.native import HotPath
from landfall.pipeline.decoders.documents import Documents, Extracted, as_list
from landfall.pipeline.decoders.structs import StructLeaf
from landfall.pipeline.decoders.typed_columns import DAYS, JSON_TYPES
from landfall.pipeline.records import FieldValues, Int64s

_KINDS: Mapping[ColumnType, tuple[str, ...]] = {
    ColumnType.STRING: ("TEXT",),
    ColumnType.INT32: ("INT32",),
    ColumnType.INT64: ("INT64",),
    ColumnType.FLOAT64: ("INT64", "FLOAT"),
    ColumnType.BOOLEAN: ("BOOL",),
    ColumnType.TIMESTAMP: ("INT64", "FLOAT", "TEXT"),
    ColumnType.DATE: ("TEXT",),
}
"""The values that a typed column takes as they are."""
_ANY = ("INT64", "FLOAT", "BOOL", "TEXT")


@dataclass(frozen=True)
class NativeDocuments:
    """Extracts what ``documents`` does.

    Attributes:
        documents: what the extension leaves is for them.
        leaves: all leaves, in the order of the extension's columns.
        fields: the extension's ``JsonFields``.
    """

    documents: Documents
    leaves: tuple[StructLeaf, ...]
    fields: Any

    @classmethod
    def of(cls, documents: Documents, path: HotPath) -> "NativeDocuments | None":
        """Return what extracts the same; None if it takes Python.

        It does without the extension, and where paths contain each other, or names need escapes.
        """
        if path.module is None or documents.layers is None or len(documents.layers) > 1:
            return None
        (layer,), known = documents.layers, path.module.JsonFields
        kinds_of = {object: _ANY, DAYS: ("INT32", "TEXT")} | {
            JSON_TYPES[column]: kinds for column, kinds in _KINDS.items()
        }
        leaves = tuple(layer.leaves)
        if any(leaf.type not in kinds_of for leaf in leaves):
            return None
        paths = [
            (leaf.path, sum(getattr(known, kind) for kind in kinds_of[leaf.type]))
            for leaf in leaves
        ]
        try:
            return cls(documents, leaves, known(paths))
        except ValueError:  # nested more deeply than the extension looks
            return None

    def extract(self, payloads: pa.BinaryArray) -> Extracted:
        """See ``Documents.extract``."""
        if not len(payloads) or payloads.type != pa.binary():
            return self.documents.extract(payloads)
        valid, bounds, contents = payloads.buffers()
        found, left = self.fields.extract(
            valid, bounds, contents or b"", payloads.offset, len(payloads)
        )
        rows = np.frombuffer(left, np.int64)
        if len(rows) == len(payloads):
            return self.documents.extract(payloads)
        values = dict(zip(self.leaves, map(_column, found), strict=True))
        if not len(rows):
            return values, {}
        rest, errors = self.documents.extract(payloads.take(pa.array(rows)))
        whole = {leaf: merged(column, rest[leaf], rows) for leaf, column in values.items()}
        return whole, {int(rows[row]): error for row, error in errors.items()}


def _column(found: Any) -> FieldValues:
    """A column of the extension's, which may be changed like a column of ``Documents``."""
    return found if isinstance(found, list) else np.frombuffer(found, np.int64).copy()


def merged(column: FieldValues, rest: FieldValues, rows: Int64s) -> FieldValues:
    """Return the column with these values at ``rows``; may change the column itself."""
    if isinstance(column, np.ndarray) and isinstance(rest, np.ndarray):
        column[rows] = rest
        return column
    merged = as_list(column)
    for row, value in zip(rows.tolist(), as_list(rest), strict=True):
        merged[row] = value
    return merged
