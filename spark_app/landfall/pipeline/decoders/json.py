"""Decoder ``Json``: validates every payload as one JSON object and extracts only the wanted fields.

A payload is decoded if it is exactly one JSON object: UTF-8, legal escapes and numbers, no NaN,
nothing after it. This holds for the fields that are not wanted, too: msgspec skips them but checks
their grammar, and Arrow checks UTF-8 for all rows at once. The one exception is a number too large
for a double, which goes unnoticed in a field that is not wanted. Of a repeated key the last value
counts. A wanted field is None if it is absent, null, or inside something that is not an object. A
tombstone has every field absent. ``documents`` explains how values are extracted, and
``native_json`` how the extension does the same in one pass.

Half of a surrogate pair is read as U+FFFD, see ``half_pairs``, and landed so as JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.native import hot_path
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.documents import Documents, Values, WireFormat
from landfall.pipeline.decoders.half_pairs import without_half_pairs
from landfall.pipeline.decoders.native_json import NativeDocuments, merged
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.typed_columns import json_type, record_batch
from landfall.pipeline.records import Int64s, Records

_WIRE = WireFormat(
    "json",
    msgspec.json.Decoder,
    msgspec.json.Decoder(dict[str, msgspec.Raw]),
    b"{}",
    is_text=True,
    type_of=json_type,
)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Json``: none."""


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes JSON objects.

    Attributes:
        documents: extracts the wanted values.
        native: extracts them with the extension, if it runs and can.
        schema: the schema of the typed columns, if the group declares any.
        lands_json: whether the payloads are landed as JSON.
    """

    documents: Documents
    native: NativeDocuments | None
    schema: pa.Schema | None
    lands_json: bool = False

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "JsonDecoder":
        """Build the decoder.

        Raises:
            ValueError: an option is given.
        """
        read_options(options, Options)
        documents = Documents.of(_WIRE, wanted)
        return cls(documents, NativeDocuments.of(documents, hot_path()), wanted.schema, wanted.json)

    def decode(self, records: Records) -> Decoded:
        """Return every row that is a JSON object, with its fields and columns."""
        return self.decode_bodies(Decoded(records), records.values, {})

    def decode_bodies(
        self, decoded: Decoded, bodies: pa.BinaryArray, errors: Mapping[int, str]
    ) -> Decoded:
        """Return rows whose payloads hold a JSON object, with its fields and columns.

        Args:
            decoded: the rows as they are landed; its fields are kept.
            bodies: the object of each row; null where it has an error.
            errors: what is wrong, by row; it counts before what is wrong with the object.
        """
        values, more = (self.native or self.documents).extract(bodies)
        if more:
            values, more, mended = self._without_half_pairs(bodies, values, more)
            if mended is not None and self.lands_json:
                decoded = replace(decoded, records=decoded.records.with_values(mended))
        errors = {**more, **errors}
        found = {path: values[leaf] for path, leaf in self.documents.fields.items()}
        fields = {**found, **decoded.fields}
        if self.schema is None:
            return replace(decoded, fields=fields).reject(errors)
        batch, column_errors = record_batch(
            self.schema, [values[leaf] for leaf in self.documents.columns]
        )
        whole = replace(decoded, fields=fields, columns=batch)
        return whole.reject({**column_errors, **errors})

    def _without_half_pairs(
        self, bodies: pa.BinaryArray, values: Values, errors: Mapping[int, str]
    ) -> tuple[Values, Mapping[int, str], pa.BinaryArray | None]:
        """Read again what cannot be read only because of half a surrogate pair.

        Returns:
            values, errors by row, and the bodies that were read; None if these are all the same.
        """
        mended = {row: without_half_pairs(bodies[row].as_py()) for row in errors}
        changed = [row for row, body in mended.items() if body != bodies[row].as_py()]
        if not changed:
            return values, errors, None
        rows = np.array(changed, np.int64)
        again = pa.array([mended[row] for row in changed], pa.binary())
        found, still_bad = self.documents.extract(again)
        others = {row: error for row, error in errors.items() if row not in set(changed)}
        return (
            {leaf: merged(column, found[leaf], rows) for leaf, column in values.items()},
            others | {changed[row]: error for row, error in still_bad.items()},
            pc.replace_with_mask(bodies, _mask(rows, len(bodies)), again),
        )


def _mask(rows: Int64s, length: int) -> pa.BooleanArray:
    mask = np.zeros(length, np.bool_)
    mask[rows] = True
    return pa.array(mask)
