import io

import pytest

from landfall.api.spec import Codec
from landfall.formats import Block, Format
from landfall.formats.jsonlines import JsonFormat
from landfall.formats.text import TextFormat
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import Records, filled

CLICKS = TopicPartition("clicks", 3)


def records(*values: bytes | None) -> Records:
    return filled(CLICKS, range(len(values)), values)


def written(format_: Format, *blocks: Records) -> bytes:
    encoder = format_.encoder()
    return b"".join((*(encoder.encode(Block(block)) for block in blocks), encoder.finish()))


def refused(format_: Format, *values: bytes | None) -> list[int]:
    return format_.refuse(records(*values)).rows.tolist()


def read(format_: Format, data: bytes) -> list[bytes | None]:
    return [row.value for row in format_.rows(io.BytesIO(data))]


def plain(**options: object) -> TextFormat:
    return TextFormat.of({"codec": Codec.NONE, **options})


def test_every_payload_is_followed_by_the_delimiter() -> None:
    assert (
        written(plain(delimiter="\\t|"), records(b"a", b""), records(b"\xff\x00b"))
        == b"a\t|\t|\xff\x00b\t|"
    )


def test_an_empty_delimiter_writes_payloads_back_to_back_and_cannot_be_read() -> None:
    text = plain(delimiter="")

    assert written(text, records(b"a", b"bc")) == b"abc"
    assert refused(text, b"a", b"bc") == []
    with pytest.raises(ValueError, match="rows cannot be separated"):
        read(text, b"abc")


def test_a_sliced_column_is_written_without_the_rest() -> None:
    whole = records(b"a", b"b\n", b"c", b"d")
    middle = Records(CLICKS, whole.offsets[2:], whole.values.slice(2), whole.columns)

    assert written(plain(), middle) == b"c\nd\n"
    assert not plain().refuse(middle)


def test_a_delimiter_inside_and_tombstones_are_refused_by_default() -> None:
    bad = plain().refuse(records(b"ok", b"a\nb", None, b"", b"\n"))

    assert (bad.rows.tolist(), list(bad.errors)) == (
        [1, 2, 4],
        [
            "the payload contains the delimiter b'\\n'",
            "this format cannot write a tombstone",
            "the payload contains the delimiter b'\\n'",
        ],
    )


def test_a_payload_whose_end_joins_the_delimiter_is_refused() -> None:
    assert refused(plain(delimiter="||"), b"a|", b"|a", b"a||b", b"a") == [0, 2]


def test_options_allow_tombstones_and_delimiters_inside() -> None:
    text = plain(delimiterInside="Keep", tombstones="Empty")

    assert refused(text, b"a\nb", None) == []
    assert written(text, records(b"a\nb", None)) == b"a\nb\n\n"


def test_a_tombstone_that_was_not_refused_raises() -> None:
    for of in (plain(), JsonFormat.of({})):
        with pytest.raises(ValueError, match="clicks/3: 1 tombstone in a block of a format that"):
            written(of, records(b"{}", None))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"delimitr": "x"},
            "unknown option delimitr, did you mean delimiter?; the options are codec, ",
        ),
        (
            {"codec": Codec.SNAPPY},
            "option codec: must be Gzip, Zstd or None, got 'Snappy'",
        ),
        ({"delimiter": 7}, "option delimiter: 7 is not text"),
        ({"delimiter": "\\q"}, "has an escape other than"),
        ({"delimiter": "\\"}, "has an escape other than"),
        (
            {"delimiterInside": "Escape"},
            "option delimiterInside: must be DeadLetter or Keep, got 'Escape'",
        ),
        ({"tombstones": "Null"}, "option tombstones: must be DeadLetter or Empty, got 'Null'"),
        ({"extension": "txt"}, "option extension: 'txt' is neither empty nor like .json.gz"),
    ],
)
def test_the_error_of_a_wrong_option_names_it_and_what_is_expected(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match="option") as caught:
        TextFormat.of(options)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("\\n", b"\n"),
        ("\n", b"\n"),
        ("\\x00\\xfe", b"\x00\xfe"),
        ("\\0\\\\n", b"\0\\n"),
        ("→", "→".encode()),
    ],
)
def test_a_delimiter_may_be_any_bytes(text: str, delimiter: bytes) -> None:
    assert plain(delimiter=text).delimiter == delimiter


def test_the_default_extension_names_format_and_codec() -> None:
    made = [
        of({"codec": codec}).extension
        for of in (TextFormat.of, JsonFormat.of)
        for codec in (None, "Gzip", "Zstd", "None")
    ]

    assert made == [
        ".txt.gz",
        ".txt.gz",
        ".txt.zst",
        ".txt",
        ".json.gz",
        ".json.gz",
        ".json.zst",
        ".json",
    ]
    assert TextFormat.of({"extension": ""}).extension == ""
    assert JsonFormat.of({"extension": ".gz"}).extension == ".gz"


@pytest.mark.parametrize("codec", ["Gzip", "Zstd", "None"])
def test_rows_are_read_back_large_or_none(codec: str) -> None:
    text = TextFormat.of({"codec": codec})
    values = [b"x" * 10_000_000, b"", b"y"]

    assert read(text, written(text, records(*values), records(b"z"))) == [*values, b"z"]
    assert read(text, written(text)) == []


def test_an_object_that_ends_inside_a_row_is_refused() -> None:
    with pytest.raises(
        ValueError, match="row 1: the object ends after 3 bytes of the row, before the delimiter"
    ):
        read(plain(), b"one\ntwo")


def test_pretty_printed_json_becomes_one_line_and_loses_nothing() -> None:
    json = JsonFormat.of({"codec": "None"})
    pretty = b'{\r\n  "n": 1.10,\n  "n": 123456789012345678901234567890, "s": "a\\nb"\n}'

    line = written(json, records(b"{}", pretty))

    assert line == b'{}\n{    "n": 1.10,   "n": 123456789012345678901234567890, "s": "a\\nb" }\n'
    assert json.wanted.json


def test_json_tombstones_are_refused_or_the_word_null() -> None:
    assert refused(JsonFormat.of({}), b"{}", None) == [1]
    assert refused(JsonFormat.of({"tombstones": "Null"}), None) == []
    assert (
        written(JsonFormat.of({"tombstones": "Null", "codec": "None"}), records(None, b"{}"))
        == b"null\n{}\n"
    )
