"""Connect's converters and formats: ``decode`` and ``output.format``."""

from collections.abc import Mapping
from dataclasses import dataclass

from landfall_migrate.draft import Draft
from landfall_migrate.registry import take_registry
from landfall_migrate.settings import ProgramSettings

CONVERTER = "value.converter"
FORMAT = "format.class"
SCHEMAS = "value.converter.schemas.enable"
REGISTRY = "value.converter.schema.registry.url"
NULLS = "behavior.on.null.values"
COMPATIBILITY = "schema.compatibility"
OF_FORMATS = (
    "s3.compression.type",
    "parquet.codec",
    "avro.codec",
    "format.bytearray.extension",
    "format.bytearray.separator",
    NULLS,
    COMPATIBILITY,
)
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
    """The replacement of a format of the connector.

    Attributes:
        format: of the output.
        decoders: the decoders whose payloads it writes.
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
_OPEN = "it goes with value.converter, which is not taken"
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
        draft.refuse_given(OF_FORMATS, "it goes with format.class, which is not taken")
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


def _take_converter(draft: Draft) -> str | None:
    """Set the decoder, and return it; None if nothing decides it."""
    settings = draft.settings
    name = settings.text(CONVERTER).rpartition(".")[2]
    decoder = CONVERTERS.get(name)
    if decoder is None:
        why = "value.converter is in the worker's file: give it by --worker"
        if name:
            why = "a converter of your own is a decoder in Python"
            draft.refuse(CONVERTER, why)
        draft.leave_open("decode.format", why, meanwhile=_stand_in(settings))
        draft.refuse_given((SCHEMAS, REGISTRY), _OPEN)
        return None
    draft.put("decode.format", decoder, CONVERTER)
    _take_registry(draft, decoder)
    if decoder != "Json":
        draft.drop(SCHEMAS, "only JsonConverter reads it")
    elif settings.flag(SCHEMAS):
        draft.refuse(SCHEMAS, _WRAPPED)
    else:
        draft.take(SCHEMAS, "decode.format", "payloads are the documents themselves")
    return decoder


def _stand_in(settings: ProgramSettings) -> str:
    """Return a decoder by which the other fields can be checked."""
    written = FORMATS.get(settings.text(FORMAT).rpartition(".")[2])
    return "Raw" if written is None else {"Json": "Json", "Text": "Raw"}.get(written.format, "Avro")


def _take_registry(draft: Draft, decoder: str) -> None:
    settings = draft.settings
    if decoder not in ASK_REGISTRY:
        draft.drop(REGISTRY, "no schema is asked for")
        return
    login = f"{CONVERTER}.basic.auth.user.info"
    other = f"{CONVERTER}.schema.registry.basic.auth.user.info"
    if settings.has(REGISTRY):
        used = login if settings.secret(login) else other
        take_registry(draft, "decode.registry", REGISTRY, used)
    else:
        draft.missing.append(f"{REGISTRY}: the worker's file has it: give it by --worker")


def _take_format(draft: Draft, decoder: str | None) -> SinkFormat | None:
    name = draft.settings.text(FORMAT).rpartition(".")[2]
    found = FORMATS.get(name)
    if found is None or (decoder and decoder not in found.decoders):
        why = _why_no_format(name, found, decoder)
        draft.refuse(FORMAT, why)
        draft.leave_open("output.format", why)
        return None
    as_json = found.format == "Json" and decoder not in {"Json", None}
    draft.put("output.format", found.format, FORMAT, why=_JSON if as_json else "")
    if found.format == "Parquet" and decoder == "JsonSchema":
        why = "columns of JSON Schema are not taken: declare decode.columns"
        draft.refuse(FORMAT, why)
        draft.leave_open("output.columns", why)
    elif found.format == "Parquet":
        draft.put("output.columns", "FromSchema", FORMAT)
    if decoder is None:
        draft.refuse_given((COMPATIBILITY,), _OPEN)
    else:
        _take_compatibility(draft)
    return found


def _why_no_format(name: str, found: SinkFormat | None, decoder: str | None) -> str:
    if found:
        return f"{name} of {decoder} payloads is written otherwise: set output.format"
    own = "a format of your own is a class in Python: output.format"
    return own if name else "format.class is not given"


def _take_compatibility(draft: Draft) -> None:
    """``schema.compatibility``: without it each schema has objects of its own in both."""
    key = COMPATIBILITY
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
        draft.refuse(found.codec, f"{found.format} has no {name}: its default is used instead")
    else:
        draft.put("output.codec", ours, found.codec, default="the connector's default")
    others = {format_.codec for format_ in FORMATS.values()} - {found.codec}
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
