"""The columns that flow from the reader to the encoders, and the rows that fall out on the way.

One ``Records`` holds consecutive visible records of one topic partition. Offsets and values
are always present; timestamps, keys and headers cost CPU per record and are built on first
access. Rows are only ever selected by position and in order, so every later stage sees
strictly increasing offsets.

The reader divides its stream into ``Records`` at positions that depend on the data alone (rows
and bytes since the start of the slice), never on how the broker batched its responses.
Everything downstream is a function of these chunks. That is why a range that is read again gives
exactly the same objects.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.ledger.offsets import TopicPartition

Int64s = npt.NDArray[np.int64]
HEADERS = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)
"""Kafka headers: in order, a name may repeat, a value may be null."""
UNREADABLE_HEADERS = "a header's name is not UTF-8"
"""The error of a record whose headers no Arrow string column can hold."""

Selected: TypeAlias = tuple[pa.BinaryArray, Int64s | None]
"""Payloads, and which of them, in order; None for all."""

FieldValues = Int64s | pa.StringArray | list[object]
"""Values of one payload field, one per row, shape (rows,).

An int64 array if every row holds an integer, Arrow strings (null means absent) if all values are
text, else a list of Python values (None means absent). A decoder returns what is cheapest for it.
"""


@dataclass(frozen=True)
class Columns:
    """Builds the columns that cost CPU per record; each call returns one column for all rows."""

    timestamps: Callable[[], Int64s]
    keys: Callable[[], pa.BinaryArray]
    headers: Callable[[], pa.ListArray]


@dataclass(frozen=True)
class Records:
    """Visible records of one topic partition, one per row, with strictly increasing offsets.

    Visible means that a consumer with ``isolation.level=read_committed`` receives the record.

    Attributes:
        topic_partition: the topic partition the records come from.
        offsets: Kafka offsets, int64, shape (rows,).
        values: payload bytes, an Arrow binary array, shape (rows,); null is a tombstone.
        columns: builds ``timestamps``, ``keys`` and ``headers``.
        leader_epoch: the leader epoch under which the last record was written; -1 if not known.
        unreadable: what is wrong with records that were read as they are, but are none of their
            source's format, by row: bad records for every decoder.
    """

    topic_partition: TopicPartition
    offsets: Int64s
    values: pa.BinaryArray
    columns: Columns = field(repr=False, compare=False)
    leader_epoch: int = field(default=-1, repr=False, compare=False)
    unreadable: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.offsets)

    @cached_property
    def timestamps(self) -> Int64s:
        """Kafka timestamps, milliseconds since 1970 UTC, shape (rows,); -1 if a record has none."""
        return self.columns.timestamps()

    @cached_property
    def keys(self) -> pa.BinaryArray:
        """Record keys, an Arrow binary array, shape (rows,); null if a record has none."""
        return self.columns.keys()

    @cached_property
    def headers(self) -> pa.ListArray:
        """Record headers, of type ``HEADERS``, shape (rows,).

        A record without headers has an empty list, one whose headers cannot be read has null.
        """
        return self.columns.headers()

    @property
    def selected(self) -> Sequence[Selected]:
        """The payloads where they are, for an encoder that copies them once and in its own way."""
        return ((self.values, None),)

    def take(self, rows: Int64s) -> "Records":
        """Return the rows at these positions, which must increase; all columns stay lazy."""
        positions = pa.array(rows)
        columns = Columns(
            timestamps=lambda: self.timestamps[rows],
            keys=lambda: self.keys.take(positions),
            headers=lambda: self.headers.take(positions),
        )
        unreadable = {
            row: self.unreadable[was]
            for row, was in enumerate(rows.tolist() if self.unreadable else ())
            if was in self.unreadable
        }
        return Records(
            self.topic_partition,
            self.offsets[rows],
            self.values.take(positions),
            columns,
            unreadable=unreadable,
        )

    def with_values(self, values: pa.BinaryArray) -> "Records":
        """Return the same records with other payloads."""
        return Records(self.topic_partition, self.offsets, values, self.columns)


class SelectedRecords(Records):
    """Records whose payloads are rows of other columns; reading ``values`` copies them."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        offsets: Int64s,
        selected: Sequence[Selected],
        columns: Columns,
    ) -> None:
        """Copy nothing yet; there must be a row."""
        # No values: below, they replace the field.
        for name, value in (
            ("topic_partition", topic_partition),
            ("offsets", offsets),
            ("columns", columns),
            ("leader_epoch", -1),
            ("unreadable", {}),
            ("_selected", selected),
        ):
            object.__setattr__(self, name, value)

    @property
    def selected(self) -> Sequence[Selected]:
        """See ``Records``."""
        selected: Sequence[Selected] = self._selected  # type: ignore[attr-defined]  # set above
        return selected

    @cached_property
    def values(self) -> pa.BinaryArray:
        """See ``Records``."""
        return gathered(self.selected)


def gathered(selected: Sequence[Selected]) -> pa.Array:
    """Return rows of columns as one column; copies unless it is the whole of one."""
    columns = [column if rows is None else column.take(pa.array(rows)) for column, rows in selected]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


@dataclass(frozen=True)
class BadRows:
    """Rows that cannot be decoded, routed or encoded.

    Attributes:
        rows: positions of the rows, int64, increasing.
        errors: ``errors[i]`` is the error of row ``rows[i]``.
    """

    rows: Int64s
    errors: Sequence[str]

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.errors):
            raise ValueError(f"{len(self.rows)} bad rows with {len(self.errors)} errors")

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        return len(self.rows) > 0


NO_BAD_ROWS = BadRows(np.empty(0, np.int64), ())


def filled(tp: TopicPartition, offsets: Sequence[int], values: Sequence[bytes | None]) -> Records:
    """Return records that have offsets and payloads only; meant for tests of plug-ins.

    Example:
        >>> filled(TopicPartition("logs", 0), [7, 8], [b"level=info", None])
    """
    return of_columns(tp, np.asarray(offsets, np.int64), pa.array(values, pa.binary()))


class OptionalColumns(TypedDict, total=False):
    """The columns of ``of_columns`` that may be left out."""

    timestamps: Int64s
    keys: pa.BinaryArray
    headers: pa.ListArray


def of_columns(
    tp: TopicPartition,
    offsets: Int64s,
    values: pa.BinaryArray,
    **optional: Unpack[OptionalColumns],
) -> Records:
    """Return records made of complete columns.

    A column that is left out means: no timestamp (-1), no key (null), no headers (empty list).
    """
    rows = len(offsets)
    timestamps, keys = optional.get("timestamps"), optional.get("keys")
    headers = optional.get("headers")
    columns = Columns(
        timestamps=lambda: np.full(rows, -1, np.int64) if timestamps is None else timestamps,
        keys=lambda: pa.nulls(rows, pa.binary()) if keys is None else keys,
        headers=lambda: pa.array([[]] * rows, HEADERS) if headers is None else headers,
    )
    return Records(tp, offsets, values, columns)


def record_bytes(
    values: pa.BinaryArray | pa.ChunkedArray,
    keys: pa.BinaryArray | pa.ChunkedArray | None = None,
    headers: pa.ListArray | None = None,
) -> Int64s:
    """Return the bytes of each record, shape (rows,): its payload, key, and headers with names.

    Args:
        values: the payloads.
        keys: the keys; None counts none.
        headers: the headers, of type ``HEADERS``; None counts none.
    """
    sizes = _lengths(values)
    if keys is not None:
        sizes = sizes + _lengths(keys)
    if headers is None:
        return sizes
    names, contents = headers.flatten().flatten()
    ends = np.cumsum(_lengths(names) + _lengths(contents))
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy().cumsum(dtype=np.int64)
    until = np.concatenate(([0], ends))[counts]
    of_all: Int64s = sizes + np.diff(until, prepend=0)
    return of_all


def _lengths(column: pa.Array | pa.ChunkedArray) -> Int64s:
    lengths: Int64s = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    return lengths
