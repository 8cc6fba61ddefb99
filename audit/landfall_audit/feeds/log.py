"""The feeds of a group as the auditor's log: rows of files, by the numbers that the ledger gives.

Row ``r`` of part ``n`` has offset ``n * SPAN + r``. A file that has another version by now, or that
the auditor cannot read, is not compared.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from landfall_audit import Unchecked
from landfall_audit.buckets import CannotCompare, SourceFolder, counts, open_source
from landfall_audit.feeds.lists import SPAN, FeedLists
from landfall_audit.objects.rows import MessageLike
from landfall_audit.readers import Reader
from landfall_audit.readers.by_name import reader_of
from landfall_audit.spec import AuditedSpec, FeedSection


@dataclass(frozen=True, slots=True)
class FeedRow:
    """A row of a file, with the methods of a Kafka message; its time is its file's."""

    position: int
    payload: bytes | None
    own_key: bytes | None
    modified_ms: int

    def offset(self) -> int:
        """The number of its part, and of the row in it."""
        return self.position

    def value(self) -> bytes | None:
        """The content of the row."""
        return self.payload

    def key(self) -> bytes | None:
        """The key of an entry of a SequenceFile."""
        return self.own_key

    def timestamp(self) -> tuple[int, int]:
        """When its file was written."""
        return 1, self.modified_ms

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Nothing."""
        return None


@dataclass(frozen=True, slots=True)
class FeedFiles:
    """Unlanded parts and files of a feed. The attributes are fields of ``audit --json``.

    Attributes:
        parked: parts that could not be read, and are in no object, or only up to the damage.
        pending: files that are old enough to be landed, and have no number yet.
        changed: files that were written again after they got their numbers, and have no new ones.
    """

    parked: int = 0
    pending: int = 0
    changed: int = 0


@dataclass(frozen=True)
class AuditedFeed:
    """A feed, where its files are, and how they are read."""

    spec: FeedSection
    source: SourceFolder
    reader: Reader | None


class FeedLog:
    """The feeds of a group as a ``kafka_log.RecordLog``, for many threads at once."""

    def __init__(self, spec: AuditedSpec, lists: FeedLists) -> None:
        """Open where the files are; nothing is read yet.

        Raises:
            StoreDenied: credentials are missing.
        """
        self._lists = lists
        self._feeds: Mapping[str, AuditedFeed] = {
            feed.topic: AuditedFeed(feed, open_source(feed), reader_of(feed))
            for feed in spec.source.files
        }

    def bounds(self, topic: str, partition: int) -> tuple[int, int] | None:
        """All numbers that were given; None if it is no feed of the group now."""
        is_feed = topic in self._feeds and partition == 0
        return (0, self._lists.end(topic) * SPAN) if is_feed else None

    def topic_id(self, topic: str) -> str | None:
        """A hash of where the files are."""
        feed = self._feeds.get(topic)
        if feed is None:
            return ""
        return hashlib.sha256(feed.spec.url.rstrip("/").encode()).hexdigest()[:22]

    def is_compacted(self, topic: str) -> bool:
        """Never: rows do not leave files."""
        del topic
        return False

    def records(self, topic: str, partition: int, start: int) -> Iterator[MessageLike]:
        """Every row from an offset to the end of the feed, of its present lifetime."""
        del partition
        end = self._lists.end(topic) * SPAN
        return FeedCursor(self, topic, self._lists.lifetime(topic)).take(start, end)

    def rows(self, topic: str, lifetime: int, number: int) -> Iterator[MessageLike]:
        """The rows of a part that are landed under its number.

        Raises:
            CannotCompare: they cannot be read.
        """
        feed, part = self._feeds.get(topic), self._lists.part(topic, lifetime, number)
        if feed is None or part is None:
            raise CannotCompare(Unchecked.VERSION)
        if feed.reader is None:
            raise CannotCompare(Unchecked.FILE)
        for row, record in enumerate(feed.reader(feed.source, part)):
            if row >= part.skip:
                yield FeedRow(number * SPAN + row, record.value, record.key, part.modified)

    def row_name(self, topic: str, lifetime: int, offset: int) -> str:
        """The feed, file, part and row that an offset is, for people."""
        number, row = divmod(offset, SPAN)
        part = self._lists.part(topic, lifetime, number)
        return f"{topic}: {part.name if part else 'no file'}, part {number}, row {row}"

    def unlanded(self) -> dict[str, FeedFiles]:
        """Return the unlanded files of each feed, by a listing of its files as they are now."""
        now = datetime.now(UTC)
        return {topic: self._unlanded(topic, feed, now) for topic, feed in self._feeds.items()}

    def _unlanded(self, topic: str, feed: AuditedFeed, now: datetime) -> FeedFiles:
        pending = changed = 0
        for file in feed.source.files():
            if counts(feed.spec, file.name) and now - file.modified >= feed.spec.settle:
                known = self._lists.versions(topic, file.name)
                pending += not known
                changed += bool(known) and file.etag not in known
        return FeedFiles(self._lists.parked(topic), pending, changed)


@dataclass(frozen=True)
class FeedCursor:
    """Reads one feed range by range; no file is read that has no row in the range."""

    log: FeedLog
    topic: str
    lifetime: int

    def take(self, start: int, end: int) -> Iterator[MessageLike]:
        """Every row with ``start <= offset < end``.

        Raises:
            CannotCompare: some of them cannot be read.
        """
        for number in range(start // SPAN, -(-end // SPAN)):
            for row in self.log.rows(self.topic, self.lifetime, number):
                if start <= row.offset() < end:
                    yield row
                # The row at the end is not asked for: damage there is no matter of this range.
                if row.offset() + 1 >= end:
                    break

    def again(self, start: int, end: int) -> Iterator[MessageLike]:
        """The rows of a range once more."""
        return self.take(start, end)

    def row_name(self, offset: int) -> str:
        """The feed, file, part and row that an offset is, for people."""
        return self.log.row_name(self.topic, self.lifetime, offset)
