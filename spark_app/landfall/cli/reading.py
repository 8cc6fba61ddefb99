"""Reading landed objects back, rows and dead letters alike."""

from collections.abc import Iterator
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from landfall.audit.coverage import ReadBack
from landfall.cli.opened import Opened
from landfall.formats import Format
from landfall.landed import LandedObject, ObjectKind
from landfall.records import Int64s


def dead_letters(stream: BinaryIO) -> Iterator[dict[str, object]]:
    """Dead letters with their coordinates, a dictionary each.

    Raises:
        ValueError: the bytes are not Parquet.
    """
    for batch in pq.ParquetFile(pa.PythonFile(stream, "r")).iter_batches():
        yield from batch.to_pylist()


def offsets(opened: Opened, format_: Format, landed: LandedObject) -> Iterator[int | None]:
    """The offset of each row; None where the format does not store it.

    Raises:
        ValueError: the object is damaged.
        FileNotFoundError: it is not there.
    """
    with opened.store.open(landed.upload.key) as stream:
        if landed.kind is ObjectKind.DEAD_LETTERS:
            yield from (cast("int", letter["offset"]) for letter in dead_letters(stream))
        else:
            yield from (row.offset for row in format_.rows(stream))


def read_back(opened: Opened, format_: Format, landed: LandedObject) -> ReadBack:
    """Read a whole object.

    Raises:
        ValueError, FileNotFoundError: as ``offsets``.
    """
    seen = list(offsets(opened, format_, landed))
    known: Int64s | None = None if None in seen else np.array(seen, np.int64)
    return ReadBack(landed, len(seen), known)
