"""Every decoder, with events that others write for it; and how others read files.

``tests/properties/test_every_way.py`` lands the events of each decoder in each format.
"""

import csv
import gzip
import io
import json
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import fastavro
import msgpack
import pyarrow as pa
import pyarrow.orc
import thriftpy2
import zstandard
from thriftpy2.utils import serialize

from landfall.api.spec import Codec
from landfall_audit.objects import sequence_file
from tests.support.payloads.avro import Declared, encoded
from tests.support.payloads.protobuf_payloads import inline, message
from tests.support.payloads.thrift_payloads import FACTORIES

Event = Mapping[str, Any]
"""``id``: of 64 bits, ``who``: text, no separators, ``amount``: a finite number, ``ok``: a flag."""

NAMES = ("id", "who", "amount", "ok")
COLUMNS = [
    {"name": name, "type": type_}
    for name, type_ in zip(NAMES, ("Int64", "String", "Float64", "Boolean"), strict=True)
]
AVRO: Declared = {
    "type": "record",
    "name": "Event",
    "namespace": "ways",
    "fields": [
        {"name": name, "type": type_}
        for name, type_ in zip(NAMES, ("long", "string", "double", "boolean"), strict=True)
    ],
}
PROTO = """
syntax = "proto3";
package ways;
message Event { int64 id = 1; string who = 2; double amount = 3; bool ok = 4; }
"""
IDL = "struct Event { 1: i64 id, 2: string who, 3: double amount, 4: bool ok }"
JSON_SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
REGEX = r"(?P<id>[^|]*)\|(?P<who>[^|]*)\|(?P<amount>[^|]*)\|(?P<ok>true|false)"


def _as_is(event: Event) -> object:
    return dict(event)


def _texts(event: Event) -> dict[str, str]:
    as_text = {"id": str(event["id"]), "amount": repr(event["amount"])}
    texts = {**event, **as_text, "ok": str(event["ok"]).lower()}
    return {name: texts[name] for name in NAMES}


def _proto_json(event: Event) -> object:
    """64-bit integers are text, and what holds its default is left out (ProtoJSON)."""
    every = {**event, "id": str(event["id"])}
    return {name: value for name, value in every.items() if event[name]}


def _json(event: Event) -> bytes:
    return json.dumps(event).encode()


def _joined(event: Event) -> bytes:
    return "|".join(_texts(event).values()).encode()


def _csv(event: Event) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(_texts(event).values())
    return line.getvalue().encode()


@cache
def _struct() -> Any:
    return thriftpy2.load_fp(io.StringIO(IDL), "ways_thrift").Event


def _thrift(protocol: str) -> Callable[[Event], bytes]:
    def packed(event: Event) -> bytes:
        payload: bytes = serialize(_struct()(**event), FACTORIES[protocol])
        return payload

    return packed


def _protobuf(event: Event) -> bytes:
    payload: bytes = message("ways.Event", PROTO)(**event).SerializeToString()
    return payload


@dataclass(frozen=True)
class Way:
    """A decoder with its options.

    Attributes:
        options: ``spec.decode.options``.
        encode: the payload of an event, by another library.
        as_json: what format ``Json`` writes of an event; None if it cannot.
        has_columns: whether columns can be declared.
        has_own: whether payloads have a schema whose columns can be taken.
        is_copied: whether format ``Avro`` copies the payloads.
    """

    options: Mapping[str, object]
    encode: Callable[[Event], bytes]
    as_json: Callable[[Event], object] | None = _as_is
    has_columns: bool = True
    has_own: bool = False
    is_copied: bool = False


WAYS: Mapping[str, tuple[Way, ...]] = {
    "Raw": (Way({}, _json, None, has_columns=False),),
    "Json": (Way({}, _json),),
    "Delimited": (Way({"columns": list(NAMES), "separator": "|"}, _joined, _texts),),
    "Regex": (Way({"pattern": REGEX}, _joined, _texts),),
    "MessagePack": (Way({}, msgpack.packb),),
    "Csv": (Way({"columns": list(NAMES)}, _csv, _texts),),
    "Thrift": tuple(
        Way(
            {"idl": IDL, "struct": "Event", "protocol": protocol},
            _thrift(protocol),
            has_own=True,
        )
        for protocol in FACTORIES
    ),
    "Avro": (
        Way(
            {"schema": json.dumps(AVRO)},
            lambda event: encoded(AVRO, event),
            has_own=True,
            is_copied=True,
        ),
    ),
    "Protobuf": (
        Way(
            {"message": "ways.Event", "descriptors": inline(PROTO)},
            _protobuf,
            _proto_json,
            has_own=True,
        ),
    ),
    "JsonSchema": (Way({"schema": json.dumps(JSON_SCHEMA)}, _json),),
}


# -------------------------------------------------------------------------------------- readers

Row = Mapping[str, Any]
"""A row with ``_offset``, if the file keeps it, and either ``value`` or the columns."""

DELIMITER = b"<end>\r\n"


def _plain(body: bytes, codec: Codec) -> bytes:
    match codec:
        case Codec.GZIP:
            return gzip.decompress(body)
        case Codec.ZSTD:
            reader = zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True)
            return reader.read()
    return body


def _text(body: bytes, codec: Codec) -> list[Row]:
    *rows, rest = _plain(body, codec).split(DELIMITER)
    assert rest == b""
    return [{"value": row} for row in rows]


def _json_lines(body: bytes, codec: Codec) -> list[Row]:
    return [json.loads(line) for line in _plain(body, codec).splitlines()]


def _sequence_file(body: bytes, _: Codec) -> list[Row]:
    """As the auditor reads it, which shares no code with the writer."""
    found = sequence_file.records(io.BytesIO(body))
    return [{"_offset": offset, "value": value} for offset, _, _, value in found]


def _parquet(body: bytes, _: Codec) -> list[Row]:
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(body)
        file.flush()
        # Times with a zone need a package more in Python.
        kept = "COLUMNS(lambda name: name NOT IN ('timestamp', '_timestamp'))"
        found = duckdb.connect().execute(f"SELECT {kept} FROM '{file.name}'")
        names = [name for name, *_ in found.description]
        return [_row(dict(zip(names, row, strict=True))) for row in found.fetchall()]


def _orc(body: bytes, _: Codec) -> list[Row]:
    """By ORC's own library for C++; Java's reads files in tests/integration/test_typed_files.py."""
    return [_row(row) for row in pyarrow.orc.read_table(io.BytesIO(body)).to_pylist()]


def _zstd_block(stream: io.BytesIO) -> io.BytesIO:
    return io.BytesIO(zstandard.decompress(fastavro.schemaless_reader(stream, "bytes")))  # type: ignore[arg-type]  # bytes


def _snappy_block(stream: io.BytesIO) -> io.BytesIO:
    """A block, whose CRC-32 follows it. Snappy's size comes first, as a varint."""
    block: bytes = fastavro.schemaless_reader(stream, "bytes")  # type: ignore[assignment]  # bytes
    last = next(place for place, octet in enumerate(block) if octet < 0x80)
    size = sum((octet & 0x7F) << 7 * place for place, octet in enumerate(block[: last + 1]))
    found = pa.decompress(block[:-4], size, "snappy", asbytes=True)
    assert zlib.crc32(found) == int.from_bytes(block[-4:], "big")
    return io.BytesIO(found)


# fastavro needs a package more for each of these.
fastavro._read.BLOCK_READERS |= {"zstandard": _zstd_block, "snappy": _snappy_block}


def _avro(body: bytes, _: Codec) -> list[Row]:
    return [_row(row) for row in fastavro.reader(io.BytesIO(body))]  # type: ignore[arg-type]  # records


def _row(row: dict[str, Any]) -> Row:
    """The same without what else there is of the record."""
    if "value" in row:
        return {"_offset": row["offset"], "value": row["value"]}
    return {k: v for k, v in row.items() if k not in {"_topic", "_partition", "_timestamp"}}


@dataclass(frozen=True)
class File:
    """A format: which codecs it has, how it is read, and what it keeps."""

    codecs: tuple[Codec, ...]
    read: Callable[[bytes, Codec], list[Row]]
    options: Mapping[str, object]
    is_columnar: bool = False
    has_offsets: bool = True


_STREAMS = (Codec.GZIP, Codec.ZSTD, Codec.NONE)
_BLOCKS = (Codec.ZSTD, Codec.SNAPPY, Codec.DEFLATE, Codec.NONE)
FILES: Mapping[str, File] = {
    "Text": File(_STREAMS, _text, {"delimiter": DELIMITER.decode()}, has_offsets=False),
    "Json": File(_STREAMS, _json_lines, {}, has_offsets=False),
    "SequenceFile": File((Codec.DEFLATE, Codec.GZIP, Codec.NONE), _sequence_file, {}),
    "Parquet": File((*_STREAMS, Codec.SNAPPY), _parquet, {}, is_columnar=True),
    "Orc": File(_BLOCKS, _orc, {}, is_columnar=True),
    "Avro": File(_BLOCKS, _avro, {}),
}
