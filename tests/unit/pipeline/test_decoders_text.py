from datetime import date

import orjson
import pyarrow as pa
import pytest

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.delimited import DelimitedDecoder
from landfall.pipeline.decoders.raw import RawDecoder
from landfall.pipeline.decoders.regex import RegexDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled

ABC = {"columns": ["a", "b", "c"]}
FIELDS = (("a",), ("b",), ("c",))
LOG = {"pattern": r"^(?P<ip>\S+) \[(?P<at>[^\]]+)\](?: (?P<user>\S+))?"}


def delimited(values: list[bytes | None], wanted: Wanted, **options: object) -> Decoded:
    return DelimitedDecoder.of({**ABC, **options}, wanted).decode(
        filled(TopicPartition("t", 0), range(len(values)), values)
    )


def regex(values: list[bytes | None], wanted: Wanted) -> Decoded:
    return RegexDecoder.of(LOG, wanted).decode(
        filled(TopicPartition("t", 0), range(len(values)), values)
    )


def field(decoded: Decoded, *path: str) -> list[object]:
    return decoded.fields[path].to_pylist()


def errors_of(decoded: Decoded) -> dict[int, str]:
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


def test_raw_passes_everything_through() -> None:
    records = filled(TopicPartition("t", 0), range(3), [b"\xff", None, b""])

    assert RawDecoder.of({}, Wanted()).decode(records) == Decoded(records)


@pytest.mark.parametrize(
    ("options", "wanted", "message"),
    [
        ({"x": 1}, Wanted(), "unknown option x"),
        ({}, Wanted((("meta", "ts"),)), r"no fields \(meta.ts\)"),
        ({}, Wanted(json=True), "no JSON"),
        ({}, Wanted(schema=pa.schema([])), "no typed columns"),
    ],
)
def test_raw_cannot_deliver_fields_columns_or_json(
    options: dict[str, object], wanted: Wanted, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RawDecoder.of(options, wanted)


def test_delimited_values_are_fields_by_name() -> None:
    got = delimited([b"1,x,2", b"3,,", None], Wanted((("a",), ("b",))))

    assert (field(got, "a"), field(got, "b")) == (["1", "3", None], ["x", None, None])
    assert (len(got.records), errors_of(got)) == (3, {})


def test_rows_of_the_wrong_width_are_bad() -> None:
    got = delimited([b"1,2", b"1,2,3", b"", b"1,2,3,4", b"\xff,2,3"], Wanted((("c",),)))

    assert (field(got, "c"), got.records.offsets.tolist()) == (["3"], [1])
    assert errors_of(got) == {
        0: "delimited: 2 values for 3 columns",
        2: "delimited: 1 values for 3 columns",
        3: "delimited: 4 values for 3 columns",
        4: "not UTF-8: invalid start byte at byte 0",
    }


def test_separators_may_be_tabs_or_longer() -> None:
    assert field(delimited([b"1\t2\t3"], Wanted((("c",),)), separator="\t"), "c") == ["3"]
    assert field(delimited([b"1||2|||3"], Wanted((("c",),)), separator="||"), "c") == ["|3"]


def test_quotes_are_text_unless_the_option_is_set() -> None:
    row = b'"a,1","say ""hi""\n",z'

    assert errors_of(delimited([row], Wanted())) == {0: "delimited: 4 values for 3 columns"}
    quoted = delimited(
        [row, b"1,2,3", b'"x"y,2,3', b'"open,2,3', None], Wanted((("a",), ("b",))), quote='"'
    )
    assert (field(quoted, "a"), field(quoted, "b")) == (
        ["a,1", "1", None],
        ['say "hi"\n', "2", None],
    )
    assert list(errors_of(quoted)) == [2, 3]


@pytest.mark.parametrize("separator", [",", "|", "é"])
def test_rows_with_quotes_are_what_they_are_alone(separator: str) -> None:
    texts = ["1,2,3", '"a",b,"c"', '"a,1","say ""hi""",', ",,", '"","",""', '1,"2\n",3', None]
    texts += ['a,b"b,c', '"a" ,b,c', '"a",b', '"a,b,c', '"a""",\n"b",c', '1,2,"3"\n', '"é",é,1']
    texts += ['"a",b,c,d', 'x,"y""",z\r\n']
    rows = [None if text is None else text.replace(",", separator).encode() for text in texts]
    options = {"separator": separator, "quote": '"'}

    together = delimited(rows * 3, Wanted(FIELDS), **options)
    alone = [delimited([row], Wanted(FIELDS), **options) for row in rows] * 3

    assert errors_of(together) == {
        row: errors_of(decoded)[0] for row, decoded in enumerate(alone) if errors_of(decoded)
    }
    assert {8, 9, 10, 11, 14} <= errors_of(together).keys() <= {*range(8, 48)}
    for path in FIELDS:
        of_rows = [field(decoded, *path) for decoded in alone]
        assert field(together, *path) == [value for values in of_rows for value in values]
    assert field(together, "b")[2] == 'say "hi"'


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
@pytest.mark.parametrize("options", [{}, {"quote": '"'}])
@pytest.mark.parametrize("value", ["b", '"b"'])
def test_one_line_break_at_the_end_does_not_count(
    value: str, options: dict[str, object], end: str
) -> None:
    got = delimited([f"1,2,{value}{end}".encode()], Wanted((("c",),)), **options)

    assert (field(got, "c"), errors_of(got)) == (["b" if options else value], {})


@pytest.mark.parametrize("end", ["\n\n", "\nd", "\rd", "\n\r\n", "\r\r"])
def test_other_line_breaks_are_in_values_and_with_the_option_in_quotes(end: str) -> None:
    wanted = Wanted((("c",),))
    value = f"b{end}".removesuffix("\n").removesuffix("\r")

    assert field(delimited([f"1,2,b{end}".encode()], wanted), "c") == [value]
    quoted = delimited([f'1,2,"b{end}"'.encode()], wanted, quote='"')
    assert field(quoted, "c") == [f"b{end}"]
    for row in (f"1,2,b{end}", f'1,2,"b"{end}', f'"1",2,b{end}', f'1,b{end},"2"', f"1,b{end},2"):
        for rows in ([row.encode()], [b"1,2,3", row.encode(), b'1,"2",3']):
            got = delimited(rows, wanted, quote='"')
            assert set(errors_of(got).values()) == {"delimited: line break outside of quotes"}, row


def test_an_open_quote_is_what_is_wrong_even_before_line_breaks() -> None:
    got = delimited([b'1,2,"b\n\n'], Wanted(), quote='"')

    assert errors_of(got) == {0: "delimited: unexpected end of data"}


def test_a_line_break_that_separates_values_stays() -> None:
    got = delimited([b"1\n2\n"], Wanted((("c",),)), separator="\n")

    assert (field(got, "c"), errors_of(got)) == ([None], {})


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("pattern", [r"^(?P<a>\w) (?P<b>\d+)$", r"(?P<a>\w) (?P<b>.*)"])
def test_the_end_of_a_pattern_is_before_a_line_break(pattern: str, end: bytes) -> None:
    decoder = RegexDecoder.of({"pattern": pattern}, Wanted((("b",),)))

    got = decoder.decode(filled(TopicPartition("t", 0), range(3), [b"x 1" + end, b"-", None]))

    assert (field(got, "b"), errors_of(got)) == (["1", None], {1: "regex: pattern not found"})


def test_a_pattern_may_hold_the_line_break_itself() -> None:
    decoder = RegexDecoder.of({"pattern": r"(?P<a>\w+)\n$|(?P<b>;)\n\n|=(?P<c>\w)"}, Wanted(FIELDS))
    rows: list[bytes | None] = [b"x\n", b";\n\n", b"=y\n", b"=z", b"x", b"x\n\n"]

    together = decoder.decode(filled(TopicPartition("t", 0), range(6), rows))

    assert [field(together, name) for name in "abc"] == [
        ["x", None, None, None, "x"],
        [None, ";", None, None, None],
        [None, None, "y", "z", None],
    ]
    assert errors_of(together) == {4: "regex: pattern not found"}


def test_a_quoted_value_may_be_large() -> None:
    large = "x" * 1_000_000

    assert field(delimited([f'"{large}",2,3'.encode()], Wanted((("a",),)), quote='"'), "a") == [
        large
    ]


def test_rows_become_json_if_the_format_needs_it() -> None:
    got = delimited([b"1,x,", b'\\,"\x01,\xc3\xa9', None, b"bad"], Wanted(json=True))

    assert got.records.values.to_pylist() == [
        b'{"a":"1","b":"x","c":""}',
        orjson.dumps({"a": "\\", "b": '"\x01', "c": "é"}),
        None,
    ]


def test_text_becomes_typed_columns() -> None:
    types = {"a": "Int64", "b": "Date", "c": "String"}
    schema = schema_of(
        [Column(name=name, type=kind, nullable=name != "a") for name, kind in types.items()]
    )

    got = delimited([b"1,2013-01-01,", b"x,,", b"2,,y", b",,", b"3,soon,"], Wanted(schema=schema))

    assert got.columns is not None
    assert got.columns.to_pydict() == {
        "a": [1, 2],
        "b": [date(2013, 1, 1), None],
        "c": ["", "y"],
    }
    assert errors_of(got) == {
        1: "column a: expected Int64, got 'x'",
        3: "column a: null",
        4: "column b: expected Date, got 'soon'",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "missing required field `columns`"),
        ({"columns": []}, "columns must have unique names"),
        ({"columns": ["a", "a"]}, "columns must have unique names"),
        ({"columns": ["a"], "header": True}, "unknown option header"),
        ({"columns": ["a"], "separator": ""}, "separator"),
        ({"columns": ["a"], "separator": "||", "quote": '"'}, "separator"),
        ({"columns": ["a"], "quote": "'"}, "quote"),
        ({"columns": ["b"]}, "no column 'a'; the columns are b"),
    ],
)
def test_wrong_options_of_delimited_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DelimitedDecoder.of(options, Wanted((("a",),)))


def test_regex_groups_are_fields_by_name() -> None:
    got = regex(
        [b"::1 [now] me\n", b"::2 [then]", b"nothing", b"\xff", None], Wanted((("ip",), ("user",)))
    )

    assert (field(got, "ip"), field(got, "user")) == (["::1", "::2", None], ["me", None, None])
    assert errors_of(got) == {
        2: "regex: pattern not found",
        3: "not UTF-8: invalid start byte at byte 0",
    }


def test_regex_rows_become_json() -> None:
    got = regex([b'::1 [a"b] me'], Wanted(json=True))

    assert got.records.values.to_pylist() == [b'{"ip":"::1","at":"a\\"b","user":"me"}']


@pytest.mark.parametrize(
    ("pattern", "fields", "expected"),
    [
        (r"(\S+) \[([^]]*)\]", None, {"1": "::1", "2": "now"}),
        (r"(\S+) \[([^]]*)\]", ["ip", "at"], {"ip": "::1", "at": "now"}),
        (r"(?<ip>\S+) \[(.*)\]", None, {"ip": "::1", "2": "now"}),
        (r"([^(]+?) (?:[(\[])([a-z]+)", ["ip", "at"], {"ip": "::1", "at": "now"}),
        (r"\Q::\E([]0-9]) \[((n)ow)", None, {"1": "1", "2": "now", "3": "n"}),
    ],
)
def test_groups_without_a_name_are_fields_by_number_or_position(
    pattern: str, fields: list[str] | None, expected: dict[str, str]
) -> None:
    options = {"pattern": pattern} | ({"fields": fields} if fields else {})
    decoder = RegexDecoder.of(options, Wanted(tuple((name,) for name in expected)))

    got = decoder.decode(filled(TopicPartition("t", 0), [0], [b"::1 [now] me"]))

    assert {name: field(got, name) for name in expected} == {
        name: [text] for name, text in expected.items()
    }


@pytest.mark.parametrize("fields", [["a"], ["a", "b", "c"], ["a", "a"], []])
def test_fields_that_do_not_fit_the_groups_are_refused(fields: list[str]) -> None:
    with pytest.raises(ValueError, match=r"groups are 1, 2|columns must have unique names"):
        RegexDecoder.of({"pattern": "(x)(y)", "fields": fields}, Wanted())


def test_fields_do_not_rename_groups() -> None:
    with pytest.raises(ValueError, match="groups are a, 2"):
        RegexDecoder.of({"pattern": "(?P<a>x)(y)", "fields": ["b", "c"]}, Wanted())


@pytest.mark.parametrize(
    "pattern", ["no groups", "(?:unnamed)", "(?P<a>", r"(?P<a>x)\1", "(?P<a>x)(?P<a>y)"]
)
def test_wrong_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|columns must have unique names"):
        RegexDecoder.of({"pattern": pattern}, Wanted())
