"""Payloads without the header that a framing puts before them."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.pipeline.records import Int64s


def without_header(
    payloads: pa.BinaryArray, good: npt.NDArray[np.bool_], header_bytes: Int64s | int
) -> pa.BinaryArray:
    """Return the good payloads without their first bytes; bad payloads become null.

    Args:
        payloads: an Arrow binary array.
        good: which payloads are at least that long, shape (rows,).
        header_bytes: how much to leave out, for all or for each payload.
    """
    rows = len(payloads)
    offsets = np.frombuffer(payloads.buffers()[1], np.int32)[payloads.offset :][: rows + 1]
    starts, ends = offsets[:-1].astype(np.int64) + header_bytes, offsets[1:]
    kept = np.flatnonzero(good)
    # The bodies and the headers between them, as one Arrow array over the same data; taking every
    # second value copies the bodies in C++.
    bounds = np.empty(2 * len(kept) + 1, np.int32)
    bounds[0:-1:2], bounds[1::2] = starts[kept], ends[kept]
    bounds[-1] = bounds[-2] if len(kept) else 0
    buffers = [None, pa.py_buffer(bounds), payloads.buffers()[2]]
    segments = pa.Array.from_buffers(pa.binary(), 2 * len(kept), buffers)
    places = np.zeros(rows, np.int64)
    places[kept] = np.arange(0, 2 * len(kept), 2)
    mask = None if len(kept) == rows else ~good
    return segments.take(pa.array(places, mask=mask))
