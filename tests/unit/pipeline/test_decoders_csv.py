import orjson
import pytest

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.csv import CsvDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from landfall_audit.payloads import text_documents

AB = {"columns": ["a", "b"]}


def decode(values: list[bytes | None], options: object = None, wanted: object = None) -> Decoded:
    decoder = CsvDecoder.of(options or AB, wanted or Wanted(json=True))  # type: ignore[arg-type]  # of tests
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


def rows(decoded: Decoded) -> list[object]:
    return [
        value and list(orjson.loads(value).values()) for value in decoded.records.values.to_pylist()
    ]


def errors_of(decoded: Decoded) -> dict[int, str]:
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


@pytest.mark.parametrize(
    ("payload", "values"),
    [
        (b"x,y", ["x", "y"]),
        (b",", ["", ""]),
        (b'"x","y"', ["x", "y"]),
        (b'"a,b",y', ["a,b", "y"]),
        (b'"say ""hi""",""', ['say "hi"', ""]),
        (b'"one\r\ntwo",y\r\n', ["one\r\ntwo", "y"]),
        (b"x,y\n", ["x", "y"]),
        (b"x,y\r", ["x", "y"]),
        (b" x , y", [" x ", " y"]),
        ("é,\u2028".encode(), ["é", "\u2028"]),
        (b'"""",","', ['"', ","]),
    ],
)
def test_a_record_of_rfc_4180_is_decoded(payload: bytes, values: list[str]) -> None:
    got = decode([b"1,2", payload, None, b'"3",4'])

    assert rows(got) == [["1", "2"], values, None, ["3", "4"]]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"x", "csv: 1 values for 2 columns"),
        (b"", "csv: 1 values for 2 columns"),
        (b"x,y,z", "csv: 3 values for 2 columns"),
        (b'"x","y","z"', "csv: 3 values for 2 columns"),
        (b'5" pipe,y', "csv: malformed value 1: '5\" pipe,y'"),
        (b'x,"y', "csv: malformed value 2: '\"y'"),
        (b'"x"z,y', "csv: malformed value 1: '\"x\"z,y'"),
        (b' "x",y', "csv: malformed value 1: ' \"x\",y'"),
        (b"x,y\nz,w", "csv: malformed value 2: 'y\\nz,w'"),
        (b"x,y\n\n", "csv: malformed value 2: 'y\\n'"),
        (b"x,\xff", "not UTF-8: invalid start byte at byte 2"),
    ],
)
def test_a_malformed_record_is_rejected_alone(payload: bytes, error: str) -> None:
    got = decode([b"1,2", payload, b'"3",4'])

    assert errors_of(got) == {1: error}
    assert rows(got) == [["1", "2"], ["3", "4"]]


def test_options_are_taken_as_they_are_written() -> None:
    options = {
        "header": "'a b';b;c",
        "separator": ";",
        "quote": "'",
        "escape": "\\",
        "nullText": "\\N",
        "trim": True,
    }
    payloads: list[bytes | None] = [
        b" x ;\t'y;''z' ;\\N",
        b"'\\'';a\\;b;'\\N'",
        b"a\\\\;' b ';\\'",
        b"x; \\N ;z",
        b"x;y;z",
    ]

    got = decode(payloads, options, Wanted((("a b",), ("c",)), json=True))

    assert rows(got) == [
        ["x", "y;'z", None],
        ["'", "a;b", "N"],
        ["a\\", " b ", "'"],
        ["x", None, "z"],
        ["x", "y", "z"],
    ]
    assert got.fields["c",].to_pylist() == [None, "N", "'", "z", "z"]  # type: ignore[union-attr]  # Arrow text


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b" a\\  ", "a "),
        (b"\\ ", " "),
        (b" \\ a \\\t ", " a \t"),
        (b"a\\\\  ", "a\\"),
        (b"a\\\\\\  ", "a\\ "),
        (b"N\\ ", "N "),
        (b" N ", None),
    ],
)
def test_a_blank_that_is_escaped_is_not_trimmed(payload: bytes, value: str | None) -> None:
    options = {"columns": ["a"], "escape": "\\", "trim": True, "nullText": "N"}

    assert rows(decode([payload], options)) == [[value]]
    document, _ = text_documents.csv(options)
    assert [*document(payload).values()] == [value]


def test_the_null_text_counts_only_outside_of_quotes() -> None:
    got = decode([b'NULL,"NULL"', b"x,NULL"], {**AB, "nullText": "NULL"})

    assert rows(got) == [[None, "NULL"], ["x", None]]


def test_empty_text_is_null_if_that_is_the_null_text() -> None:
    assert rows(decode([b'"",', b","], {**AB, "nullText": ""})) == [["", None], [None, None]]


def test_an_empty_payload_is_one_empty_value() -> None:
    assert rows(decode([b"", b"\n", b'""'], {"columns": ["a"]})) == [[""], [""], [""]]


def test_typed_columns_are_read_from_text() -> None:
    schema = schema_of([Column(name="n", type="Int32", field="a"), Column(name="b", type="String")])

    got = decode([b'"1",x', b",", b'x,"y"', None], None, Wanted(schema=schema))

    assert list(errors_of(got)) == [2]
    assert got.columns is not None
    assert got.columns.to_pylist() == [
        {"n": 1, "b": "x"},
        {"n": None, "b": ""},
        {"n": None, "b": None},
    ]


def test_a_value_of_a_mebibyte_in_quotes_is_read() -> None:
    text = 'x""' * 400_000

    assert rows(decode([f'"{text}",y'.encode()])) == [['x"' * 400_000, "y"]]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "give the names of the columns as columns or as header"),
        ({**AB, "header": "a,b"}, "give the names of the columns as columns or as header"),
        ({"header": '"a'}, "header: malformed value 1"),
        ({"columns": ["a", "a"]}, "columns must have unique names"),
        ({**AB, "separator": "||"}, "separator '||' must be one character"),
        ({**AB, "separator": "\n"}, "separator '\\n' must be one character, no line break"),
        ({**AB, "separator": '"'}, "separator, quote must be different characters"),
        ({**AB, "escape": ","}, "separator, quote, escape must be different characters"),
        ({**AB, "escape": ""}, "escape '' must be one character"),
        ({**AB, "trim": True, "quote": " "}, "quote and escape cannot be one"),
        ({**AB, "nullText": "a,b"}, "nullText 'a,b' cannot be an unquoted value"),
        ({**AB, "seperator": ";"}, "unknown option seperator, did you mean separator?"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the message is what counts
        CsvDecoder.of(options, Wanted())

    assert error in str(refused.value)


def test_a_field_that_is_no_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no column 'c'; the columns are a, b"):
        CsvDecoder.of(AB, Wanted((("c",),)))
