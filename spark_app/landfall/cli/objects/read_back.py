"""Reads landed objects, data and dead letters alike, and the same slices from Kafka."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

import numpy as np

from landfall.api.contract import LANE
from landfall.api.spec import Output
from landfall.checks.coverage import ReadBack
from landfall.checks.payloads import KafkaRecords, payload_hashes
from landfall.cli.group_store import GroupStore
from landfall.formats import Format, column_reading
from landfall.formats.column_reading import copied
from landfall.formats.typed_rows import plain_rows
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.pipeline.decoders.half_pairs import without_half_pairs
from landfall.reading.copies import WithCopies
from landfall.registry import output_format
from landfall.source import Reader

Payload = bytes | None
_READ_ROWS = 4096
Normalizer = Callable[[Payload], bytes]
"""Maps a payload to the bytes that a format writes for it."""

_NORMALIZERS: dict[str, Normalizer] = {
    # A line break inside a JSON document would split its row: the format writes a space instead.
    "Json": lambda value: (
        b"null"
        if value is None
        else without_half_pairs(value).replace(b"\n", b" ").replace(b"\r", b" ")
    ),
}


def normalizer(format_name: str) -> Normalizer:
    """The normalizer of a format.

    Formats without an entry write payloads unchanged, and tombstones as empty payloads.
    """
    return _NORMALIZERS.get(format_name, lambda value: value or b"")


def dead_letters(stream: BinaryIO) -> Iterator[dict[str, object]]:
    """The dead letters in a Parquet object with their coordinates, one dictionary each.

    A Kafka timestamp of a year that Python does not have is a number, microseconds since 1970.

    Raises:
        ValueError: the object is damaged, or not of dead letters.
    """
    with copied(stream) as file:
        for batch in column_reading.dead_letters(file).batches(_READ_ROWS):
            yield from plain_rows(batch)


def rows(
    opened: GroupStore, format_: Format, landed: LandedObject
) -> Iterator[tuple[int | None, Payload]]:
    """Offset and payload of each row; the offset is None if the format stores none.

    If the object is being replaced at this moment, its copy is read.

    Raises:
        ValueError: the object is damaged.
        FileNotFoundError: the object is missing.
    """
    with _opened(opened, landed.key) as stream:
        if landed.kind is ObjectKind.DEAD_LETTERS:
            yield from _payloads(stream)
        else:
            yield from ((row.offset, row.value) for row in format_.rows(stream))


def _payloads(letters: BinaryIO) -> Iterator[tuple[int, Payload]]:
    with copied(letters) as file:
        columns = ("offset", "value")
        for batch in column_reading.dead_letters(file).batches(_READ_ROWS, columns):
            yield from zip(*(batch[name].to_pylist() for name in columns), strict=True)


def _opened(opened: GroupStore, key: str) -> AbstractContextManager[BinaryIO]:
    try:
        return opened.store.open(key)
    except FileNotFoundError:
        copy = WithCopies(opened.store, (opened.name, LANE)).copy_of(key)
        if copy is None:
            raise
        return opened.store.open(copy)


def read_back(opened: GroupStore, output: Output, landed: LandedObject) -> ReadBack:
    """Offsets and payload hashes of all rows of an object that this output of a topic describes.

    Raises:
        ValueError, FileNotFoundError: as ``rows``.
    """
    normalize, format_ = normalizer(output.format), output_format(output)
    offsets, hashes = [], []
    for offset, payload in rows(opened, format_, landed):
        offsets.append(offset)
        hashes.append(hash(normalize(payload)))
    stored = None if None in offsets else np.array(offsets, np.int64)
    return ReadBack(landed, np.array(hashes, np.int64), stored)


def kafka_records(opened: GroupStore, reader: Reader, slice_: Slice) -> KafkaRecords:
    """Offsets and payload hashes of the records that Kafka holds of a slice.

    Raises:
        Stalled, Retry: as ``Reader.read``.
    """
    output = opened.specs.for_topic(slice_.topic_partition.topic).output
    normalize, empty = normalizer(output.format), np.empty(0, np.int64)
    chunks = [
        (records.offsets, payload_hashes(map(normalize, records.values.to_pylist())))
        for records in reader.read(slice_)
    ]
    return KafkaRecords(
        np.concatenate([empty, *(offsets for offsets, _ in chunks)]),
        np.concatenate([empty, *(hashes for _, hashes in chunks)]),
    )
