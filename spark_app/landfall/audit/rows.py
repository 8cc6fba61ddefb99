"""Reading landed objects with other people's libraries: a stream in, a hash per row out.

What is hashed is what the format keeps of a record; ``Rows.hash_of`` is the same hash of a record
as Kafka holds it. So a row is right if both are equal. Of what a payload held nothing stays in
memory.
"""

import codecs
import gzip
import io
import shutil
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from landfall.api.spec import Codec, GroupSpec
from landfall.audit import sequence_file
from landfall.audit.judge import Int64s

DAMAGED = (ValueError, EOFError, OSError, zlib.error, zstandard.ZstdError, pa.ArrowException)
"""What the libraries raise for bytes that are not what they should be."""
_PIECE_BYTES = 1 << 20

Row: TypeAlias = tuple[int | None, object]
"""Offset, where the format stores it, and what is hashed."""


class Record(Protocol):
    """What is asked of one of Kafka's messages; the client's own do."""

    def offset(self) -> int: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102
    def key(self) -> bytes | None: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...  # noqa: D102


class FormatNotSupported(Exception):  # noqa: N818  # says what is the case
    """Objects of this group cannot be parted into rows."""


@dataclass(frozen=True)
class Rows:
    """How to read a format.

    Attributes:
        rows: of an object.
        hash_of: of a record as Kafka holds it, equal to the hash of its row; None if rows hold
            something else.
    """

    rows: Callable[[BinaryIO], Iterator[Row]]
    hash_of: Callable[[Record], int] | None


@dataclass(frozen=True)
class Read:
    """An object that was read, as far as it could be."""

    offsets: Int64s | None
    hashes: Int64s
    damage: str = ""


def read(rows: Rows, stream: BinaryIO) -> Read:
    """Read an object to its end, or up to where it is damaged."""
    offsets, hashes = array("q"), array("q")
    damage, blind = "", False
    try:
        for offset, content in rows.rows(stream):
            hashes.append(hash(content))
            if offset is None:
                blind = True
            else:
                offsets.append(offset)
    except DAMAGED as error:
        damage = f"{type(error).__name__}: {error}"
    return Read(None if blind else np.array(offsets, np.int64), np.array(hashes, np.int64), damage)


def rows_of(spec: GroupSpec) -> Rows:
    """How to read the data objects of a group.

    Raises:
        Unreadable: nobody but the writer could.
    """
    made = _FORMATS.get(spec.output.format)
    if made is None:
        raise FormatNotSupported(f"format {spec.output.format}")
    found = made(spec)
    rewritten = spec.output.format == "Json" and spec.decode.format != "Json"
    return Rows(found.rows, None) if spec.transforms or rewritten else found


# ------------------------------------------------------------------------------- lines and the like


def _json(spec: GroupSpec) -> Rows:
    def hash_of(record: Record) -> int:
        value = record.value()
        return hash(b"null" if value is None else value.replace(b"\n", b" ").replace(b"\r", b" "))

    return Rows(lambda stream: _lines(_plain(spec.output.codec, stream)), hash_of)


def _text(spec: GroupSpec) -> Rows:
    delimiter = codecs.escape_decode(str(spec.output.options.get("delimiter", "\n")).encode())[0]
    if not delimiter or spec.output.options.get("delimiterInside") == "Keep":
        raise FormatNotSupported("rows of Text without a delimiter of their own")
    split = _lines if delimiter == b"\n" else lambda stream: _split(stream, delimiter)
    return Rows(
        lambda stream: split(_plain(spec.output.codec, stream)),
        lambda record: hash(record.value() or b""),
    )


def _plain(codec: Codec | None, stream: BinaryIO) -> BinaryIO:
    match codec:
        case None | Codec.GZIP:
            return io.BufferedReader(gzip.GzipFile(fileobj=stream), _PIECE_BYTES)
        case Codec.ZSTD:
            reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
            return io.BufferedReader(reader, _PIECE_BYTES)
        case _:
            return stream


def _lines(stream: BinaryIO) -> Iterator[Row]:
    for line in stream:
        if not line.endswith(b"\n"):
            raise ValueError(f"ends inside a row, after {len(line)} bytes of it")
        yield None, line[:-1]


def _split(stream: BinaryIO, delimiter: bytes) -> Iterator[Row]:
    rest = b""
    while piece := stream.read(_PIECE_BYTES):
        *whole, rest = (rest + piece).split(delimiter)
        yield from ((None, row) for row in whole)
    if rest:
        raise ValueError(f"ends inside a row, after {len(rest)} bytes of it")


# ------------------------------------------------------------------------------------- with offsets


def _sequence_file(spec: GroupSpec) -> Rows:
    packed = spec.output.options.get("keyMode") == "MessagePack"

    def hash_of(record: Record) -> int:
        value = record.value() or b""
        return hash(
            (value, record.key() or None, _stamp(record)) if packed else (value, None, None)
        )

    def rows(stream: BinaryIO) -> Iterator[Row]:
        for offset, key, timestamp, value in sequence_file.records(stream):
            yield offset, (value, key, timestamp)

    return Rows(rows, hash_of)


def _parquet(spec: GroupSpec) -> Rows:
    if not spec.decode.columns:
        return ENVELOPE
    name = "_offset" if spec.output.options.get("envelope", True) else None
    return Rows(lambda stream: ((offset, None) for (offset,) in _columns(stream, [name])), None)  # type: ignore[misc]  # an integer


def _stamp(record: Record) -> int | None:
    stamp = record.timestamp()[1]
    return None if stamp == -1 else stamp


def whole_hash(record: Record) -> int:
    """Of all that Kafka knows of a record but its place."""
    return hash((record.value(), record.key(), _stamp(record), _headers(record)))


def _headers(record: Record) -> tuple[tuple[str, bytes | None], ...]:
    """Of a record; none where a name is not UTF-8: the client's list is broken then, and dead letters leave it out."""
    try:
        # by map: called by name, the interpreter may not notice in time that there is an error
        # beside the list
        (found,) = map(type(record).headers, (record,))
    except SystemError:
        return ()
    return tuple(found or ())


def _enveloped(stream: BinaryIO) -> Iterator[Row]:
    for offset, value, key, stamp, headers in _columns(
        stream, ["offset", "value", "key", "timestamp", "headers"]
    ):
        told = tuple((header["key"], header["value"]) for header in headers)  # type: ignore[attr-defined]  # a list
        yield offset, (value, key, stamp, told)  # type: ignore[misc]  # an integer


ENVELOPE = Rows(_enveloped, whole_hash)
"""Parquet with all of a record; dead letters are such, too."""


def _columns(stream: BinaryIO, names: Iterable[str | None]) -> Iterator[tuple[object, ...]]:
    """Columns of a Parquet file, row by row; by way of a temporary file, because the footer comes last."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(stream, file, _PIECE_BYTES)
        for batch in pq.ParquetFile(file, page_checksum_verification=True).iter_batches(4096):
            columns = [
                [None] * len(batch) if name is None else _listed(batch[name]) for name in names
            ]
            yield from zip(*columns, strict=True)


def _listed(column: pa.Array) -> list[object]:
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()  # type: ignore[no-any-return]


_FORMATS: dict[str, Callable[[GroupSpec], Rows]] = {
    "Json": _json,
    "Text": _text,
    "SequenceFile": _sequence_file,
    "Parquet": _parquet,
}
