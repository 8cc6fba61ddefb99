"""The columns that flow from the reader to the encoders, and the rows that fall out on the way.

One ``Records`` holds consecutive visible records of one topic partition. Offsets and values are
always there; timestamps, keys and headers cost CPU per record, so they are built when first asked
for. Rows are only ever picked by position, in order, so every later stage sees offsets strictly
increasing.

The reader cuts its stream into ``Records`` at places that depend on the data alone (rows and bytes
since the start of the slice), never on how the broker happened to batch its answers. Everything
downstream is a function of these pieces, which is what makes a landed object the same whenever its
range is read again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.ledger.offsets import TopicPartition

Int64s = npt.NDArray[np.int64]
HEADERS = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)
"""Kafka headers: in order, keys may repeat, a value may be null."""
UNREADABLE_HEADERS = "a header's name is not UTF-8"

FieldValues = Int64s | pa.StringArray | list[object]
"""Values of one payload field, a row each: int64 when all rows hold an integer, Arrow strings (null
=
absent) when all hold text, else Python scalars (None = absent). A decoder picks what costs it
least.
"""


@dataclass(frozen=True)
class Columns:
    """What costs CPU per record, built on demand: each call returns the column of every row."""

    timestamps: Callable[[], Int64s]
    keys: Callable[[], pa.BinaryArray]
    headers: Callable[[], pa.ListArray]


@dataclass(frozen=True)
class Records:
    """Visible records of one topic partition, a row each, offsets strictly increasing.

    Attributes:
        topic_partition: where they come from.
        offsets: int64, shape (rows,).
        values: payload bytes, shape (rows,); null is a tombstone.
        columns: how to build the columns below.
    """

    topic_partition: TopicPartition
    offsets: Int64s
    values: pa.BinaryArray
    columns: Columns = field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.offsets)

    @cached_property
    def timestamps(self) -> Int64s:
        """Kafka's record timestamps, milliseconds since 1970 UTC; -1 where the record has none."""
        return self.columns.timestamps()

    @cached_property
    def keys(self) -> pa.BinaryArray:
        """Record keys; null where there is none."""
        return self.columns.keys()

    @cached_property
    def headers(self) -> pa.ListArray:
        """Record headers, of type ``HEADERS``; an empty list where there are none, null where they cannot be read."""
        return self.columns.headers()

    def take(self, rows: Int64s) -> "Records":
        """Keep the rows at these positions, which must increase; all columns stay lazy."""
        positions = pa.array(rows)
        columns = Columns(
            timestamps=lambda: self.timestamps[rows],
            keys=lambda: self.keys.take(positions),
            headers=lambda: self.headers.take(positions),
        )
        return Records(
            self.topic_partition, self.offsets[rows], self.values.take(positions), columns
        )

    def with_values(self, values: pa.BinaryArray) -> "Records":
        """Keep everything but the payloads."""
        return Records(self.topic_partition, self.offsets, values, self.columns)


@dataclass(frozen=True)
class BadRows:
    """Rows that could not be decoded, routed or encoded: ``errors[i]`` belongs to row ``rows[i]``."""

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
    """Records with no timestamps, keys or headers: the shortest way to some rows, for decoders' tests and examples."""
    return of_columns(tp, np.asarray(offsets, np.int64), pa.array(values, pa.binary()))


def of_columns(
    tp: TopicPartition,
    offsets: Int64s,
    values: pa.BinaryArray,
    *,
    timestamps: Int64s | None = None,
    keys: pa.BinaryArray | None = None,
    headers: pa.ListArray | None = None,
) -> Records:
    """Records from ready columns; the missing ones mean no timestamp (-1), no key (null), no headers (empty)."""
    rows = len(offsets)
    columns = Columns(
        timestamps=lambda: np.full(rows, -1, np.int64) if timestamps is None else timestamps,
        keys=lambda: pa.nulls(rows, pa.binary()) if keys is None else keys,
        headers=lambda: pa.array([[]] * rows, HEADERS) if headers is None else headers,
    )
    return Records(tp, offsets, values, columns)
