"""Reading back: landed objects, rows and dead letters alike, and the same slices from Kafka."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from landfall.checks.coverage import ReadBack
from landfall.checks.payloads import Logged, hashes
from landfall.cli.group_store import GroupStore
from landfall.formats import Format
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.source import Reader

Payload = bytes | None
Spelling = Callable[[Payload], bytes]
"""How a format writes a payload that it cannot write as it is."""

_SPELLINGS: dict[str, Spelling] = {
    "Json": lambda value: (
        b"null" if value is None else value.replace(b"\n", b" ").replace(b"\r", b" ")
    ),
}


def spelling(format_name: str) -> Spelling:
    """The one of this format; those that are not named write payloads as they are, and tombstones as empty ones."""
    return _SPELLINGS.get(format_name, lambda value: value or b"")


def dead_letters(stream: BinaryIO) -> Iterator[dict[str, object]]:
    """Dead letters with their coordinates, a dictionary each. Copied to a temporary file first: the footer comes last.

    Raises:
        ValueError: the bytes are not Parquet.
    """
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(stream, file)
        try:
            for batch in pq.ParquetFile(file).iter_batches():
                yield from batch.to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"damaged dead letters: {error}") from error


def rows(
    opened: GroupStore, format_: Format, landed: LandedObject
) -> Iterator[tuple[int | None, Payload]]:
    """Offset and payload of each row; None for an offset that the format does not store.

    Raises:
        ValueError: the object is damaged.
        FileNotFoundError: it is not there.
    """
    with opened.store.open(landed.upload.key) as stream:
        if landed.kind is ObjectKind.DEAD_LETTERS:
            letters = dead_letters(stream)
            yield from ((cast("int", x["offset"]), cast("Payload", x["value"])) for x in letters)
        else:
            yield from ((row.offset, row.value) for row in format_.rows(stream))


def read_back(opened: GroupStore, format_: Format, landed: LandedObject) -> ReadBack:
    """Read a whole object.

    Raises:
        ValueError, FileNotFoundError: as ``rows``.
    """
    spelled = spelling(opened.group.spec.output.format)
    offsets, found = [], []
    for offset, payload in rows(opened, format_, landed):
        offsets.append(offset)
        found.append(hash(spelled(payload)))
    known = None if None in offsets else np.array(offsets, np.int64)
    return ReadBack(landed, np.array(found, np.int64), known)


def logged(opened: GroupStore, reader: Reader, piece: Slice) -> Logged:
    """What Kafka holds of a slice.

    Raises:
        Stalled, Retry: as ``Reader.read``.
    """
    spelled, empty = spelling(opened.group.spec.output.format), np.empty(0, np.int64)
    chunks = [(r.offsets, hashes(map(spelled, r.values.to_pylist()))) for r in reader.read(piece)]
    return Logged(
        np.concatenate([empty, *(offsets for offsets, _ in chunks)]),
        np.concatenate([empty, *(found for _, found in chunks)]),
    )
