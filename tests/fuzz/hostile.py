"""Payloads that are made to break a worker: every decoder, with sound records of the same topic.

There is no reference here. Whatever a payload is, its row is a record or a dead letter with a
reason that is no surprise, the sound rows around it are what they are without it, and neither
processor time nor memory grows with what a payload only claims to hold: sizes that no byte follows,
counts of elements without bytes, nesting. Time is the process's own, so a busy machine changes
nothing.
"""

import json
import resource
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgpack
from hypothesis import strategies as st

from landfall.api.spec import parse_group
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import filled
from landfall.task.partitioning import PartitionedChunk, Partitioner
from tests.support.kubernetes.groups import document
from tests.support.payloads.avro import encoded
from tests.support.payloads.damage import damaged
from tests.support.payloads.protobuf_payloads import inline, message
from tests.support.payloads.thrift_payloads import packed

SECONDS = 20.0
"""The most processor time that the rows of a case may take."""
MEMORY = 512 << 20
"""The most bytes by which they may raise the highest memory that the process has had."""
LARGE = 100_000
"""How often what is repeated is repeated, at most."""

COLUMNS = [{"name": "a", "type": "Int64"}, {"name": "b", "type": "String"}]
CONTROL = "\x00\x1b[2J\x07\r\n\u202e\u2028"
TYPES = {"xs": {"type": "array", "items": "null"}, "ys": {"type": "map", "values": "long"}}
AVRO = {
    "type": "record",
    "name": "E",
    "fields": [
        {"name": "a", "type": "long"},
        {"name": "b", "type": "string"},
        {"name": "e", "type": ["null", "E"]},
        *({"name": name, "type": type_} for name, type_ in TYPES.items()),
        {
            "name": "zs",
            "type": {"type": "array", "items": {"type": "record", "name": "Z", "fields": []}},
        },
    ],
}
IDL = """
struct Z {}
struct E { 1: i64 a, 2: string b, 3: E e, 4: list<bool> xs, 5: map<string, i64> ys, 6: list<Z> zs }
"""
PROTO = """
syntax = "proto3";
package hostile;
message E { int64 a = 1; string b = 2; E e = 3; repeated int32 xs = 4; map<string, int64> ys = 5; }
"""


@dataclass(frozen=True)
class Profile:
    """A decoder.

    Attributes:
        options: of ``decode``.
        sound: payloads of records that nobody may lose.
        hostile: payloads, by what they are.
    """

    options: Mapping[str, Any]
    sound: tuple[bytes, ...]
    hostile: Mapping[str, bytes]


def _json(n: int) -> dict[str, bytes]:
    return {
        "brackets": b"[" * n,
        "objects": b'{"a":' * n,
        "closed objects": b'{"a":' * n + b"1" + b"}" * n,
        "nested lists": b'{"b":' + b"[" * n + b"]" * n + b"}",
        "digits": b'{"a":' + b"9" * n + b"}",
        "exponent": b'{"a":1e999999999,"b":"x"}',
        "small exponent": b'{"a":1e-999999999}',
        "zeros": b'{"a":0.' + b"0" * n + b"1}",
        "keys": b"{" + b",".join(b'"k%d":0' % i for i in range(n)) + b"}",
        "one key again": b"{" + b",".join([b'"a":1'] * n) + b"}",
        "text": b'{"b":"' + b"x" * (10 * n) + b'"}',
        "escapes": b'{"b":"' + b"\\ud83d" * n + b'"}',
        "control characters": json.dumps({"a": 1, "b": CONTROL, CONTROL: CONTROL}).encode(),
        "raw control characters": b'{"a":1,"b":"' + CONTROL.encode() + b'"}',
        "no text": b'{"b":"\xff\xfe\xed\xa0\x80"}',
        "another encoding": '{"a": 1}'.encode("utf-16"),
    }


def _messagepack(n: int) -> dict[str, bytes]:
    most = b"\xff\xff\xff\xff"
    return {
        "size of a list": b"\x81\xa1a\xdd" + most,
        "size of a map": b"\xdf" + most,
        "size of a text": b"\x81\xa1b\xdb" + most + b"x",
        "size of bytes": b"\x81\xa1b\xc6" + most,
        "size of an extension": b"\x81\xa1b\xc9" + most + b"\x01",
        "lists": b"\x81\xa1a" + b"\x91" * n,
        "closed lists": b"\x81\xa1b" + b"\x91" * n + b"\xc0",
        "maps": b"\x81\xa1a" * n + b"\xc0",
        "keys that are maps": b"\x81" * n + b"\xc0" * n,
        "nils": b"\x81\xa1b\xdd" + struct.pack(">I", n) + b"\xc0" * n,
        "a time": b"\x81\xa1a\xc7\x0c\xff" + b"\xff" * 4 + b"\x7f" + b"\xff" * 7,
        "control characters": msgpack.packb({"a": 1, "b": CONTROL, CONTROL: CONTROL}),
        "never used": b"\xc1" * n,
    }


def _lines(n: int) -> dict[str, bytes]:
    return {
        "commas": b"," * n,
        "an open quote": b'1,"' + b"x" * n,
        "quotes": b'"' * n,
        "pairs of quotes": b'1,"' + b'""' * n + b'"',
        "lines": b"1,x\n" * n,
        "blanks": b" " * n,
        "digits": b"9" * n + b",x",
        "control characters": b"1," + CONTROL.encode(),
        "zeros": b"\x00" * n,
        "no text": b"\xff\xfe,\xff",
    }


def _thrift(n: int) -> dict[str, bytes]:
    most = b"\x7f\xff\xff\xff"
    return {
        "size of a text": b"\x0b\x00\x02" + most,
        "negative size": b"\x0b\x00\x02\xff\xff\xff\xff",
        "size of a list": b"\x0f\x00\x04\x02" + most,
        "size of a list of nothing": b"\x0f\x00\x06\x0c" + most + b"\x00" * 9,
        "negative list": b"\x0f\x00\x04\x02\xff\xff\xff\xff",
        "size of a map": b"\x0d\x00\x05\x0b\x0a" + most,
        "negative map": b"\x0d\x00\x05\x0b\x0a\x80\x00\x00\x00",
        "structs": b"\x0c\x00\x03" * n,
        "closed structs": b"\x0c\x00\x03" * n + b"\x00" * (n + 1),
        "unknown structs": b"\x0c\x00\x63" * n + b"\x00" * (n + 1),
        "unknown lists of lists": b"\x0f\x00\x63" + b"\x0f\x00\x00\x00\x01" * n + b"\x00",
        "empty structs": b"\x0f\x00\x06\x0c" + struct.pack(">i", n) + b"\x00" * (n + 1),
        "a field again": (b"\x0a\x00\x01" + b"\x01" * 8) * (n + 1) + b"\x00",
        "control characters": packed({"id": 1, "user": CONTROL}),
        "no such type": b"\x7f\x00\x01",
    }  # fmt: skip


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _avro(n: int) -> dict[str, bytes]:
    most, start = _varint((2**62) << 1), b"\x02\x02x\x00"  # a, b, no e
    end = b"\x00\x00\x00"
    return {
        "size of a text": b"\x02" + most,
        "negative size": b"\x02\x01",
        "number without end": b"\xff" * n,
        "nulls without bytes": start + most + b"\x00" + b"\x00\x00",
        "a million nulls": start + _varint(10**6 << 1) + end,
        "records without fields": start + b"\x00\x00" + most + b"\x00",
        "a negative block": start + _varint((2**62 << 1) - 1) + b"\x00" + end,
        "the smallest number": start + b"\xff" * 9 + b"\x01" + end,
        "blocks": start + b"\x02" * n + end,
        "size of a map": start + b"\x00" + most,
        "union": b"\x02\x02x\x63",
        "negative union": b"\x02\x02x\x01",
        "nesting": b"\x02\x02x\x02" * n,
        "closed nesting": b"\x02\x02x\x02" * n + b"\x02\x02x\x00" + end * (n + 1),
        "control characters": encoded(
            AVRO, {"a": 1, "b": CONTROL, "e": None, "xs": [], "ys": {CONTROL: 1}, "zs": []}
        ),
    }


def _protobuf(n: int) -> dict[str, bytes]:
    nested = b""
    for _ in range(min(n, 2_000)):
        nested = b"\x1a" + _varint(len(nested)) + nested
    return {
        "size of a text": b"\x12" + _varint(2**31 - 1),
        "a larger size": b"\x12" + _varint(2**63),
        "number without end": b"\x08" + b"\xff" * n,
        "messages": nested,
        "claimed messages": b"\x1a\xff\xff\xff\x7f" * n,
        "groups": b"\x1b" * n,
        "closed groups": b"\x1b" * n + b"\x1c" * n,
        "unknown fields": b"\xf8\x7f\x01" * n,
        "numbers": b"\x20\x01" * n,
        "packed numbers": b"\x22" + _varint(n) + b"\x01" * n,
        "entries": b"\x2a\x02\x10\x01" * n,
        "field zero": b"\x00" * n,
        "no such type": b"\x0f\x0e",
        "no text": b"\x12\x02\xff\xfe",
        "control characters": message("hostile.E", PROTO)(
            a=1, b=CONTROL, ys={CONTROL: 1}
        ).SerializeToString(),
    }


SOUND = ({"a": 7, "b": "good-0"}, {"a": 8, "b": "good-1"}, {"a": 9, "b": "good-2"})
_JSON = tuple(json.dumps(each).encode() for each in SOUND)
_LINES = tuple(f"{each['a']},{each['b']}".encode() for each in SOUND)


_REST: dict[str, Any] = {"e": None, "xs": [], "ys": {}, "zs": []}
_SCHEMA = json.dumps({"properties": {"a": {"type": "integer"}}, "maxProperties": 4})
_NAMED = {"columns": ["a", "b"]}
_BUILD: Mapping[str, Callable[[int], Profile]] = {
    "Json": lambda n: Profile({}, _JSON, _json(n)),
    "JsonSchema": lambda n: Profile({"schema": _SCHEMA}, _JSON, _json(n)),
    "MessagePack": lambda n: Profile({}, tuple(map(msgpack.packb, SOUND)), _messagepack(n)),
    "Csv": lambda n: Profile(_NAMED, _LINES, _lines(n)),
    "Delimited": lambda n: Profile({**_NAMED, "separator": ","}, _LINES, _lines(n)),
    "Regex": lambda n: Profile({"pattern": r"(?P<a>[^,]*),(?P<b>.*)"}, _LINES, _lines(n)),
    "Thrift": lambda n: Profile(
        {"idl": IDL, "struct": "E"}, tuple(_in_thrift(**each) for each in SOUND), _thrift(n)
    ),
    "Avro": lambda n: Profile(
        {"schema": json.dumps(AVRO)},
        tuple(encoded(AVRO, {**each, **_REST}) for each in SOUND),
        _avro(n),
    ),
    "Protobuf": lambda n: Profile(
        {"message": "hostile.E", "descriptors": inline(PROTO)},
        tuple(message("hostile.E", PROTO)(**each).SerializeToString() for each in SOUND),
        _protobuf(n),
    ),
}
FORMATS = tuple(_BUILD)
OUTPUTS = ("Json", "Parquet", "SequenceFile")


@cache
def profile(format_: str, repeated: int) -> Profile:
    """The profile of a decoder, with what is repeated as often as this."""
    return _BUILD[format_](repeated)


def _in_thrift(a: Any, b: Any) -> bytes:
    text = str(b).encode()
    size = struct.pack(">i", len(text))
    return b"\x0a\x00\x01" + struct.pack(">q", a) + b"\x0b\x00\x02" + size + text + b"\x00"


def spec(format_: str) -> dict[str, Any]:
    """The section ``decode``."""
    return {
        "format": format_,
        "options": dict(profile(format_, 1).options),
        "columns": COLUMNS,
    }


@cache
def _partitioner(format_: str, output: str) -> Partitioner:
    of: dict[str, Any] = {"decode": spec(format_), "route": {"pattern": "all"}}
    written = {"url": "file:///nowhere", "format": output}
    return Partitioner.of(parse_group(document("hostile", output=written, **of)).spec)


def _rows(chunk: PartitionedChunk) -> list[str]:
    return [repr(row) for _, batch in chunk.outputs for row in batch.to_pylist()]


@dataclass(frozen=True)
class Case:
    """Payloads of a decoder, each after a sound one.

    Attributes:
        format: the decoder.
        output: the format of objects, which decides what is decoded.
        payloads: any.
    """

    format: str
    output: str
    payloads: tuple[bytes | None, ...]

    def __repr__(self) -> str:
        """Long payloads by their beginnings."""
        shown = [p if p is None or len(p) < 200 else (len(p), p[:200]) for p in self.payloads]
        return f"{self.format} -> {self.output}: {shown}"


@st.composite
def cases(draw: Any) -> Case:
    """Random cases: whole hostile payloads of any length, and damaged ones, sound and hostile."""
    format_, output = draw(st.sampled_from(FORMATS)), draw(st.sampled_from(OUTPUTS))
    of = profile(format_, draw(st.sampled_from((1, 30, 300, 3_000))))
    hostile = st.sampled_from(sorted(of.hostile)).map(of.hostile.__getitem__)
    any_ = st.one_of(hostile, damaged(hostile), damaged(st.sampled_from(of.sound)), _wild(of))
    return Case(format_, output, tuple(draw(st.lists(any_, min_size=1, max_size=4))))


def _wild(of: Profile) -> st.SearchStrategy[bytes]:
    """Sound payloads in which a run of bytes has the highest or lowest values: wild lengths."""
    runs = st.sampled_from((b"\xff", b"\x7f", b"\x80", b"\x00"))
    return st.builds(
        lambda payload, at, run, n: payload[:at] + run * n + payload[at + n :],
        st.sampled_from(of.sound),
        st.integers(0, 20),
        runs,
        st.integers(1, 10),
    )


CASES = cases()


def check(case: Case) -> Sequence[str]:
    """Partition the payloads among sound ones; see the module."""
    sound = profile(case.format, 1).sound
    partitioner = _partitioner(case.format, case.output)
    mixed: list[bytes | None] = []
    for number, payload in enumerate(case.payloads):
        mixed += [sound[number % len(sound)], payload]
    mixed.append(sound[0])
    alone = _rows(_partitioned(partitioner, mixed[::2], 2))

    began, memory = time.process_time(), _peak()
    chunk = _partitioned(partitioner, mixed, 1)
    used, grown = time.process_time() - began, _peak() - memory

    assert used < SECONDS, f"{used:.0f} s of processor time"
    assert grown < MEMORY, f"{grown >> 20} MiB of memory"
    found = _rows(chunk)
    assert len(found) + len(chunk.bad) == len(mixed), "rows are missing or doubled"
    for bad in chunk.bad:
        assert bad.row % 2, f"a sound row is bad: {bad}"
        assert not bad.is_unexpected, f"row {bad.row}: {bad.error}: {bad.detail[:300]}"
        assert bad.error.isprintable(), f"row {bad.row}: {bad.error!r}"
        assert len(bad.error) < 1_000, f"row {bad.row}: a reason of {len(bad.error)} characters"
    left = [row for row in found if row in alone]
    assert sorted(set(alone)) == sorted(set(left)), "a sound row is another one"
    return (case.format, *(["dead letter"] * len(chunk.bad)))


def _partitioned(
    partitioner: Partitioner, payloads: Sequence[bytes | None], step: int
) -> PartitionedChunk:
    offsets = range(0, step * len(payloads), step)
    return partitioner.partition(filled(TopicPartition("t", 0), offsets, list(payloads)))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
