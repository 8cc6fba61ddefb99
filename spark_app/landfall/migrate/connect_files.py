"""Connect's converters and formats: ``decode`` and ``output.format``."""

from collections.abc import Mapping
from dataclasses import dataclass

from landfall.migrate.draft import Draft
from landfall.migrate.registry import take_registry

CONVERTER = "value.converter"
FORMAT = "format.class"
SCHEMAS = "value.converter.schemas.enable"
NULLS = "behavior.on.null.values"
NO_ENVELOPE = False
"""Neither program has columns for where a record comes from."""

CONVERTERS: Mapping[str, str] = {
    "JsonConverter": "Json",
    "AvroConverter": "Avro",
    "ProtobufConverter": "Protobuf",
    "JsonSchemaConverter": "JsonSchema",
    "ByteArrayConverter": "Raw",
    "StringConverter": "Raw",
}
"""Decoders by the class's name without its package."""
ASK_REGISTRY = frozenset({"Avro", "Protobuf", "JsonSchema"})


@dataclass(frozen=True, slots=True)
class SinkFormat:
    """What takes the place of a format of the connector.

    Attributes:
        format: of the output.
        decoders: those whose payloads it writes.
        codec: the key that has the codec.
        codecs: ours by the connector's.
    """

    format: str
    decoders: frozenset[str]
    codec: str
    codecs: Mapping[str, str]


_STREAM = {"none": "None", "gzip": "Gzip"}
FORMATS: Mapping[str, SinkFormat] = {
    "JsonFormat": SinkFormat(
        "Json",
        frozenset({"Json", "Avro", "Protobuf", "JsonSchema"}),
        "s3.compression.type",
        _STREAM,
    ),
    "AvroFormat": SinkFormat(
        "Avro",
        frozenset({"Avro"}),
        "avro.codec",
        {"null": "None", "deflate": "Deflate", "snappy": "Snappy", "zstandard": "Zstd"},
    ),
    "ParquetFormat": SinkFormat(
        "Parquet",
        frozenset({"Avro", "Protobuf", "JsonSchema"}),
        "parquet.codec",
        {"none": "None", "gzip": "Gzip", "snappy": "Snappy", "zstd": "Zstd"},
    ),
    "ByteArrayFormat": SinkFormat("Text", frozenset({"Raw"}), "s3.compression.type", _STREAM),
}
_JSON = "JSON of a schema's own: decimals are text, and a union of several types names the type"
_WRAPPED = (
    "the sink writes the payload without its envelope, Landfall the whole document: a function in "
    "transforms can take payload out, or producers leave the envelope out"
)


def take_files(draft: Draft) -> None:
    """Set the decoder, the format, its codec and its options."""
    decoder = _take_converter(draft)
    found = _take_format(draft, decoder)
    if found is None:
        return
    _take_codec(draft, found)
    if found.format == "Text":
        for key, option in (
            ("format.bytearray.extension", "extension"),
            ("format.bytearray.separator", "delimiter"),
        ):
            text = draft.settings.text(key).encode("unicode_escape").decode("ascii")
            draft.put(("output", "options", option), text, key, default="the connector's default")
        draft.put(("output", "options", "delimiterInside"), "Keep")
    else:
        for key in ("format.bytearray.extension", "format.bytearray.separator"):
            draft.drop(key, "only ByteArrayFormat reads it")
    if found.format in {"Parquet", "Avro"}:
        draft.put(("output", "options", "envelope"), NO_ENVELOPE)
    _take_nulls(draft, found)


def _take_converter(draft: Draft) -> str:
    settings = draft.settings
    name = settings.text(CONVERTER).rpartition(".")[2]
    decoder = CONVERTERS.get(name)
    if not name:
        draft.missing.append("value.converter: the worker's file has it, and the group needs it")
        decoder = "Raw"
    elif decoder is None:
        draft.refuse(CONVERTER, "a converter of your own is a decoder in Python")
        decoder = "Raw"
    draft.put("decode.format", decoder, CONVERTER)
    registry = f"{CONVERTER}.schema.registry.url"
    if decoder in ASK_REGISTRY:
        login = f"{CONVERTER}.basic.auth.user.info"
        other = f"{CONVERTER}.schema.registry.basic.auth.user.info"
        if settings.has(registry):
            used = login if settings.secret(login) else other
            take_registry(draft, "decode.registry", registry, used)
        else:
            draft.missing.append(f"{registry}: the worker's file has it, and the group needs it")
    else:
        draft.drop(registry, "no schema is asked for")
    return decoder


def _take_format(draft: Draft, decoder: str) -> SinkFormat | None:
    settings = draft.settings
    name = settings.text(FORMAT).rpartition(".")[2]
    found = FORMATS.get(name)
    if found is None:
        draft.refuse(FORMAT, "a format of your own is a class in Python: output.format")
        return None
    if decoder not in found.decoders:
        why = f"{name} of {decoder} payloads is written otherwise: set output.format"
        draft.refuse(FORMAT, why)
        return None
    as_json = found.format == "Json" and decoder != "Json"
    draft.put("output.format", found.format, FORMAT, why=_JSON if as_json else "")
    if found.format == "Parquet" and decoder != "JsonSchema":
        draft.put("output.columns", "FromSchema", FORMAT)
    elif found.format == "Parquet":
        draft.refuse(FORMAT, "columns of JSON Schema are not taken: declare decode.columns")
    _take_compatibility(draft)
    if decoder == "Json":
        if settings.flag(SCHEMAS):
            draft.refuse(SCHEMAS, _WRAPPED)
        else:
            draft.take(SCHEMAS, "decode.format", "payloads are the documents themselves")
    return found


def _take_compatibility(draft: Draft) -> None:
    """``schema.compatibility``: without it each schema has objects of its own in both."""
    key = "schema.compatibility"
    if draft.settings.text(key).upper() == "NONE":
        draft.drop(key, "each schema has objects of its own")
    elif draft.spec["decode"]["format"] == "Avro":
        draft.put(("decode", "options", "readerSchema"), "Latest", key)
    else:
        draft.refuse(key, "each schema has objects of its own, as with NONE")


def _take_codec(draft: Draft, found: SinkFormat) -> None:
    name = draft.settings.text(found.codec).lower()
    ours = found.codecs.get(name)
    if ours is None:
        draft.refuse(found.codec, f"{found.format} has no {name}: its default takes its place")
    else:
        draft.put("output.codec", ours, found.codec, default="the connector's default")
    others = {each.codec for each in FORMATS.values()} - {found.codec}
    for key in others:
        draft.drop(key, f"{found.format} does not read it")


def _take_nulls(draft: Draft, found: SinkFormat) -> None:
    behavior = draft.settings.text(NULLS).lower()
    if behavior == "ignore":
        draft.take(NULLS, "badRecords.policy", "tombstones are dead letters, not skipped")
    elif behavior == "fail":
        draft.take(NULLS, "badRecords.policy", "a tombstone is a bad record")
    elif behavior == "write" and found.format == "Json":
        why = "tombstones have no folder of their own; option tombstones: Null writes them as null"
        draft.refuse(NULLS, why)
    else:
        draft.refuse(NULLS, f"{found.format} cannot hold tombstones: they are dead letters")
