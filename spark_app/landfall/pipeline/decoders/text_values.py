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
accept some of these, so a cast is believed only if no text of the column can have been one of them.
Otherwise a regular expression finds the well-formed rows of the whole column at once. What a text
is read as depends on that text alone.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import ColumnType
from landfall.pipeline.event_time.iso8601 import DAY
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
        is_strict: whether Arrow's cast of a whole column of text to these values, which went well,
            accepted only well-formed text. It may say no where it is not sure.
    """

    pattern: str
    is_strict: Callable[[pa.StringArray, pa.Array], bool]


def _has_no_x(texts: pa.StringArray, _: pa.Array) -> bool:
    """Whether no integer can have been hexadecimal, which is all that Arrow adds to the grammar."""
    _, bounds, content = texts.buffers()
    if content is None or not len(texts):
        return True
    bounds = np.frombuffer(bounds, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    octets = np.frombuffer(content, np.uint8)[bounds[0] : bounds[-1]]
    return not (octets == ord("x")).any() and not (octets == ord("X")).any()


def _is_finite(_: pa.StringArray, doubles: pa.Array) -> bool:
    return pc.all(pc.is_finite(doubles)).as_py() is not False


def _is_true_or_false(texts: pa.StringArray, _: pa.Array) -> bool:
    plain = pc.or_(pc.equal(texts, "true"), pc.equal(texts, "false"))
    return pc.all(plain).as_py() is not False


def _begins_with_year_1(_: pa.StringArray, days: pa.Array) -> bool:
    first = pc.min(days.cast(pa.int32())).as_py()
    return first is None or first >= _FIRST_DAY


_FIRST_DAY = (date.min - date(1970, 1, 1)).days
FORMS: Mapping[ColumnType, TextForm] = {
    ColumnType.INT32: TextForm(integers(32), _has_no_x),
    ColumnType.INT64: TextForm(integers(64), _has_no_x),
    ColumnType.FLOAT64: TextForm(
        r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", _is_finite
    ),
    ColumnType.BOOLEAN: TextForm("(?:true|false)", _is_true_or_false),
    ColumnType.DATE: TextForm(DAY, _begins_with_year_1),
}
"""The types that are read here, and how they are written."""


def read_column(
    texts: pa.StringArray, type_: ColumnType, arrow_type: pa.DataType
) -> tuple[pa.Array, Int64s]:
    """Return the values of a column of text, and the rows of text that is no value, as null."""
    form = FORMS[type_]
    with suppress(pa.ArrowInvalid):
        values = texts.cast(arrow_type)
        if form.is_strict(texts, values):
            return values, np.empty(0, np.int64)
    is_formed = pc.match_substring_regex(texts, rf"\A(?:{form.pattern})\z")
    formed = pc.if_else(is_formed, texts, pa.scalar(None, pa.string()))
    # Arrow reads no plus sign before an integer.
    values = pc.utf8_ltrim(formed, characters="+").cast(arrow_type)
    if type_ is ColumnType.FLOAT64:
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, arrow_type))
    return values, np.flatnonzero(pc.and_(texts.is_valid(), values.is_null()))
