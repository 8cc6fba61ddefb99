"""Secor's file formats and codecs, and what they are read from: ``output.format`` and so on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from landfall_migrate.draft import Draft

FACTORY = "secor.file.reader.writer.factory"
CODEC = "secor.compression.codec"
EXTENSION = "secor.file.extension"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The replacement of a factory of Secor.

    Attributes:
        format: of the output.
        decoder: that it needs; empty if it takes payloads of any.
        codecs: by the class of Secor's codec, ours; without a codec the one of ``""``.
        options: of the output.
    """

    format: str
    codecs: Mapping[str, str]
    decoder: str = ""
    options: tuple[tuple[str, object], ...] = ()


_FILES = {"": "Deflate", "DefaultCodec": "Deflate", "DeflateCodec": "Deflate", "GzipCodec": "Gzip"}
_LINES = {"": "None", "GzipCodec": "Gzip", "ZStandardCodec": "Zstd"}
_PARQUET = {"": "None", "GzipCodec": "Gzip", "SnappyCodec": "Snappy", "ZStandardCodec": "Zstd"}
_ORC = {"": "None", "GzipCodec": "Deflate", "SnappyCodec": "Snappy", "DefaultCodec": "None"}
# Secor asks Avro for a codec by Parquet's names. Avro knows none called gzip or uncompressed, so
# that both fall back to none (AvroFileReaderWriterFactory.getCodecFactory).
_AVRO = {"": "None", "GzipCodec": "None", "SnappyCodec": "Snappy"}
_TYPED = (("envelope", False),)
_VERBATIM = (("delimiterInside", "Keep"),)

FORMATS: Mapping[str, FileFormat] = {
    "Sequence": FileFormat("SequenceFile", _FILES),
    "MessagePackSequence": FileFormat(
        "SequenceFile", _FILES, options=(("keyMode", "MessagePack"),)
    ),
    "DelimitedText": FileFormat("Text", _LINES, options=_VERBATIM),
    "FlexibleDelimited": FileFormat("Text", _LINES, options=_VERBATIM),
    "Avro": FileFormat("Avro", _AVRO, "Avro", _TYPED),
    "AvroParquet": FileFormat("Parquet", _PARQUET, "Avro", _TYPED),
    "ProtobufParquet": FileFormat("Parquet", _PARQUET, "Protobuf", _TYPED),
    "ThriftParquet": FileFormat("Parquet", _PARQUET, "Thrift", _TYPED),
    "JsonORC": FileFormat("Orc", _ORC, "Json", _TYPED),
}
"""By the class's name without ``FileReaderWriterFactory``."""

EXTENSIONS: Mapping[str, str] = {
    "GzipCodec": ".gz",
    "BZip2Codec": ".bz2",
    "SnappyCodec": ".snappy",
    "DefaultCodec": ".deflate",
    "DeflateCodec": ".deflate",
    "Lz4Codec": ".lz4",
    "ZStandardCodec": ".zst",
}
"""The suffixes that Hadoop's codecs append to names of files."""
_FALLBACK = {"SequenceFile": "Deflate", "Text": "Gzip", "Orc": "Deflate", "Avro": "Deflate"}
_HADOOP = (
    "Hadoop's default is zlib for each record; here it is for blocks of them, which are read alike"
)


def file_format(draft: Draft) -> FileFormat:
    """The format of Secor's factory; SequenceFiles if there is none such."""
    name = _simple(draft.settings.text(FACTORY)).removesuffix("FileReaderWriterFactory")
    found = FORMATS.get(name)
    if found is None:
        why = "a format of your own is a class in Python: output.format package.module:Name"
        draft.refuse(FACTORY, why)
    return found or FORMATS["Sequence"]


def take_format(draft: Draft, found: FileFormat) -> None:
    """Set ``output.format``, its codec and its options."""
    settings = draft.settings
    draft.put("output.format", found.format, FACTORY, default="Secor's default")
    if found.format == "Parquet":
        draft.put("output.columns", "FromSchema", FACTORY)
    _take_codec(draft, found)
    for name, value in found.options:
        draft.put(("output", "options", name), value)
    simple = _simple(settings.text(FACTORY))
    if simple.startswith("FlexibleDelimited"):
        delimiter = settings.text("secor.file.writer.Delimiter")
        escaped = delimiter.encode("unicode_escape").decode("ascii")
        draft.put(("output", "options", "delimiter"), escaped, "secor.file.writer.Delimiter")
    else:
        draft.drop("secor.file.writer.Delimiter", "only FlexibleDelimited writes by it")
    if found.format == "Parquet":
        _take_parquet(draft)


def _take_codec(draft: Draft, found: FileFormat) -> None:
    codec = _simple(draft.settings.text(CODEC))
    ours = found.codecs.get(codec)
    if ours is None:
        ours = _FALLBACK.get(found.format, "None")
        draft.refuse(CODEC, f"{found.format} has no {codec}: {ours} is used instead")
        draft.put("output.codec", ours)
        codec = ""
    elif codec:
        draft.put("output.codec", ours, CODEC)
    else:
        none = "Secor compresses nothing without a codec"
        draft.put("output.codec", ours, why=_HADOOP if found.format == "SequenceFile" else none)
    option = ("output", "options", "extension")
    if draft.settings.has(EXTENSION):
        draft.put(option, draft.settings.text(EXTENSION), EXTENSION)
    elif codec:
        draft.put(option, EXTENSIONS[codec], CODEC)
    else:
        draft.put(option, "", why="Secor's files have the extension of the codec, or none")


def _take_parquet(draft: Draft) -> None:
    settings = draft.settings
    for key, option in (
        ("parquet.block.size", "rowGroupBytes"),
        ("parquet.page.size", "pageBytes"),
    ):
        if settings.has(key):
            text = settings.text(key)
            draft.put(("output", "options", option), int(text) if text.isdigit() else text, key)
    if settings.has("parquet.enable.dictionary"):
        on = settings.flag("parquet.enable.dictionary")
        draft.put(("output", "options", "dictionary"), on, "parquet.enable.dictionary")


def _simple(name: str) -> str:
    """The name of a class without its package."""
    return re.split(r"[.$]", name)[-1]
