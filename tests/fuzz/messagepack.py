"""Decoder MessagePack beside msgpack's pure Python reader, on random bytes of the format.

The writer is this module's: it writes every form of every type, also longer ones than are needed,
keys of any type, repeated keys, extension types, all three timestamps, and damaged bytes.
"""

import base64
import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from msgpack import fallback
from msgpack.exceptions import UnpackException

from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.messagepack import MessagePackDecoder
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
    json_rows,
    parsed,
    same,
)

# ----------------------------------------------------------------------------------------- payloads

TEXTS = ("", "a", "b", "m", "é", "\U0001f600", "\x00", '"\\', "7", "1.5", "x" * 40)
BAD_TEXTS = (b"\xff", b"caf\xe9", b"\xed\xa0\x80")
INTEGERS = tuple(
    sorted({sign * (2**bits) + more for bits in (0, 5, 7, 8, 15, 16, 31, 32, 53, 63)
            for sign in (-1, 1) for more in (-1, 0, 1)} | {2**64 - 1, 0})
)  # fmt: skip
DOUBLES = (0.0, -0.0, 1.5, 1e300, 5e-324, 0.1, 1e16, math.inf, -math.inf, math.nan, 1763697600.5)
FORMS = {
    0xCC: (0, 2**8, ">B"), 0xCD: (0, 2**16, ">H"), 0xCE: (0, 2**32, ">I"), 0xCF: (0, 2**64, ">Q"),
    0xD0: (-(2**7), 2**7, ">b"), 0xD1: (-(2**15), 2**15, ">h"), 0xD2: (-(2**31), 2**31, ">i"),
    0xD3: (-(2**63), 2**63, ">q"),
}  # fmt: skip
SECONDS = (0, 1, -1, 1763697600, 2**32 - 1, 2**32, 2**34 - 1, 2**34, 253402300799, 253402300800,
           -62135596800, -62135596801, 2**62)  # fmt: skip
NANOSECONDS = (0, 1, 999, 1000, 1999, 123456789, 999999999, 10**9)
NAMES = ("a", "b", "m", "é", "c")


@st.composite
def _integers(draw: Any) -> bytes:
    number = draw(st.sampled_from(INTEGERS))
    if number >= 2**64 or number < -(2**63):
        number = 7
    forms = [
        bytes([code]) + struct.pack(form, number)
        for code, (low, high, form) in FORMS.items()
        if low <= number < high
    ]
    if -32 <= number < 128:
        forms.append(struct.pack(">b", number))
    return draw(st.sampled_from(forms))  # type: ignore[no-any-return]  # bytes


def _sized(content: bytes, number: int, forms: Sequence[tuple[int, str]], short: int) -> bytes:
    """A header with a number in one of its forms, and the content; the shortest has no form."""
    if not forms:
        return bytes([short | number]) + content
    code, form = forms[0]
    return bytes([code]) + struct.pack(form, number) + content


def _headers(
    codes: Sequence[int], short: int, room: int
) -> Callable[[bytes, int], st.SearchStrategy[bytes]]:
    forms = list(zip(codes, (">B", ">H", ">I")[3 - len(codes) :], strict=True))

    def written(content: bytes, number: int) -> st.SearchStrategy[bytes]:
        fitting: list[list[tuple[int, str]]] = [
            [form] for form in forms if form[1] != ">B" or number < 256
        ]
        if number < room:
            fitting.append([])
        return st.sampled_from(fitting).map(lambda chosen: _sized(content, number, chosen, short))

    return written


_str_bytes = _headers((0xD9, 0xDA, 0xDB), 0xA0, 32)
_bin_bytes = _headers((0xC4, 0xC5, 0xC6), 0, 0)
_array_bytes = _headers((0xDC, 0xDD), 0x90, 16)
_map_bytes = _headers((0xDE, 0xDF), 0x80, 16)


def _texts(texts: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    return st.sampled_from(texts).flatmap(lambda text: _str_bytes(text, len(text)))


TEXT = _texts([text.encode() for text in TEXTS])


@st.composite
def _extensions(draw: Any) -> bytes:
    size = draw(st.sampled_from((0, 1, 2, 3, 4, 8, 12, 16)))
    code = draw(st.sampled_from((-1, 0, 1, 127, -128)))
    content = draw(st.binary(min_size=size, max_size=size))
    return _extension(draw, code, content)


@st.composite
def _timestamps(draw: Any) -> bytes:
    seconds, nanos = draw(st.sampled_from(SECONDS)), draw(st.sampled_from(NANOSECONDS))
    contents = [struct.pack(">Iq", nanos, seconds)]
    if 0 <= seconds < 2**34:
        contents.append(struct.pack(">Q", nanos << 34 | seconds))
    if 0 <= seconds < 2**32:
        contents.append(struct.pack(">I", seconds))
    return _extension(draw, -1, draw(st.sampled_from(contents)))


def _extension(draw: Any, code: int, content: bytes) -> bytes:
    size, type_ = len(content), struct.pack(">b", code)
    forms = [
        b"\xc7" + struct.pack(">B", size) + type_,
        b"\xc8" + struct.pack(">H", size) + type_,
        b"\xc9" + struct.pack(">I", size) + type_,
    ]
    fixed = {1: b"\xd4", 2: b"\xd5", 4: b"\xd6", 8: b"\xd7", 16: b"\xd8"}
    if size in fixed:
        forms += [fixed[size] + type_] * 3
    return draw(st.sampled_from(forms)) + content  # type: ignore[no-any-return]  # bytes


SCALARS = st.one_of(
    st.sampled_from([b"\xc0", b"\xc2", b"\xc3"]),
    _integers(),
    _integers(),
    st.sampled_from(DOUBLES).map(lambda number: b"\xcb" + struct.pack(">d", number)),
    st.sampled_from((0.5, -0.0, 3e38, math.inf, math.nan)).map(
        lambda number: b"\xca" + struct.pack(">f", number)
    ),
    TEXT,
    TEXT,
    st.binary(max_size=5).flatmap(lambda content: _bin_bytes(content, len(content))),
    _timestamps(),
)
RARE = st.one_of(SCALARS, SCALARS, SCALARS, _extensions(), _texts(BAD_TEXTS), st.just(b"\xc1"))


@st.composite
def _values(draw: Any, depth: int) -> bytes:
    which = draw(st.integers(0, 9 if depth else 7))
    if which < 7:
        return draw(SCALARS)  # type: ignore[no-any-return]  # bytes
    if which == 7:
        return draw(RARE)  # type: ignore[no-any-return]  # bytes
    if which == 8:
        items = draw(st.lists(_values(depth - 1), max_size=3))
        return draw(_array_bytes(b"".join(items), len(items)))  # type: ignore[no-any-return]  # bytes
    return draw(_maps(depth - 1))  # type: ignore[no-any-return]  # bytes


@st.composite
def _maps(draw: Any, depth: int) -> bytes:
    names = _texts([name.encode() for name in NAMES])
    keys = st.one_of(names, names, names, names, _values(depth))
    has_odd_keys = draw(st.integers(0, 4)) == 0
    pairs = draw(st.lists(st.tuples(keys if has_odd_keys else names, _values(depth)), max_size=5))
    content = b"".join(key + value for key, value in pairs)
    return draw(_map_bytes(content, len(pairs)))  # type: ignore[no-any-return]  # bytes


@st.composite
def payloads(draw: Any) -> bytes | None:
    """A payload, whole or damaged, or a tombstone."""
    how = draw(st.integers(0, 14))
    if how == 0:
        return None
    if how == 1:
        return draw(_values(2))  # type: ignore[no-any-return]  # bytes
    payload: bytes = draw(_maps(2))
    at = draw(st.integers(0, max(0, len(payload) - 1)))
    if how == 2:
        return payload[:at]
    if how == 3:
        return payload + draw(st.binary(min_size=1, max_size=2))  # type: ignore[no-any-return]  # drawn
    if how == 4:
        return payload[:at] + draw(st.binary(min_size=1, max_size=1)) + payload[at + 1 :]  # type: ignore[no-any-return]  # drawn
    return payload


# ---------------------------------------------------------------------------------------- reference


class Pairs(list[tuple[Any, Any]]):
    """A map, as it was read."""


def read(payload: bytes) -> Pairs:
    """The map that a payload is; text that is not UTF-8 has surrogates. Raises BadError."""
    unpacker = _Unpacker(
        None,
        max_buffer_size=max(1, len(payload)),
        raw=False,
        strict_map_key=False,
        unicode_errors="surrogateescape",
        object_pairs_hook=Pairs,
        use_list=True,
        ext_hook=_extension_of,
    )
    unpacker.feed(payload)
    try:
        found = unpacker.unpack()
    except (UnpackException, ValueError, OverflowError) as error:
        raise BadError(repr(error)) from error
    if not isinstance(found, Pairs) or unpacker.tell() < len(payload):
        raise BadError("not one map")
    return found


_TIME = 1000


class _Unpacker(fallback.Unpacker):  # type: ignore[misc]  # without types
    """Gives timestamps as extensions of an own type: only those that are read must be right."""

    def _read_header(self) -> Any:
        kind, number, content = super()._read_header()
        is_time = kind == fallback.TYPE_EXT and number == -1
        return kind, _TIME if is_time else number, content


def _extension_of(code: int, content: bytes) -> Any:
    return Time(content) if code == _TIME else Extension(code, content)


@dataclass(frozen=True)
class Extension:
    """A value of another extension type."""

    code: int
    content: bytes


@dataclass(frozen=True)
class Time:
    """A timestamp, right or wrong."""

    content: bytes

    def text(self) -> str:
        """The time, cut to microseconds; raises BadError."""
        match len(self.content):
            case 4:
                nanoseconds, seconds = 0, int.from_bytes(self.content, "big")
            case 8:
                both = int.from_bytes(self.content, "big")
                nanoseconds, seconds = both >> 34, both & (2**34 - 1)
            case 12:
                nanoseconds, seconds = struct.unpack(">Iq", self.content)
            case size:
                raise BadError(f"a timestamp of {size} bytes")
        if nanoseconds >= 10**9:
            raise BadError("nanoseconds")
        try:
            at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
                seconds=seconds, microseconds=nanoseconds // 1000
            )
        except OverflowError as error:
            raise BadError("no time of the calendar") from error
        return at.isoformat().replace("+00:00", "Z")


def _is_bad_text(value: Any) -> bool:
    return isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value)


def find(document: Pairs, path: Sequence[str]) -> Any:
    """A value, None if it is absent; of a repeated key the last one counts."""
    at: Any = document
    for part in path:
        if not isinstance(at, Pairs):
            return None
        _check_keys(at)
        values = [value for key, value in at if isinstance(key, str) and key == part]
        at = values[-1] if values else None
    return at


def as_json(value: Any) -> Any:
    """A value as parsed JSON, objects as pairs; raises BadError."""
    _check_readable(value)
    return _as_json(value)


def _check_readable(value: Any) -> None:
    """Raise BadError if anything in a value, also what is repeated later, cannot be read."""
    match value:
        case Pairs():
            _check_keys(value)
            for key, inner in value:
                _check_readable(key)
                _check_readable(inner)
        case list():
            for each in value:
                _check_readable(each)
        case Time():
            value.text()
        case str() if _is_bad_text(value):
            raise BadError("not UTF-8")


def _as_json(value: Any) -> Any:
    match value:
        case Pairs():
            # Of keys that are equal the first one stays, with the last value.
            firsts: dict[Any, Any] = {}
            for key, _ in value:
                firsts.setdefault(_hashable(key), key)
            lasts = {_hashable(key): inner for key, inner in value}
            return [(_key(firsts[key]), _as_json(inner)) for key, inner in lasts.items()]
        case list():
            return [_as_json(each) for each in value]
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            raise BadError("not finite")
        case Time():
            return value.text()
        case Extension():
            raise BadError("extension")
    return value


def _check_keys(document: Pairs) -> None:
    """Raise BadError if a key is a map or an extension, which is checked wherever a map is read."""
    for key, _ in document:
        _check_key(key)


def _check_key(key: Any) -> None:
    match key:
        case Pairs() | Extension():
            raise BadError("a key that is a map or an extension")
        case list():
            for each in key:
                _check_key(each)
        case Time():
            key.text()


def _hashable(key: Any) -> Any:
    # Text and bytes of the same look are different keys; numbers that are equal are one.
    return repr(key) if isinstance(key, list) else key


def _key(key: Any) -> str:
    match key:
        case bool() | None:
            raise BadError("a key of JSON")
        case bytes():
            return base64.b64encode(key).decode()
        case Time():
            return key.text()
        case str():
            return key
        case int():
            return str(key)
        case float() if math.isfinite(key):
            # The shortest digits, with the exponent as msgspec writes it.
            return re.sub(r"e\+?(-?)0*", r"e\1", repr(key))
    raise BadError("a key of JSON")


def field_of(value: Any) -> Any:
    """A value as a field."""
    _check_readable(value)
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Time():
            return value.text()
    return value


# ------------------------------------------------------------------------------------------- checks

COLUMNS = (
    column("a", "Int64"),
    column("b", "String"),
    column("c", "Json"),
    column("f", "Float64", field="m.a"),
    column("i", "Int32", field="m.b"),
    column("x", "Binary", field="é"),
    column("o", "Boolean", field="m.c"),
    column("t", "Timestamp", field="m.é"),
)


CASES = cases(COLUMNS, payloads(), 5)


def check(case: Case) -> Sequence[str]:
    """Compare the decoder with the reference; see ``tests.fuzz``."""
    good = _check_json(case)
    _check_fields(case, PATHS)
    _check_fields(case, (("a",), ("\n",)))
    _check_columns(case)
    return ["good rows"] * len(good)


def _check_json(case: Case) -> Rows:
    decoded = decode(MessagePackDecoder.of({}, Wanted(json=True)), case.payloads)
    wanted = expected(case.payloads, lambda payload: as_json(read(payload)), None)
    same(json_rows(decoded), wanted, "JSON", decoded)
    return wanted


def _check_fields(case: Case, paths: tuple[tuple[str, ...], ...]) -> None:
    decoded = decode(MessagePackDecoder.of({}, Wanted(paths)), case.payloads)

    def values(payload: bytes) -> Any:
        document = read(payload)
        return {path: field_of(find(document, path)) for path in paths}

    wanted = expected(case.payloads, values, dict.fromkeys(paths))
    found = _without_bad_keys(case, _plain(field_rows(decoded)))
    same(found, _without_bad_keys(case, _plain(wanted)), "fields", decoded)


def _without_bad_keys(case: Case, rows: Rows) -> Rows:
    """Rows without those that hold a key that is not UTF-8, which may or may not be noticed."""
    return {
        row: value
        for row, value in rows.items()
        if case.payloads[row] is None or not _has_bad_key(read(case.payloads[row] or b""))
    }


def _has_bad_key(value: Any) -> bool:
    match value:
        case Pairs():
            return any(_is_bad_text(key) or _has_bad_key(inner) for key, inner in value)
        case list():
            return any(map(_has_bad_key, value))
    return False


def _plain(rows: Rows) -> Rows:
    """Fields that are no single value are not compared; nobody can use them."""
    return {
        row: {path: "several" if _is_several(value) else value for path, value in values.items()}
        for row, values in rows.items()
    }


def _is_several(value: Any) -> bool:
    return isinstance(value, list | dict | tuple) or type(value).__name__ in {"Ext", "Extension"}


def _check_columns(case: Case) -> None:
    schema = schema_of(case.columns)
    decoded = decode(MessagePackDecoder.of({}, Wanted(schema=schema)), case.payloads)

    def values(payload: bytes) -> Any:
        document = read(payload)
        return {
            column.name: _column(find(document, column.path), column.type)
            for column in case.columns
        }

    wanted = expected(case.payloads, values, {column.name: None for column in case.columns})
    found = {
        row: {column.name: _compared(value[column.name], column.type) for column in case.columns}
        for row, value in column_rows(decoded).items()
    }
    same(_without_bad_keys(case, found), _without_bad_keys(case, wanted), "columns", decoded)


def _compared(value: Any, type_: str) -> Any:
    if type_ == "Json":
        return parsed(value)
    return value.isoformat() if isinstance(value, datetime) else value


def _column(value: Any, type_: str) -> Any:  # noqa: C901, PLR0911  # one line for each case
    """A value in a declared column; raises BadError if it does not fit."""
    if value is None:
        return None
    match type_, value:
        case "Json", _:
            return as_json(value)
        case (("Int32" | "Int64"), bool()):
            pass
        case "Int32", int() if -(2**31) <= value < 2**31:
            return value
        case "Int64", int() if -(2**63) <= value < 2**63:
            return value
        case "Float64", bool():
            pass
        case "Float64", int() | float():
            return float(value)
        case "Boolean", bool():
            return value
        case "Binary", bytes():
            return value
        case "String", str() if not _is_bad_text(value):
            return value
        case "Timestamp", _ if not isinstance(value, bool):
            return _timestamp(value)
    raise BadError(f"{value!r} is no {type_}")


def _timestamp(value: Any) -> Any:
    if isinstance(value, Time):
        return value.text().replace("Z", "+00:00")
    if value == "":
        return None
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, int):
        try:
            return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)).isoformat()
        except OverflowError as error:
            raise BadError("no time of the calendar") from error
    if isinstance(value, float) and abs(value) < 2**53:
        micros = math.floor(value * 1000)
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat()
    raise BadError(f"{value!r} is no time")
