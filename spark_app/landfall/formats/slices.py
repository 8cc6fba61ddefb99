"""Values that are ranges of one buffer, as an Arrow array."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.pipeline.records import Int64s


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
