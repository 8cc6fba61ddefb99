"""Values that a format can store and that readers of it cannot hold: their rows are refused.

One such value is enough that a reader fails for the whole file, or reads another value. Each format
defines which times are wrong for it; here the rows are found, however deep in a row the value is.

=======  ==========================================================  =======================
format   refused                                                     because
=======  ==========================================================  =======================
Orc      a time before 1677-09-21 or after 2262-04-11                C++ counts nanoseconds
Orc      a time before 1970 that is no whole second                  see below
Orc      a date before 1582-10-15                                    Java reads another day
Parquet  a time that is no 64-bit number of microseconds             it is stored as such
both     a map with a key that is there twice                        DuckDB fails
=======  ==========================================================  =======================

ORC stores seconds, and nanoseconds from 0 to 999,999,999 after them. For a time before 1970 Arrow
writes a negative number of nanoseconds, which it reads back, and which ORC's library for Java
(Hive, Spark, Trino) refuses. That library reads days before 1582-10-15 as days of the Julian
calendar, unless the file declares otherwise, which Arrow cannot write. Source: ORC Specification
v1, "Timestamp Columns", "Date Columns" and "File Tail" (``calendar``). Of a key that is there twice
some readers take the first value, other readers the last (Parquet's LogicalTypes.md, "Maps").
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools = npt.NDArray[np.bool_]
IsMeant = Callable[[pa.DataType], bool]
Wrong = Callable[[pa.DataType, npt.NDArray[np.int64]], Bools]
"""Which of these times, in the unit of their type, cannot be held; nulls are given as 0."""

PER_SECOND: Mapping[str, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_ORC_SECONDS = (2**63 - 1) // 10**9
_ORC_DAY = -141_427
"""1582-10-15, in days since 1970-01-01."""
_MICROS = 2**63 - 1
"""The greatest 64-bit number of microseconds."""
ORC_ERROR = (
    "a time that not every reader of ORC can hold: before 1677, after 2262, a date before "
    "1582-10-15, or before 1970 with a part of a second"
)
KEY_ERROR = "a map in which a key is there twice"
PARQUET_ERROR = "a time that not every reader of Parquet can hold: over 290,000 years from 1970"


def wrong_in_orc(type_: pa.DataType, times: npt.NDArray[np.int64]) -> Bools:
    """Return which times readers of ORC cannot hold."""
    wrong: Bools = times < _ORC_DAY
    if not pa.types.is_date(type_):
        per_second = PER_SECOND[type_.unit]
        latest = _ORC_SECONDS * per_second
        wrong = (times >= latest) | (times < -latest)
        wrong |= (times < 0) & (times % per_second != 0)
    return wrong


def wrong_in_parquet(type_: pa.DataType, times: npt.NDArray[np.int64]) -> Bools:
    """Return which times readers of Parquet cannot hold."""
    if pa.types.is_date(type_) or type_.unit not in {"s", "ms"}:
        return np.zeros(len(times), np.bool_)
    most = _MICROS // (PER_SECOND["us"] // PER_SECOND[type_.unit])
    return (times > most) | (times < -most)


def refused(columns: pa.RecordBatch, wrong: Wrong, error: str) -> dict[int, str]:
    """Return errors by row for rows with a value that cannot be held, which name the column.

    Args:
        columns: typed columns, nested ones included.
        wrong: which times are wrong.
        error: the text of the error after the column's name.
    """

    def wrong_times(column: pa.Array) -> Bools:
        number = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
        times = column.view(number).fill_null(0).to_numpy()
        return wrong(column.type, times.astype(np.int64, copy=False))

    errors: dict[int, str] = {}
    for name, column in zip(columns.schema.names, columns.columns, strict=True):
        for is_meant, is_wrong, why in (
            (_is_time, wrong_times, error),
            (pa.types.is_map, _has_repeated_key, KEY_ERROR),
        ):
            if _holds(column.type, is_meant):
                rows = np.flatnonzero(_rows(column, is_meant, is_wrong)).tolist()
                errors = dict.fromkeys(rows, f"column {name}: {why}") | errors
    return errors


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date32(type_))


@lru_cache(4096)
def _holds(type_: pa.DataType, is_meant: IsMeant) -> bool:
    inner = (type_.field(i).type for i in range(type_.num_fields))
    return is_meant(type_) or any(_holds(child, is_meant) for child in inner)


def _rows(column: pa.Array, is_meant: IsMeant, is_wrong: Callable[[pa.Array], Bools]) -> Bools:
    """Return a mask of the values that contain such a value; a null contains none."""
    type_ = column.type
    found = is_wrong(column) if is_meant(type_) else np.zeros(len(column), np.bool_)
    if not _holds(type_, is_meant):
        return found
    if pa.types.is_struct(type_):
        for i in range(type_.num_fields):
            found = found | _rows(column.field(i), is_meant, is_wrong)
    elif pa.types.is_list(type_):
        found = found | _any_item(column, _rows(column.values, is_meant, is_wrong))
    elif pa.types.is_map(type_):
        entries = (_rows(child, is_meant, is_wrong) for child in (column.keys, column.items))
        found = found | _any_item(column, np.logical_or(*entries))
    if column.null_count:
        found = found & column.is_valid().to_numpy(zero_copy_only=False)
    return found


def _any_item(column: pa.ListArray, items: Bools) -> Bools:
    before = np.concatenate([[0], np.cumsum(items)])
    bounds = column.offsets.to_numpy()
    found: Bools = before[bounds[1:]] > before[bounds[:-1]]
    return found


def _has_repeated_key(column: pa.MapArray) -> Bools:
    found = np.zeros(len(column), np.bool_)
    bounds = column.offsets.to_numpy()
    sizes = np.diff(bounds)
    if not (sizes > 1).any():
        return found
    keys = column.keys.slice(bounds[0], bounds[-1] - bounds[0]).dictionary_encode()
    rows = np.repeat(np.arange(len(column)), sizes)
    # Each pair of a row and a key as one number; equal ones come one after the other.
    pairs = rows * len(keys.dictionary) + keys.indices.to_numpy()
    order = np.argsort(pairs, kind="stable")
    is_repeated = pairs[order][1:] == pairs[order][:-1]
    found[rows[order][1:][is_repeated]] = True
    return found
