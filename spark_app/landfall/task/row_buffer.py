"""The rows that the open objects of a slice buffer, and the memory they take.

A buffered batch costs more than its data: each array and each buffer of Arrow has objects of its
own, and is rounded up. With 200 columns and rows of 500 output partitions in a chunk, these are 20
times the data. So the rows of a chunk are copied together, by one ``take``, in the order of the
objects that buffer them, and each object has a run of the copy. A copy is counted once, for as long
as an object has rows of it: its data, and what Arrow adds (``batch_bytes``). Where objects have
encoded their rows of a copy, ``compact`` copies the rest and frees it.

What is counted depends on the data alone: not on how allocators round, nor on which hot path runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from landfall.task.rows import ChosenRows, copied

_ARRAY_BYTES = 320
_BUFFER_BYTES = 310
"""What Arrow adds to the data for each array, and for each of its buffers: measured with glibc's
malloc, for arrays that ``take`` made.
"""
_RUN_BYTES = 256
"""The Python objects of a run of rows."""
_PAYLOAD_RULES_BYTES = 2048


@dataclass(slots=True, eq=False)
class _Copy:
    """Buffered rows of a chunk, in one batch, and the runs of it that are still buffered."""

    batch: pa.RecordBatch
    runs: list["BufferedRows"]
    bytes: int
    live: int = 0


@dataclass(slots=True, eq=False)
class BufferedRows:
    """Rows that an object buffers: some of a chunk first, then a run of a copy.

    Attributes:
        count: how many.
        weight: their weight.
    """

    count: int
    weight: int
    _chosen: ChosenRows | None = None
    _copy: _Copy | None = None
    _start: int = 0

    @classmethod
    def of(cls, rows: ChosenRows) -> "BufferedRows":
        """Return rows that are in their chunk."""
        return cls(len(rows), int(rows.weights[-1]), rows)

    @property
    def rows(self) -> ChosenRows:
        """The rows. A run is sliced only now: a slice has an object for each column."""
        if self._chosen is not None:
            return self._chosen
        assert self._copy is not None, "rows are in their chunk or in a copy"
        return ChosenRows(self._copy.batch).part(self._start, self._start + self.count)

    @property
    def bytes(self) -> int:
        """Their share of the copy that they are in; 0 before they are in one."""
        copy = self._copy
        return 0 if copy is None else copy.bytes * self.count // len(copy.batch)

    def move(self, copy: _Copy, start: int) -> None:
        """Be the run of a copy that begins at ``start``."""
        self._chosen = None
        self._copy = copy
        self._start = start
        copy.live += self.count

    def leave(self) -> _Copy | None:
        """Be nowhere any more; returns the copy that they were in."""
        copy = self._copy
        self._chosen = None
        self._copy = None
        if copy is not None:
            copy.live -= self.count
        return copy

    def is_in(self, copy: _Copy) -> bool:
        """Return whether they are buffered in this copy."""
        return self._copy is copy


@dataclass
class RowBuffer:
    """The buffered rows of all objects of a slice.

    Attributes:
        held_bytes: the memory of all copies.
    """

    held_bytes: int = 0
    _unsettled: dict[BufferedRows, None] = field(default_factory=dict)
    _copies: dict[_Copy, None] = field(default_factory=dict)

    def keep(self, parts: Sequence[ChosenRows], *, is_rest: bool = False) -> list[BufferedRows]:
        """Keep rows, at least one in each part, that one object buffers.

        They stay in their chunk until ``settle``. ``is_rest`` means that the chunk has other rows,
        which were encoded.
        """
        del is_rest  # a copy is made of what is buffered alone
        runs = [BufferedRows.of(part) for part in parts]
        self._unsettled.update(dict.fromkeys(runs))
        return runs

    def settle(self) -> None:
        """Copy what was kept, so that its chunk can be freed."""
        runs = list(self._unsettled)
        self._unsettled = {}
        for of_schema in _by_schema(runs):
            self._copy(of_schema)

    def take(self, runs: Sequence[BufferedRows]) -> list[ChosenRows]:
        """Return rows, and forget them.

        Their memory is free when no rows of their copy are buffered.
        """
        rows = [run.rows for run in runs]
        for run in runs:
            self._unsettled.pop(run, None)
            copy = run.leave()
            if copy is not None and not copy.live:
                self._forget(copy)
        return rows

    def compact(self) -> None:
        """Copy the rows that remain of partly released copies, and free the rest."""
        for copy in [copy for copy in self._copies if copy.live < len(copy.batch)]:
            self._forget(copy)
            self._copy([run for run in copy.runs if run.is_in(copy)])

    def _copy(self, runs: list[BufferedRows]) -> None:
        batch = _together([run.rows for run in runs])
        self._add(_Copy(batch, runs, batch_bytes(batch) + _RUN_BYTES * len(runs)))

    def _add(self, copy: _Copy) -> None:
        start = 0
        for run in copy.runs:
            run.move(copy, start)
            start += run.count
        self._copies[copy] = None
        self.held_bytes += copy.bytes

    def _forget(self, copy: _Copy) -> None:
        del self._copies[copy]
        self.held_bytes -= copy.bytes


class PayloadRulesBuffer(RowBuffer):
    """Buffered rows by the first landing rules: each batch is a copy, and has 2 KiB more."""

    def keep(self, parts: Sequence[ChosenRows], *, is_rest: bool = False) -> list[BufferedRows]:
        """Copy the rows at once."""
        batch = copied(parts) if is_rest else parts[0].taken()
        runs = [BufferedRows.of(ChosenRows(batch))]
        self._add(_Copy(batch, runs, int(batch.nbytes) + _PAYLOAD_RULES_BYTES))
        return runs


def batch_bytes(batch: pa.RecordBatch) -> int:
    """Return the bytes of a batch that shares no memory with other batches."""
    return int(batch.nbytes) + _added_bytes(batch.schema)


@lru_cache(1024)
def _added_bytes(schema: pa.Schema) -> int:
    return sum(_added_by(field.type) for field in schema)


def _added_by(type_: pa.DataType) -> int:
    """Return what the arrays of a column cost in addition to their data, those inside included."""
    inner = sum(_added_by(type_.field(i).type) for i in range(type_.num_fields))
    return _ARRAY_BYTES + _BUFFER_BYTES * int(type_.num_buffers) + inner


def _by_schema(runs: Sequence[BufferedRows]) -> list[list[BufferedRows]]:
    found: list[tuple[pa.Schema, list[BufferedRows]]] = []
    of_batch: dict[int, list[BufferedRows]] = {}  # hundreds of runs have one batch
    for run in runs:
        batch = run.rows.batch
        if id(batch) not in of_batch:
            schema = batch.schema
            of_schema = next((of for known, of in found if known.equals(schema)), None)
            if of_schema is None:
                found.append((schema, of_schema := []))
            of_batch[id(batch)] = of_schema
        of_batch[id(batch)].append(run)
    return [of_schema for _, of_schema in found]


def _together(parts: Sequence[ChosenRows]) -> pa.RecordBatch:
    """Return rows as one batch that keeps no other batch in memory."""
    first = parts[0]
    if len(parts) == 1:
        is_whole = first.positions is None and not _is_run(first.batch)
        return first.batch if is_whole else copied(parts)
    if all(part.batch is first.batch for part in parts):
        return first.batch.take(pa.array(np.concatenate([_positions(part) for part in parts])))
    return pa.concat_batches([part.taken() for part in parts])


def _positions(part: ChosenRows) -> np.ndarray:
    return np.arange(len(part.batch)) if part.positions is None else part.positions


def _is_run(batch: pa.RecordBatch) -> bool:
    """Return whether a batch is a slice of a longer one, which it would keep in memory."""
    offsets = batch.column("offset")
    return bool(offsets.offset > 0 or offsets.buffers()[1].size > offsets.nbytes)
