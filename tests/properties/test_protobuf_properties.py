"""Protobuf decodes exactly what google.protobuf parses, to the same values, in whatever way."""

from contextlib import suppress
from typing import Any

import orjson
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Decoder, Wanted
from landfall.pipeline.decoders.protobuf import FixedProtobufDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from tests.support.examples import share
from tests.support.payloads.damage import damaged
from tests.support.payloads.decoded import as_list, results
from tests.support.payloads.protobuf_payloads import inline, message

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=6)
NODES = st.fixed_dictionaries({}, optional={"v": INT32, "inner": st.just({"v": 1})})
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "id": INT64,
        "user": TEXTS,
        "amount": st.floats(allow_nan=False),
        "ok": st.booleans(),
        "agent": TEXTS,
        "raw": st.binary(max_size=4),
        "kind": st.sampled_from([0, 1, 5, 9, -1]),
        "meta": st.fixed_dictionaries({}, optional={"host": TEXTS, "ts": INT64}),
        "numbers": st.lists(INT32, max_size=3),
        "by": st.dictionaries(TEXTS, st.sampled_from([0, 1, 5]), max_size=2),
        "tree": NODES,
        "big": st.integers(0, 2**64 - 1),
        "fix": st.integers(0, 2**32 - 1),
        "signed": INT32,
        "text": TEXTS,
        "far": INT64,
        "maybe": st.sampled_from([0, 1]),
        "at": st.fixed_dictionaries(
            {}, optional={"seconds": st.integers(-(2**35), 2**37), "nanos": INT32}
        ),
    },
)
PATHS = [(name,) for name in ("id", "user", "amount", "ok", "agent", "big", "fix", "signed", "far")]
SCHEMA = schema_of(
    [
        *(Column(name=name, type="Int64") for name in ("id", "fix", "kind", "maybe")),
        Column(name="symbol", type="String", field="kind"),
        Column(name="host", type="String", field="meta.host"),
        Column(name="at", type="Timestamp"),
        Column(name="raw", type="Binary"),
    ]
)


def packed(values: Any) -> bytes:
    payload: bytes = message()(**values).SerializeToString()
    return payload


def decoder(wanted: Wanted) -> FixedProtobufDecoder:
    return FixedProtobufDecoder.of({"message": "shop.Event", "descriptors": inline()}, wanted)


def decode(decoder: Decoder, values: list[bytes | None]) -> Decoded:
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


FAST = decoder(Wanted(tuple(PATHS), SCHEMA))
# The member of a oneof makes the decoder read messages one by one.
ALONE = decoder(Wanted((*PATHS, ("text",)), SCHEMA))
JSON = decoder(Wanted(json=True))
PAYLOADS = st.lists(damaged(EVENTS.map(packed)), min_size=1, max_size=8)


def test_one_decoder_reads_columns_and_the_other_messages() -> None:
    assert FAST.batches is not None
    assert ALONE.batches is None


@given(st.sampled_from([FAST, ALONE, JSON]), PAYLOADS)
def test_a_row_is_returned_once_and_independently_of_the_others(
    decoder: Decoder, values: list[bytes | None]
) -> None:
    together = decode(decoder, values)

    assert len(together.records) + len(together.bad) == len(values)
    assert results(together) == {
        row: results(decode(decoder, [value]))[0] for row, value in enumerate(values)
    }


@settings(max_examples=share(200))
@given(PAYLOADS)
def test_columns_and_messages_give_the_same(values: list[bytes | None]) -> None:
    fast, alone = decode(FAST, values), decode(ALONE, values)

    fields = {path: alone.fields[path] for path in PATHS}
    assert results(fast) == results(Decoded(alone.records, fields, alone.columns, alone.bad))


@settings(max_examples=share(200))
@given(PAYLOADS)
def test_a_payload_is_decoded_if_google_parses_it(values: list[bytes | None]) -> None:
    got = decode(decoder(Wanted(tuple(PATHS))), values)

    parsed: dict[int, Any] = {}
    for row, value in enumerate(values):
        with suppress(DecodeError):
            parsed[row] = value if value is None else message().FromString(value)
    assert got.records.offsets.tolist() == list(parsed)
    for path in PATHS:
        assert repr(as_list(got.fields[path])) == repr(
            [
                None
                if each is None or (path == ("agent",) and not each.HasField("agent"))
                else getattr(each, path[0])
                for each in parsed.values()
            ]
        )


@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_json_is_what_google_makes_of_a_message(rows: list[dict[str, object]]) -> None:
    got = decode(JSON, [packed(row) for row in rows])

    expected = []
    for row in rows:
        with suppress(json_format.Error, ValueError):
            expected.append(orjson.loads(json_format.MessageToJson(message()(**row))))
    assert [orjson.loads(value) for value in got.records.values.to_pylist()] == expected


@given(
    PAYLOADS, st.lists(st.sampled_from([b"\x00", b"\x02\x00", b"\x02\x02", b"\x01"]), min_size=8)
)
def test_a_header_changes_nothing_but_what_it_says(
    values: list[bytes | None], indexes: list[bytes]
) -> None:
    options = {"descriptors": inline(), "framing": "Confluent"}
    framed = [
        None if value is None else b"\x00\x00\x00\x00\x07" + index + value
        for value, index in zip(values, indexes, strict=False)
    ]
    wanted = Wanted((("host",),))

    got = decode(FixedProtobufDecoder.of({**options, "message": "shop.Meta"}, wanted), framed)
    plain = decode(
        FixedProtobufDecoder.of({"descriptors": inline(), "message": "shop.Meta"}, wanted),
        [
            value if index in {b"\x00", b"\x02\x00"} else b"\x08" if value is not None else None
            for value, index in zip(values, indexes, strict=False)
        ],
    )

    assert got.records.offsets.tolist() == plain.records.offsets.tolist()
    assert as_list(got.fields["host",]) == as_list(plain.fields["host",])
