"""Records for ``landfall try``: of a log, without a consumer group, of a file, or of a feed."""

import binascii
import sys
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import pyarrow as pa

from landfall.api import spec
from landfall.api.contract import LANE
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.errors import PartUnreadable, Reason, Stalled
from landfall.ledger.feeds import MAX_LISTED, SPAN
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.objects import ListedFile
from landfall.pipeline.records import HEADERS, Records, of_columns
from landfall.source import Bound, EndsEarly, Log, Reader
from landfall.source.files import reader_of_feed
from landfall.store import SourceFiles
from landfall.store.memory import MemoryStore
from landfall.task.feed_reader import FeedReader, ReadableFeed

_WIDER = 8
"""The factor by which more offsets are read if they had too few records."""


class RecordLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file of records; bytes that are no text are ``{"base64": …}``."""

    value: object
    key: object = None
    timestamp: int | None = None
    headers: dict[str, object] = {}  # msgspec copies it
    offset: int | None = None


@dataclass(frozen=True)
class Wish:
    """A selection of records to read from a log.

    Attributes:
        topic: their topic.
        partition: their Kafka partition; None for the first ones that have any.
        offset: of the first; None for the last records that exist.
        limit: how many at most.
    """

    topic: str
    partition: int | None = None
    offset: int | None = None
    limit: int = 20


def from_log(log: Log, reader: Reader, wish: Wish) -> Iterator[Records]:
    """Read records; no group is joined and nothing is committed.

    Raises:
        Stalled: TOPIC_MISSING, there is no such topic or Kafka partition; SOURCE_DENIED.
        Retry: Kafka or the store does not answer.
    """
    tps = _topic_partitions(log, wish)
    starts = log.offsets(tps, Bound.LOG_START).offsets
    ends = log.offsets(tps, Bound.END).offsets
    logs = {tp: OffsetRange(starts[tp], ends[tp]) for tp in tps if tp in starts and tp in ends}
    if wish.offset is None:
        yield from _last(reader, logs, wish.limit)
        return
    remaining = wish.limit
    for tp, log_ in logs.items():
        for records in _read(reader, Slice(tp, _from(wish.offset, log_))):
            found = records.take(np.arange(min(remaining, len(records))))
            remaining -= len(found)
            yield found
            if remaining <= 0:
                return


def _last(
    reader: Reader, logs: Mapping[TopicPartition, OffsetRange], limit: int
) -> Sequence[Records]:
    """The last records of the first topic partitions that have any.

    Markers of transactions, aborted records and those that compaction removed take offsets too.
    So if there are too few records in the last offsets, more offsets are read.
    """
    scale = 1
    while True:
        found: list[Records] = []
        missing, is_everything = limit, True
        for tp, log in logs.items():
            wanted = _from(log.end - missing * scale, log)
            is_everything &= wanted == log
            found += _tail(_read(reader, Slice(tp, wanted)), missing)
            missing = limit - sum(map(len, found))
            if not missing:
                break
        if not missing or is_everything:
            return found
        scale *= _WIDER


def _read(reader: Reader, slice_: Slice) -> Iterator[Records]:
    """The records of a slice; if it ends early, that is an error here, not a shorter slice."""
    try:
        yield from reader.read(slice_)
    except EndsEarly as early:
        raise early.__cause__ or early from None


def _from(offset: int, log: OffsetRange) -> OffsetRange:
    """Return the range that a log has from this offset."""
    return OffsetRange(min(max(offset, log.start), log.end), log.end)


def _tail(chunks: Iterable[Records], count: int) -> Iterable[Records]:
    """The last records, so many at most."""
    kept: deque[Records] = deque()
    extra = -count
    for chunk in chunks:
        kept.append(chunk)
        extra += len(chunk)
        while extra >= len(kept[0]):
            extra -= len(kept.popleft())
    if kept and extra > 0:
        kept[0] = kept[0].take(np.arange(extra, len(kept[0])))
    return kept


def _topic_partitions(log: Log, wish: Wish) -> tuple[TopicPartition, ...]:
    found = log.describe({wish.topic})
    for error in found.denied.values():
        raise error
    tps = next((topic.topic_partitions for topic in found.topics), ())
    if not tps:
        raise Stalled(Reason.TOPIC_MISSING, f"there is no topic {wish.topic}")
    if wish.partition is None:
        return tps
    if wish.partition not in {tp.partition for tp in tps}:
        has = f"topic {wish.topic} has the Kafka partitions 0 to {len(tps) - 1}"
        raise Stalled(Reason.TOPIC_MISSING, f"there is no partition {wish.partition}: {has}")
    return (TopicPartition(wish.topic, wish.partition),)


@dataclass(frozen=True)
class RecordFile:
    """A file with a record on each line.

    Attributes:
        path: of the file; ``-`` for standard input.
        kind: what a line is: ``text`` or ``hex`` of a payload, or ``json`` of a whole record.
        timestamp_ms: the Kafka timestamp of records that have none.
        stdin: what ``-`` reads.
    """

    path: Path
    kind: str
    timestamp_ms: int
    stdin: BinaryIO = field(default_factory=lambda: sys.stdin.buffer)

    def read(self, tp: TopicPartition, limit: int) -> Records:
        """The first records, with offsets from 0 if the lines have none.

        Raises:
            Stalled: SPEC_INVALID, the file cannot be read, or a line is not of this kind.
        """
        lines = [self._parsed(i, line) for i, line in enumerate(islice(self._lines(), limit))]
        offsets = [i if line.offset is None else line.offset for i, line in enumerate(lines)]
        if any(later <= former for former, later in pairwise(offsets)):
            raise Stalled(Reason.SPEC_INVALID, f"{self.path}: offsets must increase")
        timestamps = [line.timestamp for line in lines]
        return of_columns(
            tp,
            np.array(offsets, np.int64),
            pa.array([_bytes(line.value) for line in lines], pa.binary()),
            timestamps=np.array(
                [self.timestamp_ms if t is None else t for t in timestamps], np.int64
            ),
            keys=pa.array([_bytes(line.key) for line in lines], pa.binary()),
            headers=pa.array(
                [[(name, _bytes(value)) for name, value in line.headers.items()] for line in lines],
                HEADERS,
            ),
        )

    def _lines(self) -> Iterator[bytes]:
        try:
            if str(self.path) == "-":
                yield from self.stdin
                return
            with self.path.open("rb") as file:
                yield from file
        except OSError as error:
            raise Stalled(Reason.SPEC_INVALID, f"{self.path}: {error.strerror}") from error

    def _parsed(self, number: int, line: bytes) -> RecordLine:
        try:
            return _KINDS[self.kind](line.removesuffix(b"\n").removesuffix(b"\r"))
        except (ValueError, binascii.Error) as error:
            message = f"{self.path}:{number + 1}: not {self.kind}: {error}"
            raise Stalled(Reason.SPEC_INVALID, message) from error


def _hex(line: bytes) -> RecordLine:
    return RecordLine(bytes.fromhex(line.decode()))


def _json(line: bytes) -> RecordLine:
    parsed = msgspec.json.decode(line, type=RecordLine)
    for value in (parsed.value, parsed.key, *parsed.headers.values()):
        _bytes(value)
    return parsed


_KINDS: dict[str, Callable[[bytes], RecordLine]] = {"text": RecordLine, "hex": _hex, "json": _json}
KINDS: Sequence[str] = tuple(_KINDS)


def _bytes(value: object) -> bytes | None:
    """The bytes that a line stands for: text, base64, or JSON written out.

    Raises:
        ValueError: it is no base64.
    """
    match value:
        case None | bytes():
            return value
        case str():
            return value.encode()
        case {"base64": str(text), **others} if not others:
            return b64decode(text, validate=True)
    return msgspec.json.encode(value)


# -------------------------------------------------------------------------------- files of a feed


_GROUP = "try"
"""The name is never read: lists are in memory."""


def from_files(
    feed: spec.Feed, source: SourceFiles, name: str | None
) -> Iterator[tuple[str, Iterator[Records]]]:
    """Yield names of files and their rows; parts are numbered from 0.

    Args:
        feed: whose files they are.
        source: where they are.
        name: of one file; None for the first files of the feed that have rows.

    Raises:
        Stalled: SPEC_INVALID, there is no such file, or nothing can read files of its name.
        PartUnreadable: a file is damaged, starting at a row after those that were yielded.
        Retry: the store does not answer.
    """
    reader, number = reader_of_feed(feed), 0
    for file in _files(feed, source, name):
        try:
            cut = reader.parts(file.name, file.size, feed.part_bytes)[:MAX_LISTED]
        except ValueError as error:
            raise Stalled(Reason.SPEC_INVALID, f"{feed.topic}: {error}") from error
        modified = int(file.modified.timestamp() * 1000)
        parts = [
            ListedPart(
                name=file.name,
                etag=file.etag,
                size=file.size,
                modified=modified,
                start=part.start,
                end=part.end,
            )
            for part in cut
        ]
        yield file.name, _rows(feed.topic, ReadableFeed(source, reader), number, parts)
        number += len(parts)


def _files(feed: spec.Feed, source: SourceFiles, name: str | None) -> Iterable[ListedFile]:
    if name is None:
        return (file for file in source.files() if feed.counts(file.name))
    found = source.find(name)
    if found is None:
        raise Stalled(Reason.SPEC_INVALID, f"{feed.topic}: there is no file {name!r} in {feed.url}")
    return (found,)


def _rows(
    topic: str, opened: ReadableFeed, first: int, parts: list[ListedPart]
) -> Iterator[Records]:
    tp, slots = TopicPartition(topic, 0), MemoryStore()
    listed = part_lists.write(slots, FeedKeys(_GROUP, LANE, topic), first, parts)
    reader = FeedReader(slots, _GROUP, LANE, {topic: opened})
    reader.expect([(tp, listed)])
    try:
        yield from reader.read(Slice(tp, OffsetRange(first * SPAN, listed.end * SPAN)))
    except EndsEarly as early:
        message = f"{tp}: {parts[0].name} cannot be read from offset {early.offset} on"
        raise PartUnreadable(early.offset, message) from early
