"""What decoders of text have in common: from columns of text to fields, typed columns and JSON.

A column is an Arrow string array with a row per record, null for tombstones and for rows that are
bad. Empty text counts as absent for fields. As JSON a row is one object of all columns, in order,
as text; a tombstone stays one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.typed_columns import record_batch, typed_columns
from landfall.pipeline.records import Records


@dataclass(frozen=True)
class Texts:
    """Turns columns of these names into what is wanted."""

    names: tuple[str, ...]
    wanted: Wanted

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError(
                f"columns must have names, each its own: {', '.join(self.names) or 'none'}"
            )
        typed = typed_columns(self.wanted.schema) if self.wanted.schema is not None else ()
        for path in (*self.wanted.fields, *(column.path for column in typed)):
            if ".".join(path) not in self.names:
                raise ValueError(f"no column {'.'.join(path)!r}; there are {', '.join(self.names)}")

    def decoded(
        self, records: Records, texts: Sequence[pa.StringArray], errors: Mapping[int, str]
    ) -> Decoded:
        """The rows that are not in ``errors``, with what is wanted of them."""
        columns = dict(zip(self.names, texts, strict=True))
        fields = {path: _absent_if_empty(columns[".".join(path)]) for path in self.wanted.fields}
        made = (
            records.with_values(self._json(records.values, texts)) if self.wanted.json else records
        )
        if self.wanted.schema is None:
            return Decoded(made, fields).reject(errors)
        typed = [columns[".".join(column.path)] for column in typed_columns(self.wanted.schema)]
        batch, wrong = record_batch(self.wanted.schema, typed)

        return Decoded(made, fields, batch).reject({**wrong, **errors})

    def _json(self, payloads: pa.BinaryArray, texts: Sequence[pa.StringArray]) -> pa.BinaryArray:
        names = [orjson.dumps(name).decode() for name in self.names]
        pieces: list[object] = []
        for i, (name, text) in enumerate(zip(names, texts, strict=True)):
            pieces += [f"{',' if i else '{'}{name}:", _json_text(text)]
        lines = pc.binary_join_element_wise(*pieces, "}", "").cast(pa.binary())
        return (
            pc.if_else(payloads.is_null(), pa.scalar(None, pa.binary()), lines)
            if payloads.null_count
            else lines
        )


def utf8(payloads: pa.BinaryArray) -> tuple[pa.StringArray, Mapping[int, str]]:
    """Payloads as text, null where they are null or bad; and which are not UTF-8."""
    try:
        return payloads.cast(pa.string()), {}
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        errors = {}
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                texts.append(None if payload is None else payload.decode())
            except UnicodeDecodeError as error:
                texts.append(None)
                errors[row] = f"not UTF-8: {error.reason} at byte {error.start}"
        return pa.array(texts, pa.string()), errors


def _absent_if_empty(texts: pa.StringArray) -> pa.StringArray:
    empty = pc.equal(texts, "")
    return (
        pc.if_else(empty, pa.scalar(None, pa.string()), texts) if pc.any(empty).as_py() else texts
    )


def _json_text(texts: pa.StringArray) -> pa.StringArray:
    chars = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if len(chars) and (
        chars.min() < 0x20 or (chars == ord('"')).any() or (chars == ord("\\")).any()
    ):
        return pa.array([orjson.dumps(text).decode() for text in texts.to_pylist()], pa.string())
    return pc.binary_join_element_wise('"', texts, '"', "").fill_null("null")
