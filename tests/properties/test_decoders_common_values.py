"""The same value is the same field and the same JSON from every decoder, by ``values: Common``."""

import json
import struct
from typing import Any

import msgpack
from hypothesis import example, given, settings
from hypothesis import strategies as st

from landfall.api.spec import Decode, Timestamp
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.event_time import MAX_MICROS, MIN_MICROS, EventTime
from landfall.pipeline.records import filled
from landfall.registry import decoder
from tests.support.payloads.avro import encoded
from tests.support.payloads.decoded import as_list
from tests.support.payloads.protobuf_payloads import inline, message

PROTO = """syntax = "proto3";
package common;
import "google/protobuf/timestamp.proto";
message R {
  google.protobuf.Timestamp at = 1; bytes body = 2;
  int64 whole = 3; float small = 4; double real = 5;
}
"""
NAMES = ("at", "body", "whole", "small", "real")
TYPES = ("long", "bytes", "long", "float", "double")
PLAIN = {
    "type": "record",
    "name": "R",
    "fields": [{"name": name, "type": type_} for name, type_ in zip(NAMES, TYPES, strict=True)],
}
AT = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
SCHEMA = {**PLAIN, "fields": [AT, *PLAIN["fields"][1:]]}
OPTIONS = {
    "Avro": {"schema": json.dumps(SCHEMA)},
    "Protobuf": {"message": "common.R", "descriptors": inline(PROTO)},
    "MessagePack": {},
}
RECORDS = st.fixed_dictionaries(
    {
        "at": st.integers(MIN_MICROS, MAX_MICROS),
        "body": st.binary(min_size=1, max_size=8),
        "whole": st.integers(-(2**63), 2**63 - 1).filter(bool),
        "small": st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool),
        "real": st.floats(allow_nan=False, allow_infinity=False).filter(bool),
    }
)
"""No value is Protobuf's default, which its JSON leaves out."""


def payloads(record: dict[str, Any]) -> dict[str, bytes]:
    seconds, micros = divmod(record["at"], 10**6)
    proto = message("common.R", PROTO)(
        **record | {"at": {"seconds": seconds, "nanos": micros * 1000}}
    )
    packer = msgpack.Packer()
    packed = [packer.pack_map_header(len(NAMES))]
    for name in NAMES:
        packed.append(packer.pack(name))
        if name == "at":
            packed.append(packer.pack(msgpack.Timestamp(seconds, micros * 1000)))
        elif name == "small":
            packed.append(struct.pack(">Bf", 0xCA, record["small"]))
        else:
            packed.append(packer.pack(record[name]))
    return {
        "Avro": encoded(PLAIN, record),
        "Protobuf": proto.SerializeToString(),
        "MessagePack": b"".join(packed),
    }


@settings(max_examples=50, deadline=None)
@given(RECORDS)
@example({"at": -1, "body": b"\xff", "whole": 2**63 - 1, "small": 0.1015625, "real": 1e300})
def test_all_decoders_agree(record: dict[str, Any]) -> None:
    fields, objects, times = {}, {}, {}
    for name, payload in payloads(record).items():
        decode = Decode.model_validate(
            {"format": name, "options": OPTIONS[name], "values": "Common"}
        )
        wanted = Wanted(fields=tuple((each,) for each in NAMES), json=True)
        records = filled(TopicPartition("t", 0), range(1), [payload])
        decoded = decoder(decode, wanted).decode(records)
        assert len(decoded.bad.rows) == 0, decoded.bad.errors
        fields[name] = [as_list(decoded.fields[(each,)])[0] for each in NAMES]
        objects[name] = json.loads(decoded.records.values[0].as_py())
        event = EventTime(Timestamp(field="at")).read(decoded.records, decoded.fields)
        times[name] = event.micros.tolist()

    assert len(set(map(repr, fields.values()))) == 1, fields
    assert objects["Avro"] == objects["Protobuf"] == objects["MessagePack"]
    assert list(objects["Avro"].values()) == fields["Avro"]
    assert set(map(tuple, times.values())) == {(record["at"],)}
