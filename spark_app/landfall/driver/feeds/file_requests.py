"""Carries requests about files of a feed out: reads what they are about, and stores their list.

``landfall.driver.decide.file_requests`` decides. Reading and storing takes as long as a look at the
bucket, so a driver does it where it looks, one at a time for each feed; what is recorded is
appended by the driver's thread, as everything. Without a driver, ``LaneSession`` does both.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from landfall import ledger
from landfall.api import spec
from landfall.api.contract import LANE
from landfall.api.verbs import Answer, FilesRequest, Outcome
from landfall.discovery.contents import KnownContents
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.looker import FeedLooker
from landfall.discovery.rules import DiscoveryRules, OnChange
from landfall.driver.decide.file_requests import FilesPlan, decide_files
from landfall.driver.decide.requests import Refusal
from landfall.errors import LandfallError
from landfall.formats.parts import FilePart
from landfall.ledger import Decision, FeedState, PartList, Record, State
from landfall.ledger.offsets import TopicPartition
from landfall.source.files import reader_of_feed
from landfall.store import Slots, SourceFiles

_ON_CHANGE = {
    "LandAgain": OnChange.LAND,
    "Ignore": OnChange.IGNORE,
    "Park": OnChange.IGNORE,
    "Stall": OnChange.IGNORE,
}


@dataclass(frozen=True)
class AskedOfFiles:
    """A request to a running driver, its author, and the answer that the client waits for."""

    request: FilesRequest
    decision: Decision
    answer: Future[Answer]


@dataclass(frozen=True, slots=True)
class PreparedFiles:
    """The plan for a request, given what the ledger knew when the files were looked at.

    Attributes:
        asked: the request.
        plan: what is to be recorded, or why nothing is.
        listed: the list of the parts that get numbers; None if none does.
    """

    asked: AskedOfFiles
    plan: FilesPlan | Refusal
    listed: PartList | None = None

    def holds(self, feed: FeedState) -> bool:
        """Return whether the plan may still be recorded."""
        if isinstance(self.plan, Refusal):
            return True
        taken = {*self.plan.again, *self.plan.replaced}
        follows = self.listed is None or self.listed.first == feed.end
        are_there = taken <= feed.parked.keys() | feed.ignored.keys()
        return follows and are_there and {*self.plan.ignored} <= feed.parked.keys()


def feed_looker(group: str, slots: Slots, feed: spec.Feed, source: SourceFiles) -> FeedLooker:
    """Return the looker for the files of a feed.

    Args:
        group: name of the group.
        slots: the store of its ledger.
        feed: the feed.
        source: its files.
    """
    reader = reader_of_feed(feed)
    rules = DiscoveryRules(
        _whole if feed.is_external else partial(_cut, reader.parts, feed.part_bytes),
        include=(feed.include,) if feed.include else (),
        exclude=(feed.exclude,) if feed.exclude else (),
        settle=feed.settle,
        ordered_names=feed.ordered_names,
        on_change=_ON_CHANGE[feed.on_change],
        relist=feed.relist,
    )
    contents = KnownContents(slots) if feed.dedupe else None
    return FeedLooker(
        slots=slots,
        keys=FeedKeys(group, LANE, feed.topic),
        source=source,
        rules=rules,
        contents=contents,
    )


def why_no_feed(state: State, feeds: tuple[spec.Feed, ...], topic: str) -> str:
    """Return why a request about this feed is refused; empty if it is one of ledger and spec."""
    in_spec = sorted(feed.topic for feed in feeds)
    if topic not in in_spec:
        there = f"it has {', '.join(in_spec)}" if in_spec else "it has none"
        return f"spec.source.files has no feed {topic}: {there}"
    if TopicPartition(topic, 0) not in state.feeds:
        return f"{topic}: is not in the ledger yet; no driver has looked for its files"
    return ""


def plan_files(looker: FeedLooker, feed: FeedState, request: FilesRequest) -> FilesPlan | Refusal:
    """Return what a request records.

    Raises:
        Stalled: LEDGER_BROKEN, something that the ledger names is gone or damaged.
        Retry: a store does not answer; StoreDenied, it refuses.
    """
    return decide_files(feed, request, looker.named(feed, request.names))


def prepare_files(looker: FeedLooker, feed: FeedState, asked: AskedOfFiles) -> PreparedFiles:
    """Plan what a request records, and store its list. What fails is answered, too.

    Raises:
        Stalled, Retry: as ``plan_files``.
    """
    try:
        plan = plan_files(looker, feed, asked.request)
        return PreparedFiles(asked, plan, _stored(looker, feed, asked.request, plan))
    except LandfallError as error:
        asked.answer.set_result(Answer(Outcome.FAILED, message=str(error)))
        raise


def discovered(
    topic: str, plan: FilesPlan, listed: PartList | None, decision: Decision
) -> Callable[..., Record]:
    """Return the DISCOVER, when it is called with ``header=…``."""
    return partial(
        ledger.Discover,
        topic_partition=TopicPartition(topic, 0),
        listed=listed,
        again=plan.again,
        replaced=plan.replaced,
        ignored=plan.ignored,
        decision=decision,
    )


def _stored(
    looker: FeedLooker, feed: FeedState, request: FilesRequest, plan: FilesPlan | Refusal
) -> PartList | None:
    if isinstance(plan, Refusal) or request.dry_run or not plan.parts:
        return None
    return looker.store_list(feed, plan.parts)


def _whole(name: str, size: int) -> tuple[FilePart, ...]:
    """Return the one part of a file of an external feed: a worker gets it as a whole."""
    del name
    return (FilePart(0, size),)


def _cut(
    parts: Callable[[str, int, int], tuple[FilePart, ...]], part_bytes: int, name: str, size: int
) -> tuple[FilePart, ...]:
    return parts(name, size, part_bytes)
