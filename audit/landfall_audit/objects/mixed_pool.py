"""Collects the records that may be in mixed objects, by folder, until all ranges are checked."""

import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from landfall_audit.checks.judge import Int64s
from landfall_audit.objects.mixed_rows import MixedRecords
from landfall_audit.objects.row_file import RowFile, Stored


@dataclass
class _Pool:
    records: list[Stored] = field(default_factory=list)
    filtered: int = 0
    unchecked: int = 0


class MixedPool:
    """Records by the folder of the objects that they may be in. Thread-safe."""

    def __init__(self, file: RowFile) -> None:
        """Keep records in a file."""
        self._file = file
        self._lock = threading.Lock()
        self._pools: defaultdict[str, _Pool] = defaultdict(_Pool)

    def add(self, place: str, partition: int, offsets: Int64s, hashes: Int64s) -> None:
        """Add records of a topic partition."""
        columns = np.concatenate([np.full(len(offsets), partition, np.int64), offsets, hashes])
        stored = self._file.add(columns)
        with self._lock:
            self._pools[place].records.append(stored)

    def add_filtered(self, places: Iterable[str], records: int) -> None:
        """Add how many of the records may have been left out by a transform, or are lost."""
        with self._lock:
            for place in places:
                self._pools[place].filtered += records

    def add_unchecked(self, place: str, rows: int) -> None:
        """Add how many rows may be of records that were not added."""
        with self._lock:
            self._pools[place].unchecked += rows

    def filtered(self, place: str) -> int:
        """How many of a folder's records may have been left out by a transform, or are lost."""
        return self._pools[place].filtered

    def unchecked(self, place: str) -> int:
        """How many rows of a folder may be of other records."""
        return self._pools[place].unchecked

    def records(self, place: str) -> MixedRecords:
        """All records of a folder."""
        empty = np.empty((3, 0), np.int64)
        chunks = [self._file.read(extent).reshape(3, -1) for extent in self._pools[place].records]
        return MixedRecords(*np.concatenate([empty, *chunks], axis=1))
