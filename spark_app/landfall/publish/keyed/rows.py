"""Rows of landed files by their keys.

A key is a cryptographic hash of 128 bits, so that no two keys share one. A row is a number of 64
bits: the Kafka partition (11 bits), its lifetime (5) and the offset (48).

A topic that is deleted and created again counts its offsets from 0 again, and a topic partition
that is reset is landed again. Rows of the later lifetime are newer. Each begins with a higher
generation (ADR 3), and merges keep generations apart, so the name of a landed file shows the
lifetime of its rows.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NoReturn

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from landfall.api.column_names import DELETED

Rows = npt.NDArray[np.void]
"""Of ``ROW`` or ``ENTRY``."""
RowIds = npt.NDArray[np.uint64]
"""Numbers of rows, see ``row_ids``."""
Positions = npt.NDArray[np.int64]
"""Rows of a file, counted from 0."""
Names = Callable[[pa.Schema], Mapping[str, str]]
"""Returns the names that columns of a file have in landed files, by their own names."""
Lifetimes = Mapping[int, int]
"""The lifetime of a file's rows, by Kafka partition: 0 for one that is not among them."""
ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("order", "<i8"), ("row", "<u8")])
"""The newest row of a key: the halves of its hash, by what rows are ordered, and the row."""
ROW = np.dtype([*ENTRY.descr, ("deleted", "?")])
"""A row of a file, and whether it deletes its key."""
PARTITION, OFFSET = "_partition", "_offset"
BATCH = 1 << 18
"""How many rows of a file are in memory at once."""
NO_ROW = np.uint64(2**64 - 1)
"""The number of rows that another program has added to a table."""
UNKNOWN = -1
"""A lifetime that is not known."""
_BITS = (11, 5, 48)
"""Of a row's number; an index in which it has other bits is made again."""
_PARTITIONS, _LIFETIMES, _OFFSETS = ((1 << bits) - 1 for bits in _BITS)
_LIFETIME_AT = _BITS[2]
_PARTITION_AT = _BITS[1] + _LIFETIME_AT
_ORDERS = np.uint64((1 << _PARTITION_AT) - 1)
_WITHOUT_LIFETIME = ~np.uint64(_LIFETIMES << _LIFETIME_AT)


class NoKeys(Exception):  # noqa: N818  # the name is the state
    """A file has no rows with keys, such as without a column of the key."""


@dataclass(frozen=True)
class KeySettings:
    """How rows with the same key are found and ordered.

    Attributes:
        key: the columns of the key, at least one.
        order: the column by which rows are ordered; None for the offset, which needs all rows of a
            key in one Kafka partition.
        deleted: the column that is true in a row that deletes its key; files may lack it.
    """

    key: tuple[str, ...]
    order: str | None = None
    deleted: str = DELETED

    @property
    def text(self) -> str:
        """The same as text, which a table keeps with its index."""
        return msgspec.json.encode((_BITS, self)).decode()

    @property
    def named(self) -> list[str]:
        """The columns that rows of a keyed table may be read with, as landed files name them."""
        return [*dict.fromkeys((*self._needed, PARTITION, OFFSET, self.deleted))]

    @property
    def _needed(self) -> list[str]:
        return [*self.key, *filter(None, [self.order])]

    def columns(self, names: Sequence[str]) -> list[str]:
        """The columns of a file that are read, of all that it has.

        Raises:
            NoKeys: one is missing.
        """
        for name in self._needed:
            if name not in names:
                raise NoKeys(
                    f"it has no column {name}: correct option key or order; or land its records "
                    "again with the column, by `landfall backfill`, or leave them out by option "
                    "startAt, and run `landfall publish --rebuild` then"
                )
        return [name for name in self.named if name in names]


@dataclass(frozen=True)
class KeyedRows:
    """Rows of a file that are read at once, in its order.

    Attributes:
        ids: the row of each.
        rows: the same with keys; where a part of the key is null, see ``has_key``.
        has_key: which have a whole key.
    """

    ids: RowIds
    rows: Rows
    has_key: npt.NDArray[np.bool_]

    def only(self, selected: npt.NDArray[np.bool_]) -> "KeyedRows":
        """Some of the rows."""
        return KeyedRows(self.ids[selected], self.rows[selected], self.has_key[selected])

    @property
    def deletes_nothing(self) -> RowIds:
        """Rows that delete something, and have no key."""
        found: RowIds = self.ids[self.rows["deleted"] & ~self.has_key & (self.ids != NO_ROW)]
        return found


def as_they_are(schema: pa.Schema) -> Mapping[str, str]:
    """Return the names of a file whose columns have the names of landed files."""
    return {name: name for name in schema.names}


def lifetimes_in(generation: int | None, ended: Mapping[int, Sequence[int]]) -> Lifetimes:
    """Return the lifetimes of the rows of a file.

    Args:
        generation: in its name; None if it is not named as landed files are.
        ended: the highest generation of each lifetime that has ended, by Kafka partition.
    """
    if generation is None:
        return dict.fromkeys(ended, UNKNOWN)
    return {partition: bisect_left(last, generation) for partition, last in ended.items()}


def keyed_rows(
    file: Any,
    settings: KeySettings,
    names: Names = as_they_are,
    lifetimes: Lifetimes = MappingProxyType({}),
) -> Iterator[KeyedRows]:
    """Yield the rows of an open Parquet file with their keys.

    Args:
        file: as Arrow opens it.
        settings: of the keys.
        names: of its columns.
        lifetimes: of its rows.

    Raises:
        NoKeys: a column is missing, or of a type that no key or order has; or see ``row_ids``.
        pa.ArrowInvalid: it is no Parquet file.
        OSError: the store does not answer.
    """
    for batch in _batches(file, names, settings.columns):
        ids = _ids(batch, lifetimes)
        parts = [_as_bytes(name, batch.column(name)) for name in settings.key]
        has_key = ~np.logical_or.reduce([_nulls(part) for part in parts]) & (ids != NO_ROW)
        rows = np.zeros(len(ids), ROW)
        rows["high"], rows["low"] = _hashes(parts)
        rows["order"] = _order(batch, settings.order, ids)
        rows["row"] = ids
        if settings.deleted in batch.schema.names:
            rows["deleted"] = _flags(settings.deleted, batch.column(settings.deleted))
        yield KeyedRows(ids, rows, has_key)


def row_ids(
    file: Any, names: Names = as_they_are, lifetimes: Lifetimes = MappingProxyType({})
) -> Iterator[RowIds]:
    """Yield the rows of an open Parquet file, in its order; ``NO_ROW`` for one without an offset.

    Args:
        file: as Arrow opens it.
        names: of its columns.
        lifetimes: of its rows.

    Raises:
        NoKeys: a number is out of range, or the lifetime of a row is not known.
        pa.ArrowInvalid: it is no Parquet file.
        OSError: the store does not answer.
    """
    for batch in _batches(file, names, _of_place):
        yield _ids(batch, lifetimes)


def orders_of(rows: RowIds) -> npt.NDArray[np.int64]:
    """The numbers by which rows of a Kafka partition are ordered: lifetime and offset."""
    return (rows & _ORDERS).astype(np.int64)


def row_at(partition: int, offset: int, lifetime: int = 0) -> int:
    """The number of the row at an offset of a Kafka partition."""
    return (partition << _PARTITION_AT) | (lifetime << _LIFETIME_AT) | offset


def without_lifetimes(rows: RowIds) -> RowIds:
    """The same Kafka partitions and offsets in their first lifetime."""
    return rows & _WITHOUT_LIFETIME


def numbers_of(row: int) -> tuple[int, int, int]:
    """Return a row's Kafka partition, lifetime and offset."""
    return row >> _PARTITION_AT, (row >> _LIFETIME_AT) & _LIFETIMES, row & _OFFSETS


def entry_of(settings: KeySettings, values: Sequence[pa.Array]) -> Rows:
    """Return a key as an index is asked for it, by its values in the order of the settings.

    Raises:
        NoKeys: a value is of a type that no key has.
    """
    entry = np.zeros(1, ENTRY)
    parts = [_as_bytes(name, value) for name, value in zip(settings.key, values, strict=True)]
    entry["high"], entry["low"] = _hashes(parts)
    return entry


def place_of(row: int) -> str:
    """A row's Kafka partition and offset as text."""
    return f"offset {row & _OFFSETS} of partition {row >> _PARTITION_AT}"


def in_two_partitions(one: Rows, other: Rows) -> npt.NDArray[np.bool_]:
    """Return which rows are of another Kafka partition than the ones at the same place."""
    between = (one["row"] ^ other["row"]) >> np.uint64(_PARTITION_AT)
    different: npt.NDArray[np.bool_] = between != 0
    return different


def _of_place(names: Sequence[str]) -> list[str]:
    return [name for name in (PARTITION, OFFSET) if name in names] or [*names[:1]]


def _batches(
    file: Any, names: Names, columns: Callable[[Sequence[str]], Sequence[str]]
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file under their names in landed files."""
    opened = pq.ParquetFile(file)
    landed = names(opened.schema_arrow)
    wanted = columns([*landed.values()])
    own = [name for name in landed if landed[name] in wanted]
    for batch in opened.iter_batches(BATCH, columns=own):
        yield batch.rename_columns([landed[name] for name in batch.schema.names])


def _ids(batch: pa.RecordBatch, lifetimes: Lifetimes) -> RowIds:
    if not {PARTITION, OFFSET} <= {*batch.schema.names}:
        return np.full(batch.num_rows, NO_ROW)
    partitions = _numbers(PARTITION, batch.column(PARTITION), _PARTITIONS)
    offsets = _numbers(OFFSET, batch.column(OFFSET), _OFFSETS)
    ids = (partitions.astype(np.uint64) << np.uint64(_PARTITION_AT)) | offsets.astype(np.uint64)
    if lifetimes:
        ids |= _lifetimes_of(partitions.clip(0), lifetimes) << np.uint64(_LIFETIME_AT)
    return np.where((partitions < 0) | (offsets < 0), NO_ROW, ids)


def _lifetimes_of(partitions: npt.NDArray[np.int64], lifetimes: Lifetimes) -> RowIds:
    """The lifetime of each row."""
    by_partition = np.zeros(max(_PARTITIONS, *lifetimes) + 1, np.int64)
    by_partition[[*lifetimes]] = [*lifetimes.values()]
    found = by_partition[partitions]
    if len(wrong := np.flatnonzero((found < 0) | (found > _LIFETIMES))):
        _refuse(int(partitions[wrong[0]]), int(found[wrong[0]]))
    return found.astype(np.uint64)


def _refuse(partition: int, lifetime: int) -> NoReturn:
    if lifetime == UNKNOWN:
        raise NoKeys(
            f"another program wrote it, and it has rows of partition {partition}, which began "
            "again, so that its offsets have two meanings; `landfall publish --rebuild` fills the "
            "table with landed files, and such a table must not be compacted by other programs"
        )
    raise NoKeys(
        f"partition {partition} began again {lifetime} times, and {_LIFETIMES} times is the "
        "most that a keyed table follows; publish to a table of another group"
    )


def _numbers(name: str, column: pa.Array, most: int) -> npt.NDArray[np.int64]:
    """Numbers of a column; -1 for null."""
    if not pa.types.is_integer(column.type):
        raise NoKeys(f"column {name} is {column.type}, not integer")
    if (greatest := pc.max(column).as_py()) is not None and greatest > most:
        raise NoKeys(f"column {name} has {greatest}, and {most} is the greatest number of a row")
    found: npt.NDArray[np.int64] = column.cast(pa.int64()).fill_null(-1).to_numpy()
    return found


def _order(batch: pa.RecordBatch, name: str | None, ids: RowIds) -> npt.NDArray[np.int64]:
    if name is None:
        return orders_of(ids)
    column = batch.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
        raise NoKeys(f"column {name} is {column.type}, by which no rows are ordered")
    least = np.iinfo(np.int64).min  # a row without it is older than any other
    found: npt.NDArray[np.int64] = column.cast(pa.int64()).fill_null(least).to_numpy()
    return found


def _flags(name: str, column: pa.Array) -> npt.NDArray[np.bool_]:
    if not pa.types.is_boolean(column.type):
        raise NoKeys(f"column {name} is {column.type}, not boolean")
    filled = column.fill_null(fill_value=False)
    found: npt.NDArray[np.bool_] = filled.to_numpy(zero_copy_only=False)
    return found


def _as_bytes(name: str, column: pa.Array) -> pa.Array:
    """The values of a part of a key as bytes: equal ones for equal values, in any width."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type) or pa.types.is_decimal(kind):
        return column.cast(pa.string()).cast(pa.binary())
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    raise NoKeys(f"column {name} is {kind}, which is no part of a key")


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_null(column).to_numpy(zero_copy_only=False)
    return found


def _hashes(
    parts: Sequence[pa.Array],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The halves of the hash of each key."""
    texts: list[list[bytes]] = [part.fill_null(b"").to_pylist() for part in parts]
    keys = texts[0] if len(texts) == 1 else map(_joined, *texts)
    digests = b"".join([blake2b(key, digest_size=16).digest() for key in keys])
    halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def _joined(*parts: bytes) -> bytes:
    return b"".join(b"%d:%b" % (len(part), part) for part in parts)
