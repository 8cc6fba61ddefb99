"""Timestamps of MessagePack are cut to microseconds, never rounded, and nothing else is changed."""

import struct

import msgpack
import orjson
import pyarrow as pa
import pytest

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.messagepack import MessagePackDecoder
from landfall.pipeline.decoders.messagepack_times import with_cut_times
from landfall.pipeline.records import filled


def short(seconds: int, nanoseconds: int) -> bytes:
    return b"\xd7\xff" + struct.pack(">Q", nanoseconds << 34 | seconds)


def long(seconds: int, nanoseconds: int) -> bytes:
    return b"\xc7\x0c\xff" + struct.pack(">Iq", nanoseconds, seconds)


def decode(*payloads: bytes) -> Decoded:
    decoder = MessagePackDecoder.of({}, Wanted((("a",),), json=True))
    return decoder.decode(filled(TopicPartition("t", 0), range(len(payloads)), payloads))


LAST_OF_A_DAY = 1763769599


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (short(LAST_OF_A_DAY, 999_999_999), "2025-11-21T23:59:59.999999Z"),
        (long(LAST_OF_A_DAY, 999_999_999), "2025-11-21T23:59:59.999999Z"),
        (short(0, 1_999), "1970-01-01T00:00:00.000001Z"),
        (short(2**34 - 1, 500), "2514-05-30T01:53:03Z"),
        (long(-1, 1_500), "1969-12-31T23:59:59.000001Z"),
        (long(253_402_300_799, 999_999_999), "9999-12-31T23:59:59.999999Z"),
        (b"\xc8\x00\x0c\xff" + struct.pack(">Iq", 999, 0), "1970-01-01T00:00:00Z"),
        (b"\xc9\x00\x00\x00\x08\xff" + struct.pack(">Q", 999 << 34), "1970-01-01T00:00:00Z"),
    ],
)
def test_what_is_finer_than_a_microsecond_is_cut_off(time: bytes, text: str) -> None:
    got = decode(b"\x81\xa1a" + time)

    assert got.fields["a",] == [text]
    assert [orjson.loads(value) for value in got.records.values.to_pylist()] == [{"a": text}]


def test_a_time_that_the_calendar_does_not_have_is_a_dead_letter_where_it_is_read() -> None:
    beyond = long(253_402_300_800, 0)

    got = decode(b"\x81\xa1a" + beyond, b"\x81\xa1a\x01")

    assert list(got.bad.errors) == ["messagepack: a: year 10000 is out of range"]
    only_field = MessagePackDecoder.of({}, Wanted((("b",),)))
    payload = b"\x82\xa1a" + beyond + b"\xa1b\x01"
    assert not only_field.decode(filled(TopicPartition("t", 0), [0], [payload])).bad


def test_bytes_that_look_like_a_timestamp_stay() -> None:
    time = short(0, 1_999)
    content = time * 3
    payload = b"".join(
        [b"\x85\xa1a\xc4", bytes([len(content)]), content, b"\xa1b\xda\x00\x0b\xd7\xff", b"x" * 9,
         b"\xa1c", time, b"\xa1d\x92\xcb\xd7\xff\x00\x00\x07\xff\x00\x00", time, b"\xa1e\xc0"]
    )  # fmt: skip

    (cut,) = with_cut_times(pa.array([payload], pa.binary())).to_pylist()

    before, after = (
        msgpack.unpackb(each, timestamp=0, unicode_errors="surrogateescape")
        for each in (payload, cut)
    )
    assert before["d"][1].nanoseconds == 1_999
    assert [after["c"].nanoseconds, after["d"][1].nanoseconds] == [1_000, 1_000]
    assert {name: after[name] for name in "abe"} == {name: before[name] for name in "abe"}
    assert after["d"][0] == before["d"][0]


@pytest.mark.parametrize("end", range(1, 18))
def test_a_payload_that_is_cut_short_stays_what_it_is(end: int) -> None:
    payload = (b"\x81\xa1a" + long(0, 1_999))[:end]

    assert with_cut_times(pa.array([payload], pa.binary())).to_pylist() == [payload]
