"""The ``FeedStatus`` of a feed, computed from what the ledger knows of it. Pure."""

from collections.abc import Callable, Sequence
from itertools import groupby

from landfall.api import spec
from landfall.api.feed_status import FeedStatus
from landfall.api.next_steps import FILE_PLACEHOLDER, next_step
from landfall.errors import Reason
from landfall.ledger import FeedState, PartList
from landfall.ledger.feeds import begun_to, landed_parts
from landfall.ledger.feeds.part_lists import ListedPart

ReadList = Callable[[PartList], Sequence[ListedPart] | None]
"""The parts of a list; None if they are not at hand."""


def feed_status(
    one: spec.Feed,
    feed: FeedState,
    checkpoint: int,
    read: ReadList,
    *,
    file: str = FILE_PLACEHOLDER,
) -> FeedStatus:
    """Return the status of a feed.

    Args:
        one: the feed's spec.
        feed: what the ledger knows of it.
        checkpoint: its next offset to land.
        read: called for the one list that is landed in part. Without its parts, what is left of
            the list counts by the share of its numbers.
        file: the group's file in the command that is shown.
    """
    files, size = pending(feed, checkpoint, read)
    # What takers have given back, or not taken yet, is as good as new.
    parked = {n: part for n, part in feed.parked.items() if part.attempt}
    leases = feed.leasing.open.values() if feed.leasing else ()
    first = parked[min(parked)] if parked else None
    step = next_step(Reason.FILE_UNREADABLE, f"{one.topic}/0", file) if first else ""
    return FeedStatus(
        topic=one.topic,
        pending_files=files + len(feed.parked) - len(parked),
        pending_bytes=size,
        landed_parts=landed_parts(feed, checkpoint),
        parked_parts=len(parked),
        undecided_parts=sum(part.attempt >= one.max_attempts for part in feed.parked.values()),
        ignored_parts=len(feed.ignored),
        taken_parts=sum(len(lease.parts) for lease in leases),
        error=first.reason if first else "",
        next_step=step,
    )


def pending(feed: FeedState, checkpoint: int, read: ReadList) -> tuple[int, int]:
    """Return how many files have parts that are not landed, and how many bytes these parts have.

    Of an external feed, parts that were never leased.
    """
    number = begun_to(feed, checkpoint)
    files = 0
    size = 0
    for listed in feed.lists:
        if listed.end <= number:
            continue
        if listed.first >= number:
            files, size = files + listed.files, size + listed.bytes
            continue
        if (parts := read(listed)) is not None:
            left = parts[number - listed.first :]
            files += sum(1 for _ in groupby(left, lambda part: (part.name, part.etag)))
            size += sum(map(len, left))
            continue
        left_numbers, numbers = listed.end - number, listed.end - listed.first
        files += -(-listed.files * left_numbers // numbers)
        size += -(-listed.bytes * left_numbers // numbers)
    return files, size
