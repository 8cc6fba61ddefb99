"""Text with separators: every payload is one row of named columns, without a header.

| option | default | |
|---|---|---|
| ``columns`` | needed | the columns' names, in order |
| ``separator`` | ``,`` | one character or more |
| ``quote`` | none | ``"``: a value may stand in double quotes, a quote inside is doubled (RFC 4180) |

Good is a payload that is UTF-8 and has as many values as there are columns. Nothing is trimmed: a
final newline belongs to the last value. Tombstones pass, with every column absent. Rows are split
in columns by Arrow; only rows that hold a quote are read one by one.
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
from landfall.pipeline.decoders.texts import Texts, utf8
from landfall.pipeline.records import Records

# The csv module refuses values over 128 KiB otherwise; a record can be larger, and is in memory
# already.
csv.field_size_limit(2**31 - 1)


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """What Delimited takes."""

    columns: tuple[str, ...]
    separator: str = ","
    quote: Literal['"'] | None = None


@dataclass(frozen=True)
class Delimited:
    """Rows of separated values."""

    texts: Texts
    separator: str
    quote: str | None

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "Delimited":
        """Build the decoder.

        Raises:
            ValueError: an option is wrong, or a wanted field is no column.
        """
        read = read_options(options, Options)
        if not read.separator or (
            read.quote and (len(read.separator) > 1 or read.separator in '"\r\n')
        ):
            raise ValueError(
                f"options: separator {read.separator!r} cannot part values (with quotes: one character)"
            )
        return cls(Texts(read.columns, wanted), read.separator, read.quote)

    def decode(self, records: Records) -> Decoded:
        """Every row with the right number of values."""
        texts, errors = utf8(records.values)
        errors = dict(errors)
        rows = pc.split_pattern(texts, self.separator)
        if self.quote:
            rows = self._unquoted(texts, rows, errors)
        width = len(self.texts.names)
        starts = np.asarray(rows.offsets, np.int64)
        lengths = np.diff(starts)
        fits = (lengths == width) & np.asarray(rows.is_valid())
        for row in np.flatnonzero(~fits & np.asarray(rows.is_valid())).tolist():
            errors[row] = f"delimited: {lengths[row]} values for {width} columns"
        places = [pa.array(starts[:-1] + i, mask=~fits) for i in range(width)]
        return self.texts.decoded(records, [rows.values.take(place) for place in places], errors)

    def _unquoted(
        self, texts: pa.StringArray, rows: pa.ListArray, errors: dict[int, str]
    ) -> pa.ListArray:
        """The rows again, those that hold a quote read as RFC 4180 says; adds to ``errors``."""
        quoted = np.flatnonzero(pc.match_substring(texts, '"').fill_null(False))  # noqa: FBT003  # Arrow's signature
        if not len(quoted):
            return rows
        read = rows.to_pylist()
        for row in quoted.tolist():
            try:
                (read[row],) = csv.reader(
                    [texts[row].as_py()], delimiter=self.separator, strict=True
                )
            except (csv.Error, ValueError) as error:
                read[row], errors[row] = None, f"delimited: {error}"
        return pa.array(read, pa.list_(pa.string()))
