"""Format ``Parquet``: the envelope of each record as columns, or typed columns.

Without a schema the columns are ``topic, partition, offset, timestamp, key, value, headers``:
everything Kafka stores of a record, including tombstones and null keys. With ``decode.columns``
they are the declared columns, with ``output.columns: FromSchema`` the payloads' own;
``columns`` defines how these are stored. Both are followed by ``_topic, _partition, _offset,
_timestamp`` unless ``envelope`` is false. A schema is never inferred from data.

| option | default | meaning |
|---|---|---|
| ``rowGroupBytes`` | ``32Mi`` | payload, key and header bytes in a row group, kept in memory |
| ``envelope`` | true | whether typed columns are followed by ``_topic`` to ``_timestamp`` |
| ``sortBy`` | none | columns that sort the rows of each row group; ``-name``: descending |
| ``dictionary`` | see below | true, false, or the columns that are encoded by a dictionary |
| ``statistics`` | see below | true, false, or the columns whose minimum and maximum are stored |
| ``bloomFilters`` | none | columns with a Bloom filter in each row group |
| ``pageIndex`` | false | whether the footer describes what is in each page |
| ``pageBytes`` | ``1Mi`` | bytes in a page before compression, about |
| ``extension`` | ``.parquet`` | |
| codec | see below | ``Zstd`` (level 3), ``Snappy``, ``Gzip``, ``None`` |

Without ``codec`` and ``level`` columns are compressed by Zstd, except small ones: if the first row
group of a file has at most 1,000 rows, its columns of up to 8 KiB are compressed by Snappy and have
no dictionary, unless ``dictionary`` is set otherwise, and their integers are packed as differences.
For so few bytes Zstd and dictionaries take two thirds of the writer's time and save nothing: files
of 20 to 1,000 rows have the same size within a tenth. Many output partitions have such files.

``dictionary`` and ``statistics`` are true for typed columns; in the envelope they are left out
where they would be wasted work. A column that an object does not have counts for nothing there.
Unless ``dictionary`` is true or names them, ``_offset`` and ``_timestamp`` have none: they are
packed as differences (DELTA_BINARY_PACKED), for a million rows in 6 kB instead of 2 MB, and in
0.4 MB instead of 2.8. ``_partition``, one value for all rows, has a dictionary.
Numbers with a floating point have statistics only where ``statistics`` is true or names them:
minimum and maximum do not count NaN, and readers that take it for the largest number (Spark,
DuckDB) would miss it in ``x > 5``. Java's writer leaves them out, too, where there is a NaN.
A column in which the first row group has a text or binary value of over 64 KiB has neither
statistics nor a dictionary by default: Arrow writes no bound of over 4 kB, but makes two copies of
the least and of the greatest value, and one of each value for the dictionary. So that the first row
group decides for all, the first row of 1 MiB begins another file (``large_row_bytes``).
For publishers the footer has what is known of them, unless ``statistics`` leaves the column out:
``float_bounds``.

Without ``_offset`` objects cannot be verified against Kafka.

Merged objects have the large row groups of the old ones, byte by byte: ``row_groups``.

A block becomes a row group and is written at once; between two blocks the writer keeps only what
the footer will record about the row groups. Pages have checksums. The same blocks give the same
bytes as long as the version of Arrow, which the footer names, is the same. With a schema of the
payloads the footer has its full name and its digest, as ``landfall-schema-name`` and
``landfall-schema-digest``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from landfall.api.spec import Codec
from landfall.formats import Block, Encoder, column_reading, unreadable
from landfall.formats.column_files import Buffer, ColumnFiles
from landfall.formats.column_reading import ColumnsReader, copied, damage
from landfall.formats.columns import (
    COORDINATES,
    ENVELOPE,
    Convert,
    in_micros,
    sort_keys,
    storable,
)
from landfall.formats.merged_columns import READ_ROWS, ColumnFile, ColumnsMerger, described
from landfall.formats.merging import NotMergeableError, ReadRange
from landfall.formats.options import FormatOptions, SortKey
from landfall.formats.parquet.float_bounds import KEY, FloatBounds, as_metadata, bounds_of
from landfall.formats.parquet.row_groups import RowGroupsMerger
from landfall.memory_limit import bounded
from landfall.pipeline.decoders.row_schemas import RowSchema

LEVELS: Mapping[Codec, int | None] = MappingProxyType(
    {Codec.ZSTD: 3, Codec.SNAPPY: None, Codec.GZIP: 6, Codec.NONE: None}
)
"""The codecs, and the compression level of those that have one.

Arrow's default for gzip is level 9, which takes twice as long as 6 and hardly saves anything.
"""

_CHOICES: Mapping[Codec, range] = {Codec.ZSTD: range(1, 20), Codec.GZIP: range(1, 10)}
"""The levels that can be chosen; gzip is zlib's here."""

SCHEMA_KEY = "landfall-schema"
"""What begins the keys of the footer that name the payloads' schema."""
_PACKED = "DELTA_BINARY_PACKED"
_LEAST_VALUES = 1000
_TAIL_BYTES = 64 * 1024
_WRITER_HELD_BYTES = 16 * 1024
"""The memory of an open writer: growth of the process, measured by tests/bench/bench_formats.py."""
_CHUNK_HELD_BYTES = 1200
"""The memory for each column of each row group that was written, measured in the same way."""
_LONG_VALUE_BYTES = 64 * 1024
_SMALL_COLUMN_BYTES = 8 * 1024
_SMALL_ROWS = 1_000
_LARGE_ROW_BYTES = 2**20
"""Kafka's own limit of a message is this much, so few topics have such rows."""


@dataclass(frozen=True)
class ParquetFormat(ColumnFiles):
    """The format ``Parquet``."""

    block_bytes: int
    envelope: bool
    codec: Codec
    extension: str
    sort_by: tuple[SortKey, ...] = ()
    dictionary: bool | tuple[str, ...] | None = None
    statistics: bool | tuple[str, ...] | None = None
    bloom_filters: tuple[str, ...] = ()
    page_index: bool = False
    page_bytes: int = 2**20
    is_typed: bool = False
    level: int | None = None
    packs_small_columns: bool = False
    spares_long_values: bool = True
    wrong: ClassVar[unreadable.Wrong] = unreadable.wrong_in_parquet
    error: ClassVar[str] = unreadable.PARQUET_ERROR
    open: ClassVar[Callable[[BinaryIO], ColumnsReader]] = column_reading.parquet
    leaf: ClassVar[Convert] = in_micros

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "ParquetFormat":
        """Build the format from ``spec.output``; ValueError names a wrong option."""
        unread = FormatOptions(options)
        parquet = cls(
            block_bytes=unread.quantity("rowGroupBytes", 32 * 2**20),
            envelope=unread.flag("envelope", default=True),
            codec=unread.choice("codec", Codec.ZSTD, LEVELS),
            extension=unread.extension(".parquet"),
            sort_by=unread.sort_keys("sortBy"),
            dictionary=unread.flag_or_names("dictionary"),
            statistics=unread.flag_or_names("statistics"),
            bloom_filters=unread.names("bloomFilters"),
            page_index=unread.flag("pageIndex", default=False),
            page_bytes=unread.quantity("pageBytes", 2**20),
        )
        level = unread.level(parquet.codec, _CHOICES)
        is_default = options.get("codec") is None and level is None
        parquet = replace(parquet, level=level, packs_small_columns=is_default)
        unread.close()
        return parquet

    @property
    def named_columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that options name, by option."""
        return {
            "sortBy": tuple(key.column for key in self.sort_by),
            "dictionary": self.dictionary if isinstance(self.dictionary, tuple) else (),
            "statistics": self.statistics if isinstance(self.statistics, tuple) else (),
            "bloomFilters": self.bloom_filters,
        }

    @property
    def large_row_bytes(self) -> int | None:
        """The payload from which a row begins another object; None where no text has statistics."""
        has_bounds = not self.spares_long_values or self.statistics is not None
        return None if has_bounds or not self.is_typed else _LARGE_ROW_BYTES

    def before_large_rows(self) -> "ParquetFormat":
        """Return the format as it was by the landing rules before ``LARGE_ROWS``."""
        return replace(self, packs_small_columns=False, spares_long_values=False)

    def typed(self) -> "ParquetFormat":
        """Return the format for typed columns, which needs neither keys nor headers."""
        return replace(self, is_typed=True)

    def encoder(self) -> Encoder:
        """Return an encoder for a new object."""
        return ParquetEncoder(self)

    def sorted_by(self, column: str) -> "ParquetFormat":
        """Return the format whose rows are sorted by a column."""
        return replace(self, sort_by=(SortKey(column, descending=False),))

    def merger(self) -> ColumnsMerger:
        """Return what merges objects; it copies large row groups unless rows are sorted."""
        if self.sort_by:
            return ColumnsMerger(self, ParquetEncoder(self))
        return RowGroupsMerger(self, lambda: ParquetEncoder(self))

    def has_bounds(self, column: str) -> bool:
        """Return whether the footer has the bounds of a column of floating point numbers."""
        chosen = self.statistics
        return column in chosen if isinstance(chosen, tuple) else chosen is not False

    @contextmanager
    def opened(
        self, source: BinaryIO, columns: Sequence[str] | None = None
    ) -> Iterator[ColumnFile]:
        """Read an object, or some of its columns; raises ValueError if it is damaged.

        Times that are stored in milliseconds, as Landfall did once, are given in microseconds.
        """
        with copied(source) as file:
            yield self.columns_in(file, columns)

    def columns_in(self, file: BinaryIO, columns: Sequence[str] | None = None) -> ColumnFile:
        """Do the same with a file that can be read at any place."""
        found = column_reading.parquet(file)
        now = as_stored_now(found.schema)
        batches = (_rewritten(batch, now) for batch in found.batches(READ_ROWS, columns))
        return ColumnFile(now, _own_schema(found.metadata), batches)

    def schema_of(self, read: ReadRange, size: int) -> str:
        """Return a text that identifies an object's columns and schema, from its footer."""
        tail = read(-min(size, _TAIL_BYTES), _TAIL_BYTES)
        length = int.from_bytes(tail[-8:-4], "little") + 8
        if len(tail) < length <= size:
            tail = read(-length, length)
        with damage("Parquet file"), bounded():
            footer = pq.read_metadata(pa.BufferReader(tail[-length:]))
            metadata = {k: v for k, v in (footer.metadata or {}).items() if k != KEY}
            return described(as_stored_now(footer.schema.to_arrow_schema()), metadata)


def as_stored_now(schema: pa.Schema) -> pa.Schema:
    """Return the columns with the types that files are written with now, which may differ."""
    return pa.schema(
        [
            field.with_type(storable(pa.array([], field.type), in_micros).type)
            for field in schema.remove_metadata()
        ]
    )


def _rewritten(batch: pa.RecordBatch, now: pa.Schema) -> pa.RecordBatch:
    """Return rows with the types of ``as_stored_now``; they may have some of the columns."""
    schema = pa.schema([now.field(name) for name in batch.schema.names])
    if batch.schema.equals(schema):
        return batch
    if refused := unreadable.refused(batch, unreadable.wrong_in_parquet, unreadable.PARQUET_ERROR):
        raise NotMergeableError(next(iter(refused.values())))
    columns = [storable(column, in_micros) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _own_schema(metadata: Mapping[bytes, bytes]) -> RowSchema | None:
    name, digest = (metadata.get(f"{SCHEMA_KEY}-{k}".encode()) for k in ("name", "digest"))
    return None if digest is None else RowSchema(digest.decode(), (name or b"").decode())


class ParquetEncoder:
    """Writes one Parquet file."""

    def __init__(self, parquet: ParquetFormat) -> None:
        self._parquet = parquet
        self._buffer = Buffer()
        self._writer: pq.ParquetWriter | None = None
        self._schema: RowSchema | None = None
        self._columns = 0
        self._has_floats = False
        self._row_groups = 0
        self._floats: dict[str, FloatBounds] = {}

    def encode(self, block: Block) -> bytes:
        """Return the block as a row group."""
        if len(block.records):
            return self.write(self._parquet.table(block), block.schema)
        return self._buffer.take()

    def write(self, table: pa.Table, schema: RowSchema | None) -> bytes:
        """Return rows, at least one, as a row group; ``schema`` is the payloads' schema."""
        rows = len(table)
        if self._writer is None:
            self._schema = schema
            self._writer = self._open(table.schema, table)
        self._writer.write_table(table, row_group_size=rows)
        self._row_groups += 1
        has_bounds = self._parquet.statistics is not False and self._has_floats
        for name, bounds in bounds_of(table) if has_bounds else ():
            if self._parquet.has_bounds(name):
                self._floats[name] = self._floats.get(name, FloatBounds()) + bounds
        return self._buffer.take()

    def empty(self, columns: pa.Schema, schema: RowSchema | None) -> bytes:
        """Return a file of these columns without rows; nothing is encoded before or after."""
        self._schema = schema
        self._writer = self._open(columns)
        return self.finish()

    def finish(self) -> bytes:
        """Return the footer."""
        writer = self._writer or self._open(ENVELOPE)
        if self._schema is not None:
            names = {"name": self._schema.name, "digest": self._schema.digest}
            writer.add_key_value_metadata({f"{SCHEMA_KEY}-{k}": v for k, v in names.items()})
        if self._floats:
            writer.add_key_value_metadata(as_metadata(self._floats))
        writer.close()
        return self._buffer.take()

    @property
    def floats(self) -> Mapping[str, FloatBounds]:
        """The bounds of the columns of floating point numbers that the footer has."""
        return self._floats

    @property
    def held_bytes(self) -> int:
        """The memory of the writer, and of each row group's entry in the footer."""
        return _WRITER_HELD_BYTES + _CHUNK_HELD_BYTES * self._columns * self._row_groups

    def _open(self, schema: pa.Schema, first: pa.Table | None = None) -> pq.ParquetWriter:
        columns = _columns_of(schema)
        self._columns = len(schema)
        self._has_floats = columns.has_floats
        small: tuple[int, ...] = ()
        long: tuple[str, ...] = ()
        rows = 0
        if first is not None:
            rows = len(first)
            small = _small_columns(first, columns) if self._parquet.packs_small_columns else ()
            long = _long_leaves(first, columns) if self._parquet.spares_long_values else ()
        has_filters = bool(self._parquet.bloom_filters)
        options = _writer_options(self._parquet, columns, small, long, rows if has_filters else 0)
        return pq.ParquetWriter(pa.PythonFile(self._buffer, mode="w"), schema, **options)


@lru_cache(256)  # hundreds of files are written with the same
def _writer_options(
    parquet: ParquetFormat,
    columns: "_Columns",
    small: tuple[int, ...],
    long: tuple[str, ...],
    rows: int,
) -> Mapping[str, Any]:
    """Return the arguments of Arrow's writer for a file, except its destination.

    Args:
        parquet: the format.
        columns: the columns of the file.
        small: the small columns, by position.
        long: the leaves with long values, by path.
        rows: in the first row group; only Bloom filters need it.
    """
    paths, schema = columns.paths, columns.schema
    is_envelope = schema.equals(ENVELOPE)
    of_small = {path: type_ for i in small for path, type_ in columns.leaves[i].items()}
    # Payloads seldom repeat, so a dictionary and minimum and maximum of them
    # would be wasted work.
    statistics: Any = [*COORDINATES, "key"] if is_envelope else columns.with_order
    # Both grow by little from row to row.
    growing = ["offset", "timestamp"] if is_envelope else columns.growing
    packed = {*growing, *(path for path, type_ in of_small.items() if _is_integer(type_))}
    dictionary: Any = ["topic", "partition", "key"] if is_envelope else paths
    if long:
        statistics = [path for path in statistics if path not in long]
    left_out = {*packed, *long, *of_small}
    dictionary = [path for path in dictionary if path not in left_out]
    chosen = _chosen(parquet.dictionary, dictionary)
    # Arrow refuses an encoding for a column with a dictionary.
    with_dictionary = chosen if isinstance(chosen, list) else packed if chosen else ()
    encoded = {path: _PACKED for path in paths if path in packed - {*with_dictionary}}
    codec, level = _compression(parquet, paths, of_small)
    return {
        "compression": codec,
        "compression_level": level,
        "use_dictionary": _flag(chosen, paths),
        "column_encoding": encoded or None,
        "write_statistics": _flag(_chosen(parquet.statistics, statistics), paths),
        "write_page_checksum": True,
        "write_page_index": parquet.page_index,
        "data_page_size": parquet.page_bytes,
        "bloom_filter_options": _bloom_filters(parquet, schema, rows),
        "sorting_columns": _sorting_columns(parquet, schema),
        "store_schema": False,
    }


def _compression(
    parquet: ParquetFormat, paths: Sequence[str], small: Collection[str]
) -> tuple[Any, Any]:
    """Return Arrow's arguments for the codec and its level."""
    codec, level = parquet.codec, parquet.level or LEVELS[parquet.codec]
    if not small:
        return codec.lower(), level
    if len(small) == len(paths):
        return Codec.SNAPPY.lower(), None
    codecs = {path: Codec.SNAPPY if path in small else codec for path in paths}
    levels = {path: level for path in paths if path not in small}
    return {path: codec.lower() for path, codec in codecs.items()}, levels


def _bloom_filters(parquet: ParquetFormat, schema: pa.Schema, rows: int) -> Any:
    # Sized for the rows of the first row group, which are all different at most.
    names = [name for name in parquet.bloom_filters if _has_leaf(schema, name)]
    return {name: {"ndv": max(rows, _LEAST_VALUES), "fpp": 0.01} for name in names} or None


def _sorting_columns(parquet: ParquetFormat, schema: pa.Schema) -> list[pq.SortingColumn] | None:
    return [
        pq.SortingColumn(schema.names.index(key.column), key.descending)
        for key in sort_keys(parquet.sort_by, schema)
    ] or None


def _chosen(option: Any, default: Any) -> Any:
    """Return Arrow's argument for an option of true, false or columns, or the default."""
    if option is None:
        return default
    return list(option) if isinstance(option, tuple) else option


def _flag(chosen: Any, paths: Sequence[str]) -> Any:
    """Return whether all or no columns are chosen, which Arrow takes sooner than their paths."""
    if not isinstance(chosen, list) or 0 < len(chosen) < len(paths):
        return chosen
    return bool(chosen) and (chosen == paths or chosen)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The facts of a schema that the writer's options need; one for each schema.

    Attributes:
        schema: the schema.
        paths: the leaves, by path.
        with_order: the leaves without a floating point.
        growing: the columns of the offsets and of Kafka's timestamps; none if the rows have none.
        leaves: of each column, the paths and their types.
        widths: of each column, the bytes of a value; None if values differ.
        has_floats: whether a column is of floating point numbers.
    """

    schema: pa.Schema
    paths: Sequence[str]
    with_order: Sequence[str]
    growing: Sequence[str]
    leaves: Sequence[Mapping[str, pa.DataType]]
    widths: Sequence[float | None]
    has_floats: bool


@lru_cache(64)
def _columns_of(schema: pa.Schema) -> _Columns:
    kinds = {"_offset": pa.int64(), "_timestamp": ENVELOPE.field("timestamp").type}
    leaves = [dict(_leaves(field.name, field.type)) for field in schema]
    types = {path: type_ for column in leaves for path, type_ in column.items()}
    return _Columns(
        schema=schema,
        paths=list(types),
        with_order=[path for path, type_ in types.items() if not pa.types.is_floating(type_)],
        growing=[field.name for field in schema if kinds.get(field.name) == field.type],
        leaves=leaves,
        widths=[_width(field.type) for field in schema],
        has_floats=any(pa.types.is_floating(field.type) for field in schema),
    )


def _width(type_: pa.DataType) -> float | None:
    try:
        return float(type_.bit_width / 8)
    except ValueError:
        return None


def _is_integer(type_: pa.DataType) -> bool:
    return bool(pa.types.is_int32(type_) or pa.types.is_int64(type_))


def _small_columns(table: pa.Table, columns: _Columns) -> tuple[int, ...]:
    """The small columns, by position: see the module's description."""
    rows = len(table)
    if rows > _SMALL_ROWS:
        return ()
    # It takes Arrow 5 us to count the bytes of a column, and 20 to write a small one.
    return tuple(
        i
        for i, width in enumerate(columns.widths)
        if (table.column(i).nbytes if width is None else width * rows) <= _SMALL_COLUMN_BYTES
    )


def _leaves(path: str, type_: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """The leaves of a column as Parquet has them, by path (LogicalTypes.md, "Nested Types")."""
    if pa.types.is_struct(type_):
        for field in type_:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(type_):
        yield from _leaves(f"{path}.key_value.key", type_.key_type)
        yield from _leaves(f"{path}.key_value.value", type_.item_type)
    elif pa.types.is_list(type_):
        yield from _leaves(f"{path}.list.element", type_.value_type)
    else:
        yield path, type_


def _long_leaves(table: pa.Table, columns: _Columns) -> tuple[str, ...]:
    """The leaves in which a text or binary value is longer than ``_LONG_VALUE_BYTES``, by path."""
    return tuple(
        path
        for i, width in enumerate(columns.widths)
        if width is None and table.column(i).nbytes > _LONG_VALUE_BYTES
        for chunk in table.column(i).chunks
        for path, leaf in _leaf_arrays(table.field(i).name, chunk)
        if _is_long(leaf)
    )


def _leaf_arrays(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The values of the leaves that ``_leaves`` names; a sliced list may have more."""
    type_ = array.type
    if pa.types.is_struct(type_):
        for i, field in enumerate(type_):
            yield from _leaf_arrays(f"{path}.{field.name}", array.field(i))
    elif pa.types.is_map(type_):
        yield from _leaf_arrays(f"{path}.key_value.key", array.keys)
        yield from _leaf_arrays(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(type_):
        yield from _leaf_arrays(f"{path}.list.element", array.values)
    else:
        yield path, array


def _is_long(leaf: pa.Array) -> bool:
    if not (pa.types.is_string(leaf.type) or pa.types.is_binary(leaf.type)):
        return False
    longest = pc.max(pc.binary_length(leaf)).as_py()
    return longest is not None and longest > _LONG_VALUE_BYTES


def _has_leaf(schema: pa.Schema, name: str) -> bool:
    return name in schema.names and not pa.types.is_nested(schema.field(name).type)
