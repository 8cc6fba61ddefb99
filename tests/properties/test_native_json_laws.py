"""For any payloads and wanted paths, the extension and Python decode JSON alike."""

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.documents import Extracted
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from tests.support.driver.hot_paths import needs_native
from tests.support.examples import share
from tests.support.payloads.declared import NATIVE, column
from tests.support.payloads.json_payloads import VALUES, payloads_with

pytestmark = needs_native

NAMES = st.sampled_from(["a", "b", "m", "é", "", "ts", "a\n", "x" * 70])
NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.integers(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False).map(float),
)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=20)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, DOCUMENTS, max_size=6)


@st.composite
def number_texts(draw: st.DrawFn) -> bytes:
    """Numbers as nobody writes them, and what nearly is one."""
    digits = st.text("0123456789", max_size=22)
    text = draw(st.sampled_from(["", "-"])) + draw(digits)
    if draw(st.booleans()):
        text += "." + draw(digits)
    if draw(st.booleans()):
        text += draw(st.sampled_from(["e", "E", "e-", "e+"])) + draw(digits)
    return text.encode()


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """An object, written in one of several ways."""
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), ("\n,", " :\t")]))
    written = json.dumps(
        draw(OBJECTS), ensure_ascii=draw(st.booleans()), separators=separators
    ).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        written = written.replace(b"1", draw(number_texts()), 1)
    return draw(st.sampled_from([b"", b" ", b"\r\n"])) + written


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """An object of which bytes were put in, taken out or replaced."""
    text = draw(texts())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        inside = st.sampled_from([*b'{}[],:"\\0123456789.eE+-tfnul \n\x00\xff\xc3']).map(
            lambda byte: bytes([byte])
        )
        piece = draw(inside | st.binary(max_size=2))
        text = text[:at] + piece + text[at + draw(st.integers(0, 2)) :]
    return text


KNOWN = [payload for value in VALUES if len(value) < 500 for payload in payloads_with(value)]
PAYLOADS = st.one_of(
    texts(),
    texts(),
    changed(),
    st.sampled_from(KNOWN),
    st.none(),
    st.binary(max_size=12),
    number_texts().map(lambda number: b'{"a":%b,"m":{"a":%b},"x":%b}' % (number, number, number)),
)
PATHS = st.lists(NAMES.filter(lambda name: "\n" not in name), min_size=1, max_size=3).map(tuple)


@st.composite
def wanteds(draw: st.DrawFn) -> Wanted:
    """Any paths, some of them with types."""
    fields = draw(st.lists(PATHS, max_size=5, unique=True))
    columns = [
        column(draw(st.sampled_from(NATIVE)), f"c{n}", ".".join(path))
        for n, path in enumerate(draw(st.lists(st.tuples(st.sampled_from("abm")), max_size=3)))
    ]
    return Wanted(tuple(fields), schema_of(columns) if columns else None)


def plain(extracted: Extracted) -> object:
    """What was extracted, with the types of columns and of values."""
    values, errors = extracted
    columns = [
        (type(column), [(type(value), repr(value)) for value in list(column)])
        for column in values.values()
    ]
    return columns, errors


@settings(max_examples=share(500))
@given(wanteds(), st.lists(PAYLOADS, min_size=1, max_size=12), st.integers(0, 3))
def test_payloads_are_decoded_alike(
    wanted: Wanted, payloads: list[bytes | None], start: int
) -> None:
    native, column = JsonDecoder.of({}, wanted).native, pa.array(payloads, pa.binary())[start:]
    if native is None:  # paths that contain each other are for Python
        return

    assert plain(native.extract(column)) == plain(native.documents.extract(column))
