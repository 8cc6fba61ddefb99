"""Values of declared columns, as the page on typed columns defines them.

``of_text`` reads the grammar of text, ``of_value`` values of other decoders. Both return the form
in which ``landed`` gives the column's values in a file.
"""

import base64
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from landfall_audit import times
from landfall_audit.payloads import (
    BadPayload,
    Instant,
    JsonNumber,
    Undecided,
    json_documents,
    of_double,
    of_json,
)
from landfall_audit.spec import (
    ColumnSection,
    ColumnTypeName,
    ColumnUnitName,
    DecimalEncodingName,
    TimeUnitName,
    ValueTypeSection,
)

_INTEGER = re.compile(r"[+-]?[0-9]+")
_JSON_INTEGER = re.compile(r"-?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BITS = {ColumnTypeName.INT32: 31, ColumnTypeName.INT64: 63}
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_MICROS = -((_EPOCH - _FIRST).days) * 86_400 * 10**6
_MAX_MICROS = (date.max.toordinal() + 1 - _EPOCH_DAY) * 86_400 * 10**6 - 1
_SURE_DIGITS = {
    TimeUnitName.SECONDS: 6,
    TimeUnitName.MILLISECONDS: 3,
    TimeUnitName.MICROSECONDS: 0,
    TimeUnitName.NANOSECONDS: 0,
}
"""Digits of a fraction that a double can distinguish, by unit, in this and the next centuries."""
_SURE_MICROS = 2**32 * 10**6
_EXACT = Context(prec=80)
_MAX_EXPONENT = 400
"""Beyond the exponent of any double."""


def column(declared: ColumnSection, value: object, *, is_text: bool) -> object:
    """The form of a column's value; null is None.

    Raises:
        BadPayload: the value makes a dead letter.
        Undecided: there is no rule for it.
    """
    try:
        found = _read(declared, value, is_text=is_text)
    except (ValueError, OverflowError, ArithmeticError) as error:
        raise BadPayload(f"column {declared.name}: no {declared.type}: {error}") from None
    if found is None and not declared.nullable:
        raise BadPayload(f"column {declared.name}: null")
    return found


def _read(declared: ValueTypeSection, value: object, *, is_text: bool) -> object:
    if value is None:
        return None
    if is_text:
        assert isinstance(value, str), "text decoders yield text"
        return _of_text(declared, value)
    return _of_value(declared, value)


def _of_text(declared: ValueTypeSection, text: str) -> object:
    if declared.type is ColumnTypeName.STRING:
        return text
    if declared.type is ColumnTypeName.BINARY:
        return text.encode()
    if not text:
        return None
    if declared.type in {ColumnTypeName.JSON, ColumnTypeName.LIST, ColumnTypeName.STRUCT}:
        return _of_value(declared, json_documents.value_of(text.encode()))
    reader = _TEXT_READERS.get(declared.type)
    return reader(declared, text) if reader else _of_value(declared, text)


def _of_value(declared: ValueTypeSection, value: object) -> object:
    """The form of a value as Json, MessagePack and other decoders have them."""
    return None if value is None else _READERS[declared.type](declared, value)


def _text(_: ValueTypeSection, value: object) -> str:
    if type(value) is not str:
        raise ValueError(repr(value))
    return value


def _truth(_: ValueTypeSection, value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError(repr(value))  # noqa: TRY004  # a dead letter, as any other wrong value
    return ("true" if value else "false"), "bool"


def _truth_of_text(_: ValueTypeSection, text: str) -> object:
    if text not in {"true", "false"}:
        raise ValueError(repr(text))
    return text, "bool"


def _integer(declared: ValueTypeSection, value: object) -> int:
    is_number = type(value) is int or isinstance(value, JsonNumber)
    if not is_number or not _JSON_INTEGER.fullmatch(str(value)):
        raise ValueError(repr(value))
    return _in_range(declared, str(value))


def _integer_of_text(declared: ValueTypeSection, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(repr(text))
    return _in_range(declared, text)


def _in_range(declared: ValueTypeSection, value: str) -> int:
    number = int(Decimal(value))
    if not -(2 ** _BITS[declared.type]) <= number < 2 ** _BITS[declared.type]:
        raise ValueError(f"out of range: {value}")
    return number


def _real(_: ValueTypeSection, text: str) -> object:
    if not _REAL.fullmatch(text):
        raise ValueError(repr(text))
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"out of range: {text}")
    return of_double(number)


def _double(declared: ValueTypeSection, value: object) -> object:
    if isinstance(value, JsonNumber):
        return _real(declared, value)
    if type(value) not in {int, float}:
        raise ValueError(repr(value))
    return of_double(float(value))  # type: ignore[arg-type]  # it is one of these


def _timestamp(declared: ValueTypeSection, value: object) -> int | None:
    if value == "":
        return None
    if isinstance(value, Instant):
        if declared.unit is ColumnUnitName.CUSTOM:
            raise Undecided("a timestamp type, and unit Custom")
        found = value.micros
    else:
        unit = TimeUnitName(declared.unit or ColumnUnitName.MILLISECONDS)
        number = _number(value)
        if number is not None and number.denominator > 1 and unit is not TimeUnitName.ISO8601:
            _require_sure(number, unit)
        found = times.micros(
            value if number is None else _plain(number),
            unit,
            declared.format,
            declared.timezone or "UTC",
        )
    if not _MIN_MICROS <= found <= _MAX_MICROS:
        raise ValueError(f"out of range: {value!r}")
    return found


def _number(value: object) -> Fraction | None:
    if isinstance(value, JsonNumber):
        if not math.isfinite(float(value)):
            raise ValueError(f"out of range: {value}")
        number = Decimal(value)
        if number.adjusted() < -_MAX_EXPONENT:
            raise Undecided("times in numbers finer than a double can represent")
        return Fraction(number)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Fraction(value)
    return None


def _plain(number: Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


def _require_sure(number: Fraction, unit: TimeUnitName) -> None:
    """Raise Undecided if the double next to the number may mean another microsecond."""
    if unit is TimeUnitName.CUSTOM:
        return
    of_size = times.unit_of(number, unit)
    is_fine = (number * 10 ** _SURE_DIGITS[of_size]).denominator == 1
    if not is_fine or abs(times.of_number(number, unit)) >= _SURE_MICROS:
        raise Undecided("times in numbers finer than a double can represent")


def _day(declared: ValueTypeSection, value: object) -> int | None:
    if value == "":
        return None
    if declared.unit is ColumnUnitName.DAYS and not (type(value) is str and not _is_days(value)):
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(repr(value))
        text = str(value)
        if not _JSON_INTEGER.fullmatch(text.removeprefix("+")):
            raise ValueError(repr(value))
        days = int(Decimal(text))
        date.fromordinal(days + _EPOCH_DAY)
        return days
    if type(value) is not str or not _DAY.fullmatch(value):
        raise ValueError(repr(value))
    return date.fromisoformat(value).toordinal() - _EPOCH_DAY


def _is_days(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]{1,9}", text) is not None


def _bytes(_: ValueTypeSection, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if type(value) is not str:
        raise ValueError(repr(value))
    return base64.b64decode(value, validate=True)


def _decimal(declared: ValueTypeSection, value: object) -> object:
    if value == "":
        return None
    return "decimal", _fitted(_digits(declared, value), declared)


def _digits(declared: ValueTypeSection, value: object) -> Decimal:
    is_base64 = declared.encoding is DecimalEncodingName.BASE64
    if type(value) is str and is_base64:
        value = base64.b64decode(value, validate=True)
    if isinstance(value, bytes):
        return _unscaled(value, declared.scale or 0)
    if isinstance(value, Mapping) and is_base64:
        return _variable(value)
    if isinstance(value, float):
        return Decimal(repr(value))
    is_number = isinstance(value, JsonNumber | Decimal) or type(value) is int
    if is_number or (type(value) is str and _REAL.fullmatch(value)):
        return Decimal(value)  # type: ignore[arg-type]  # it is one of these
    raise ValueError(repr(value))


def _variable(value: Mapping[object, object]) -> Decimal:
    scale, text = value.get("scale"), value.get("value")
    is_number = isinstance(scale, JsonNumber) or type(scale) is int
    if not is_number or type(text) is not str or not _JSON_INTEGER.fullmatch(str(scale)):
        raise ValueError(repr(value))
    return _unscaled(base64.b64decode(text, validate=True), int(str(scale)))


def _unscaled(number: bytes, scale: int) -> Decimal:
    if not number or len(number) > 500 or abs(scale) > 4000:
        raise ValueError(f"no unscaled number: {number!r:.40}")
    unscaled = int.from_bytes(number, "big", signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _fitted(number: Decimal, declared: ValueTypeSection) -> Decimal:
    """The number, if the declared digits hold all of it."""
    precision, scale = declared.precision or 0, declared.scale or 0
    if not number.is_finite():
        raise ValueError("not finite")
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "it is finite"
    if not any(digits):
        return Decimal(0)
    if abs(exponent) > 10_000:
        raise ValueError(f"out of range: {number}")
    whole = int("".join(map(str, digits)))
    shift = exponent + scale
    unscaled, rest = (whole * 10**shift, 0) if shift >= 0 else divmod(whole, 10**-shift)
    if rest or unscaled >= 10**precision:
        raise ValueError(f"does not fit ({precision},{scale}): {number}")
    return Decimal((sign, tuple(map(int, str(unscaled))), -scale)).normalize(_EXACT)


def _nested(declared: ValueTypeSection, value: object) -> object:
    if declared.type is ColumnTypeName.LIST:
        if not isinstance(value, list) or declared.items is None:
            raise ValueError(repr(value))
        items = [_of_value(declared.items, item) for item in value]
        if None in items and not declared.items.nullable:
            raise ValueError("null in a list")
        return "list", tuple(items)
    if not isinstance(value, Mapping):
        raise ValueError(repr(value))  # noqa: TRY004  # a dead letter, as any other wrong value
    fields = []
    for field in declared.fields:
        found = _of_value(field, value.get(field.key))
        if found is None and not field.nullable:
            raise ValueError(f"{field.name}: null")
        fields.append((field.name, found))
    return "struct", tuple(sorted(fields, key=lambda item: item[0]))


_READERS: Mapping[ColumnTypeName, Callable[[ValueTypeSection, Any], object]] = {
    ColumnTypeName.STRING: _text,
    ColumnTypeName.INT32: _integer,
    ColumnTypeName.INT64: _integer,
    ColumnTypeName.FLOAT64: _double,
    ColumnTypeName.BOOLEAN: _truth,
    ColumnTypeName.TIMESTAMP: _timestamp,
    ColumnTypeName.DATE: _day,
    ColumnTypeName.BINARY: _bytes,
    ColumnTypeName.JSON: lambda _, value: of_json(value),
    ColumnTypeName.DECIMAL: _decimal,
    ColumnTypeName.LIST: _nested,
    ColumnTypeName.STRUCT: _nested,
}
_TEXT_READERS: Mapping[ColumnTypeName, Callable[[ValueTypeSection, str], object]] = {
    ColumnTypeName.INT32: _integer_of_text,
    ColumnTypeName.INT64: _integer_of_text,
    ColumnTypeName.FLOAT64: _real,
    ColumnTypeName.BOOLEAN: _truth_of_text,
}
"""The types whose text has a grammar of its own."""
