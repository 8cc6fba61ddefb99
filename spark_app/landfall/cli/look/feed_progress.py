"""The part of ``landfall status`` about files: what has become of those of each feed."""

from collections.abc import Sequence
from functools import partial

from rich.markup import escape
from rich.table import Table

from landfall.api.contract import LANE
from landfall.api.feed_status import FeedStatus
from landfall.cli.group_store import GroupStore
from landfall.cli.text import console
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.driver.feeds.feed_status import feed_status
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition


def read_feeds(opened: GroupStore, state: State, file: str) -> tuple[FeedStatus, ...]:
    """The files of each feed of the spec, as far as the ledger says; the bucket is not looked at.

    Raises:
        Stalled: LEDGER_BROKEN, a list that the ledger names is gone or damaged.
        Retry: the store does not answer.
    """
    return tuple(
        feed_status(
            feed,
            state.feeds[tp],
            state.checkpoint[tp],
            partial(part_lists.read, opened.store, FeedKeys(opened.name, LANE, feed.topic)),
            file=file,
        )
        for feed in opened.group.spec.source.files
        if (tp := TopicPartition(feed.topic, 0)) in state.feeds
    )


def show_feeds(feeds: Sequence[FeedStatus]) -> None:
    """Print a line for each feed, and what is wrong with its files."""
    console.out().print(_table(feeds))
    for feed in feeds:
        if feed.error:
            console.print_error(feed.topic, f"{feed.error}; next: {feed.next_step}")


def _table(feeds: Sequence[FeedStatus]) -> Table:
    columns = (
        ">pending files",
        ">pending bytes",
        ">taken",
        ">landed parts",
        ">parked parts",
        ">ignored",
    )
    shown = console.table("feed", *columns)
    for feed in feeds:
        shown.add_row(
            escape(feed.topic),
            console.count(feed.pending_files),
            console.size(feed.pending_bytes),
            console.count(feed.taken_parts),
            console.count(feed.landed_parts),
            console.count(feed.parked_parts),
            console.count(feed.ignored_parts),
        )
    return shown
