"""The few rows that keep a column from being read at once. Pure.

A function of a library that converts a column fails as a whole for one value that it does not take,
and the way that finds the value is many times as dear. So texts with characters that hardly any
value has are looked for first, and the column is read without them. If that is not enough, it is
read in halves, down to a few rows, and only these go the dear way.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.records import Int64s

FEW_ROWS = 320
"""Rows that are not halved: 10,000 rows are so after five halvings."""
Converted: TypeAlias = tuple[pa.Array, dict[int, str]]


def halves(rows: int) -> tuple[slice, slice]:
    """The halves of so many rows."""
    return slice(0, rows // 2), slice(rows // 2, rows)


def joined(
    first: tuple[pa.Array, Mapping[int, str]], second: tuple[pa.Array, Mapping[int, str]]
) -> Converted:
    """Return the columns of two halves as one, and their errors by row."""
    (column, errors), (after, of_second) = first, second
    later = {len(column) + row: error for row, error in of_second.items()}
    return pa.concat_arrays([column, after]), {**errors, **later}


def by_halves(values: pa.Array, convert: Callable[[pa.Array], Converted]) -> Converted:
    """Return what ``convert`` makes of each half, as one column, and errors by row."""
    first, second = halves(len(values))
    return joined(convert(values[first]), convert(values[second]))


def rows_with_others(texts: pa.StringArray, characters: str) -> Int64s:
    """Return the rows that have a character other than digits and these, which must be ASCII."""
    _, bounds, content = texts.buffers()
    if content is None or not len(texts):
        return np.empty(0, np.int64)
    ends = np.frombuffer(bounds, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    octets = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    # Of bytes without a sign, 9 or less is left of the digits alone.
    others = np.flatnonzero(octets - np.uint8(ord("0")) > 9)
    places = others[_is_other(characters)[octets[others]]]
    rows = np.searchsorted(ends, places + ends[0], "right") - 1
    return np.unique(rows).astype(np.int64)


@lru_cache(16)
def _is_other(characters: str) -> npt.NDArray[np.bool_]:
    is_other = np.ones(256, np.bool_)
    is_other[list(characters.encode())] = False
    return is_other


def without_rows(column: pa.Array, rows: Int64s) -> pa.Array:
    """Return the column with null in these rows."""
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    return pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
