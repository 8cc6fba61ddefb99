"""Columns of type Decimal: exact, or the row is bad. No binary fraction is ever in between.

=====================  =========================================================================
value                  read as
=====================  =========================================================================
a JSON number          its digits, as they are written
text                   its digits, such as ``-12.50`` or ``1.25e1``; with encoding Base64, base64
                       of the unscaled number
an object              with encoding Base64, ``{"scale": 2, "value": "MDk="}``: Debezium's
                       VariableScaleDecimal
bytes                  the unscaled number, an integer in big-endian two's complement
an integer, a decimal  itself
a double               the shortest digits that read back the same
=====================  =========================================================================

A value with more digits after the point than the scale makes the row bad, unless they are zeros,
and so does one that the precision has no room for. Empty text is null.
"""

import base64
import decimal
import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import DecimalEncoding, ValueType
from landfall.pipeline.odd_rows import FEW_ROWS, by_halves

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
_PLAIN = r"^[+-]?[0-9]{1,20}(\.[0-9]{1,18})?$"
"""Text that Arrow casts exactly. Of 1e-39, and of more than 38 digits, it makes 0 without a word.
"""
_MAX_BITS = 4096
"""Of an unscaled number: beyond any that fits once zeros after the point are gone."""


class _Variable(msgspec.Struct):
    """Debezium's VariableScaleDecimal."""

    scale: int
    value: str


_VARIABLE = msgspec.json.Decoder(_Variable)
_TEXT = msgspec.json.Decoder(str)


def arrow_type(declared: ValueType) -> pa.DataType:
    """Return the Arrow type of a Decimal."""
    assert declared.precision is not None, "the spec's validation requires it"
    return pa.decimal128(declared.precision, declared.scale or 0)


def convert(
    name: str, declared: ValueType, values: Sequence[object] | pa.Array
) -> tuple[pa.Array, dict[int, str]]:
    """Return a column of decimals, and errors by row.

    Args:
        name: of the column, for errors.
        declared: its precision, scale and encoding.
        values: Python values, unparsed JSON, or an Arrow array.
    """
    type_ = arrow_type(declared)
    if isinstance(values, pa.Array):
        made = _cast(values, type_, declared)
        if made is not None:
            return made, {}
        if len(values) > FEW_ROWS:
            return by_halves(values, lambda half: convert(name, declared, half))
        values = values.to_pylist()
    found: list[decimal.Decimal | None] = []
    errors: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            found.append(_decimal(value, declared))
        except (ValueError, ArithmeticError, msgspec.DecodeError):
            found.append(None)
            shown = bytes(value).decode() if isinstance(value, msgspec.Raw) else repr(value)
            errors[row] = (
                f"column {name}: expected Decimal({type_.precision},{type_.scale}), got {shown:.80}"
            )
    return pa.array(found, type_), errors


def _cast(values: pa.Array, type_: pa.DataType, declared: ValueType) -> pa.Array | None:
    """Return the column as Arrow casts it; None if it cannot, or is not known to do so exactly."""
    if pa.types.is_string(values.type):
        if declared.encoding is DecimalEncoding.BASE64:
            return None
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
        if pc.all(pc.match_substring_regex(values, _PLAIN)).as_py() is False:
            return None
    elif pa.types.is_integer(values.type):
        values = values.cast(pa.string())
    elif not (pa.types.is_decimal(values.type) or pa.types.is_null(values.type)):
        return None
    try:
        return values.cast(type_)
    except pa.ArrowInvalid:
        return None


def _decimal(value: object, declared: ValueType) -> decimal.Decimal | None:
    """Return one value; raises ValueError or ArithmeticError if it does not fit."""
    if value is None or value == "":
        return None
    match value:
        case msgspec.Raw():
            return _of_json(bytes(value), declared)
        case str() if declared.encoding is DecimalEncoding.BASE64:
            return _unscaled(base64.b64decode(value, validate=True), declared.scale or 0, declared)
        case bytes():
            return _unscaled(value, declared.scale or 0, declared)
        case decimal.Decimal():
            return _fitted(value, declared)
    return _of_digits(str(value), declared)


def _of_digits(text: str, declared: ValueType) -> decimal.Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number")
    return _fitted(decimal.Decimal(text), declared)


def _of_json(raw: bytes, declared: ValueType) -> decimal.Decimal | None:
    if raw == b"null":
        return None
    if raw[:1] == b'"':
        return _decimal(_TEXT.decode(raw), declared)
    if raw[:1] == b"{" and declared.encoding is DecimalEncoding.BASE64:
        of = _VARIABLE.decode(raw)
        return _unscaled(base64.b64decode(of.value, validate=True), of.scale, declared)
    return _of_digits(raw.decode(), declared)


def _unscaled(number: bytes, scale: int, declared: ValueType) -> decimal.Decimal:
    unscaled = int.from_bytes(number, "big", signed=True)
    if not number or unscaled.bit_length() > _MAX_BITS or abs(scale) > _MAX_BITS:
        raise ValueError("no number")
    digits = tuple(map(int, str(abs(unscaled))))
    return _fitted(decimal.Decimal((int(unscaled < 0), digits, -scale)), declared)


def _fitted(value: decimal.Decimal, declared: ValueType) -> decimal.Decimal:
    """Return the number with the declared digits; raises ArithmeticError if one would be lost."""
    if not value.is_finite():
        raise ValueError("not finite")
    context, exponent = _context(declared.precision or 0, declared.scale or 0)
    return context.quantize(value, exponent)


@lru_cache(256)
def _context(precision: int, scale: int) -> tuple[decimal.Context, decimal.Decimal]:
    traps = [decimal.Inexact, decimal.InvalidOperation]
    return decimal.Context(prec=precision, traps=traps), decimal.Decimal((0, (1,), -scale))


__all__: Sequence[str] = ("arrow_type", "convert")
