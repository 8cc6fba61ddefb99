"""Encodes a backup's payloads by today's spec, to compare them with the landed rows.

Rows are encoded by the format and read back, as landed ones are, and only their hashes are kept:
sixteen bytes a row. Hashes are Python's, comparable only within a process.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from landfall.formats import Row
from landfall.ledger.names import folders
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import Records
from landfall.task.partitioning import Partitioner
from landfall.task.rescanning import Wrong

_DIFFERS = "is not what today's decoder makes of the payload in the backup"


@dataclass
class RowsOfFolder:
    """The rows that belong in one folder today, and how far they were compared.

    Attributes:
        offsets: of their records, in order.
        hashes: of the rows.
        has_offsets: whether landed rows contain their offsets.
        at: how many were compared.
    """

    offsets: list[int] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)
    has_offsets: bool = False
    at: int = 0

    def wrong_rows(self, rows: Iterable[Row]) -> Wrong | None:
        """The rows of the next object that differ; None if none does."""
        by_offset = dict(zip(self.offsets, self.hashes, strict=True)) if self.has_offsets else {}
        wrong = 0
        first = -1
        offset = -1
        for number, row in enumerate(rows):
            if row.offset is not None:
                own, is_same = row.offset, by_offset.get(row.offset) == hash(row.value)
            else:
                is_there = self.at < len(self.offsets)
                own = self.offsets[self.at] if is_there else -1
                is_same = is_there and self.hashes[self.at] == hash(row.value)
            self.at += 1
            if not is_same:
                first, offset = (number, own) if not wrong else (first, offset)
                wrong += 1
        return Wrong(wrong, first, offset, _DIFFERS) if wrong else None

    @property
    def left(self) -> Wrong | None:
        """The rows that are in no object of the folder; None if there are none."""
        missing = len(self.offsets) - self.at
        why = "has fewer rows than today's decoder makes of the payloads in the backup"
        return Wrong(missing, -1, -1, why) if missing > 0 else None


def rows_today(
    partitioner: Partitioner, tp: TopicPartition, chunks: Iterable[Records]
) -> dict[str, RowsOfFolder]:
    """Return the rows that today's spec makes of records, by folder.

    Args:
        partitioner: of today's spec.
        tp: the topic partition.
        chunks: its records, in order.
    """
    found: dict[str, RowsOfFolder] = {}
    for records in chunks:
        for routed, rows, schema in partitioner.partition(records).objects():
            of_folder = found.setdefault(folders.folder(tp.topic, routed), RowsOfFolder())
            layout = replace(partitioner.layout, schema=schema)
            encoder = partitioner.stages.format.encoder()
            body = encoder.encode(layout.chosen_block(tp, [rows])) + encoder.finish()
            _add(of_folder, rows.offsets.tolist(), partitioner, body)
    return found


def _add(found: RowsOfFolder, offsets: list[int], partitioner: Partitioner, body: bytes) -> None:
    rows: Iterator[Row] = partitioner.stages.format.rows(io.BytesIO(body))
    for offset, row in zip(offsets, rows, strict=True):
        found.has_offsets |= row.offset is not None
        found.offsets.append(offset if row.offset is None else row.offset)
        found.hashes.append(hash(row.value))
