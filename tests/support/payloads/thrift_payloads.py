"""Structs in Thrift's protocols, written and read by thriftpy2 and by Apache Thrift."""

import io
from collections.abc import Mapping
from typing import Any

import thriftpy2
from thrift.protocol import TBinaryProtocol, TCompactProtocol
from thrift.transport import TTransport
from thriftpy2.protocol import TBinaryProtocolFactory, TCompactProtocolFactory
from thriftpy2.utils import serialize

IDL = """
enum Color { RED = 1, BLUE = 5 }
struct Meta { 1: string host, 2: i64 ts }
struct Node { 1: i32 v, 2: Node inner, 3: list<Node> kids }
union Choice { 1: i32 number, 2: string text }
struct Event {
  1: i64 id, 2: string user, 3: double amount, 4: bool ok, 5: byte tiny, 6: i16 small,
  7: i32 medium, 8: binary raw, 9: Color color, 10: Meta meta, 11: list<i32> numbers,
  12: map<string, list<Color>> by, 13: set<string> tags, 14: Node tree, 15: Choice choice,
  300: string far
}
struct Strict { 1: required i64 id, 2: Meta meta }
"""
MODULE = thriftpy2.load_fp(io.StringIO(IDL), "landfall_tests_thrift")
FACTORIES: dict[str, Any] = {
    "Binary": TBinaryProtocolFactory(),
    "Compact": TCompactProtocolFactory(),
}
_APACHE = {
    "Binary": TBinaryProtocol.TBinaryProtocol,
    "Compact": TCompactProtocol.TCompactProtocol,
}


def made(name: str, values: Mapping[str, Any]) -> Any:
    """A struct of the IDL; nested structs are mappings."""
    kinds = {
        "meta": "Meta",
        "tree": "Node",
        "inner": "Node",
        "choice": "Choice",
    }
    plain = {
        key: made(kinds[key], value)
        if key in kinds and value is not None
        else [made("Node", each) for each in value]
        if key == "kids" and value is not None
        else value
        for key, value in values.items()
    }
    return getattr(MODULE, name)(**plain)


def packed(values: Mapping[str, Any], name: str = "Event", protocol: str = "Binary") -> bytes:
    """The payload that thriftpy2 writes."""
    payload: bytes = serialize(made(name, values), FACTORIES[protocol])
    return payload


class _Any:
    """What Apache Thrift reads a struct into; ``spec`` is what its generated code has of it."""

    spec: list[Any]

    def read(self, reader: Any) -> None:
        reader.readStruct(self, self.spec)


def _apache(described: Any, known: dict[Any, type[_Any]]) -> type[_Any]:
    """Apache's class of a struct of thriftpy2's."""
    if described not in known:
        kind: type[_Any] = type(described.__name__, (_Any,), {})
        known[described] = kind
        kind.spec = [None] * (max(described.thrift_spec, default=0) + 1)
        for id_, (wire, name, *inner, _) in described.thrift_spec.items():
            number, args = _argument((wire, *inner) if inner else wire, known)
            kind.spec[id_] = (id_, number, name, args, None)
    return known[described]


def _argument(described: Any, known: dict[Any, type[_Any]]) -> tuple[int, Any]:
    wire, inner = described if isinstance(described, tuple) else (described, None)
    match wire:
        case 18:
            return 11, "BINARY"
        case 11:
            return 11, "UTF8"
        case 12:
            kind = _apache(inner, known)
            return 12, [kind, kind.spec]
        case 14 | 15:
            return wire, (*_argument(inner, known), False)
        case 13:
            key, value = inner
            return 13, (*_argument(key, known), *_argument(value, known), False)
        case _:
            return wire, None


def apache_reads(payload: bytes, name: str, protocol: str) -> Any:
    """What Apache's reader makes of a payload, as plain values; raises what it raises."""
    transport = TTransport.TMemoryBuffer(payload)
    reader = _APACHE[protocol](transport)
    read = _apache(getattr(MODULE, name), {})()
    read.read(reader)
    if transport.cstringio_buf.read(1):
        raise ValueError("bytes after the struct")
    return _plain(read)


def _plain(value: Any) -> Any:
    match value:
        case _Any():
            return {key: _plain(inner) for key, inner in vars(value).items()}
        case list() | set() | frozenset():
            return [_plain(each) for each in value]
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case _:
            return value
