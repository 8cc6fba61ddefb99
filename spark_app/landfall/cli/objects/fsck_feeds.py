"""The part of ``landfall fsck`` about files: lists of parts, and the index of known files."""

from collections.abc import Iterable, Iterator, Mapping

from landfall.checks import Finding, Invariant
from landfall.checks.part_lists import check_list
from landfall.discovery import stored
from landfall.discovery.index import read_manifest
from landfall.errors import Reason, Stalled
from landfall.ledger import Discover, Feed
from landfall.ledger.offsets import TopicPartition
from landfall.store import Slots


def check_lists(slots: Slots, records: Iterable[Discover]) -> Iterator[Finding]:
    """Read every list that these records name.

    Raises:
        Retry: the store does not answer.
    """
    for record in records:
        if listed := record.listed:
            topic, slot = record.topic_partition.topic, record.header.seq
            found = check_list(topic, listed, slot, slots.read(listed.key))
            yield from filter(None, (found,))


def check_indexes(slots: Slots, feeds: Mapping[TopicPartition, Feed]) -> Iterator[Finding]:
    """Read the index of known files that the ledger names of each feed, with its pieces.

    Raises:
        Retry: the store does not answer.
    """
    for tp, feed in sorted(feeds.items()):
        try:
            for piece in read_manifest(slots, feed.known).pieces:
                stored.load(slots, piece.key, piece.sha256)
        except Stalled as broken:
            if broken.reason is not Reason.LEDGER_BROKEN:
                raise
            yield Finding(Invariant.I12, "an index", str(broken), topic_partition=tp)
