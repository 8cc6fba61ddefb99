"""Readers by the names that a resource gives them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from landfall.api.values import quantity
from landfall.api.words import did_you_mean
from landfall.formats.avro.parts import AvroReader
from landfall.formats.csv import CsvReader
from landfall.formats.line_parts import JsonLinesReader, LinesReader
from landfall.formats.parquet.parts import ParquetReader
from landfall.formats.parts import FileReader, ReadLimits
from landfall.formats.sequencefile.parts import SequenceFileReader
from landfall.formats.streams import Compression
from landfall.formats.whole import Whole
from landfall.pipeline.decoders.options import read_options


class _Limited(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Options of all readers."""

    max_record_bytes: int | str = ReadLimits().record_bytes

    @property
    def limits(self) -> ReadLimits:
        try:
            return ReadLimits(record_bytes=quantity(self.max_record_bytes))
        except ValueError as error:
            raise ValueError(f"options: maxRecordBytes: {error}") from error


class _Compressed(_Limited):
    """Options of readers of streams."""

    compression: Compression = Compression.AUTO


class _Archived(_Limited):
    """Options of ``Whole``."""

    compression: Compression = Compression.NONE


class _Delimited(_Compressed):
    """Options of ``Csv``; the decoder's options, but ``header``, have the same names there."""

    columns: tuple[str, ...] = ()
    header: bool = True
    multiline: bool = False
    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    null_text: str | None = None
    trim: bool = False


def reader_of(name: str, options: Mapping[str, object]) -> FileReader:
    """Return the reader of a name, such as ``Lines``.

    =====================  ================  ===================================================
    option                 of                meaning
    =====================  ================  ===================================================
    ``maxRecordBytes``     all               how large a record may be, below 1Gi (``64Mi``)
    ``compression``        but ``Parquet``   ``Auto``, by the suffix, or ``None``, ``Gzip``,
                                             ``Zstd``, ``Bzip2``, ``Lz4``; ``Whole``: ``None``
    ``columns``            ``Csv``           the names of the columns
    ``header``             ``Csv``           whether files begin with names (true)
    ``multiline``          ``Csv``           whether values may hold line ends (false)
    ``separator`` etc.     ``Csv``           as of the decoder ``Csv``
    =====================  ================  ===================================================

    Raises:
        ValueError: there is no such reader, or an option is wrong; the message names it.
    """
    if name not in _READERS:
        known = ", ".join(_READERS)
        raise ValueError(f"no reader {name!r}{did_you_mean(name, _READERS)}; there are {known}")
    return _READERS[name](options)


def _of_stream(made: Callable[..., FileReader], options: Mapping[str, object]) -> FileReader:
    read = read_options(options, _Compressed)
    return made(compression=read.compression, limits=read.limits)


def _csv(options: Mapping[str, object]) -> FileReader:
    read = read_options(options, _Delimited)
    dialect: dict[str, Any] = {"separator": read.separator, "quote": read.quote, "trim": read.trim}
    dialect |= {"escape": read.escape, "nullText": read.null_text}
    return CsvReader(
        columns=read.columns,
        has_header=read.header,
        multiline=read.multiline,
        dialect=dialect,
        compression=read.compression,
        limits=read.limits,
    )


def _whole(options: Mapping[str, object]) -> FileReader:
    read = read_options(options, _Archived)
    return Whole(read.compression, read.limits)


_READERS: Mapping[str, Callable[[Mapping[str, object]], FileReader]] = MappingProxyType(
    {
        "Lines": lambda options: _of_stream(LinesReader, options),
        "JsonLines": lambda options: _of_stream(JsonLinesReader, options),
        "Csv": _csv,
        "Parquet": lambda options: ParquetReader(read_options(options, _Limited).limits),
        "Avro": lambda options: _of_stream(AvroReader, options),
        "SequenceFile": lambda options: _of_stream(SequenceFileReader, options),
        "Whole": _whole,
    }
)
