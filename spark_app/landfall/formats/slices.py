"""Binary columns: values that are ranges of one buffer, and the buffers of a column."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.pipeline.records import Int64s, Selected

NativeColumn: TypeAlias = tuple[
    pa.Buffer | None, pa.Buffer, pa.Buffer | None, int, int, Int64s | None
]
"""Validity bits, bounds, bytes, the first row in these, how many rows, and which of them."""


def binary_slices(
    content: bytes | memoryview,
    starts: Int64s,
    ends: Int64s,
    are_there: npt.NDArray[np.bool_] | None = None,
) -> pa.BinaryArray:
    """Return the ranges ``[start, end)`` of ``content``, copied, shape (rows,).

    They follow each other and do not overlap. ``content`` has less than 2 GiB. Rows that are not
    ``are_there`` are null.
    """
    rows = len(starts)
    if not rows:
        return pa.array([], pa.binary())
    # The ranges and the gaps between them in one array; taking every second value copies in C++.
    offsets = np.empty(2 * rows, np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    with_gaps = pa.Array.from_buffers(pa.binary(), 2 * rows - 1, buffers)
    every_second = np.arange(0, 2 * rows - 1, 2)
    return with_gaps.take(pa.array(every_second, mask=None if are_there is None else ~are_there))


def row_ranges(rows: int, chunk_rows: int) -> Iterator[slice]:
    """Return the rows of each chunk."""
    for start in range(0, rows, chunk_rows):
        yield slice(start, min(start + chunk_rows, rows))


def native_columns(selected: Sequence[Selected]) -> list[NativeColumn]:
    """Return rows of binary columns as ``landfall_native`` takes them; nothing is copied."""
    return [
        (*values.buffers(), values.offset, len(values), positions) for values, positions in selected
    ]


def payload_bytes(values: pa.BinaryArray) -> memoryview:
    """Return the bytes of all values back to back, without copying; no value may be null."""
    _, bounds, payload = values.buffers()
    if len(values) == 0 or payload is None:
        return memoryview(b"")
    ends = np.frombuffer(bounds, np.int32, len(values) + 1, 4 * values.offset)
    return memoryview(payload)[ends[0] : ends[-1]]


def contains(values: pa.BinaryArray, byte: int) -> bool:
    """Return whether any value has this byte."""
    # NumPy reads the buffer as it is; ``in`` would need a copy of it.
    return bool((np.frombuffer(payload_bytes(values), np.uint8) == byte).any())
