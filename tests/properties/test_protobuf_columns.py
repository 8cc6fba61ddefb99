"""Whole Protobuf messages as columns: what google.protobuf finds, in whatever way it is read."""

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.protobuf import FixedProtobufDecoder
from landfall.pipeline.decoders.protobuf.messages import ProtobufMessages
from landfall.pipeline.decoders.row_schemas import SCHEMA_NAME
from landfall.pipeline.records import filled
from tests.support.payloads.damage import damaged
from tests.support.payloads.protobuf_payloads import descriptors, inline, message

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { NONE = 0; VIEW = 1; BUY = 5; }
message Empty {}
message In {
  string s = 1; optional int32 o = 2; Kind kind = 3; google.protobuf.Timestamp at = 4;
  oneof x { int32 a = 5; string b = 6; }
}
message Click {
  int64 id = 1; string user = 2; Kind kind = 3; optional bytes raw = 4; repeated int32 nums = 5;
  repeated In ins = 6; map<string, In> by = 7; map<int32, Kind> kinds = 8; In one = 9;
  google.protobuf.Timestamp at = 10; repeated google.protobuf.Timestamp times = 11;
  google.protobuf.StringValue note = 12; google.protobuf.Int64Value count = 13; Empty empty = 14;
  oneof choice { int32 number = 15; string text = 16; In inner = 17; }
  uint64 big = 18; fixed32 fix = 19; float ratio = 20; double amount = 21; repeated Kind all = 22;
  map<bool, bytes> flags = 23; bool ok = 24; repeated string words = 25;
}
"""
# With a type inside itself, so that its column and no other is read message by message.
TREES = PROTO.replace(
    "message Empty {}", "message Empty {}\nmessage Tree { int32 n = 1; repeated Tree inner = 2; }"
).replace("repeated string words = 25;", "repeated string words = 25; Tree tree = 26;")
CLICK, TREE = message("shop.Click", PROTO), message("shop.Click", TREES)

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=5)
KINDS = st.sampled_from([0, 1, 5, 9, -1])
TIMES = st.fixed_dictionaries(
    {}, optional={"seconds": st.integers(-(2**36), 2**37), "nanos": st.integers(0, 10**9 - 1)}
)
INS = st.fixed_dictionaries(
    {}, optional={"s": TEXTS, "o": INT32, "kind": KINDS, "at": TIMES, "b": TEXTS}
)
CLICKS = st.fixed_dictionaries(
    {},
    optional={
        "id": INT64, "user": TEXTS, "kind": KINDS, "raw": st.binary(max_size=4),
        "nums": st.lists(INT32, max_size=3), "ins": st.lists(INS, max_size=3),
        "by": st.dictionaries(TEXTS, INS, max_size=3),
        "kinds": st.dictionaries(INT32, KINDS, max_size=3), "one": INS, "at": TIMES,
        "times": st.lists(TIMES, max_size=2), "empty": st.just({}), "text": TEXTS,
        "big": st.integers(0, 2**64 - 1), "fix": st.integers(0, 2**32 - 1),
        "ratio": st.floats(width=32, allow_nan=False), "amount": st.floats(allow_nan=False),
        "all": st.lists(KINDS, max_size=3), "ok": st.booleans(),
        "flags": st.dictionaries(st.booleans(), st.binary(max_size=3)),
        "words": st.lists(TEXTS, max_size=3),
    },
)  # fmt: skip


def packed(values: Any) -> bytes:
    payload: bytes = CLICK(**values).SerializeToString()
    return payload


def decoder(proto: str = PROTO) -> FixedProtobufDecoder:
    wanted = Wanted((SCHEMA_NAME,), columns=True, own_columns=True)
    return FixedProtobufDecoder.of({"message": "shop.Click", "descriptors": inline(proto)}, wanted)


FAST, MIXED = decoder(), decoder(TREES)


def decode(of: FixedProtobufDecoder, values: list[bytes | None]) -> Decoded:
    return of.decode(filled(TopicPartition("t", 0), range(len(values)), values))


def truth(parsed: Any) -> dict[str, Any]:
    """The columns of a message, worked out field by field with google.protobuf."""
    return {field.name: _field(parsed, field) for field in parsed.DESCRIPTOR.fields}


def _field(parsed: Any, field: Any) -> Any:
    if field.has_presence and not field.is_repeated and not parsed.HasField(field.name):
        return None
    value = getattr(parsed, field.name)
    of = field.message_type
    if of is not None and of.GetOptions().map_entry:
        inner = of.fields_by_name["value"]
        return [(key, _value(inner, value[key])) for key in sorted(value)]
    return [_value(field, each) for each in value] if field.is_repeated else _value(field, value)


def _value(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    match field.message_type and field.message_type.full_name:
        case None:
            return value
        case "google.protobuf.Timestamp":
            return value.seconds * 10**6 + value.nanos // 1000
        case "google.protobuf.StringValue" | "google.protobuf.Int64Value":
            return value.value
        case "shop.Tree":
            return orjson.dumps(json_format.MessageToDict(value)).decode()
    return truth(value)


def in_micros(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows with timestamps as numbers."""
    from landfall.formats.columns import storable

    arrays = [storable(column, _as_number) for column in batch.columns]
    made: list[dict[str, Any]] = pa.RecordBatch.from_arrays(arrays, batch.schema.names).to_pylist()
    return made


def _as_number(column: pa.Array) -> pa.Array:
    return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column


def found_in(decoded: Decoded) -> list[dict[str, Any]]:
    """The rows that are kept; a message without fields is shown as the text of its JSON."""
    (of_schema,) = decoded.by_schema or ()
    assert of_schema.columns is not None
    of_schema.columns.validate(full=True)
    assert of_schema.rows.tolist() == list(range(len(decoded.records)))
    return in_micros(of_schema.columns)


def expected(payload: bytes | None, of: Any) -> dict[str, Any] | None:
    if payload is None:
        return {field.name: None for field in of.DESCRIPTOR.fields}
    try:
        parsed = of.FromString(payload)
    except (DecodeError, RecursionError):
        return None
    made = truth(parsed)
    made["empty"] = None if made["empty"] is None else "{}"
    return made


@given(st.lists(damaged(CLICKS.map(packed)), min_size=1, max_size=6))
def test_columns_are_what_google_protobuf_finds(payloads: list[bytes | None]) -> None:
    for of, parsed_as in ((FAST, CLICK), (MIXED, TREE)):
        truths = [expected(payload, parsed_as) for payload in payloads]
        decoded = decode(of, list(payloads))

        good = [made for made in truths if made is not None]
        bad = set(decoded.bad.rows.tolist())
        # A Timestamp may be one that no column holds; nothing else makes more rows bad.
        assert {i for i, made in enumerate(truths) if made is None} <= bad
        kept = [made for i, made in enumerate(truths) if i not in bad]
        assert len(good) - len(kept) == sum("out of range" in error for error in decoded.bad.errors)
        found = found_in(decoded) if decoded.by_schema else []
        assert len(found) == len(kept)
        rows = (i for i, made in enumerate(truths) if made is not None and i not in bad)
        for row, made, of_google in zip(rows, found, kept, strict=True):
            # google.protobuf leaves out entries with unknown fields, of which maps have none.
            maps = NO_MAPS if has_unknown_fields(payloads[row], parsed_as) else {}
            assert repr({**made, **maps}) == repr({**of_google, **maps})  # NaN is NaN


NO_MAPS = {"by": None, "kinds": None, "flags": None}


def has_unknown_fields(payload: bytes | None, of: Any) -> bool:
    parsed = of.FromString(payload or b"")
    size = parsed.ByteSize()
    parsed.DiscardUnknownFields()
    return bool(parsed.ByteSize() != size)


def test_rows_that_ptars_reads_otherwise_are_read_one_by_one() -> None:
    both = CLICK(number=1).SerializeToString() + CLICK(text="x").SerializeToString()
    inner = CLICK(ins=[{"a": 1}]).SerializeToString()
    twice = inner[:1] + bytes([inner[1] + 3]) + inner[2:] + b"2\x01y"
    far = CLICK(at={"seconds": 253402300799}).SerializeToString()

    found = found_in(decode(FAST, [both, twice, far, packed({"id": 1})]))

    assert (found[0]["number"], found[0]["text"]) == (None, "x")
    assert (found[1]["ins"][0]["a"], found[1]["ins"][0]["b"]) == (None, "y")
    assert found[2]["at"] == 253402300799 * 10**6
    assert found[3]["id"] == 1


def test_a_row_of_which_ptars_fails_is_read_alone() -> None:
    # An entry of "by" with a key alone, whose value is the empty message.
    lone = b":\x03\n\x01a"
    assert CLICK.FromString(lone).by["a"] == CLICK().one

    found = found_in(decode(FAST, [packed({"id": 1}), lone, packed({"id": 2})]))

    assert [row["id"] for row in found] == [1, 0, 2]
    assert found[1]["by"] == [("a", truth(CLICK().one))]


def unreadable(payload: bytes | None) -> bool:
    try:
        CLICK.FromString(payload or b"")
    except DecodeError:
        return True
    return False


@given(st.lists(damaged(CLICKS.map(packed)), max_size=4), st.integers(0, 200))
def test_of_many_payloads_those_are_found_that_are_no_messages(
    some: list[bytes | None], many: int
) -> None:
    payloads = [packed({"id": i}) for i in range(many)]
    for place, payload in enumerate(some):
        payloads.insert(place * 67 % (many + 1), payload)
    messages = ProtobufMessages.of("shop.Click", descriptors(PROTO), proto_names=False)
    assert messages.together is not None

    array = pa.array([None, *payloads, None], pa.binary())[1:-1]

    bad = {row for row, payload in enumerate(payloads) if unreadable(payload)}
    assert set(messages.unreadable(array)) == bad
    if payloads:
        assert messages.together.are_messages(array) is (not bad)


def test_tombstones_are_rows_of_nulls_and_the_name_is_a_field() -> None:
    decoded = decode(FAST, [packed({"id": 1}), None])

    found = found_in(decoded)
    assert set(found[1].values()) == {None}
    assert decoded.fields[SCHEMA_NAME].to_pylist() == ["shop.Click"] * 2  # type: ignore[union-attr]  # an Arrow array
    (of_schema,) = decoded.by_schema or ()
    assert of_schema.schema.name == "shop.Click"
    assert np.array_equal(of_schema.rows, [0, 1])
