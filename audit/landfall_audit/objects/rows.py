"""Reading landed objects with libraries that the writer does not use: a stream in, hashes out.

The hash of a row covers what the format keeps of a record; ``Rows.hash_of`` computes the same hash
from a record as Kafka holds it. A row is right if both are equal. No payload stays in memory.
"""

import codecs
import gzip
import io
import shutil
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO, NoReturn, Protocol, TypeAlias
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from pyarrow import orc

from landfall_audit.checks.judge import Int64s
from landfall_audit.half_pairs import without_halves
from landfall_audit.memory_limit import bounded, steps
from landfall_audit.objects import avro_file, sequence_file
from landfall_audit.payloads import (
    BadPayload,
    ExpectedRows,
    Schemas,
    SourceRecord,
    Undecided,
    landed,
)
from landfall_audit.payloads.expected import columns, json_rows, schema_columns
from landfall_audit.spec import (
    AuditedSpec,
    CodecName,
    ColumnSection,
    ColumnSourceName,
    ColumnTypeName,
    ValueTypeSection,
)

DAMAGED = (ValueError, EOFError, OSError, zlib.error, zstandard.ZstdError, pa.ArrowException)
"""Errors that the libraries raise for damaged bytes."""
_PER_MILLISECOND = {"ms": 1, "us": 10**3, "ns": 10**6}
"""Of a timestamp's unit: Landfall once wrote milliseconds, and writes microseconds."""
_MAX_MILLISECONDS = (2**63 - 1) // 1000
_READ_BYTES = 1 << 20
_BATCH_ROWS = 4096
_OFFSET, _TIMESTAMP = "_offset", "_timestamp"
"""Names of what files of typed columns have of a record besides."""
_COORDINATES = {"_topic", "_partition", _OFFSET}
"""Columns of files that are not compared with the record; offsets identify the record."""
_TRANSFORMS = "transforms change what is landed"
_NO_TIMES = "Arrow cannot read every time that an ORC file can hold"
_SCHEMA_ID_BYTES = 5
"""Bytes before an Avro payload with a schema's id: a zero, and the id."""

_SCHEMA_HEADER = "__value_schema_id"
"""The record header in which Confluent's clients put the id instead, if configured so."""

Row: TypeAlias = tuple[int | None, object]
"""The offset, or None if the format stores none, and what is hashed of the row."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order of an object's rows; a reader yields it before the first.

    Attributes:
        schema: the digest of the payloads' schema. Objects of one output partition that have
            different schemas have their rows in order each, and not one after the other.
        is_sorted: whether rows are sorted by a column, and not in the order of their offsets.
        why_opaque: why what the rows hold cannot be compared, or empty.
    """

    schema: str = ""
    is_sorted: bool = False
    why_opaque: str = ""


ReadColumns: TypeAlias = Callable[
    [BinaryIO, frozenset[str] | None], Iterator[pa.RecordBatch | Order]
]
"""Yields the order of a file's rows, then batches with the columns of these names, or all."""


class MessageLike(Protocol):
    """The methods that are used of a Kafka message; ``confluent_kafka.Message`` has them."""

    def offset(self) -> int: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102
    def key(self) -> bytes | None: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...  # noqa: D102


class FormatNotSupported(Exception):  # noqa: N818  # states a fact, like StopIteration
    """The auditor cannot read the rows of this group's objects."""


@dataclass(frozen=True)
class Rows:
    """How to read a format.

    Attributes:
        rows: yields the rows of an object's stream, preceded by their order.
        hash_of: computes the hash that the row of a record must have; None if rows hold something
            else than what Kafka holds. Raises Undecided.
        content_of: makes what is hashed, if the auditor decodes payloads for it. Raises BadPayload
            and Undecided.
        unchecked: what is not compared, and why: columns, or all of it by the name ``""``.
    """

    rows: Callable[[BinaryIO], Iterator[Row | Order]]
    hash_of: Callable[[MessageLike], int] | None
    content_of: Callable[[MessageLike], object] | None = None
    unchecked: Mapping[str, str] = field(default_factory=dict)

    @property
    def compares_mixed(self) -> bool:
        """Return whether rows of unknown ranges are compared by hash; decoded ones are not."""
        return self.hash_of is not None and self.content_of is None


@dataclass(frozen=True)
class Read:
    """The part of an object that could be read.

    Attributes:
        offsets: of the rows; None if the format stores none.
        hashes: of the rows.
        damage: why reading ended early, or empty.
        order: the order of its rows.
    """

    offsets: Int64s | None
    hashes: Int64s
    damage: str = ""
    order: Order = Order()


def read(rows: Rows, stream: BinaryIO) -> Read:
    """Read an object to its end, or to the first damaged byte."""
    offsets, hashes = array("q"), array("q")
    damage, has_offsets, order = "", True, Order()
    try:
        for row in rows.rows(stream):
            if isinstance(row, Order):
                order = row
                continue
            offset, content = row
            hashes.append(hash(content))
            if offset is None:
                has_offsets = False
            else:
                offsets.append(offset)
    except DAMAGED as error:
        damage = f"{type(error).__name__}: {error}"
    stored = np.array(offsets, np.int64) if has_offsets else None
    return Read(stored, np.array(hashes, np.int64), damage, order)


def rows_of(spec: AuditedSpec, schemas: Schemas | None = None) -> Rows:
    """How to read the data objects of a group.

    Raises:
        FormatNotSupported: only the writer's own format can read them.
    """
    reader = _FORMATS.get(spec.output.format)
    if reader is None:
        raise FormatNotSupported(f"format {spec.output.format}")
    schemas = schemas or _NoSchemas()
    found = reader(spec, schemas)
    if reason := _changed(spec):
        return Rows(found.rows, None, unchecked={"": reason})
    is_made = spec.decode.format != "Json" or spec.decode.envelope is not None
    if spec.output.format == "Json" and is_made:
        return _made_json(spec, schemas)
    return found


def _changed(spec: AuditedSpec) -> str:
    """Why what is landed of a record is not its payload; empty if it is."""
    if spec.transforms:
        return _TRANSFORMS
    is_copied = spec.output.format != "Json" and not _declared(spec)
    if spec.decode.envelope and is_copied:
        return f"rows of envelopes of {spec.decode.envelope} in {spec.output.format}"
    return ""


class _NoSchemas:
    """For groups whose payloads name no schemas."""

    def find(self, registry: str, schema_id: int) -> NoReturn:
        """Nothing is stored."""
        raise Undecided(f"schema {schema_id} of {registry} is not stored")


def _decoded(
    rows: Callable[[BinaryIO], Iterator[Row | Order]],
    content_of: Callable[[MessageLike], object],
    unchecked: Mapping[str, str],
) -> Rows:
    """Rows that are compared with the payloads that the auditor decodes."""

    def hash_of(record: MessageLike) -> int:
        try:
            return hash(content_of(record))
        except BadPayload as bad:
            return hash(("a dead letter", str(bad)))

    return Rows(rows, hash_of, content_of, unchecked)


def _source(record: MessageLike) -> SourceRecord:
    timestamp = _storable(_timestamp(record))
    return SourceRecord(record.value(), record.key(), _headers(record), timestamp)


def _made_json(spec: AuditedSpec, schemas: Schemas) -> Rows:
    """Lines of JSON that are made of other payloads."""
    as_bytes = _json(spec, schemas).rows
    try:
        expected = json_rows(spec, schemas)
    except Undecided as undecided:
        return Rows(as_bytes, None, unchecked={"": str(undecided)})

    def rows(stream: BinaryIO) -> Iterator[Row | Order]:
        for row in as_bytes(stream):
            yield row if isinstance(row, Order) else (row[0], landed.json_form(row[1]))

    return _decoded(rows, lambda record: expected.of(_source(record)), expected.unchecked)


def _typed(
    spec: AuditedSpec, schemas: Schemas, read: ReadColumns, *, has_times: bool = True
) -> Rows:
    """Rows of typed columns.

    Args:
        spec: of the group.
        schemas: of registries.
        read: yields the batches of a file.
        has_times: whether times in files can be read.
    """
    has_offsets = bool(spec.output.options.get("envelope", True))
    types = {column.name: column for column in _declared(spec)}
    try:
        expected = _expected_columns(spec, schemas)
    except Undecided as undecided:
        files = _ColumnRows(read, frozenset(), types, has_offsets)
        return Rows(files.without_content, None, unchecked={"": str(undecided)})
    unchecked = dict(expected.unchecked)
    by_schema = spec.output.columns is ColumnSourceName.FROM_SCHEMA
    if not has_times:
        unchecked |= {name: _NO_TIMES for name, of in types.items() if _holds_times(of)}
    has_timestamp = has_offsets and has_times
    names = (types.keys() - unchecked.keys()) | ({_TIMESTAMP} if has_timestamp else set())
    files = _ColumnRows(read, None if by_schema else names, types, has_offsets)

    def content_of(record: MessageLike) -> object:
        source = _source(record)
        found = {name: value for name, value in expected.of(source) if name not in unchecked}
        if has_timestamp:
            at = source.timestamp
            found[_TIMESTAMP] = None if at is None else at * 1000
        return tuple(sorted(found.items()))

    return _decoded(files.rows, content_of, unchecked)


def _declared(spec: AuditedSpec) -> tuple[ColumnSection, ...]:
    of_key = spec.decode.key.columns if spec.decode.key else ()
    return (*spec.decode.columns, *of_key, *spec.decode.header_columns)


def _expected_columns(spec: AuditedSpec, schemas: Schemas) -> ExpectedRows:
    if reason := _changed(spec):
        raise Undecided(reason)
    if spec.output.columns is ColumnSourceName.FROM_SCHEMA:
        if spec.output.format != "Parquet":
            raise Undecided(f"columns of schemas in {spec.output.format}")
        return schema_columns(spec, schemas)
    return columns(spec, schemas)


@dataclass(frozen=True)
class _ColumnRows:
    """Rows of files of columns, by the names of the columns that are compared."""

    read: ReadColumns
    names: AbstractSet[str] | None
    types: Mapping[str, ColumnSection]
    has_offsets: bool

    def without_content(self, stream: BinaryIO) -> Iterator[Row | Order]:
        """The offsets of rows, if there are any."""
        for batch in self._batches(stream):
            if isinstance(batch, Order):
                yield batch
            else:
                yield from ((offset, None) for offset in self._offsets(batch))

    def rows(self, stream: BinaryIO) -> Iterator[Row | Order]:
        """Offsets, and the columns with their names."""
        for batch in self._batches(stream):
            if isinstance(batch, Order):
                yield batch
                continue
            there = sorted(
                name
                for name in batch.schema.names
                if (name not in _COORDINATES if self.names is None else name in self.names)
            )
            values = [landed.forms(batch[name], self.types.get(name)) for name in there]
            for offset, *row in zip(self._offsets(batch), *values, strict=True):
                yield offset, tuple(zip(there, row, strict=True))

    def _batches(self, stream: BinaryIO) -> Iterator[pa.RecordBatch | Order]:
        offset = {_OFFSET} if self.has_offsets else set()
        return self.read(stream, None if self.names is None else frozenset(self.names | offset))

    def _offsets(self, batch: pa.RecordBatch) -> list[int | None]:
        found: list[int | None] = [None] * len(batch)
        return batch[_OFFSET].to_pylist() if self.has_offsets else found


def _holds_times(declared: ValueTypeSection) -> bool:
    inner = [*([declared.items] if declared.items else []), *declared.fields]
    return declared.type is ColumnTypeName.TIMESTAMP or any(map(_holds_times, inner))


# ----------------------------------------------------------------------- rows without offsets


def _json(spec: AuditedSpec, _: Schemas) -> Rows:
    def hash_of(record: MessageLike) -> int:
        value = record.value()
        if value is None:
            return hash(b"null")
        return hash(without_halves(value).replace(b"\n", b" ").replace(b"\r", b" "))

    return Rows(lambda stream: _lines(_plain(spec.output.codec, stream)), hash_of)


def _text(spec: AuditedSpec, _: Schemas) -> Rows:
    delimiter = codecs.escape_decode(str(spec.output.options.get("delimiter", "\n")).encode())[0]
    if not delimiter or spec.output.options.get("delimiterInside") == "Keep":
        raise FormatNotSupported("Text without a delimiter that ends each row")
    split = _lines if delimiter == b"\n" else lambda stream: _split(stream, delimiter)
    return Rows(
        lambda stream: split(_plain(spec.output.codec, stream)),
        lambda record: hash(record.value() or b""),
    )


def _plain(codec: CodecName | None, stream: BinaryIO) -> BinaryIO:
    match codec:
        case None | CodecName.GZIP:
            return io.BufferedReader(gzip.GzipFile(fileobj=stream), _READ_BYTES)
        case CodecName.ZSTD:
            reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
            return io.BufferedReader(reader, _READ_BYTES)
        case _:
            return stream


def _lines(stream: BinaryIO) -> Iterator[Row]:
    for line in stream:
        if not line.endswith(b"\n"):
            raise ValueError(f"the object ends inside a row, {len(line)} bytes into it")
        yield None, line[:-1]


def _split(stream: BinaryIO, delimiter: bytes) -> Iterator[Row]:
    rest = b""
    while chunk := stream.read(_READ_BYTES):
        *complete, rest = (rest + chunk).split(delimiter)
        yield from ((None, row) for row in complete)
    if rest:
        raise ValueError(f"the object ends inside a row, {len(rest)} bytes into it")


# -------------------------------------------------------------------------- rows with offsets


def _sequence_file(spec: AuditedSpec, _: Schemas) -> Rows:
    packed = spec.output.options.get("keyMode") == "MessagePack"

    def hash_of(record: MessageLike) -> int:
        value = record.value() or b""
        return hash(
            (value, record.key() or None, _timestamp(record)) if packed else (value, None, None)
        )

    def rows(stream: BinaryIO) -> Iterator[Row]:
        for offset, key, timestamp, value in sequence_file.records(stream):
            yield offset, (value, key, timestamp)

    return Rows(rows, hash_of)


def _parquet(spec: AuditedSpec, schemas: Schemas) -> Rows:
    if not spec.decode.columns and spec.output.columns is ColumnSourceName.DECLARED:
        return ENVELOPE
    return _typed(spec, schemas, _parquet_batches)


def _parquet_batches(
    stream: BinaryIO, wanted: frozenset[str] | None
) -> Iterator[pa.RecordBatch | Order]:
    """Yield the order of a file's rows, then its rows, with the columns that are wanted."""
    with parquet_file(stream) as parquet:
        names = parquet.schema_arrow.names
        there = [name for name in names if wanted is None or name in wanted] or names[:1]
        yield replace(_order_of(parquet), why_opaque=_why_opaque(parquet.schema_arrow, wanted))
        yield from steps(parquet.iter_batches(_BATCH_ROWS, columns=there))


def _why_opaque(schema: pa.Schema, wanted: frozenset[str] | None) -> str:
    """Return why rows cannot be compared with payloads by today's group file, or empty."""
    wanted = frozenset(schema.names) if wanted is None else wanted
    if lacks := sorted(wanted - set(schema.names)):
        return f"the file has no column {lacks[0]}"
    typed = wanted - {_TIMESTAMP}  # which Kafka has in milliseconds
    old = [name for name in typed if landed.is_of_milliseconds(schema.field(name).type)]
    return f"{old[0]} is in milliseconds, as in files of old software" if old else ""


def _timestamp(record: MessageLike) -> int | None:
    milliseconds = record.timestamp()[1]
    return None if milliseconds == -1 else milliseconds


def whole_hash(record: MessageLike) -> int:
    """The hash of everything that Kafka holds of a record, except topic, partition and offset."""
    timestamp = _storable(_timestamp(record))
    return hash((record.value(), record.key(), timestamp, _headers(record)))


def _storable(milliseconds: int | None) -> int | None:
    """The timestamp, None if it is no 64-bit number of microseconds: dead letters leave it out."""
    fits = milliseconds is not None and abs(milliseconds) <= _MAX_MILLISECONDS
    return milliseconds if fits else None


def _headers(record: MessageLike) -> tuple[tuple[str, bytes | None], ...]:
    """The record's headers; empty if a name is not UTF-8.

    The client then returns a broken list, and dead letters leave the headers out.
    """
    try:
        # The client returns the list and sets an error at the same time. A plain call may not
        # notice the error until later; map() checks for it right here.
        (found,) = map(type(record).headers, (record,))
    except SystemError:
        return ()
    return tuple(found or ())


def _enveloped(stream: BinaryIO) -> Iterator[Row | Order]:
    for row in _columns(stream, ["offset", "value", "key", "timestamp", "headers"]):
        if isinstance(row, Order):
            yield row
            continue
        offset, value, key, timestamp, headers = row
        pairs = tuple((header["key"], header["value"]) for header in headers)  # type: ignore[attr-defined]  # a list
        yield offset, (value, key, timestamp, pairs)  # type: ignore[misc]  # offsets are integers


ENVELOPE = Rows(_enveloped, whole_hash)
"""Parquet with the whole record in columns; dead letters have this format, too."""


def _columns(stream: BinaryIO, names: Sequence[str]) -> Iterator[tuple[object, ...] | Order]:
    """Columns of a Parquet file, row by row.

    The stream is copied to a temporary file first, because the footer of a Parquet file comes last.
    """
    with parquet_file(stream) as parquet:
        yield _order_of(parquet)
        for batch in steps(parquet.iter_batches(_BATCH_ROWS)):
            yield from zip(*(_values(batch[name]) for name in names), strict=True)


@contextmanager
def parquet_file(stream: BinaryIO) -> Iterator[pq.ParquetFile]:
    """Provide a Parquet file whose bytes come from a stream."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(stream, file, _READ_BYTES)
        with bounded():
            opened = pq.ParquetFile(file, page_checksum_verification=True)
        yield opened


def _order_of(parquet: pq.ParquetFile) -> Order:
    groups = (parquet.metadata.row_group(i) for i in range(parquet.num_row_groups))
    digest = (parquet.metadata.metadata or {}).get(b"landfall-schema-digest", b"")
    return Order(digest.decode(), any(group.sorting_columns for group in groups))


def _values(column: pa.Array) -> list[object]:
    is_timestamp = pa.types.is_timestamp(column.type)
    if not is_timestamp:
        plain: list[object] = column.to_pylist()
        return plain
    per_millisecond = _PER_MILLISECOND[column.type.unit]
    return [
        None if value is None else _storable(value // per_millisecond)
        for value in column.cast(pa.int64()).to_pylist()
    ]


def _orc(spec: AuditedSpec, schemas: Schemas) -> Rows:
    is_sorted = bool(spec.output.options.get("sortBy"))
    by_schema = spec.output.columns is ColumnSourceName.FROM_SCHEMA
    if spec.decode.columns or by_schema:
        read = partial(_orc_batches, is_sorted=is_sorted, by_schema=by_schema)
        return _typed(spec, schemas, read, has_times=False)

    def rows(stream: BinaryIO) -> Iterator[Row | Order]:
        with tempfile.TemporaryFile() as file:
            shutil.copyfileobj(stream, file, _READ_BYTES)
            with bounded():
                found = orc.ORCFile(file)
            yield Order(is_sorted=is_sorted)
            for stripe in steps(map(found.read_stripe, range(found.nstripes))):
                yield from _of_envelope(stripe)

    return Rows(rows, whole_hash)


def _orc_batches(
    stream: BinaryIO, wanted: frozenset[str] | None, *, is_sorted: bool, by_schema: bool
) -> Iterator[pa.RecordBatch | Order]:
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(stream, file, _READ_BYTES)
        with bounded():
            found = orc.ORCFile(file)
        names = found.schema.names
        # Arrow cannot read every timestamp that ORC can hold, so these columns are left out.
        there = [name for name in names if wanted is None or name in wanted] or names[:1]
        # These files do not name their schema, so each is in order by itself.
        why = _why_opaque(found.schema, wanted)
        yield Order(uuid4().hex if by_schema else "", is_sorted, why)
        stripes = range(found.nstripes)
        yield from steps(found.read_stripe(stripe, columns=there) for stripe in stripes)


def _of_envelope(batch: pa.RecordBatch) -> Iterator[Row]:
    in_millis = pa.timestamp("ms", batch["timestamp"].type.tz)
    times = batch["timestamp"].cast(in_millis).cast(pa.int64()).to_pylist()
    columns = [batch[name].to_pylist() for name in ("offset", "value", "key", "headers")]
    for offset, value, key, headers, time in zip(*columns, times, strict=True):
        yield (
            offset,
            (value, key, time, tuple((header["key"], header["value"]) for header in headers)),
        )


def _avro(spec: AuditedSpec, _: Schemas) -> Rows:
    is_framed = spec.decode.registry is not None
    has_headers = spec.decode.options.get("schemaId") == "Header"

    def hash_of(record: MessageLike) -> int:
        # A record whose header names its schema has nothing before the payload.
        is_named = has_headers and any(name == _SCHEMA_HEADER for name, _ in _headers(record))
        header_bytes = _SCHEMA_ID_BYTES if is_framed and not is_named else 0
        return hash((record.value() or b"")[header_bytes:])

    def rows(stream: BinaryIO) -> Iterator[Row | Order]:
        for row in avro_file.records(stream):
            yield Order(row) if isinstance(row, str) else row

    return Rows(rows, hash_of)


_FORMATS: dict[str, Callable[[AuditedSpec, Schemas], Rows]] = {
    "Json": _json,
    "Text": _text,
    "SequenceFile": _sequence_file,
    "Parquet": _parquet,
    "Orc": _orc,
    "Avro": _avro,
}
