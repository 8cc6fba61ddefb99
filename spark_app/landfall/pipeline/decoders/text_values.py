r"""The grammar of typed values in text, and the values of a column of text.

The text decoders, ``Date`` columns of JSON and step ``Cast`` all read text here.

=========  =========================================================================================
type       text
=========  =========================================================================================
Int32/64   an optional sign and decimal digits, in the range of the type; ``007`` is 7
Float64    an optional sign and decimal digits with at most one point, an exponent if wanted; its
           nearest double, which must be finite
Boolean    ``true`` or ``false``
Date       a day of the years 0001 to 9999 that exists, as ``2026-11-21``
=========  =========================================================================================

Nothing else is a value: no spaces, no hexadecimal digits, no ``NaN``, no ``TRUE``. Arrow's casts
accept some of these, and fail as a whole for other texts. So a column is cast. Where that fails and
its texts are few distinct ones, a regular expression finds the well-formed ones among these. Other
columns are cast without the texts that have characters which are in no value; where that is not
enough, in halves, down to a few rows, among which the regular expression is asked.
What a text is read as depends on that text alone.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import ColumnType
from landfall.pipeline.event_time.iso8601 import DAY
from landfall.pipeline.odd_rows import FEW_ROWS, halves, rows_with_others, without_rows
from landfall.pipeline.records import Int64s


def integers(bits: int) -> str:
    """Return what matches exactly the integers of this width, in decimal digits."""
    largest = 2 ** (bits - 1) - 1
    return rf"(?:[+-]?0*{_up_to(str(largest))}|-0*{largest + 1})"


def _up_to(largest: str) -> str:
    """Return what matches the numbers from 0 to the largest, without leading zeros."""
    forms = [rf"[0-9]{{1,{len(largest) - 1}}}", largest]
    for place, digit in enumerate(largest):
        if digit > "0":
            lower = rf"[0-{int(digit) - 1}]"
            forms.append(rf"{largest[:place]}{lower}[0-9]{{{len(largest) - place - 1}}}")
    return f"(?:{'|'.join(forms)})"


@dataclass(frozen=True, slots=True)
class TextForm:
    """How values of a type are written.

    Attributes:
        pattern: matches well-formed text; the numbers of Float64 may still be too large.
        characters: all that well-formed text has other than digits.
        misread: the rows of text that is no value and that Arrow reads as one, given a column of
            text and what Arrow's cast makes of it.
    """

    pattern: str
    characters: str
    misread: Callable[[pa.StringArray, pa.Array], Int64s]


_COMPILED_TEXTS = 100
"""Texts up to which Python's regular expressions are faster than compiling one for Arrow."""
_NO_ROWS: Int64s = np.empty(0, np.int64)


def _hexadecimal(texts: pa.StringArray, _: pa.Array) -> Int64s:
    """Hexadecimal integers are all that Arrow adds to the grammar."""
    _, bounds, content = texts.buffers()
    if content is None or not len(texts):
        return _NO_ROWS
    bounds = np.frombuffer(bounds, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    octets = np.frombuffer(content, np.uint8)[bounds[0] : bounds[-1]]
    if not (octets == ord("x")).any() and not (octets == ord("X")).any():
        return _NO_ROWS
    return rows_with_others(texts, "+-")


def _rows(mask: pa.BooleanArray) -> Int64s:
    """Return the rows in which a column is true."""
    return np.flatnonzero(mask.fill_null(False)) if mask.true_count else _NO_ROWS  # noqa: FBT003  # Arrow's signature


def _infinite(_: pa.StringArray, doubles: pa.Array) -> Int64s:
    return _rows(pc.invert(pc.is_finite(doubles)))


def _neither_true_nor_false(texts: pa.StringArray, _: pa.Array) -> Int64s:
    return _rows(pc.invert(pc.or_(pc.equal(texts, "true"), pc.equal(texts, "false"))))


def _before_year_1(_: pa.StringArray, days: pa.Array) -> Int64s:
    return _rows(pc.less(days.cast(pa.int32()), _FIRST_DAY))


_FIRST_DAY = (date.min - date(1970, 1, 1)).days
FORMS: Mapping[ColumnType, TextForm] = {
    ColumnType.INT32: TextForm(integers(32), "+-", _hexadecimal),
    ColumnType.INT64: TextForm(integers(64), "+-", _hexadecimal),
    ColumnType.FLOAT64: TextForm(
        r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", "+-.eE", _infinite
    ),
    ColumnType.BOOLEAN: TextForm("(?:true|false)", "truefalse", _neither_true_nor_false),
    ColumnType.DATE: TextForm(DAY, "-", _before_year_1),
}
"""The types that are read here, and how they are written."""


def read_column(
    texts: pa.StringArray, type_: ColumnType, arrow_type: pa.DataType
) -> tuple[pa.Array, Int64s]:
    """Return the values of a column of text, and the rows of text that is no value, as null."""
    read = _cast_all(texts, type_, arrow_type)
    if read is not None:
        return read
    encoded = _few_distinct(texts)
    if encoded is not None:  # as of days and of true and false
        values, bad = _by_pattern(encoded.dictionary, type_, arrow_type)
        is_bad = np.zeros(len(values) + 1, np.bool_)  # the last is for null
        is_bad[bad] = True
        return values.take(encoded.indices), np.flatnonzero(
            is_bad[encoded.indices.fill_null(len(values)).to_numpy()]
        )
    odd = rows_with_others(texts, FORMS[type_].characters)
    if len(odd):
        read = _cast_all(without_rows(texts, odd), type_, arrow_type)
        if read is not None:
            values, bad = read
            return values, np.union1d(bad, odd)
    return _by_halves(texts, type_, arrow_type)


def _few_distinct(texts: pa.StringArray) -> pa.DictionaryArray | None:
    """Return a column of few distinct texts as its dictionary; None for another one."""
    if len(texts) <= FEW_ROWS or len(texts[: 2 * FEW_ROWS].unique()) > FEW_ROWS:
        return None
    encoded = texts.dictionary_encode()
    return encoded if len(encoded.dictionary) <= FEW_ROWS else None


def _cast_all(
    texts: pa.StringArray, type_: ColumnType, arrow_type: pa.DataType
) -> tuple[pa.Array, Int64s] | None:
    """Return the values as Arrow casts them, null in the rows that it misreads, and these rows.

    None if Arrow cannot read a text.
    """
    try:
        values = texts.cast(arrow_type)
    except pa.ArrowInvalid:
        return None
    misread = FORMS[type_].misread(texts, values)
    return (without_rows(values, misread) if len(misread) else values), misread


def _by_halves(
    texts: pa.StringArray, type_: ColumnType, arrow_type: pa.DataType
) -> tuple[pa.Array, Int64s]:
    """Read a column that Arrow cannot; while a half can be cast, the rest is in the other."""
    parts = [texts[half] for half in halves(len(texts))]
    read = [_cast_all(part, type_, arrow_type) for part in parts]
    if len(texts) <= FEW_ROWS or not any(read):
        return _by_pattern(texts, type_, arrow_type)
    (first, bad), (second, of_second) = (
        of_part or _by_halves(part, type_, arrow_type)
        for part, of_part in zip(parts, read, strict=True)
    )
    return pa.concat_arrays([first, second]), np.concatenate([bad, len(first) + of_second])


def _by_pattern(
    texts: pa.StringArray, type_: ColumnType, arrow_type: pa.DataType
) -> tuple[pa.Array, Int64s]:
    is_formed = _are_formed(texts, FORMS[type_].pattern)
    formed = pc.if_else(is_formed, texts, pa.scalar(None, pa.string()))
    # Arrow reads no plus sign before an integer.
    values = pc.utf8_ltrim(formed, characters="+").cast(arrow_type)
    if type_ is ColumnType.FLOAT64:
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, arrow_type))
    return values, np.flatnonzero(pc.and_(texts.is_valid(), values.is_null()))


def _are_formed(texts: pa.StringArray, pattern: str) -> pa.BooleanArray:
    if len(texts) > _COMPILED_TEXTS:
        return pc.match_substring_regex(texts, rf"\A(?:{pattern})\z")
    known = re.compile(pattern)  # Python keeps it; Arrow compiles it for each column
    found = [None if t is None else known.fullmatch(t) is not None for t in texts.to_pylist()]
    return pa.array(found, pa.bool_())
