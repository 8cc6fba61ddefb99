"""What a group's status says about the files of its feeds. Pure.

The numbers are the active driver's, rounded as all numbers of a status. While it has none, or does
not answer, the last known ones stay.
"""

from collections.abc import Collection
from datetime import datetime

from landfall.api import feed_status
from landfall.api.values import plural
from landfall_operator.api.feed_status import FeedStatus
from landfall_operator.api.reasons import Reason
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.humanize import count_text, rough, shortened
from landfall_operator.reporting.findings import Finding, View, next_command

MAX_FEEDS = 20
"""Feeds that ``status.feeds`` lists, those with an error first."""
MAX_MESSAGE_LENGTH = 300
"""Characters of what is wrong with a feed."""


def feed_statuses(observed: GroupObservation, desired: DesiredState) -> tuple[FeedStatus, ...]:
    """The feeds that the active driver reports, or that the last status had."""
    driver = observed.driver(desired.rollout.active)
    answer = driver.report if driver else None
    if answer is None or not answer.status.feeds:
        return observed.status.feeds or ()
    worst_first = sorted(answer.status.feeds, key=lambda feed: (not feed.error, feed.topic))
    return tuple(map(_status, worst_first[:MAX_FEEDS]))


def files_text(feeds: Collection[FeedStatus]) -> str | None:
    """How many files are pending, and how many parts parked; None without feeds."""
    if not feeds:
        return None
    pending, parked = (
        sum(feed.pending_files for feed in feeds),
        sum(feed.parked_parts for feed in feeds),
    )
    text = f"{count_text(pending)} pending"
    return f"{text}, {count_text(parked)} parked" if parked else text


def parked_files(view: View) -> Finding | None:
    """The files that stay parked until somebody decides, if there are any."""
    feeds = view.status.feeds if view.status else ()
    waiting = [feed for feed in feeds if feed.undecided_parts]
    if not waiting:
        return None
    first, count = waiting[0], sum(feed.undecided_parts for feed in waiting)
    message = (
        f"{plural(count, 'part')} of files could not be read, however often "
        f"{'it was' if count == 1 else 'they were'} tried; {first.topic}: {first.error}"
        f"{next_command(view, first.next_step)}"
    )
    return Finding("True", Reason.FILE_UNREADABLE, message)


def _status(feed: feed_status.FeedStatus) -> FeedStatus:
    return FeedStatus(
        topic=feed.topic,
        pending_files=rough(feed.pending_files),
        pending_bytes=rough(feed.pending_bytes),
        landed_parts=rough(feed.landed_parts),
        parked_parts=rough(feed.parked_parts),
        ignored_parts=rough(feed.ignored_parts),
        error=shortened(feed.error, MAX_MESSAGE_LENGTH),
        last_look=datetime.fromisoformat(feed.looked) if feed.looked else None,
    )
