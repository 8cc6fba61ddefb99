"""A task's side of what another group has landed: reads exact ranges from its objects.

Which objects these are follows from that group's ledger. Each gives exactly the rows that the
ledger records, or the range is not landed. An object that has retired meanwhile is read from
its copy. Of what cannot be read, the records before it are given, and the slice ends early: so one
object that is damaged stops its topic partition alone, at the first record that is missing.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from landfall.errors import Reason, Retry, Stalled
from landfall.landed import pieces
from landfall.landed.backup import another_topic
from landfall.landed.fetching import FetchAhead
from landfall.landed.history import History, Life
from landfall.landed.merging import chunks, merged
from landfall.landed.pieces import Piece, RangeContents
from landfall.landed.rows import of_parquet, of_sequence_file
from landfall.landed.what_counts import WhatCounts
from landfall.lane.expired_letters import read_expired
from landfall.ledger.effects import replaces
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import CURRENT_RULES
from landfall.pipeline.records import Records, of_columns
from landfall.source import EndsEarly
from landfall.source.progress import CHUNK_BYTES, CHUNK_ROWS
from landfall.store import Store


class _OtherRows(Stalled):
    """From this offset, an object has more or fewer rows than the ledger records."""

    def __init__(self, message: str, first_offset: int) -> None:
        super().__init__(Reason.OBJECT_LOST, message)
        self.first_offset = first_offset

    def __reduce__(self) -> tuple[type[Stalled], tuple[Reason, str]]:
        """Between Spark task and driver it is like any other."""
        return Stalled, (self.reason, str(self))


class LandedReader:
    """A ``source.Reader`` of what another group has landed. A worker process has one."""

    def __init__(self, store: Store, history: History, field: str = "spec.source.landed") -> None:
        """Read nothing yet.

        Args:
            store: holds the other group's ledger and objects.
            history: of its lane.
            field: of the spec that names the other group, for messages.
        """
        self._store = store
        self._history = history
        self._what_counts = WhatCounts(history, field)
        self.topic_ids: Mapping[TopicPartition, str] = {}
        """The topic ids that topic partitions must have; without one, the topic landed last."""
        self.rules = CURRENT_RULES
        """By which chunks end."""
        self._must_follow = True

    @property
    def group(self) -> str:
        """The name of the other group."""
        return self._history.lane.group

    def begin(self) -> None:
        """Let the next read see what the other group has landed until then, and its topics.

        A worker keeps its reader. Without this, a range of a topic that was created again since
        the last bin would be read from the objects of the former topic.
        """
        self._must_follow = True

    def close(self) -> None:
        """Do nothing: connections to stores need not be closed."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        """The records of the slice, in order, in chunks that depend on the records alone.

        Raises:
            EndsEarly: a later record cannot be read.
            Stalled: OBJECT_LOST, the object of the first record is gone or damaged; DATA_LOSS, that
                group has skipped it; SPEC_INVALID, its objects do not hold what Kafka held;
                TOPIC_MISSING, that group has no such topic partition.
            Retry: the store does not answer.
        """
        held = self._held(slice_)
        tp, at = slice_.topic_partition, slice_.offsets.start
        try:
            tables = self._tables(slice_, held)
            for table in chunks(tables, CHUNK_ROWS, CHUNK_BYTES, self.rules):
                records = _records(tp, table)
                yield records
                at = int(records.offsets[-1]) + 1
        except _OtherRows as stalled:
            # Which row is missing is not known, so nothing of the object may be landed.
            if slice_.offsets.start < at <= stalled.first_offset:
                raise EndsEarly(at) from stalled
            raise
        except Stalled as stalled:
            if at > slice_.offsets.start:
                raise EndsEarly(at) from stalled
            raise
        if held.why and held.end > slice_.offsets.start:
            raise EndsEarly(held.end) from held.why
        if held.why:
            raise held.why

    # -------------------------------------------------------------------------------- what holds it

    def _held(self, slice_: Slice) -> RangeContents:
        life = self._life(slice_)
        return pieces.held(self._what_counts.of(slice_, life))

    def _life(self, slice_: Slice) -> Life:
        """The life of the topic partition, by a ledger that goes as far as the slice."""
        tp, wanted = slice_.topic_partition, self.topic_ids.get(slice_.topic_partition)
        life = None if self._must_follow else self._history.life(tp)
        is_other = wanted is not None and life is not None and life.topic_id != wanted
        if life is None or is_other or life.end < slice_.offsets.end:
            self._history.follow()
            self._must_follow = False
            life = self._history.life(tp)
        if wanted is not None and (life is None or life.topic_id != wanted):
            raise Stalled(Reason.DATA_LOSS, f"{tp}: {another_topic(self.group, life, wanted)}")
        if life is None:
            raise Stalled(Reason.TOPIC_MISSING, f"{tp}: {self.group} has never landed it")
        if life.end < slice_.offsets.end:
            raise Retry(f"{slice_}: {self.group} has landed it up to {life.end}")
        return life

    # -------------------------------------------------------------------------------------- reading

    def _tables(self, slice_: Slice, held: RangeContents) -> Iterator[pa.Table]:
        offsets = OffsetRange(slice_.offsets.start, held.end)
        tp = slice_.topic_partition
        with FetchAhead(self._store, held.pieces) as ahead:
            sources = [
                (
                    max(piece.first_offset, offsets.start),
                    partial(self._rows, tp, offsets, piece, ahead),
                )
                for piece in held.pieces
            ]
            try:
                yield from merged(sorted(sources, key=lambda each: each[0]))
            except ValueError as error:
                raise Stalled(Reason.OBJECT_LOST, f"{slice_}: {error}") from error

    def _rows(
        self, tp: TopicPartition, offsets: OffsetRange, piece: Piece, ahead: FetchAhead
    ) -> Iterator[pa.RecordBatch]:
        """The rows of an object with these offsets; what is before them is read, too."""
        with self._open(tp, piece, ahead) as stream:
            rows = 0
            try:
                for batch in self._batches(stream, piece, tp, offsets.start):
                    taken, is_over = _within(batch, rows, piece, offsets)
                    rows += batch.num_rows
                    yield taken
                    if is_over:
                        return
            except (ValueError, EOFError, OSError) as error:
                raise Stalled(Reason.OBJECT_LOST, f"{piece.key}: damaged: {error}") from error
        if rows != piece.landed.rows:
            raise _OtherRows(
                f"{piece.key}: {rows} rows, but the ledger records {piece.landed.rows}",
                piece.first_offset,
            )

    def _batches(
        self, stream: BinaryIO, piece: Piece, tp: TopicPartition, start: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of an object; values of those with smaller offsets may be null."""
        if piece.is_dead_letters:
            return of_parquet(stream, is_sorted=False)
        landed_by = self._what_counts.landed_by
        output = landed_by.spec(landed_by.slot(piece), tp.topic).output
        if output.format == "SequenceFile":
            return of_sequence_file(stream, start)
        return of_parquet(stream, is_sorted=bool(output.options.get("sortBy")))

    @contextmanager
    def _open(self, tp: TopicPartition, piece: Piece, ahead: FetchAhead) -> Iterator[BinaryIO]:
        """The object, or its copy if it has retired."""
        with ExitStack() as stack:
            if fetched := stack.enter_context(ahead.opened(piece)):
                yield fetched
                return
            for key in self._names(tp, piece):
                try:
                    stream = stack.enter_context(self._store.open(key))
                except FileNotFoundError:
                    continue
                yield stream
                return
        what = "there is no such object"
        lane = self._history.lane
        if piece.is_dead_letters and piece.slot <= (
            read_expired(lane.slots, lane.group, lane.name).through
        ):
            what = "the dead letters have expired (its spec.badRecords.retain)"
        raise Stalled(
            Reason.OBJECT_LOST,
            f"{piece.key}: {self.group} has landed {tp} there, in slot {piece.slot} "
            f"of its ledger, and {what}",
        )

    def _names(self, tp: TopicPartition, piece: Piece) -> Iterator[str]:
        """The key of an object, and those that its copy may have."""
        yield piece.key
        lane, offsets = self._history.lane, OffsetRange(piece.first_offset, piece.last_offset + 1)
        self._history.follow()  # it may have retired a moment ago
        life = self._history.life(tp)
        for record in replaces(self._history.records(tp, life, offsets) if life else ()):
            slot = record.header.seq
            yield object_names.retired_key(lane.group, lane.name, slot, piece.key)


def _within(
    batch: pa.RecordBatch, row: int, piece: Piece, offsets: OffsetRange
) -> tuple[pa.RecordBatch, bool]:
    """The rows of a batch that are wanted, and whether none comes after them.

    Args:
        batch: of the object, from this row of it on.
        row: the first.
        piece: contains which rows are of the topic partition.
        offsets: those that are wanted.

    Raises:
        ValueError: a row has no offset, or not the one that the ledger records.
    """
    if piece.rows is not None:
        batch = batch.filter(pa.array(pieces.row_mask(piece.rows, row, batch.num_rows)))
    if not batch.num_rows:
        return batch, False
    if batch["offset"].null_count:
        raise ValueError(f"row {row} or a later one has no offset")
    found = batch["offset"].to_numpy()
    if (np.diff(found) <= 0).any():
        raise ValueError(f"offsets do not increase from row {row} on")
    if found[0] < piece.first_offset or found[-1] > piece.last_offset:
        raise ValueError(
            f"offsets {found[0]} to {found[-1]}, but the ledger records {piece.first_offset} to "
            f"{piece.last_offset}"
        )
    start, end = np.searchsorted(found, [offsets.start, offsets.end]).tolist()
    return batch[start:end], end < len(found)


def _records(tp: TopicPartition, table: pa.Table) -> Records:
    batch = table.combine_chunks().to_batches()[0]
    return of_columns(
        tp,
        batch["offset"].to_numpy(),
        batch["value"],
        timestamps=batch["timestamp"].to_numpy(),
        keys=batch["key"],
        headers=batch["headers"],
    )
