"""Reads landed objects, data and dead letters alike, and the same slices from Kafka."""

from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np

from landfall.api.spec import Output
from landfall.checks.coverage import ReadBack
from landfall.checks.payloads import KafkaRecords, payload_hashes
from landfall.cli.group_store import GroupStore
from landfall.formats import column_reading
from landfall.formats.column_reading import copied
from landfall.formats.typed_rows import plain_rows
from landfall.landed.stored_rows import Payload, stored_rows
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import LandedObject
from landfall.pipeline.decoders.half_pairs import without_half_pairs
from landfall.registry import output_format
from landfall.source import Reader

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


def read_back(opened: GroupStore, output: Output, landed: LandedObject) -> ReadBack:
    """Offsets and payload hashes of all rows of an object that this output of a topic describes.

    Raises:
        ValueError, FileNotFoundError: as ``stored_rows``.
    """
    normalize, format_ = normalizer(output.format), output_format(output)
    offsets, hashes = [], []
    for offset, payload in stored_rows(opened, format_, landed):
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
