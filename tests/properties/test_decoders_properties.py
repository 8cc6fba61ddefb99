"""For any bytes decoders do not raise, return every row once, and treat each row independently."""

import json
import re
from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.spec import Column, ColumnType
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Decoder, Wanted
from landfall.pipeline.decoders.delimited import DelimitedDecoder
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.regex import RegexDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from landfall.schemas.avro import AvroDecoder
from tests.support.payloads.declared import columns_of_every_type
from tests.support.payloads.decoded import as_list, results

names = st.sampled_from(["a", "b", "m", "é"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
documents = st.dictionaries(
    names, st.recursive(scalars, lambda inner: st.dictionaries(names, inner), max_leaves=6)
)
texts = documents.map(lambda document: json.dumps(document, ensure_ascii=False))
broken = st.builds(
    lambda text, at, bit: text.encode()[:at] + bit + text.encode()[at + 1 :],
    texts,
    st.integers(0, 60),
    st.binary(max_size=2),
)
payloads = st.one_of(
    texts.map(str.encode),
    broken,
    st.binary(max_size=20),
    st.none(),
    st.sampled_from(
        [
            b"",
            b"{}",
            b"{}{}",
            b'{"a":1}',
            b'{"a":',
            b"1}",
            b"}",
            b'"',
            b' {"a":1}',
            b'{"a":"\xff"}',
            b'{"b":"\xff"}',
        ]
    ),
    st.text(alphabet='ab,"\n\\é1', max_size=12).map(str.encode),
    st.text(alphabet="\x00\x01\x02\x04a", max_size=12).map(str.encode),
)
batches = st.lists(payloads, min_size=1, max_size=12)

SCHEMA = schema_of(columns_of_every_type("abm"))
FIELDS = (("a",), ("m", "a"), ("b",))
AVRO = """{"type": "record", "name": "R", "fields": [
    {"name": "a", "type": ["null", "string", "int"]},
    {"name": "b", "type": {"type": "array", "items": ["null", "R"]}},
    {"name": "m", "type": {"type": "map", "values": "bytes"}}]}"""
AVRO_COLUMNS = schema_of([Column(name=name, type=ColumnType.JSON) for name in "abm"])
DECODERS: list[Decoder] = [
    JsonDecoder.of({}, Wanted()),
    JsonDecoder.of({}, Wanted(FIELDS)),
    JsonDecoder.of({}, Wanted((*FIELDS, ("m",)))),
    JsonDecoder.of({}, Wanted((*FIELDS, ("\n",)))),
    JsonDecoder.of({}, Wanted(FIELDS, SCHEMA)),
    replace(JsonDecoder.of({}, Wanted(FIELDS)), native=None),
    DelimitedDecoder.of({"columns": ["a", "b", "m"]}, Wanted((("a",),), SCHEMA, json=True)),
    DelimitedDecoder.of({"columns": ["a", "b"], "quote": '"'}, Wanted((("b",),), json=True)),
    RegexDecoder.of(
        {"pattern": "(?P<a>a*)(?P<b>1?)(?P<m>.)"}, Wanted((("b",),), SCHEMA, json=True)
    ),
    AvroDecoder.of({"schema": AVRO}, Wanted((("a",), ("b",)), AVRO_COLUMNS, json=True)),
]
decoders = st.sampled_from(DECODERS)


def decode(decoder: Decoder, values: list[bytes | None]) -> Decoded:
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


@given(decoders, batches)
def test_every_row_is_returned_once_and_independently_of_the_others(
    decoder: Decoder, values: list[bytes | None]
) -> None:
    together = decode(decoder, values)

    assert len(together.records) + len(together.bad) == len(values)
    assert results(together) == {
        row: results(decode(decoder, [value]))[0] for row, value in enumerate(values)
    }


@given(batches)
def test_json_is_decoded_if_another_parser_reads_an_object(values: list[bytes | None]) -> None:
    def is_object(value: bytes | None) -> bool:
        try:
            return value is None or isinstance(orjson.loads(value), dict)
        except orjson.JSONDecodeError:
            return False

    got = decode(DECODERS[1], values)

    assert got.records.offsets.tolist() == [
        row for row, value in enumerate(values) if is_object(value)
    ]


@given(st.lists(documents, min_size=1, max_size=10))
def test_fields_are_what_another_parser_finds(rows: list[dict[str, object]]) -> None:
    values: list[bytes | None] = [json.dumps(row).encode() for row in rows]

    got = decode(DECODERS[1], values)

    inner = [row.get("m") for row in rows]
    assert [as_list(got.fields[path]) for path in FIELDS] == [
        [row.get("a") for row in rows],
        [value.get("a") if isinstance(value, dict) else None for value in inner],
        [row.get("b") for row in rows],
    ]


@given(
    st.lists(
        st.tuples(st.text(), st.text()).filter(lambda row: not any("|" in value for value in row)),
        min_size=1,
    )
)
def test_delimited_rows_as_json_are_what_another_parser_reads(rows: list[tuple[str, str]]) -> None:
    decoder = DelimitedDecoder.of({"columns": ["x", "é"], "separator": "|"}, Wanted(json=True))

    got = decode(decoder, ["|".join(row).encode() for row in rows])

    # One line break at the end of a payload does not count.
    assert [orjson.loads(value) for value in got.records.values.to_pylist()] == [
        {"x": x, "é": re.sub(r"(\r\n|\n|\r)\Z", "", y)} for x, y in rows
    ]
