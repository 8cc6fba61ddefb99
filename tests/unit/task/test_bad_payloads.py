"""Bad payloads of every decoder in typed files: a dead letter with its reason, and nothing else.

``tests/properties/test_fuzz_own_schemas.py`` draws payloads; here are those that people make.
"""

import io
import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage
from typing import Any

import pyarrow.parquet as pq
import pytest

from landfall.api.spec import Codec
from landfall.registry import DECODERS
from tests.support.payloads.own_schemas import is_data, landed, reasons
from tests.support.payloads.ways import AVRO, COLUMNS, FILES, WAYS, Event, Way

GOOD: Event = {"id": 7, "who": "ann", "amount": 0.5, "ok": True}
BIG: Event = {**GOOD, "who": "x" * 10_000_000}
DEEP = 100_000


def varint(number: int) -> bytes:
    """As in Protobuf and, of zigzag numbers, in Avro and Thrift's compact protocol."""
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def zigzag(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


Bad = tuple[str, bytes, str]
"""What it is, the payload, and a part of the reason."""

OF_JSON: list[Bad] = [
    ("empty", b"", "truncated"),
    ("cut", b'{"id": 1', "truncated"),
    ("more behind", b'{"id": 1} x', "trailing"),
    ("no object", b"[1]", 'Expected `object`|not of type "object"'),
    ("not UTF-8", b'{"who": "\xff"}', "decode byte 0xff|UTF-8"),
    ("nested too deep", b'{"x":' + b"[" * DEEP + b"]" * DEEP + b"}", "recursion"),
    ("NaN", b'{"id": 1, "amount": NaN}', "malformed|invalid"),
    ("too large for 64 bits", b'{"id": 9223372036854775808}', "id"),
    ("too large for a double", b'{"id": 1, "amount": 1e999}', "amount|out of range"),
    ("another type", b'{"id": "1"}', "id: Expected|not of type"),
]
OF_TEXT: list[Bad] = [
    ("not UTF-8", b"1|\xff|1|true", "UTF-8|utf-8"),
    ("no number", b"x|a|1|true", "column id: expected Int64, got 'x'"),
    ("too large for 64 bits", b"9223372036854775808|a|1|true", "column id: expected Int64"),
    ("no flag", b"1|a|1|maybe", "column ok|not found|found"),
]
GIB = 2**31 - 1
BAD: dict[str, list[Bad]] = {
    "Json": OF_JSON,
    "JsonSchema": [
        *OF_JSON,
        ("against the schema", b'{"who": "x"}', '"id" is a required property'),
    ],
    "Delimited": [*OF_TEXT, ("too few values", b"1|a", "2 values for 4 columns")],
    "Regex": [*OF_TEXT[:3], ("no match", b"1|a", "not")],
    "Csv": [
        ("not UTF-8", b"1,\xff,1,true", "UTF-8|utf-8"),
        ("a quote that is open", b'1,"a,1,true', "csv: "),
        ("too few values", b"1,a", "csv: "),
        ("two records", b"1,a,1,true\n2,b,1,true", "csv: "),
        ("no number", b"x,a,1,true", "column id: expected Int64, got 'x'"),
    ],
    "MessagePack": [
        ("empty", b"", "truncated"),
        ("cut", b"\x81\xa2id", "truncated"),
        ("more behind", b"\x81\xa2id\x01\x00", "trailing"),
        ("no map", b"\x90", "Expected `object`"),
        ("nested too deep", b"\x81\xa1x" + b"\x91" * DEEP + b"\x01", "recursion"),
        ("4 GiB of text", b"\x81\xa3who\xdb\xff\xff\xff\xff", "truncated"),
        ("4 billion items", b"\x81\xa1x\xdd\xff\xff\xff\xff\x01", "truncated"),
        ("4 billion keys", b"\x81\xa1x\xdf\xff\xff\xff\xff\x01", "truncated"),
        ("too large for 64 bits", b"\x81\xa2id\xcf" + b"\xff" * 8, "id"),
        ("another type", b"\x81\xa2id\xa11", "id"),
    ],
    "ThriftBinary": [
        ("empty", b"", "ends inside a value"),
        ("cut", b"\x0a\0\1\0\0", "ends inside a value"),
        ("more behind", b"\0\0", "after the struct"),
        ("2 GiB of text", b"\x0b\0\2" + struct.pack(">i", GIB), "ends inside a value"),
        ("less than none", b"\x0b\0\2" + struct.pack(">i", -1), "ends inside a value"),
        ("2 billion items", b"\x0f\0\x63\x08" + struct.pack(">i", GIB), "do not fit"),
        ("nested too deep", b"\x0c\0\x63" * DEEP, "more than 64 levels"),
        ("no type", b"\x63\0\1", "unknown type"),
    ],
    "ThriftCompact": [
        ("empty", b"", "ends inside a value"),
        ("cut", b"\x16", "ends inside a value"),
        ("more behind", b"\0\0", "after the struct"),
        ("4 GiB of text", b"\x28" + varint(2**32 - 1), "ends inside a value"),
        ("4 billion items", b"\x09\xc6\x01\xf5" + varint(2**32 - 1), "do not fit"),
        ("over 64 bits", b"\x16" + b"\xff" * 10 + b"\x01", "more than 64 bits"),
        ("nested too deep", b"\x1c" * DEEP, "more than 64 levels"),
    ],
    "Avro": [
        ("empty", b"", "ends inside a value"),
        ("cut", b"\x0e\x06an", "ends inside a value"),
        ("more behind", b"\x0e\x02a" + bytes(8) + b"\x01\x00", "left over"),
        ("a length of gigabytes", b"\x0e" + zigzag(2**62), "ends inside a value"),
        ("less than none", b"\x0e" + zigzag(-1), "negative length"),
        ("over 64 bits", b"\xff" * 10 + b"\x01", "more than 64 bits"),
        ("not UTF-8", b"\x0e\x02\xff" + bytes(8) + b"\x01", "not UTF-8"),
        ("no flag", b"\x0e\x02a" + bytes(8) + b"\x02", "neither 0 nor 1"),
    ],
    "Protobuf": [
        ("cut", b"\x08", "protobuf: "),
        ("2 GiB of text", b"\x12" + varint(GIB) + b"x", "protobuf: "),
        ("a length of 64 bits", b"\x12" + b"\xff" * 9 + b"\x01", "protobuf: "),
        ("over 64 bits", b"\x08" + b"\xff" * 10 + b"\x01", "protobuf: "),
        ("not UTF-8", b"\x12\x01\xff", "protobuf: "),
        ("a group without an end", b"\x9b\x06" * DEEP, "protobuf: "),
        ("field number 0", b"\x02\x00", "protobuf: "),
    ],
}


@dataclass(frozen=True)
class Typed:
    """A decoder and typed files of it."""

    name: str
    decoder: str
    way: Way
    output: str
    own: bool

    def __str__(self) -> str:
        return f"{self.name} as {self.output}{' of its schema' if self.own else ''}"

    def landed(self, payloads: list[bytes], **output: Any) -> tuple[Any, dict[str, bytes]]:
        """Land payloads; the slice and its objects."""
        is_declared = not self.own and self.output != "Avro"
        spec = {
            "decode": {
                "format": self.decoder,
                "options": self.way.options,
                "columns": COLUMNS if is_declared else [],
            },
            "route": {"pattern": "all"},
            "output": {
                "url": "s3://bucket/root",
                "format": self.output,
                "columns": "FromSchema" if self.own else "Declared",
                **output,
            },
        }
        return landed([(100 + i, each) for i, each in enumerate(payloads)], spec)

    def land(self, payloads: list[bytes], **output: Any) -> tuple[Any, list[bytes], list[bytes]]:
        """Land payloads; the slice, its files, and the payloads of its dead letters."""
        made, objects = self.landed(payloads, **output)
        letters = [
            row["value"]
            for key, body in objects.items()
            if not is_data(key)
            for row in pq.ParquetFile(io.BytesIO(body)).read().to_pylist()
        ]
        return made, [body for key, body in objects.items() if is_data(key)], letters


def typed() -> Iterator[Typed]:
    for decoder in DECODERS:
        for way in WAYS[decoder]:
            name = decoder + str(way.options.get("protocol", ""))
            for output in ("Parquet", "Orc"):
                if way.has_columns:
                    yield Typed(name, decoder, way, output, own=False)
                if way.has_own:
                    yield Typed(name, decoder, way, output, own=True)
            if way.is_copied:
                yield Typed(name, decoder, way, "Avro", own=False)


ALL = list(typed())


def test_there_are_bad_payloads_for_every_decoder() -> None:
    assert set(BAD) == {each.name for each in ALL}
    assert {each.decoder for each in ALL} == set(DECODERS) - {"Raw"}


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_each_is_a_dead_letter_with_its_reason(kind: Typed) -> None:
    bad, good = BAD[kind.name], kind.way.encode(GOOD)
    payloads = [good, *(payload for _, payload, _ in bad), good]

    for number, (what, payload, reason) in enumerate(bad):
        made, files, letters = kind.land([good, payload, good])
        assert (made.landed, letters) == (2, [payload]), what
        (error,) = reasons(kind.landed([good, payload, good])[1])
        assert re.search(reason, f"decode: {error}"), error
        assert len(error) < 400
        assert [row["id"] for row in read(kind, files)] == [7, 7], number
    together, files, letters = kind.land(payloads)
    assert (together.landed, together.dead_lettered) == (2, len(bad))
    assert letters == [payload for _, payload, _ in bad]
    assert [row["_offset"] for row in read(kind, files)] == [100, 101 + len(bad)]


def read(kind: Typed, files: list[bytes]) -> list[Any]:
    (body,) = files
    return FILES[kind.output].read(body, Codec.NONE)


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_a_claim_of_gigabytes_takes_no_memory(kind: Typed) -> None:
    bombs = [payload for what, payload, _ in BAD[kind.name] if len(payload) < 1000]
    kind.land([kind.way.encode(GOOD)])  # what is loaded once is not counted
    before = getrusage(RUSAGE_SELF).ru_maxrss

    made, _, _ = kind.land(bombs * 3)

    assert made.dead_lettered == 3 * len(bombs)
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 200 * 2**10  # KiB


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_a_field_of_ten_megabytes_lands(kind: Typed) -> None:
    made, files, letters = kind.land([kind.way.encode(BIG), kind.way.encode(GOOD)], codec="Snappy")

    assert (made.landed, letters) == (2, [])
    assert [row["who"] for row in read(kind, files)] == [BIG["who"], "ann"]


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_nan_is_kept_where_payloads_can_hold_it(kind: Typed) -> None:
    odd = [{**GOOD, "amount": number} for number in (math.nan, math.inf, -math.inf)]

    made, files, letters = kind.land([kind.way.encode(event) for event in [*odd, GOOD]])

    if kind.decoder in {"Json", "JsonSchema", "Csv", "Delimited", "Regex"}:  # no grammar of theirs
        assert len(letters) == 3
    else:
        assert (made.landed, letters) == (4, [])
        found = [row["amount"] for row in read(kind, files)]
        assert str(found) == "[nan, inf, -inf, 0.5]"


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize("output", ["Parquet", "Orc", "Avro"])
@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        (DECIMAL, b"\x04\x27\x10", "not a decimal of 4 digits"),
        (DECIMAL, b"\x00", "not a decimal of 4 digits"),
        (DECIMAL, b"\x50" + b"\x7f" + bytes(39), "not a decimal of 4 digits"),
        ({**DECIMAL, "precision": 38}, b"\x20\x7f" + b"\xff" * 15, "not a decimal of 38 digits"),
        ({"type": "int", "logicalType": "time-millis"}, zigzag(86_400_000), "not a time of day"),
        ({"type": "long", "logicalType": "time-micros"}, zigzag(-1), "not a time of day"),
        ({"type": "int", "logicalType": "date"}, zigzag(2**31), "more than 32 bits"),
    ],
)
def test_what_its_logical_type_does_not_allow(
    output: str, type_: object, value: bytes, reason: str
) -> None:
    schema = {**AVRO, "fields": [*AVRO["fields"], {"name": "odd", "type": type_}]}
    way = Way({"schema": json.dumps(schema)}, WAYS["Avro"][0].encode)
    kind = Typed("Avro", "Avro", way, output, own=output != "Avro")

    made, _, letters = kind.land([way.encode(GOOD) + value])

    assert (made.landed, len(letters)) == (0, 1)
    assert reason in reasons(kind.landed([way.encode(GOOD) + value])[1])[0]
