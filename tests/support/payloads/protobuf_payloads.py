"""Messages of Protobuf's wire format, by google.protobuf; protoc makes the descriptors."""

import base64
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { NONE = 0; VIEW = 1; BUY = 5; }
message Meta { string host = 1; int64 ts = 2; Kind kind = 3; }
message Node { int32 v = 1; Node inner = 2; repeated Node kids = 3; }
message Event {
  int64 id = 1; string user = 2; double amount = 3; bool ok = 4; optional string agent = 5;
  bytes raw = 6; Kind kind = 7; Meta meta = 8; repeated int32 numbers = 9;
  map<string, Kind> by = 10; Node tree = 11; uint64 big = 12; fixed32 fix = 13;
  sint32 signed = 14; float ratio = 15;
  google.protobuf.Timestamp at = 16; oneof choice { int32 number = 17; string text = 18; }
  google.protobuf.StringValue note_text = 19; optional Kind maybe = 20; sfixed64 far = 21;
  message Inner { int32 x = 1; message Innermost { int32 y = 1; } }
  Inner inner = 22;
}
message Other { string a = 1; }
"""
LEGACY = """
syntax = "proto2";
package old;
message Order { required int64 id = 1; optional string user = 2 [default = "nobody"]; }
"""


@cache
def descriptors(proto: str = PROTO) -> bytes:
    """What protoc makes of a .proto file."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "it.proto").write_text(proto)
        made = Path(folder) / "it.bin"
        arguments = [f"-I{folder}", f"-I{files('grpc_tools') / '_proto'}", "--include_imports"]
        assert protoc.main(["protoc", *arguments, f"--descriptor_set_out={made}", "it.proto"]) == 0
        return made.read_bytes()


def inline(proto: str = PROTO) -> str:
    """The descriptors as text for the option ``descriptors``."""
    return base64.b64encode(descriptors(proto)).decode()


@cache
def message(name: str = "shop.Event", proto: str = PROTO) -> Any:
    """The class of a message."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors(proto)).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
