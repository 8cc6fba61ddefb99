"""A scan: the rows of some files of one topic, with the same columns for all of them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from landfall.api.spec import Output
from landfall.errors import Reason, Stalled
from landfall.landed.copies import WithCopies
from landfall.reading import rows
from landfall.reading.files import File
from landfall.reading.objects import Bytes, fetched, in_order
from landfall.registry import Allowed
from landfall.store import Store
from landfall.store.urls import open_store

if TYPE_CHECKING:
    import duckdb

    from landfall.reading.tail import Tail

SOURCE_COLUMN = "_landfall_source"
"""The column that a scan with a tail adds: ``landed`` or ``tail``, the half of each row."""
LANDED, TAIL = "landed", "tail"


@dataclass(frozen=True)
class RowSource:
    """How the objects of a topic are read; it can be sent to other processes.

    Attributes:
        output: where the objects are.
        made_by: how they were made, by stored spec.
        schema: the columns of every batch.
        lane: the group and the lane whose objects they are.
        copies: the keys of copies, by the keys of objects that retired after the scan's slot.
        allowed: what may be imported to read them, by stored spec.
        constants: columns that have one value in all rows, such as ``SOURCE_COLUMN``.
    """

    output: Output
    made_by: Mapping[str, Output]
    schema: pa.Schema
    lane: tuple[str, str]
    copies: Mapping[str, str]
    allowed: Mapping[str, Allowed] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)

    def objects(self, store: Store) -> WithCopies:
        """The objects, and copies of those that have retired."""
        return WithCopies(store, self.lane, self.copies)

    def batches(self, store: Store, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
        """The rows of the files, one file after the other.

        Raises:
            Stalled: OBJECT_LOST, an object is gone or damaged; SPEC_INVALID, it does not have the
                columns of the schema, or its format is a plug-in that the reader has not named.
            Retry: the store does not answer.
        """
        for body, made_by in self.bodies(store, files):
            yield from self._rows(body, made_by, self.constants)

    def bodies(self, store: Store, files: Sequence[File]) -> Iterator[tuple[Bytes, Output]]:
        """The bytes of the files, one file after the other, and how each was made.

        Raises:
            Stalled: OBJECT_LOST, an object is gone; SPEC_INVALID, its format is a plug-in that the
                reader has not named.
            Retry: the store does not answer.
        """
        for spec in sorted({file.spec for file in files}):
            self.allowed[spec].check_format(self.made_by[spec])
        for body in fetched(self.objects(store), files):
            yield body, self.made_by[body.file.spec]

    def tail_batches(self, tail: "Tail") -> Iterator[pa.RecordBatch]:
        """The rows of a tail.

        Raises:
            Stalled, Retry: as ``Tail.objects`` and ``batches``.
        """
        constants = {**self.constants, SOURCE_COLUMN: TAIL}
        for body in tail.objects():
            yield from self._rows(body, tail.output, constants)

    def _rows(
        self, body: Bytes, made_by: Output, constants: Mapping[str, str]
    ) -> Iterator[pa.RecordBatch]:
        values = {**body.file.partition_values, **constants}
        own = pa.schema([f for f in self.schema if f.name not in values])
        for batch in rows.batches(body, made_by, self.schema.names, own):
            yield _aligned(body.file, batch, self.schema, values)


@dataclass(frozen=True)
class Scan:
    """The rows of the landed objects of a topic, through one slot of the ledger.

    The slot is fixed when the scan is made, so a scan gives the same rows however often it is read,
    and a scan of the same slot gives them at any later time; where objects were replaced later, as
    long as there are copies of them.

    Attributes:
        topic: whose objects they are.
        slot: the last slot of the ledger whose objects are read.
        root: the URL of the output root.
        unconfirmed: rows of the topic that are committed and in no scan yet, as the last slot does
            not call them visible; 0 for an earlier slot.
        tail: Kafka's records that have not landed, if they were asked for; None if not.
    """

    topic: str
    slot: int
    root: str
    _files: tuple[File, ...]
    _source: RowSource
    _store: Store
    _given: pa.Schema | None = None
    unconfirmed: int = 0
    tail: "Tail | None" = None
    _url_of: Callable[[str], str] | None = None  # where objects are not all below the root

    def files(self) -> tuple[File, ...]:
        """The landed objects, in the order in which they became visible."""
        return self._files

    def urls(self) -> list[str]:
        """Their URLs, for engines that read objects themselves.

        Of an object that retired after the slot, it is the copy's URL, until the copy expires.
        """
        copies = self._source.copies
        url_of = self._url_of or (lambda key: f"{self.root}/{key}")
        return [url_of(copies.get(file.key, file.key)) for file in self._files]

    @property
    def rows(self) -> int:
        """How many rows have landed; nothing is read for it."""
        return sum(file.rows for file in self._files)

    def bodies(self) -> Iterator[tuple[Bytes, Output]]:
        """The bytes of the landed objects, for who reads the columns that each has."""
        return self._source.bodies(self._store, self._files)

    @property
    def source(self) -> RowSource:
        """How the objects are read, for other processes.

        Raises:
            Stalled, Retry: as ``schema``.
        """
        constants = {} if self.tail is None else {SOURCE_COLUMN: LANDED}
        return replace(self._source, schema=self.schema, constants=constants)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of all files, and one of strings for each folder ``name=value``.

        The footers of all files are read for it, unless the scan was given its columns; of a tail
        its first part, or all of it if payloads have columns of their own.

        Raises:
            Stalled: OBJECT_LOST, an object is gone or damaged; SPEC_INVALID, two files have columns
                of one name that do not fit, or a column has the name of one that a tail adds.
            Retry: the store does not answer.
        """
        if self._given is not None:
            return self._given
        found = pa.schema([])

        objects = self._source.objects(self._store)

        def own(file: File) -> pa.Schema:
            made_by = self._source.made_by[file.spec]
            return rows.schema_of(Bytes(objects, file), made_by)

        for file, schema in zip(self._files, in_order(own, self._files), strict=True):
            found = _unified(file, found, schema)
        # As in Hive, the value of a folder replaces a column of that name.
        names = dict.fromkeys(name for file in self._files for name in file.partition_values)
        if self.tail is not None:
            for body in self.tail.samples():
                found = _unified(body.file, found, rows.schema_of(body, self.tail.output))
                names |= dict.fromkeys(body.file.partition_values)
            _check_free(self.topic, {*found.names, *names})
            names[SOURCE_COLUMN] = None
        others = [field.with_nullable(True) for field in found if field.name not in names]  # noqa: FBT003  # Arrow's signature
        return pa.schema([*others, *(pa.field(name, pa.string()) for name in names)])

    def select(self, *columns: str) -> "Scan":
        """The same rows with these columns only; of Parquet and ORC, no other columns are read.

        Raises:
            KeyError: there is no such column.
            Stalled, Retry: as ``schema``.
        """
        return replace(self, _given=pa.schema([self.schema.field(name) for name in columns]))

    def with_schema(self, schema: pa.Schema) -> "Scan":
        """The same rows with these columns: cast to their types, and null where a file has none.

        Objects of JSON are parsed by it, unless ``value`` is its only column of theirs.
        """
        return replace(self, _given=schema)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches; memory holds a few objects' worth, or a row group.

        The landed rows come first, and the tail follows.

        Raises:
            Stalled, Retry: as ``schema``, and as ``RowSource.batches`` and ``tail_batches``.
        """
        yield from self.batches_of(self._files, self.schema.names, tail=True)

    def batches_of(
        self, files: Sequence[File], columns: Sequence[str], *, tail: bool
    ) -> Iterator[pa.RecordBatch]:
        """Some columns of the rows of some of its files, and of its tail if that is asked for.

        Raises:
            KeyError: there is no such column.
            Stalled, Retry: as ``to_batches``.
        """
        fields = [self.schema.field(name) for name in columns]
        source = replace(self.source, schema=pa.schema(fields, self.schema.metadata))
        yield from source.batches(self._store, files)
        if tail and self.tail is not None:
            yield from source.tail_batches(self.tail)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a reader of record batches, as ``to_batches``."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """The rows as a table in memory, as ``to_batches``."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_duckdb(self, connection: "duckdb.DuckDBPyConnection", name: str) -> None:
        """Make the rows a view of a DuckDB connection, which reads them again for each query.

        A query reads the columns that it needs, of the files in folders that its ``WHERE`` admits.

        Raises:
            Stalled, Retry: as ``schema``; what goes wrong later is an error of DuckDB.
        """
        from landfall.reading.datasets import ScanDataset  # noqa: PLC0415  # heavy, and for this

        connection.register(name, ScanDataset(self))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for any library that takes Arrow streams (Arrow's PyCapsule interface)."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The columns in the same way."""
        return self.schema.__arrow_c_schema__()


def read_elsewhere(source: RowSource, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
    """The rows of files in a process that has no scan, as ``RowSource.batches``."""
    return source.batches(open_store(source.output), files)


def _check_free(topic: str, names: Collection[str]) -> None:
    if SOURCE_COLUMN in names:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{topic}: it has a column {SOURCE_COLUMN}, which a scan with a tail adds: rename it",
        )


def _unified(file: File, found: pa.Schema, schema: pa.Schema) -> pa.Schema:
    try:
        return pa.unify_schemas([found, schema.remove_metadata()], promote_options="permissive")
    except pa.ArrowException as error:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{file.key}: its columns do not fit the files before it: {error}; "
            "scan fewer files, or give the scan its columns",
        ) from error


def _aligned(
    file: File, batch: pa.RecordBatch, schema: pa.Schema, values: Mapping[str, str | None]
) -> pa.RecordBatch:
    """The batch with the columns of the schema."""
    arrays = []
    for wanted in schema:
        if wanted.name in values:
            value = pa.scalar(values[wanted.name], pa.string())
            arrays.append(_cast(file, wanted, pa.repeat(value, batch.num_rows)))
        elif wanted.name in batch.schema.names:
            arrays.append(_cast(file, wanted, batch[wanted.name]))
        else:
            arrays.append(pa.nulls(batch.num_rows, wanted.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(file: File, field: pa.Field, column: pa.Array) -> pa.Array:
    if column.type == field.type:
        return column
    # Units of time that are coarser cut what is below them.
    is_time = pa.types.is_timestamp(field.type) and pa.types.is_timestamp(column.type)
    try:
        return column.cast(field.type, safe=not is_time)
    except pa.ArrowException as error:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"{file.key}: column {field.name} of {column.type} as {field.type}: {error}",
        ) from error
