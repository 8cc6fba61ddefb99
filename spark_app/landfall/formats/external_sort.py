"""Sorts rows that do not fit into memory: sorted runs on the local disk, merged at the end.

Rows are columns of Arrow, of any format, each with a key of bytes (``sort_keys``).
Rows with the same key stay in their order. Of each run, one batch of about ``BATCH_BYTES`` is in
memory at a time, and of runs there are ``FAN_IN`` of each size at most: so many are merged into one
before there are more.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from landfall.formats.merging import Mask

BATCH_BYTES = 2**20
FAN_IN = 64
_KEY = "landfall-sort-key"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


Keyed = tuple[pa.Array, pa.RecordBatch]
"""Rows, and the key of each."""


class RowSorter:
    """Writes the rows of several objects to one, sorted; see ``merging.Sorter``."""

    def __init__(
        self,
        read: Callable[[BinaryIO], Iterator[Keyed]],
        write: Callable[[Iterator[pa.Table]], Iterator[bytes]],
        memory: int,
    ) -> None:
        """``read`` reads an object, and ``write`` makes one of rows."""
        self._read = read
        self._write = write
        self._sort = ExternalSort(memory)
        self.rows = 0

    def add(self, source: BinaryIO, kept: Mask | None = None) -> None:
        """See ``merging.Sorter``."""
        row = 0
        for keys, batch in self._read(source):
            end, chosen = row + len(batch), (keys, batch)
            if kept is not None:
                mask = pa.array(kept[row:end])
                chosen = keys.filter(mask), batch.filter(mask)
            self._sort.add(*chosen)
            row = end
        self.rows += row

    def written(self) -> Iterator[bytes]:
        """See ``merging.Sorter``."""
        return self._write(self._sort.tables())

    def close(self) -> None:
        """See ``merging.Sorter``."""
        self._sort.close()


class ExternalSort:
    """Takes rows in any order, and gives them back sorted."""

    def __init__(self, memory: int) -> None:
        """``memory`` is how many bytes of rows are sorted at once; that takes twice as many."""
        self._memory = memory
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._runs: list[_Run] = []

    def add(self, keys: pa.Array, rows: pa.RecordBatch) -> None:
        """Take rows, with the key of each."""
        if not len(rows):
            return
        batch = rows.append_column(_KEY, keys)
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= self._memory:
            self._spill()

    def tables(self) -> Iterator[pa.Table]:
        """All rows in order, a batch at a time; nothing can be added any more."""
        if self._runs:
            self._spill()
            found = _merged(self._runs)
        else:
            rows = self._sorted()
            found = iter((rows,) if rows else ())
        for table in found:
            rows = table.drop_columns([_KEY])
            yield from (pa.Table.from_batches([batch]) for batch in _cut(rows))

    def close(self) -> None:
        """Delete what is on the disk."""
        for run in self._runs:
            run.file.close()

    def _sorted(self) -> pa.Table | None:
        """The rows in memory, which are forgotten."""
        pending = self._pending
        self._pending = []
        self._pending_bytes = 0
        return _in_order(pa.Table.from_batches(pending)) if pending else None

    def _spill(self) -> None:
        rows = self._sorted()
        if rows is None:
            return
        self._runs.append(_Run.of(rows.schema, iter((rows,)), 0))
        while len(alike := _last_alike(self._runs)) == FAN_IN:
            larger = _Run.of(rows.schema, _merged(alike), alike[0].level + 1)
            self._runs[-FAN_IN:] = [larger]
            for run in alike:
                run.file.close()


@dataclass
class _Run:
    """Sorted rows in a file.

    Attributes:
        file: has the rows.
        level: how often they were merged.
    """

    file: IO[bytes]
    level: int

    @classmethod
    def of(cls, schema: pa.Schema, tables: Iterator[pa.Table], level: int) -> "_Run":
        """Write rows to a new file."""
        file = tempfile.TemporaryFile()  # noqa: SIM115  # closed once it is merged
        with pa.ipc.new_stream(file, schema, options=_OPTIONS) as writer:
            for table in tables:
                for batch in _cut(table):
                    writer.write_batch(batch)
        return cls(file, level)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, from the first on."""
        self.file.seek(0)
        with pa.ipc.open_stream(self.file) as reader:
            yield from reader


@dataclass
class _RunHead:
    """The next rows of a run, with their keys."""

    batches: Iterator[pa.RecordBatch]
    batch: pa.RecordBatch = field(init=False)

    def advance(self) -> bool:
        """Advance to the next rows; return whether there are any."""
        found = next(self.batches, None)
        if found is not None:
            self.batch = found
        return found is not None

    @property
    def last(self) -> bytes:
        """The largest of the keys."""
        key: bytes = self.batch[_KEY][-1].as_py()
        return key

    def take(self, bound: bytes, compare: Any) -> pa.RecordBatch:
        """Take the rows whose keys are below a bound."""
        count = pc.sum(compare(self.batch[_KEY], pa.scalar(bound, pa.binary()))).as_py() or 0
        taken = self.batch.slice(0, count)
        self.batch = self.batch.slice(count)
        return taken


def _merged(runs: Sequence[_Run]) -> Iterator[pa.Table]:
    """The rows of runs in order, each some at a time."""
    heads = [_RunHead(run.batches()) for run in runs]
    heads = [head for head in heads if head.advance()]
    while heads:
        # What is not in memory of any run has no smaller key than this. Of rows with this very key
        # the run that reaches it first may have more, which come before rows of later runs.
        bound = min(head.last for head in heads)
        first = next(place for place, head in enumerate(heads) if head.last == bound)
        taken = [
            head.take(bound, pc.less_equal if place <= first else pc.less)
            for place, head in enumerate(heads)
        ]
        yield _in_order(pa.Table.from_batches(taken))
        heads = [head for head in heads if len(head.batch) or head.advance()]


def _in_order(rows: pa.Table) -> pa.Table:
    """Rows sorted by their keys; those with the same key stay in their order."""
    whole = rows.combine_chunks()
    return whole.take(pc.sort_indices(whole[_KEY]))


def _cut(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    count = max(1, len(rows) * BATCH_BYTES // max(1, rows.nbytes))
    yield from rows.to_batches(max_chunksize=count)


def _last_alike(runs: Sequence[_Run]) -> list[_Run]:
    return [run for run in runs[-FAN_IN:] if run.level == runs[-1].level]
