"""The extension decodes JSON as Python does, or leaves it to Python."""

import json
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from landfall.api.spec import Column
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.documents import Extracted
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.native_json import NativeDocuments
from landfall.pipeline.decoders.typed_columns import schema_of
from tests.support.driver.hot_paths import NATIVE as EXTENSION
from tests.support.driver.hot_paths import PYTHON, needs_native, running
from tests.support.payloads.declared import NATIVE, column
from tests.support.payloads.json_payloads import VALUES, payloads_with

pytestmark = needs_native

COLUMNS = [column(kind, str(kind), field) for kind, field in zip(NATIVE, "abmabma", strict=True)]
SHAPES = {
    "nothing": Wanted(),
    "one": Wanted((("a",),)),
    "nested": Wanted((("a",), ("m", "t"), ("m", "u", "v"), ("b",))),
    "inside": Wanted((("a", "a"), ("b", "t", "v"))),
    "odd names": Wanted((("",), ("é",), ("zz",))),
    "columns": Wanted((("a",), ("zz",)), schema_of(COLUMNS[:3])),
    "more columns": Wanted((("b",),), schema_of(COLUMNS[3:6])),
}
shapes = pytest.mark.parametrize("wanted", SHAPES.values(), ids=SHAPES)


@pytest.fixture(autouse=True)
def native_path() -> Iterator[None]:
    """The extension, whatever threads of other tests have asked for."""
    with running(EXTENSION):
        yield


def extractor(wanted: Wanted) -> NativeDocuments:
    native = JsonDecoder.of({}, wanted).native
    assert native is not None
    return native


def plain(extracted: Extracted) -> object:
    """What was extracted, with the types of columns and of values."""
    values, errors = extracted
    return (
        [
            (type(column), [(type(value), repr(value)) for value in list(column)])
            for column in values.values()
        ],
        errors,
    )


def check(wanted: Wanted, payloads: pa.BinaryArray) -> None:
    native = extractor(wanted)

    assert plain(native.extract(payloads)) == plain(native.documents.extract(payloads))


def left(wanted: Wanted, payloads: Sequence[bytes | None]) -> list[int]:
    """The rows that the extension leaves to Python."""
    valid, bounds, contents = pa.array(payloads, pa.binary()).buffers()
    _, rows = extractor(wanted).fields.extract(valid, bounds, contents or b"", 0, len(payloads))
    found: list[int] = np.frombuffer(rows, np.int64).tolist()
    return found


def test_every_payload_alone_is_decoded_alike() -> None:
    wanted = SHAPES["nested"]
    for value in VALUES:
        for payload in payloads_with(value):
            check(wanted, pa.array([payload], pa.binary()))


@shapes
def test_all_payloads_together_are_decoded_alike(wanted: Wanted) -> None:
    payloads = [payload for value in VALUES for payload in payloads_with(value)]
    payloads = [payload for payload in payloads if len(payload) < 2000]
    whole = pa.array([*payloads, None], pa.binary())

    check(wanted, whole)
    check(wanted, whole[:-1])
    check(wanted, whole[7:93])
    check(wanted, whole.take(pa.array(range(0, len(whole), 3))))


def test_what_is_usual_takes_the_extension() -> None:
    usual: list[bytes | None] = [
        b'{"ts":1763683200123,"m":{"t":"text"},"x":[1,{"y":null}],"z":"\\n\\ud83d\\ude00"}',
        b'{ "z" : 1e999, "ts" : -1.5, "m" : { "u" : { "v" : true } } }\r\n',
        '{"é":"é","ts":"2025-11-21","m":[]}'.encode(),
        b'{"ts":9223372036854775807,"m":null}',
        None,
        b"{}",
    ]

    assert left(Wanted((("ts",), ("m", "t"), ("m", "u", "v"))), usual) == []


def test_values_of_typed_columns_take_the_extension() -> None:
    payload = (
        b'{"s":"x","i":-1,"l":1763683200123,"f":1,"b":true,"t":"2025-11-21T10:00:00Z","d":null}'
    )
    kinds = ["String", "Int32", "Int64", "Float64", "Boolean", "Timestamp", "Date"]
    columns = [
        Column(name=kind, type=kind, field=field)
        for kind, field in zip(kinds, "silfbtd", strict=True)
    ]

    assert left(Wanted(schema=schema_of(columns)), [payload, b"{}"]) == []


def test_what_python_may_see_in_another_way_is_left() -> None:
    odd: list[bytes | None] = [
        b'{"ts":1,"ts":2}',
        b'{"t\\u0073":1}',
        b'{"ts":"\\n"}',
        b'{"ts":[]}',
        b'{"ts":9223372036854775808}',
        b'{"ts":1e400}',
        b'{"x":%b1%b}' % (b"[" * 65, b"]" * 65),
        b'{"ts":1',
        b"",
    ]

    assert left(Wanted((("ts",),)), odd) == list(range(len(odd)))


def test_many_columns_and_rows_are_decoded_alike() -> None:
    dice = Random(39)
    names = [f"column_{number}" for number in range(300)]
    columns = [Column(name=name, type="Int64") for name in names[::2]]
    wanted = Wanted(tuple((name,) for name in names[:100]), schema_of(columns))
    payloads: list[bytes | None] = [None, b"", b"[]", b"{}"]
    for row in range(300):
        chosen = dice.sample(names, dice.choice((1, 20, 300)))
        wrong = {dice.choice(names): dice.choice((True, "text", 1.5))} if row % 9 == 0 else {}
        payloads.append(json.dumps(dict.fromkeys(chosen, row) | wrong).encode())
    dice.shuffle(payloads)

    check(wanted, pa.array(payloads, pa.binary()))
    check(wanted, pa.array(payloads, pa.binary())[13:200])


def test_integers_are_an_array_that_may_be_changed() -> None:
    values, _ = extractor(SHAPES["one"]).extract(pa.array([b'{"a":1}'] * 3, pa.binary()))

    (column,) = values.values()
    assert isinstance(column, np.ndarray)
    column += 1
    assert column.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted((("a",), ("a", "b"))),
        Wanted((('a"b',),)),
        Wanted((("a",) * 100,)),
        Wanted((("a",),), schema_of([Column(name="c", type="Json")])),
        Wanted((("a",),), schema_of([Column(name="c", type="Binary")])),
    ],
)
def test_python_extracts_what_the_extension_cannot(wanted: Wanted) -> None:
    assert JsonDecoder.of({}, wanted).native is None


def test_python_extracts_where_it_is_asked_for() -> None:
    documents = extractor(SHAPES["one"]).documents

    assert NativeDocuments.of(documents, PYTHON) is None


def test_large_binaries_are_for_python() -> None:
    large = pa.array([b'{"a":1}', b"x"], pa.large_binary())
    values, errors = extractor(SHAPES["one"]).extract(large)

    assert [list(column) for column in values.values()] == [[1, None]]
    assert list(errors) == [1]


@pytest.mark.parametrize(
    ("valid", "bounds", "contents", "first", "rows"),
    [
        (None, np.array([0, 9], np.int32), b"{}", 0, 1),
        (None, np.array([0, 2], np.int32), b"{}", 0, 2),
        (None, np.array([0, 2], np.int32), b"{}", 1, 1),
        (None, np.array([2, 0], np.int32), b"{}", 0, 1),
        (None, np.array([-1, 0], np.int32), b"{}", 0, 1),
        (b"", np.array([0, 2], np.int32), b"{}", 0, 1),
        (None, np.array([0, 2], np.int32), b"{}", 2**62, 1),
    ],
)
def test_buffers_that_are_too_short_are_refused(
    valid: bytes | None, bounds: object, contents: bytes, first: int, rows: int
) -> None:
    with pytest.raises(ValueError, match=r"row [01] is beyond"):
        extractor(Wanted()).fields.extract(valid, bounds, contents, first, rows)
