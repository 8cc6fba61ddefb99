"""Decoder ``Delimited``: every payload is one row of separated values, without a header line.

| option | default | meaning |
|---|---|---|
| ``columns`` | required | the names of the columns, in order |
| ``separator`` | ``,`` | one or more characters |
| ``quote`` | none | ``"``: values may be in double quotes, a quote inside is doubled (RFC 4180) |

A payload is decoded if it is UTF-8 and has exactly one value per column. One line break at its end
does not count, unless it is in the separator; nothing else is trimmed. Other line breaks are part
of their value; with ``quote`` they must be in quotes, whether or not the payload has a quote
elsewhere. Tombstones pass, with every column absent. Arrow splits whole columns, ``quoted_rows``
well-formed rows with quotes; only what is malformed is parsed one by one.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.quoted_rows import QuotedRows
from landfall.pipeline.decoders.texts import Texts, utf8, without_line_break
from landfall.pipeline.records import Int64s, Records

# By default the csv module refuses values over 128 KiB. A record may be larger, and is already in
# memory, so the limit protects nothing here.
csv.field_size_limit(2**31 - 1)

_NOT_QUOTED = "line break outside of quotes"
_BROKEN = r'\A[^"]*[\r\n]|[\r\n]\z'
"""Matches line breaks that csv does not see: of payloads without quotes, and at the end."""


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``Delimited``."""

    columns: tuple[str, ...]
    separator: str = ","
    quote: Literal['"'] | None = None


@dataclass(frozen=True)
class DelimitedDecoder:
    """Splits text by a separator."""

    texts: Texts
    separator: str
    quoted: QuotedRows | None

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "DelimitedDecoder":
        """Build the decoder.

        Raises:
            ValueError: an option is wrong, or a wanted field is not a column.
        """
        checked = read_options(options, Options)
        separator = checked.separator
        if not separator:
            raise ValueError("options: separator is empty")
        if checked.quote and (len(separator) > 1 or separator in '"\r\n'):
            raise ValueError(
                f"options: separator {separator!r} must be one character other than a quote or a"
                " line break when quote is set"
            )
        quoted = QuotedRows(separator, checked.quote, None) if checked.quote else None
        return cls(Texts(checked.columns, wanted), separator, quoted)

    def decode(self, records: Records) -> Decoded:
        """Return every row with the right number of values; all other rows are bad."""
        texts, utf8_errors = utf8(records.values)
        errors = dict(utf8_errors)
        if not set(self.separator) & set("\r\n"):
            texts = without_line_break(texts)
        rows = pc.split_pattern(texts, self.separator)
        starts, values = np.asarray(rows.offsets, np.int64), rows.values
        lengths, starts = np.diff(starts), starts[:-1].copy()
        if self.quoted is not None:
            values = self._unquoted(self.quoted, texts, values, (starts, lengths), errors)
        width, present = len(self.texts.names), np.asarray(texts.is_valid())
        fits = present & (lengths == width)
        fits[list(errors)] = False
        for row in np.flatnonzero(present & ~fits).tolist():
            errors.setdefault(row, f"delimited: {lengths[row]} values for {width} columns")
        # The values of all rows are in one flat array: value i of a row is at its start + i.
        places = [pa.array(starts + i, mask=~fits) for i in range(width)]
        return self.texts.decoded(records, [values.take(place) for place in places], errors)

    def _unquoted(
        self,
        quoted: QuotedRows,
        texts: pa.StringArray,
        values: pa.StringArray,
        spans: tuple[Int64s, Int64s],
        errors: dict[int, str],
    ) -> pa.StringArray:
        """Split the rows that contain a quote again, by RFC 4180; adds to ``errors``.

        Args:
            quoted: splits well-formed rows.
            texts: the rows.
            values: the values of all rows, split at every separator.
            spans: where each row's values start, and how many they are, which is changed.
            errors: by row.

        Returns:
            ``values``, and the values of rows that contain a quote.
        """
        starts, lengths = spans
        holding = np.flatnonzero(pc.match_substring(texts, quoted.quote).fill_null(False))  # noqa: FBT003  # Arrow's signature
        broken = np.flatnonzero(pc.match_substring_regex(texts, _BROKEN).fill_null(False))  # noqa: FBT003  # Arrow's signature
        if len(holding) and quoted.is_ascii:
            is_regular = np.asarray(quoted.are_regular(texts.take(pa.array(holding))))
            regular, holding = holding[is_regular], holding[~is_regular]
            if len(regular):
                split, counts = quoted.split(texts.take(pa.array(regular)))
                starts[regular] = len(values) + np.cumsum(counts) - counts
                lengths[regular] = counts
                values = pa.concat_arrays([values, split])
        more: list[str] = []
        for row in holding.tolist():
            starts[row] = len(values) + len(more)
            try:
                (found,) = csv.reader([texts[row].as_py()], delimiter=self.separator, strict=True)
            except (csv.Error, ValueError) as error:
                reason = _NOT_QUOTED if "new-line" in str(error) else error
                errors[row] = f"delimited: {reason}"
            else:
                lengths[row] = len(found)
                more += found
        for row in broken.tolist():
            errors.setdefault(row, f"delimited: {_NOT_QUOTED}")
        return pa.concat_arrays([values, pa.array(more, pa.string())]) if more else values
