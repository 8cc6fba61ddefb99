"""``spark.readStream.format("landfall")``: what becomes visible, slot after slot.

An offset of the stream is a slot of the ledger, ``{"slot": 41}``: everything through it is read.
What is between two slots is the same for ever, so a query that is killed reads the same rows again
for the batch that it had begun, and a sink that takes a batch once has each row once.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from landfall.reading import File, LandedGroup
from pyspark_landfall.source import PARTITION_BYTES, ReadOptions, packed, read_files
from pyspark_landfall.types import arrow_schema

MAX_FILES = 1000
"""How many objects a batch has, unless ``maxFilesPerTrigger`` is set."""
_ALL = 2**62


class SlotStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads slot after slot; in one process that Spark keeps, its tasks in other ones."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Read nothing yet."""
        self._options = options
        self._schema = schema
        self._open: LandedGroup | None = None
        self._topic = ""
        self._until = _ALL
        self._position = (-1, -1)  # an offset, and through which slot is known to follow nothing
        self._planned: dict[tuple[int, int], tuple[File, ...]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get no connection."""
        return {**self.__dict__, "_open": None, "_planned": {}}

    @property
    def _group(self) -> LandedGroup:
        if self._open is None:
            self._open = self._options.open()
            self._topic = self._options.topic(self._open)
        return self._open

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Before ``startingSlot``: ``earliest``, ``latest`` or a number."""
        match self._options.text("startingSlot", "earliest").lower():
            case "earliest":
                return {"slot": -1}
            case "latest":
                return {"slot": self._group.last_slot()}
        return {"slot": self._options.number("startingSlot", 0) - 1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """``maxFilesPerTrigger``; a slot's objects stay together, so there may be a few more."""
        return ReadMaxFiles(max(self._options.number("maxFilesPerTrigger", MAX_FILES), 1))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Leave what becomes visible from now on to another query."""
        self._until = self._group.last_slot()

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Where the ledger ends."""
        return {"slot": self._group.last_slot()}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Through which slot the next batch reads; ``start`` if there is nothing new."""
        after = start["slot"]
        known, reached = self._position
        at = reached if known == after else after
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else _ALL
        assert isinstance(limit, ReadMaxFiles | ReadAllAvailable)
        for through, files in self._group.follow(self._topic, at, most, **self._options.choice):
            new = tuple(file for file in files if file.slot <= self._until)
            if new:
                end = min(through, self._until)
                self._planned[after, end] = new
                self._position = (end, through if through == end else end)
                return {"slot": end}
            if through > self._until:
                break
            self._position = (after, through)
        return start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The tasks of a batch; the same ones again after a restart."""
        after, through = start["slot"], end["slot"]
        files = self._planned.get((after, through))
        if files is None:
            files = self._read_again(after, through)
        scan = self._group.scan_of(self._topic, files, through)
        source = scan.with_schema(arrow_schema(self._schema)).source
        size = self._options.number("partitionBytes", PARTITION_BYTES)
        return packed(source, files, size)

    def _read_again(self, after: int, through: int) -> tuple[File, ...]:
        found = list[File]()
        follow = self._group.follow(self._topic, after, 1, **self._options.choice)
        for reached, files in follow:
            found += [file for file in files if file.slot <= through]
            if reached >= through:
                break
        return tuple(found)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return read_files(partition)

    def commit(self, end: dict[str, int]) -> None:
        """Forget what was planned through a slot."""
        done = end["slot"]
        self._planned = {span: files for span, files in self._planned.items() if span[1] > done}
