"""Decoder Json beside the standard library's, made strict, on random and damaged objects.

Both ways of the decoder are compared: the extension's, if it is there, and Python's.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from tests.fuzz.compared import (
    PATHS,
    BadError,
    Case,
    Rows,
    cases,
    column,
    column_rows,
    decode,
    expected,
    field_rows,
    same,
)
from tests.support.payloads import json_payloads

# ----------------------------------------------------------------------------------------- payloads

NAMES = ("a", "b", "m", "é", "c")
BLANKS = st.sampled_from(("", "", "", " ", "\n", "\t\r\n"))
NUMBERS = tuple(number.decode() for number in json_payloads.NUMBERS)
STRINGS = tuple(text.decode() for text in json_payloads.STRINGS)
WRONG = (*json_payloads.WRONG_NUMBERS, *json_payloads.WRONG_STRINGS)
HALVES = (r'"\ud83d"', r'"a\ude00b"', r'"\ud83d\ud83d\ude00"', r'"\\ud83d"', r'"\ud83d\n"')


@st.composite
def _strings(draw: Any) -> str:
    how = draw(st.integers(0, 3))
    if how == 0:
        return draw(st.sampled_from((*STRINGS, *HALVES)))  # type: ignore[no-any-return]  # text
    text = draw(st.text(max_size=4) if how == 1 else st.sampled_from(("", "a", "7", "1.5", "YQ==")))
    return json.dumps(text, ensure_ascii=draw(st.booleans()))


@st.composite
def _numbers(draw: Any) -> str:
    if draw(st.booleans()):
        return draw(st.sampled_from(NUMBERS))  # type: ignore[no-any-return]  # text
    number = draw(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
    return json.dumps(number)


@st.composite
def _values(draw: Any, depth: int) -> str:
    which = draw(st.integers(0, 8 if depth else 6))
    if which < 2:
        return draw(_strings())  # type: ignore[no-any-return]  # text
    if which < 5:
        return draw(_numbers())  # type: ignore[no-any-return]  # text
    if which < 7:
        return draw(st.sampled_from(("true", "false", "null")))  # type: ignore[no-any-return]  # text
    if which == 7:
        return draw(_objects(depth - 1))  # type: ignore[no-any-return]  # text
    values = draw(st.lists(_values(depth - 1), max_size=3))
    return "[" + ",".join(draw(BLANKS) + value + draw(BLANKS) for value in values) + "]"


@st.composite
def _objects(draw: Any, depth: int) -> str:
    pairs = []
    for _ in range(draw(st.integers(0, 5))):
        name = json.dumps(draw(st.sampled_from(NAMES)), ensure_ascii=draw(st.booleans()))
        if draw(st.integers(0, 9)) == 0:
            name = draw(_strings())
        value = draw(_values(depth))
        pairs.append(draw(BLANKS) + name + draw(BLANKS) + ":" + draw(BLANKS) + value)
    return draw(BLANKS) + "{" + ",".join(pairs) + draw(BLANKS) + "}" + draw(BLANKS)  # type: ignore[no-any-return]  # drawn


@st.composite
def payloads(draw: Any) -> bytes | None:  # noqa: PLR0911  # one line for each case
    """A payload, whole or damaged, or a tombstone."""
    how = draw(st.integers(0, 12))
    if how == 0:
        return None
    payload: bytes = draw(_objects(2)).encode()
    if how == 1:
        return draw(_values(2)).encode()  # type: ignore[no-any-return]  # bytes
    at = draw(st.integers(0, max(0, len(payload) - 1)))
    if how == 2:
        return payload[:at]
    if how == 3:
        odd = draw(st.sampled_from((b"\xff", b"\x00", b"\xed\xa0\x80", b"]", b"}", b'"', b"\\")))
        return payload[:at] + odd + payload[at + 1 :]  # type: ignore[no-any-return]  # drawn
    if how == 4:
        wrong: bytes = draw(st.sampled_from(WRONG))
        return b'{"a":1,"b":' + wrong + b"}"
    if how == 5:
        return payload + draw(st.sampled_from((b"{}", b"x", b"\x00", b"\xef\xbb\xbf", b",")))  # type: ignore[no-any-return]  # drawn
    if how == 6:
        return b"\xef\xbb\xbf" + payload
    return payload


# ---------------------------------------------------------------------------------------- reference


class Pairs(list[tuple[str, Any]]):
    """An object, as it was read."""


class Number(str):
    """A number, as it is written."""

    __slots__ = ()

    @property
    def value(self) -> int | float:
        """An integer exactly, else the nearest double; raises BadError if there is none."""
        if re.fullmatch("-?[0-9]+", self):
            return int(self)
        number = float(self)
        if math.isinf(number):
            raise BadError("no double")
        return number


def _refuse(what: str) -> Any:
    raise BadError(what)


_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs,
    parse_float=Number,
    parse_int=Number,
    parse_constant=_refuse,
)


def read(payload: bytes) -> Pairs:
    """The object that a payload is, halves of surrogate pairs as U+FFFD; raises BadError."""
    try:
        text = payload.decode()
        # The standard library takes other spaces around a document than the grammar has.
        found = _DECODER.decode(text.strip(" \t\r\n"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadError(str(error)) from error
    if not isinstance(found, Pairs):
        raise BadError("no object")
    return _without_halves(found)  # type: ignore[no-any-return]  # as before


def _without_halves(value: Any) -> Any:
    match value:
        case Pairs():
            return Pairs((_without_halves(key), _without_halves(each)) for key, each in value)
        case list():
            return [_without_halves(each) for each in value]
        case Number():
            return value
        case str():
            return re.sub("[\ud800-\udfff]", "�", value)
    return value


def find(document: Pairs, path: Sequence[str]) -> Any:
    """A value, None if it is absent; of a repeated key the last one counts."""
    at: Any = document
    for part in path:
        if not isinstance(at, Pairs):
            return None
        values = [value for key, value in at if key == part]
        at = values[-1] if values else None
    return at


# ------------------------------------------------------------------------------------------- checks

COLUMNS = (
    column("a", "Int64"),
    column("b", "String"),
    column("c", "Json"),
    column("f", "Float64", field="m.a"),
    column("i", "Int32", field="m.b"),
    column("n", "String", field="a"),
    column("g", "Float64", field="a"),
    column("o", "Boolean", field="m.c"),
    column("t", "Timestamp", field="m.é"),
)


CASES = cases(COLUMNS, payloads(), 6)


def check(case: Case) -> Sequence[str]:
    """Compare the decoder with the reference; see ``tests.fuzz``."""
    good = _check_fields(case, PATHS)
    _check_fields(case, (("a",), ('"',)))
    _check_columns(case)
    return ["good rows"] * len(good)


def _ways(wanted: Wanted) -> dict[str, JsonDecoder]:
    decoder = JsonDecoder.of({}, wanted)
    ways = {"python": replace(decoder, native=None)}
    return ways | ({"native": decoder} if decoder.native else {})


def _check_fields(case: Case, paths: tuple[tuple[str, ...], ...]) -> Rows:
    def values(payload: bytes) -> Any:
        document = read(payload)
        return {path: _field(find(document, path)) for path in paths}

    wanted = expected(case.payloads, values, dict.fromkeys(paths))
    for way, decoder in _ways(Wanted(paths, json=True)).items():
        decoded = decode(decoder, case.payloads)
        same(_plain(field_rows(decoded)), wanted, f"fields by {way}", decoded)
        _check_landed(case, decoded)
    return wanted


def _check_landed(case: Case, decoded: Any) -> None:
    """What is landed has the bytes of the payload, but for halves of surrogate pairs."""
    landed = decoded.records.values.to_pylist()
    for row, value in zip(decoded.records.offsets.tolist(), landed, strict=True):
        payload = case.payloads[row]
        if value is None or value == payload:
            assert value == payload
            continue
        assert payload is not None
        assert read(value) == read(payload), f"row {row} lands as {value!r}"
        assert b"\\ud" in payload.lower()


def _field(value: Any) -> Any:
    match value:
        case Number():
            return value.value
        case list():
            _check_numbers(value)
            return "several"
    return value


def _check_numbers(value: Any) -> None:
    match value:
        case Pairs():
            for _, each in value:
                _check_numbers(each)
        case list():
            for each in value:
                _check_numbers(each)
        case Number():
            _ = value.value


def _plain(rows: Rows) -> Rows:
    """Fields that are no single value are not compared; nobody can use them."""
    return {
        row: {
            path: "several" if isinstance(value, list | dict) else value
            for path, value in values.items()
        }
        for row, values in rows.items()
    }


def _check_columns(case: Case) -> None:
    def values(payload: bytes) -> Any:
        document = read(payload)
        return {
            column.name: _column(find(document, column.path), column.type)
            for column in case.columns
        }

    wanted = expected(case.payloads, values, {column.name: None for column in case.columns})
    for way, decoder in _ways(Wanted(schema=schema_of(case.columns))).items():
        decoded = decode(decoder, case.payloads)
        found = {
            row: {
                column.name: _compared(value[column.name], column.type) for column in case.columns
            }
            for row, value in column_rows(decoded).items()
        }
        same(found, wanted, f"columns by {way}", decoded)


def _compared(value: Any, type_: str) -> Any:
    if type_ == "Json" and value is not None:
        return _without_halves(_DECODER.decode(value))
    return value.isoformat() if isinstance(value, datetime) else value


def _column(value: Any, type_: str) -> Any:  # noqa: C901, PLR0911  # one line for each case
    """A value in a declared column; raises BadError if it does not fit."""
    if value is None:
        return None
    if type_ == "Json":
        return value
    number = value.value if isinstance(value, Number) else None
    bits = {"Int32": 31, "Int64": 63}.get(type_)
    match type_:
        case "Int32" | "Int64" if isinstance(number, int) and bits:
            if -(2**bits) <= number < 2**bits:
                return number
        case "Float64" if number is not None:
            return _double(number)
        case "Boolean" if isinstance(value, bool):
            return value
        case "String" if isinstance(value, str) and number is None:
            return value
        case "Timestamp":
            return _timestamp(value, number)
    raise BadError(f"{value!r} is no {type_}")


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError as error:
        raise BadError("no double") from error


def _timestamp(value: Any, number: Any) -> Any:
    if value == "":
        return None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        if isinstance(number, int):
            return (epoch + timedelta(milliseconds=number)).isoformat()
        if number is not None:
            return (epoch + timedelta(microseconds=math.floor(number * 1000))).isoformat()
        if re.fullmatch("2025-11-21T00:00:00Z", str(value)):
            return "2025-11-21T00:00:00+00:00"
    except OverflowError as error:
        raise BadError("no time of the calendar") from error
    raise BadError(f"{value!r} is no time")
