r"""Decoder ``Csv``: every payload is one record of comma-separated values, as RFC 4180 has them.

===============  ==========  =======================================================================
option           default     meaning
===============  ==========  =======================================================================
``columns``      required    the names of the columns, in order
``header``       none        instead of ``columns``: the header line that the names are in
``separator``    ``,``       one character
``quote``        ``"``       one character; a value in quotes may hold separators, line breaks, and
                             quotes, which are doubled
``escape``       none        one character, such as ``\``, that makes the next one an ordinary one
``nullText``     none        an unquoted value that is this text, such as ``\N``, is null
``trim``         false       spaces and tabs around values, and around their quotes, do not count
===============  ==========  =======================================================================

A payload is decoded if it is UTF-8 and one record with exactly one value per column. One line break
at its end does not count. Nothing is guessed: a quote inside an unquoted value, text next to a
quoted one, a quote that is not closed and a line break outside of quotes make the row bad (RFC
4180, section 2, rules 5 to 7). Tombstones pass, with every column absent.

Arrow splits rows without quotes, whole columns at a time, and ``quoted_rows`` those with them; what
is malformed, and all with ``escape`` or ``trim``, is scanned row by row. Python has a csv module,
but it takes quotes inside unquoted values and does not report which values were quoted.
``Delimited`` is the decoder for separators of several characters.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.decoders.quoted_rows import QuotedRows
from landfall.pipeline.decoders.texts import Texts, utf8, without_line_break
from landfall.pipeline.records import Int64s, Records

_BLANKS = " \t"
_LINE_BREAKS = "\r\n"


class Options(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Options of ``Csv``."""

    columns: tuple[str, ...] = ()
    header: str | None = None
    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    null_text: str | None = None
    trim: bool = False


@dataclass(frozen=True)
class Dialect:
    """How a record is written.

    Attributes:
        separator: what is between values.
        special: matches text that Arrow must not split: with quotes, escapes or line breaks.
        value: matches one value and what ends it, in the groups ``quoted``, ``plain`` and ``end``.
        unescaped: matches two characters; the second one counts.
        null_text: the unquoted value that is null.
        blanks: what is trimmed; empty if nothing is.
        escape: the character that makes the next one an ordinary one; None if there is none.
    """

    separator: str
    special: str
    value: re.Pattern[str]
    unescaped: re.Pattern[str]
    null_text: str | None
    blanks: str
    escape: str | None

    @classmethod
    def of(cls, options: Options) -> "Dialect":
        """Return the dialect that the options describe.

        Raises:
            ValueError: an option is not one character, or two options are the same.
        """
        _check_characters(options)
        blanks = _BLANKS.replace(options.separator, "") if options.trim else ""
        quote, separator = re.escape(options.quote), re.escape(options.separator)
        escape = re.escape(options.escape) if options.escape else ""
        escaped = f"{escape}.|" if escape else ""
        blank = f"[{blanks}]*+" if blanks else ""
        value = (
            f"(?:{blank}{quote}(?P<quoted>(?:[^{quote}{escape}]|{escaped}{quote}{quote})*+){quote}"
            f"{blank}|(?P<plain>(?:[^{quote}{separator}{escape}{_LINE_BREAKS}]|{escaped}(?!))*+))"
            rf"(?P<end>{separator}|\Z)"
        )
        return cls(
            separator=options.separator,
            special=f"[{quote}{escape}{_LINE_BREAKS}]",
            value=re.compile(value, re.DOTALL),
            unescaped=re.compile(f"(?:{quote}|{escape or quote})(.)", re.DOTALL),
            null_text=options.null_text,
            blanks=blanks,
            escape=options.escape,
        )

    def split(self, text: str) -> list[str | None]:
        """Return the values of one record without the line break at its end.

        Raises:
            ValueError: the record is malformed.
        """
        values: list[str | None] = []
        at = 0
        while True:
            match = self.value.match(text, at)
            if match is None:
                raise ValueError(f"malformed value {len(values) + 1}: {text[at : at + 40]!r}")
            values.append(self._value(match))
            at = match.end()
            if not match["end"]:
                return values

    def _value(self, match: re.Match[str]) -> str | None:
        quoted, plain = match["quoted"], match["plain"]
        if quoted is not None:
            return self.unescaped.sub(r"\1", quoted)
        plain = self._trimmed(plain) if self.blanks else plain
        return None if plain == self.null_text else self.unescaped.sub(r"\1", plain)

    def _trimmed(self, plain: str) -> str:
        """Return a value without blanks around it; one that is escaped belongs to the value."""
        plain = plain.lstrip(self.blanks)
        end = len(plain.rstrip(self.blanks))
        escapes = end - len(plain[:end].rstrip(self.escape)) if self.escape else 0
        return plain[: end + escapes % 2]

    def plain_values(self, values: pa.StringArray) -> pa.StringArray:
        """Return values of records without quotes and escapes, trimmed, and null where they are."""
        if self.blanks:
            values = pc.utf8_trim(values, characters=self.blanks)
        if self.null_text is not None:
            values = pc.if_else(
                pc.equal(values, self.null_text), pa.scalar(None, pa.string()), values
            )
        return values


@dataclass(frozen=True)
class CsvDecoder:
    """Splits records of comma-separated values."""

    texts: Texts
    dialect: Dialect
    quoted: QuotedRows | None

    @classmethod
    def of(cls, options: Mapping[str, object], wanted: Wanted) -> "CsvDecoder":
        """Build the decoder.

        Raises:
            ValueError: an option is wrong, or a wanted field is not a column.
        """
        checked = read_options(options, Options)
        dialect = Dialect.of(checked)
        if bool(checked.columns) == (checked.header is not None):
            raise ValueError("options: give the names of the columns as columns or as header")
        texts = Texts(checked.columns or _names(checked.header or "", dialect), wanted)
        quoted = QuotedRows(checked.separator, checked.quote, checked.null_text)
        is_plain = checked.escape is None and not checked.trim and quoted.is_ascii
        return cls(texts, dialect, quoted if is_plain else None)

    def decode(self, records: Records) -> Decoded:
        """Return every row with the right number of values; all other rows are bad."""
        texts, utf8_errors = utf8(records.values)
        errors = dict(utf8_errors)
        texts = without_line_break(texts)
        special = pc.match_substring_regex(texts, self.dialect.special)
        scanned = np.flatnonzero(special.fill_null(False))  # noqa: FBT003  # Arrow's signature
        quoted, scanned = self._quoted(texts, scanned)
        rows = pc.split_pattern(texts, self.dialect.separator)
        starts = np.asarray(rows.offsets, np.int64)
        lengths, starts = np.diff(starts), starts[:-1].copy()
        values = self.dialect.plain_values(rows.values)
        # The values of other rows follow the values that Arrow has split.
        if len(quoted):
            assert self.quoted is not None, "it has chosen these rows"
            of_quoted, counts = self.quoted.split(texts.take(pa.array(quoted)))
            lengths[quoted] = counts
            starts[quoted] = len(values) + np.cumsum(counts) - counts
            values = pa.concat_arrays([values, of_quoted])
        more: list[str | None] = []
        for row in scanned.tolist():
            starts[row] = len(values) + len(more)
            try:
                split = self.dialect.split(texts[row].as_py())
            except ValueError as error:
                errors[row], split = f"csv: {error}", []
            lengths[row] = len(split)
            more += split
        if more:
            values = pa.concat_arrays([values, pa.array(more, pa.string())])
        return self.texts.decoded(
            records, self._columns(texts, values, (starts, lengths), errors), errors
        )

    def _quoted(self, texts: pa.StringArray, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Return which of these rows can be split together, and those that must be scanned."""
        if self.quoted is None or not len(rows):
            return np.zeros(0, np.int64), rows
        is_regular = np.asarray(self.quoted.are_regular(texts.take(pa.array(rows))))
        return rows[is_regular], rows[~is_regular]

    def _columns(
        self,
        texts: pa.StringArray,
        values: pa.StringArray,
        spans: tuple["np.ndarray[tuple[int], np.dtype[np.int64]]", ...],
        errors: dict[int, str],
    ) -> Sequence[pa.StringArray]:
        """Return one column per name from the values of all rows; adds to ``errors``."""
        starts, lengths = spans
        width = len(self.texts.names)
        present = np.asarray(texts.is_valid())
        fits = present & (lengths == width)
        for row in np.flatnonzero(present & ~fits).tolist():
            errors.setdefault(row, f"csv: {lengths[row]} values for {width} columns")
        places = [pa.array(starts + i, mask=~fits) for i in range(width)]
        return [values.take(place) for place in places]


def _names(header: str, dialect: Dialect) -> tuple[str, ...]:
    try:
        names = dialect.split(header.removesuffix("\n").removesuffix("\r"))
    except ValueError as error:
        raise ValueError(f"options: header: {error}") from error
    return tuple(name or "" for name in names)


def _check_characters(options: Options) -> None:
    characters = {"separator": options.separator, "quote": options.quote}
    if options.escape is not None:
        characters["escape"] = options.escape
    for name, character in characters.items():
        if len(character) != 1 or character in _LINE_BREAKS:
            raise ValueError(f"options: {name} {character!r} must be one character, no line break")
    if len(set(characters.values())) < len(characters):
        raise ValueError(f"options: {', '.join(characters)} must be different characters")
    if options.trim and {options.quote, options.escape} & set(_BLANKS):
        raise ValueError("options: trim takes away spaces and tabs, quote and escape cannot be one")
    if options.null_text and set(options.null_text) & {
        options.separator,
        options.quote,
        "\r",
        "\n",
    }:
        raise ValueError(f"options: nullText {options.null_text!r} cannot be an unquoted value")
