"""Decoder ``Json``: validates every payload as one JSON object and extracts only the wanted fields.

A payload is decoded if it is exactly one JSON object: UTF-8, legal escapes and numbers, no NaN,
nothing after it. This holds for the fields that are not wanted, too: msgspec skips them but checks
their grammar, and Arrow checks UTF-8 for all rows at once. The one exception is a number too large
for a double, which goes unnoticed in a field that is not wanted. Of a repeated key the last value
counts. A wanted field is None if it is absent, null, or inside something that is not an object. A
tombstone has every field absent. ``documents`` says how values are extracted, and ``native_json``
how the extension does the same in one pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from landfall.native import hot_path
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.documents import Documents, Wire, as_list
from landfall.pipeline.decoders.native_json import NativeDocuments
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.typed_columns import JSON_TYPES, record_batch
from landfall.pipeline.records import Records

_WIRE = Wire(
    "json",
    msgspec.json.Decoder,
    msgspec.json.Decoder(dict[str, msgspec.Raw]),
    b"{}",
    is_text=True,
    types=JSON_TYPES,
)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Json``: none."""


@dataclass(frozen=True)
class Json:
    """Decodes JSON objects.

    Attributes:
        documents: extracts the wanted values.
        native: extracts them with the extension, if it runs and can.
        schema: the schema of the typed columns, if the group declares any.
    """

    documents: Documents
    native: NativeDocuments | None
    schema: pa.Schema | None

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Json":
        """Build the decoder.

        Raises:
            ValueError: an option is given.
        """
        read_options(options, Options)
        documents = Documents.of(_WIRE, wanted)
        return cls(documents, NativeDocuments.of(documents, hot_path()), wanted.schema)

    def decode(self, records: Records) -> Decoded:
        """Return every row that is a JSON object, with its fields and columns."""
        return self.decode_bodies(Decoded(records), records.values, {})

    def decode_bodies(
        self, decoded: Decoded, bodies: pa.BinaryArray, errors: Mapping[int, str]
    ) -> Decoded:
        """Return rows whose payloads hold a JSON object, with its fields and columns.

        Args:
            decoded: the rows as they are landed, none of which has fallen out; its fields are kept.
            bodies: the object of each row; null where it has an error.
            errors: what is wrong, by row; it counts before what is wrong with the object.
        """
        values, more = (self.native or self.documents).extract(bodies)
        errors = {**more, **errors}
        found = {path: values[leaf] for path, leaf in self.documents.fields.items()}
        fields = {**found, **decoded.fields}
        if self.schema is None:
            return replace(decoded, fields=fields).reject(errors)
        batch, column_errors = record_batch(
            self.schema, [as_list(values[leaf]) for leaf in self.documents.columns]
        )
        whole = replace(decoded, fields=fields, columns=batch)
        return whole.reject({**column_errors, **errors})
