"""Rows of landed objects of any format as Arrow record batches.

=====================  ==================================================================
format                 columns
=====================  ==================================================================
Parquet, Orc, Avro     the file's columns
Json                   ``value``, a string; or the columns that the reader asks for
Text                   ``value``, binary
SequenceFile           ``offset``, ``timestamp``, ``key`` and ``value``, as far as stored
another                the same
=====================  ==================================================================

An object gives exactly the rows that the ledger records, or an error.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.json as pj

from landfall.api.spec import Output
from landfall.errors import Reason, Stalled
from landfall.formats import Row
from landfall.formats.avro import landed as avro
from landfall.formats.column_reading import OPEN
from landfall.formats.columns import KAFKA_TIMESTAMP
from landfall.formats.jsonlines import JsonFormat
from landfall.formats.sequencefile import landed as sequencefile
from landfall.formats.sequencefile.writables import NO_TIMESTAMP
from landfall.formats.text import TextFormat
from landfall.memory_limit import bounded, steps
from landfall.reading.files import File
from landfall.reading.objects import Bytes
from landfall.registry import output_format

BATCH_ROWS = 65_536
BATCH_BYTES = 16 * 2**20
"""About as much of an object without columns becomes one batch."""

_JSON = pa.schema([pa.field("value", pa.string())])
_TEXT = pa.schema([pa.field("value", pa.binary())])
_RECORDS = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", KAFKA_TIMESTAMP),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
_WITHOUT_COLUMNS = {"Json": _JSON, "Text": _TEXT}


def schema_of(body: Bytes, output: Output) -> pa.Schema:
    """The columns of an object.

    Raises:
        Stalled: OBJECT_LOST, it is gone or damaged.
        Retry: the store does not answer.
    """
    with _damage(body.file), bounded():
        match output.format:
            case "Parquet" | "Orc":
                return OPEN[output.format](body.seekable()).schema
            case "Avro":
                with body.stream() as stream:
                    return next((batch.schema for batch in avro.batches(stream)), pa.schema([]))
            case other:
                return _WITHOUT_COLUMNS.get(other, _RECORDS)


def batches(
    body: Bytes, output: Output, columns: Sequence[str] | None, asked: pa.Schema | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of an object.

    Args:
        body: the object.
        output: how it was made.
        columns: those that are needed; None for all. The rows may have more.
        asked: the types of columns of objects that have none of their own.

    Raises:
        Stalled: OBJECT_LOST, the object is gone or damaged; SPEC_INVALID, JSON is not as ``asked``.
        Retry: the store does not answer.
    """
    rows = 0
    with _damage(body.file):
        for batch in steps(_batches(body, output, columns, asked)):
            rows += batch.num_rows
            yield batch
    if rows != body.file.rows:
        raise Stalled(
            Reason.OBJECT_LOST,
            f"{body.file.key}: {rows} rows, but the ledger records {body.file.rows}",
        )


def _batches(
    body: Bytes, output: Output, columns: Sequence[str] | None, asked: pa.Schema | None
) -> Iterator[pa.RecordBatch]:
    match output.format:
        case "Parquet" | "Orc":
            yield from OPEN[output.format](body.seekable()).batches(BATCH_ROWS, columns)
        case "Avro":
            with body.stream() as stream:
                yield from avro.batches(stream)
        case "Json" if asked is not None and not set(asked.names) <= {"value"}:
            for lines in _values(body, output):
                yield _parsed(body.file, lines, asked)
        case "Json" | "Text":
            schema = _WITHOUT_COLUMNS[output.format]
            for values in _values(body, output):
                column = pa.array(values, pa.binary()).cast(schema.field("value").type)
                yield pa.RecordBatch.from_arrays([column], schema=schema)
        case "SequenceFile":
            with body.stream() as stream:
                yield from map(_of_sequence_file, sequencefile.columns(stream))
        case _:
            yield from (_as_columns(some, _RECORDS) for some in _chunks(body, output))


def _of_sequence_file(found: sequencefile.RowColumns) -> pa.RecordBatch:
    times = pa.array(found.timestamps, KAFKA_TIMESTAMP, mask=found.timestamps == NO_TIMESTAMP)
    columns = [pa.array(found.offsets), times, found.keys, found.values]
    return pa.RecordBatch.from_arrays(columns, schema=_RECORDS)


def _as_columns(some: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array([getattr(row, field.name) for row in some], _stored(field.type)).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _stored(type_: pa.DataType) -> pa.DataType:
    """How the values of a ``Row`` are given."""
    if pa.types.is_timestamp(type_):
        return pa.int64()
    return pa.binary() if pa.types.is_string(type_) else type_


def _chunks(body: Bytes, output: Output) -> Iterator[list[Row]]:
    """The rows of an object, some at a time."""
    some, size = list[Row](), 0
    with body.stream() as stream:
        for row in output_format(output).rows(stream):
            some.append(row)
            size += len(row.value or b"")
            if len(some) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield some
                some, size = [], 0
    if some:
        yield some


def _values(body: Bytes, output: Output) -> Iterator[list[bytes]]:
    """The lines of an object of ``Json`` or ``Text``, some at a time."""
    some, size = list[bytes](), 0
    format_ = output_format(output)
    assert isinstance(format_, JsonFormat | TextFormat), format_
    with body.stream() as stream:
        for values in format_.values(stream):
            some += values
            size += sum(map(len, values))
            if len(some) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield some
                some, size = [], 0
    if some:
        yield some


def _parsed(file: File, lines: list[bytes], asked: pa.Schema) -> pa.RecordBatch:
    """The documents in the columns that are asked for; a tombstone is one without fields."""
    text = b"\n".join(b"{}" if line == b"null" else line for line in lines)
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            # One block: a document may be of any length.
            pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pj.ParseOptions(explicit_schema=asked, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException as error:
        raise Stalled(
            Reason.SPEC_INVALID, f"{file.key}: its JSON is not as asked for: {error}"
        ) from error
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=asked)


@contextmanager
def _damage(file: File) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Stalled(Reason.OBJECT_LOST, f"{file.key}: it is not there") from None
    except (ValueError, pa.ArrowException, OSError) as error:
        raise Stalled(Reason.OBJECT_LOST, f"{file.key}: damaged: {error}") from error
