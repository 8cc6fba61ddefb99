"""Decimals as text: plain digits, never an exponent. Pure."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc


def decimal_text(number: Decimal) -> str:
    """Return all digits of a number, such as ``0.000000000000000000``, which Python shortens."""
    return format(number, "f")


def decimal_texts(column: pa.Array) -> pa.StringArray:
    """Return values as text, decimals with all their digits, shape (rows,); null stays null."""
    texts = column.cast(pa.string())
    if not pa.types.is_decimal(column.type):
        return texts
    # Arrow writes a small number as 0E-18, as Python does.
    if not pc.any(pc.match_substring(texts, "E")).as_py():
        return texts
    numbers = column.to_pylist()
    return pa.array([None if n is None else decimal_text(n) for n in numbers], pa.string())
