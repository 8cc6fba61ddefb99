"""Records for ``landfall try`` from the files of a feed, as a task would read them."""

from collections.abc import Iterable, Iterator

from landfall.api import spec
from landfall.api.contract import LANE
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.errors import PartUnreadable, Reason, Stalled
from landfall.ledger.feeds import MAX_LISTED, SPAN
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.part_lists import ListedPart
from landfall.objects import ListedFile
from landfall.pipeline.records import Records
from landfall.source import EndsEarly
from landfall.source.files import reader_of_feed
from landfall.store import SourceFiles
from landfall.store.memory import MemoryStore
from landfall.task.feed_reader import FeedReader, OpenFeed

_GROUP = "try"
"""Nobody reads the name: lists are in memory."""


def from_files(
    feed: spec.Feed, source: SourceFiles, name: str | None
) -> Iterator[tuple[str, Iterator[Records]]]:
    """Names of files and their rows; parts are numbered from 0 on.

    Args:
        feed: whose files they are.
        source: where they are.
        name: of one file; None for the first files of the feed that have rows.

    Raises:
        Stalled: SPEC_INVALID, there is no such file, or nothing can read files of its name.
        PartUnreadable: a file is damaged, from a row on that is behind those that were given.
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
            ListedPart(file.name, file.etag, file.size, modified, part.start, part.end)
            for part in cut
        ]
        yield file.name, _rows(feed.topic, OpenFeed(source, reader), number, parts)
        number += len(parts)


def _files(feed: spec.Feed, source: SourceFiles, name: str | None) -> Iterable[ListedFile]:
    if name is None:
        return (file for file in source.files() if feed.counts(file.name))
    found = source.find(name)
    if found is None:
        raise Stalled(Reason.SPEC_INVALID, f"{feed.topic}: there is no file {name!r} in {feed.url}")
    return (found,)


def _rows(topic: str, opened: OpenFeed, first: int, parts: list[ListedPart]) -> Iterator[Records]:
    tp, slots = TopicPartition(topic, 0), MemoryStore()
    listed = part_lists.write(slots, FeedKeys(_GROUP, LANE, topic), first, parts)
    reader = FeedReader(slots, _GROUP, LANE, {topic: opened})
    reader.expect([(tp, listed)])
    try:
        yield from reader.read(Slice(tp, OffsetRange(first * SPAN, listed.end * SPAN)))
    except EndsEarly as early:
        message = f"{tp}: {parts[0].name} cannot be read from offset {early.offset} on"
        raise PartUnreadable(early.offset, message) from early
