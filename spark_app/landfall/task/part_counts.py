"""Counts the records of a slice by the part of a file that they are rows of."""

from dataclasses import dataclass, field

import numpy as np

from landfall.ledger.feeds import SPAN
from landfall.ledger.task_results import PartRows
from landfall.pipeline.records import Int64s, Records
from landfall.task.partitioning import PartitionedChunk


@dataclass
class PartCounts:
    """How many records of each part are visible, and how many were landed and dead-lettered."""

    _visible: dict[int, int] = field(default_factory=dict)
    _landed: dict[int, int] = field(default_factory=dict)
    _dead_lettered: dict[int, int] = field(default_factory=dict)

    def add(self, records: Records, chunk: PartitionedChunk) -> None:
        """Count the records of a chunk."""
        _add(self._visible, records.offsets)
        _add(self._dead_lettered, records.offsets[[bad.row for bad in chunk.bad]])
        for _, rows, _ in chunk.objects():
            _add(self._landed, rows.offsets)

    def parts(self) -> tuple[PartRows, ...]:
        """The counters of all parts that have records; what is left of them was filtered."""
        return tuple(
            self._of(number, self._landed.get(number, 0), self._dead_lettered.get(number, 0))
            for number in sorted(self._visible)
        )

    def _of(self, number: int, landed: int, dead_lettered: int) -> PartRows:
        filtered = self._visible[number] - landed - dead_lettered
        return PartRows(number, landed, filtered, dead_lettered)


def _add(counts: dict[int, int], offsets: Int64s) -> None:
    numbers, found = np.unique(offsets // SPAN, return_counts=True)
    for number, count in zip(numbers.tolist(), found.tolist(), strict=True):
        counts[number] = counts.get(number, 0) + count
