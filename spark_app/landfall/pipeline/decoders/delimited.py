"""Decoder ``Delimited``: every payload is one row of separated values, without a header line.

| option | default | meaning |
|---|---|---|
| ``columns`` | required | the names of the columns, in order |
| ``separator`` | ``,`` | one or more characters |
| ``quote`` | none | ``"``: values may be in double quotes, a quote inside is doubled (RFC 4180) |

A payload is decoded if it is UTF-8 and has exactly one value per column. One line break at its end
does not count, unless it is in the separator; nothing else is trimmed. Other line breaks are part
of their value; with ``quote`` they must be in quotes, whether or not the payload has a quote
elsewhere. Tombstones pass, with every column absent. Arrow splits whole columns; only rows that
contain a quote are parsed one by one.
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
from landfall.pipeline.decoders.texts import Texts, utf8, without_line_break
from landfall.pipeline.records import Records

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
class Delimited:
    """Splits text by a separator."""

    texts: Texts
    separator: str
    quote: str | None

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Delimited":
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
        return cls(Texts(checked.columns, wanted), separator, checked.quote)

    def decode(self, records: Records) -> Decoded:
        """Return every row with the right number of values; the others are bad."""
        texts, utf8_errors = utf8(records.values)
        errors = dict(utf8_errors)
        if not set(self.separator) & set("\r\n"):
            texts = without_line_break(texts)
        rows = pc.split_pattern(texts, self.separator)
        if self.quote:
            rows = self._unquoted(texts, rows, errors)
        width = len(self.texts.names)
        starts = np.asarray(rows.offsets, np.int64)
        lengths = np.diff(starts)
        fits = (lengths == width) & np.asarray(rows.is_valid())
        for row in np.flatnonzero(~fits & np.asarray(rows.is_valid())).tolist():
            errors[row] = f"delimited: {lengths[row]} values for {width} columns"
        # The values of all rows are in one flat array: value i of a row is at its start + i.
        places = [pa.array(starts[:-1] + i, mask=~fits) for i in range(width)]
        return self.texts.decoded(records, [rows.values.take(place) for place in places], errors)

    def _unquoted(
        self, texts: pa.StringArray, rows: pa.ListArray, errors: dict[int, str]
    ) -> pa.ListArray:
        """Parse the rows that contain a quote again, by RFC 4180; adds to ``errors``."""
        quoted = np.flatnonzero(pc.match_substring(texts, '"').fill_null(False))  # noqa: FBT003  # Arrow's signature
        broken = np.flatnonzero(pc.match_substring_regex(texts, _BROKEN).fill_null(False))  # noqa: FBT003  # Arrow's signature
        if not len(quoted) and not len(broken):
            return rows
        split = rows.to_pylist()
        for row in quoted.tolist():
            try:
                (split[row],) = csv.reader(
                    [texts[row].as_py()], delimiter=self.separator, strict=True
                )
            except (csv.Error, ValueError) as error:
                reason = _NOT_QUOTED if "new-line" in str(error) else error
                split[row], errors[row] = None, f"delimited: {reason}"
        for row in broken.tolist():
            split[row] = None
            errors.setdefault(row, f"delimited: {_NOT_QUOTED}")
        return pa.array(split, pa.list_(pa.string()))
