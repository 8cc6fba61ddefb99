"""Reads slices of feeds: rows of parts of files, by the lists that the ledger names.

It replaces Kafka's reader in a task. Row ``r`` of part ``n`` has offset ``n * SPAN + r``
(docs/adr/0027), so a slice is some whole parts, or begins inside of one. Each part is read from the
version of the file that was discovered.

A part that cannot be read, or not to its end, ends the slice before the row at which that showed:
what was read before is landed. A slice that begins with it raises ``PartUnreadable``, by which the
driver parks the part. So it is tried once, and blocks nothing. That holds for every exception of a
reader, and for a file that the store refuses while it gives other files. If it refuses all, the
right to read is lacking, and the feed waits for it.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.errors import LandfallError, PartUnreadable, Reason, Stalled, StoreDenied
from landfall.formats.parts import FilePart, FileReader, FileRecords, UnreadableFileError
from landfall.ledger import PartList
from landfall.ledger.feeds import SPAN, number_of, part_offsets
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.objects import FileChanged, ListedFile
from landfall.pipeline.records import HEADERS, Columns, Records
from landfall.source import EndsEarly
from landfall.source.files import VersionedFile
from landfall.store import Slots, SourceFiles
from landfall.task.faults import stack_of

CHUNK_ROWS, CHUNK_BYTES = 10_000, 4 * 2**20
"""Chunks of small parts are landed together until they have so many rows or payload bytes."""
log = logging.getLogger(__name__)

MAX_TRIED = 16
"""Files that are tried, twice, to find out whether a store refuses one file or all."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_HEADERS = pa.nulls(0, HEADERS).values


@dataclass(frozen=True, slots=True)
class ReadableFeed:
    """Where the files of a feed are, and how they are read."""

    source: SourceFiles
    reader: FileReader


class FeedReader:
    """A ``source.Reader`` of feeds. A worker process has one and reuses it.

    Args:
        slots: where part lists are stored.
        group: name of the group.
        lane: name of its lane.
        feeds: by topic.
    """

    def __init__(
        self, slots: Slots, group: str, lane: str, feeds: Mapping[str, ReadableFeed]
    ) -> None:
        self._slots = slots
        self._group = group
        self._lane = lane
        self._feeds = feeds
        self._named: tuple[tuple[TopicPartition, PartList], ...] = ()
        self._read: dict[PartList, tuple[ListedPart, ...]] = {}

    def expect(self, named: Iterable[tuple[TopicPartition, PartList]]) -> None:
        """The lists with the parts of all slices that will be read next."""
        self._named = tuple(named)
        wanted = {listed for _, listed in self._named}
        self._read = {list_: parts for list_, parts in self._read.items() if list_ in wanted}

    def close(self) -> None:
        """Do nothing: connections to stores need not be closed."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        """The rows of the slice, in order, in chunks that depend only on the files.

        Raises:
            PartUnreadable: the first part cannot be read, not even its first row that is wanted.
            EndsEarly: a later one cannot be read.
            Stalled: LEDGER_BROKEN, a part list is gone or damaged.
            Retry: the store does not answer; StoreDenied, it refuses.
        """
        yield from _merged(self._chunks(slice_))

    def _chunks(self, slice_: Slice) -> Iterator[Records]:
        tp = slice_.topic_partition
        at = slice_.offsets.start
        end = slice_.offsets.end
        while at < end:
            number = number_of(at)
            first = part_offsets(number).start
            part = self._part(tp, number)
            try:
                for rows in self._rows(tp, part, max(at - first, part.skip)):
                    records = _up_to(end, _records(tp, first, part, rows))
                    if len(records):
                        yield records
                        at = int(records.offsets[-1]) + 1
                    if at >= end:
                        return
            except (UnreadableFileError, FileChanged) as error:
                if at > slice_.offsets.start:
                    raise EndsEarly(at) from error
                raise PartUnreadable(at, f"{tp}: part {number}: {error}") from error
            at = first + SPAN

    def _rows(
        self, tp: TopicPartition, part: ListedPart, skip: int
    ) -> Iterator[tuple[int, FileRecords]]:
        """Chunks of a part that have rows from number ``skip`` on, with the number of their first.

        The rows before are read, too: in most files nothing else shows where a row begins.
        """
        if part.is_left_out:
            return  # for every present version of the file
        feed, row = self._feeds[tp.topic], 0
        modified = _EPOCH + timedelta(milliseconds=part.modified)
        file = VersionedFile(feed.source, ListedFile(part.name, part.etag, part.size, modified))
        for batch in self._as_unreadable(
            feed.source, part, feed.reader.read(file, FilePart(part.start, part.end))
        ):
            if row + len(batch) > SPAN:
                raise UnreadableFileError(part.name, part.start, f"more than {SPAN} rows in a part")
            if row + len(batch) > skip:
                yield max(row, skip), batch if row >= skip else _from_row(batch, skip - row)
            row += len(batch)

    @staticmethod
    def _as_unreadable(
        source: SourceFiles, part: ListedPart, rows: Iterator[FileRecords]
    ) -> Iterator[FileRecords]:
        """Yield what a reader gives; an error of this file alone makes it unreadable.

        Raises:
            UnreadableFileError: the reader failed, or the store refuses this file but gives
                other files.
            LandfallError: as of the file's bytes.
        """
        try:
            yield from rows
        except StoreDenied as error:
            if not _gives_others(source, part.name):
                raise
            why = f"the store refuses this file, but not other ones: {error}"
            raise UnreadableFileError(part.name, part.start, why) from error
        except (UnreadableFileError, LandfallError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of this machine, such as a full disk
            # Its text may quote what the file holds, and the ledger must not.
            shown = {"file": part.name, "traceback": stack_of(error)}
            log.error("reader failed", extra=shown)  # noqa: TRY400  # as above
            why = f"the reader failed: {type(error).__name__}"
            raise UnreadableFileError(part.name, part.start, why) from error

    def _part(self, tp: TopicPartition, number: int) -> ListedPart:
        lists = (listed for of, listed in self._named if of == tp)
        named = next((list_ for list_ in lists if list_.first <= number < list_.end), None)
        if named is None:
            raise Stalled(Reason.LEDGER_BROKEN, f"{tp}: no list is known that has part {number}")
        if named not in self._read:
            keys = FeedKeys(self._group, self._lane, tp.topic)
            self._read[named] = part_lists.read(self._slots, keys, named)
        return self._read[named][number - named.first]


def _gives_others(source: SourceFiles, refused: str) -> bool:
    """Return whether a store gives another one of the first files after this one, or of all.

    Raises:
        Retry: it does not answer.
    """
    nearby = islice(source.files(after=refused), MAX_TRIED)
    for file in chain(nearby, islice(source.files(), MAX_TRIED)):
        if file.name != refused and file.size:
            try:
                source.read(file, 0, 1)
            except (StoreDenied, FileChanged):
                continue
            return True
    return False


def _from_row(found: FileRecords, row: int) -> FileRecords:
    errors = {index - row: why for index, why in found.errors.items() if index >= row}
    keys = None if found.keys is None else found.keys[row:]
    return FileRecords(found.positions[row:], lambda: found.values[row:], keys, errors=errors)


def _records(
    tp: TopicPartition, first: int, part: ListedPart, numbered: tuple[int, FileRecords]
) -> Records:
    """Rows as records, all with the time at which the file was written."""
    row, found = numbered
    count = len(found)
    columns = Columns(
        timestamps=lambda: np.full(count, part.modified, np.int64),
        keys=lambda: pa.nulls(count, pa.binary()) if found.keys is None else found.keys,
        headers=lambda: pa.ListArray.from_arrays(
            pa.array(np.zeros(count + 1, np.int32)), _NO_HEADERS
        ),
    )
    offsets = np.arange(first + row, first + row + count, dtype=np.int64)
    return Records(tp, offsets, found.values, columns, unreadable=found.errors)


def _up_to(end: int, records: Records) -> Records:
    if records.offsets[-1] < end:
        return records
    return records.take(np.arange(np.searchsorted(records.offsets, end)))


def _merged(chunks: Iterable[Records]) -> Iterator[Records]:
    """Yield the same records, with consecutive small chunks joined into one.

    What came before an error is given before it is raised.
    """
    small: list[Records] = []
    rows = size = 0
    try:
        for chunk in chunks:
            small.append(chunk)
            rows, size = rows + len(chunk), size + chunk.values.nbytes
            if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
                yield _joined(small)
                small = []
                rows = 0
                size = 0
    except EndsEarly:
        if small:
            yield _joined(small)
        raise
    if small:
        yield _joined(small)


def _joined(chunks: Sequence[Records]) -> Records:
    if len(chunks) == 1:
        return chunks[0]
    chunks = tuple(chunks)  # the caller's list grows
    starts = np.cumsum([0, *map(len, chunks)]).tolist()
    return Records(
        chunks[0].topic_partition,
        np.concatenate([chunk.offsets for chunk in chunks]),
        pa.concat_arrays([chunk.values for chunk in chunks]),
        Columns(
            timestamps=lambda: np.concatenate([chunk.timestamps for chunk in chunks]),
            keys=lambda: pa.concat_arrays([chunk.keys for chunk in chunks]),
            headers=lambda: pa.concat_arrays([chunk.headers for chunk in chunks]),
        ),
        unreadable={
            start + row: why
            for start, chunk in zip(starts, chunks, strict=False)
            for row, why in chunk.unreadable.items()
        },
    )
