"""A file of columns of a kilobyte that unpacks to gigabytes."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_LONG = 4 << 20
_ROWS = 4096
"""With a value of this length in each row, a batch has 16 GiB."""


def dictionary_bomb(columns: int = 1) -> bytes:
    """A Parquet file of a kilobyte: one long value in a dictionary, in each of the rows."""
    value = pa.array([b"a" * _LONG], pa.binary())
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(_ROWS, np.int32)), value)
    sink = io.BytesIO()
    pq.write_table(
        pa.table({f"c{number}": column for number in range(columns)}),
        sink,
        compression="zstd",
        dictionary_pagesize_limit=1 << 30,
        write_statistics=False,
        store_schema=False,
    )
    return sink.getvalue()
