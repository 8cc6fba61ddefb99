"""Helpers of the text decoders: making fields, typed columns and JSON from columns of text.

A text column is an Arrow string array, shape (rows,), with null for tombstones and bad rows. Empty
text counts as an absent field. One line break at the end of a payload does not count: producers
that send lines send it. As JSON, a row becomes one object with all columns in order, each
value a string; a tombstone stays a tombstone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.typed_columns import record_batch, typed_columns
from landfall.pipeline.odd_rows import FEW_ROWS, by_halves
from landfall.pipeline.records import Records


@dataclass(frozen=True)
class Texts:
    """Makes what the later stages need from text columns.

    Attributes:
        names: the names of the text columns, in order; unique.
        wanted: what the later stages need; every field and typed column must be one of ``names``.
    """

    names: tuple[str, ...]
    wanted: Wanted

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError(
                f"columns must have unique names, got {', '.join(self.names) or 'none'}"
            )
        typed = typed_columns(self.wanted.schema) if self.wanted.schema is not None else ()
        for path in (*self.wanted.fields, *(column.path for column in typed)):
            if ".".join(path) not in self.names:
                raise ValueError(
                    f"no column {'.'.join(path)!r}; the columns are {', '.join(self.names)}"
                )

    def decoded(
        self, records: Records, texts: Sequence[pa.StringArray], errors: Mapping[int, str]
    ) -> Decoded:
        """Return the rows that are not in ``errors``, with what the later stages need.

        Args:
            records: the records that were decoded.
            texts: one text column per name, in the order of ``names``.
            errors: what is wrong, by row; such rows become bad.
        """
        columns = dict(zip(self.names, texts, strict=True))
        fields = {path: _absent_if_empty(columns[".".join(path)]) for path in self.wanted.fields}
        if self.wanted.json:
            records = records.with_values(self._json(records.values, texts))
        if self.wanted.schema is None:
            return Decoded(records, fields).reject(errors)
        typed = [columns[".".join(column.path)] for column in typed_columns(self.wanted.schema)]
        batch, column_errors = record_batch(self.wanted.schema, typed)
        # ``errors`` last: a row that did not decode is also null in every column, which is less
        # specific.
        return Decoded(records, fields, batch).reject({**column_errors, **errors})

    def _json(self, payloads: pa.BinaryArray, texts: Sequence[pa.StringArray]) -> pa.BinaryArray:
        names = [orjson.dumps(name).decode() for name in self.names]
        tokens: list[object] = []
        for i, (name, text) in enumerate(zip(names, texts, strict=True)):
            tokens += [f"{',' if i else '{'}{name}:", _json_text(text)]
        objects = pc.binary_join_element_wise(*tokens, "}", "").cast(pa.binary())
        return (
            pc.if_else(payloads.is_null(), pa.scalar(None, pa.binary()), objects)
            if payloads.null_count
            else objects
        )


def utf8(payloads: pa.BinaryArray) -> tuple[pa.StringArray, dict[int, str]]:
    """Return payloads as text, and errors by row for those that are not UTF-8.

    The text is null where a payload is null or not UTF-8.
    """
    try:
        # This checks UTF-8 for the whole column at once and copies nothing.
        return payloads.cast(pa.string()), {}
    except pa.ArrowInvalid:
        if len(payloads) > FEW_ROWS:
            return by_halves(payloads, utf8)
    texts: list[str | None] = []
    errors = {}
    for row, payload in enumerate(payloads.to_pylist()):
        try:
            texts.append(None if payload is None else payload.decode())
        except UnicodeDecodeError as error:
            texts.append(None)
            errors[row] = f"not UTF-8: {error.reason} at byte {error.start}"
    return pa.array(texts, pa.string()), errors


def without_line_break(texts: pa.StringArray) -> pa.StringArray:
    """Return texts without the line break at their end, if they have one; a second one stays."""
    ends = pc.or_(pc.ends_with(texts, "\n"), pc.ends_with(texts, "\r"))
    if not pc.any(ends).as_py():
        return texts
    return pc.replace_substring_regex(texts, r"(\r\n|\n|\r)\z", "")


def _absent_if_empty(texts: pa.StringArray) -> pa.StringArray:
    empty = pc.equal(texts, "")
    return (
        pc.if_else(empty, pa.scalar(None, pa.string()), texts) if pc.any(empty).as_py() else texts
    )


def _json_text(texts: pa.StringArray) -> pa.StringArray:
    # Most columns contain nothing that JSON must escape, and then only quotes need to be added.
    chars = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if len(chars) and (
        chars.min() < 0x20 or (chars == ord('"')).any() or (chars == ord("\\")).any()
    ):
        return pa.array([orjson.dumps(text).decode() for text in texts.to_pylist()], pa.string())
    return pc.binary_join_element_wise('"', texts, '"', "").fill_null("null")
