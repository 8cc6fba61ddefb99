"""Finds files for the feeds of a group, and appends DISCOVERs that give their parts numbers.

Buckets are looked at in the background, one look per feed at a time; only the driver's thread
appends. What a look has stored counts once its DISCOVER is in the ledger (docs/adr/0027).

A part that a task could not read is parked: a HOLE moves the checkpoint past it, so that nothing
behind it waits. After ``retryInterval`` it gets another number, until it was tried ``maxAttempts``
times; then it stays parked until somebody decides.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from landfall import ledger
from landfall.api import spec
from landfall.api.contract import LANE
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.looker import FeedLooker, Look
from landfall.discovery.rules import OnChange, Rules
from landfall.driver.deps import Append, DriverDeps, record_failure
from landfall.errors import PartUnreadable, Reason, Retry, Stalled, cause
from landfall.files import FilePart
from landfall.ledger import KnownFiles, PartList, State
from landfall.ledger.feeds import MAX_PARKED, SPAN, number_of, part_offsets
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.part_lists import ListedPart
from landfall.plan import Backlog, PartSize
from landfall.source.files import reader_of_feed
from landfall.source.files_log import FilesLog

log = logging.getLogger(__name__)

MAX_PLANNED = 20_000
"""Of how many unlanded parts of a feed the sizes are known at once."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_ON_CHANGE = {"LandAgain": OnChange.LAND, "Ignore": OnChange.IGNORE, "Stall": OnChange.IGNORE}


@dataclass
class _OpenFeed:
    """A feed, and what is going on with it.

    Attributes:
        spec: of the feed.
        looker: used by the job alone while there is one.
        job: a look or a merge that is going on.
        looked: when the last look was begun.
        hurries: the next look need not wait.
        parked: when this driver has parked a part.
        read: the lists whose parts are planned.
    """

    spec: spec.Feed
    looker: FeedLooker
    job: Future[Look | KnownFiles] | None = None
    looked: datetime | None = None
    hurries: bool = False
    parked: dict[int, datetime] = field(default_factory=dict)
    read: dict[PartList, tuple[ListedPart, ...]] = field(default_factory=dict)


class Feeds:
    """The feeds of a group; none if it lands topics of Kafka. Used by the driver's thread alone."""

    def __init__(
        self,
        group: spec.ConsumerGroup,
        deps: DriverDeps,
        append: Append,
        wake: Callable[[], object],
    ) -> None:
        """``wake`` is called, from any thread, when a look has ended."""
        self._group, self._deps, self._append = group.metadata.name, deps, append
        self._wake = wake
        self._specs = {TopicPartition(f.topic, 0): f for f in group.spec.source.files}
        self._open: dict[TopicPartition, _OpenFeed] = {}
        self._pool = deps.background.pool(4, "discovery")
        self._unseen = set(self._specs)

    @property
    def are_found(self) -> bool:
        """Whether all files that were there at the start have numbers, of those that may."""
        return not self._unseen

    def problems(self, state: State) -> tuple[Stalled, ...]:
        """What is wrong with files that are not landed: an error for each feed that has any."""
        return tuple(
            wrong
            for tp, one in self._specs.items()
            if tp in state.feeds and (wrong := _problem(tp, state.feeds[tp], one))
        )

    def look(self, state: State, now: datetime) -> State:
        """Append what looks have found, and begin those that are due.

        Raises:
            Fenced: another driver has opened the lane.
        """
        for tp in self._specs:
            feed = state.feeds.get(tp)
            if feed is None:
                continue  # it is about to enter
            if self._stop_other_process(tp, feed):
                continue
            opened = self._feed(tp)
            try:
                state = self._finish(tp, opened, state)
            except (Retry, Stalled) as error:  # the next look finds the same
                record_failure(self._deps, cause(error, "DiscoveryFailed"), error)
            if opened.job is None and self._is_due(opened, now):
                self._begin(opened, state.feeds[tp], now)
        self._log_of(state)
        return state

    def arrived(self, tp: TopicPartition, offsets: int) -> int:
        """By how much a topic partition has grown: of a feed, by how many parts of files."""
        return offsets // SPAN if tp in self._specs else offsets

    def stop(self) -> None:
        """Begin no more looks."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------------------------- looking

    def _feed(self, tp: TopicPartition) -> _OpenFeed:
        if tp not in self._open:
            one = self._specs[tp]
            reader = reader_of_feed(one)
            rules = Rules(
                _whole if one.is_external else partial(_cut, reader.parts, one.part_bytes),
                include=(one.include,) if one.include else (),
                exclude=(one.exclude,) if one.exclude else (),
                settle=one.settle,
                ordered_names=one.ordered_names,
                on_change=_ON_CHANGE[one.on_change],
                relist=one.relist,
            )
            keys = FeedKeys(self._group, LANE, one.topic)
            source = self._deps.open_files(one)
            looker = FeedLooker(self._deps.store, keys, source, rules)
            self._open[tp] = _OpenFeed(one, looker)
        return self._open[tp]

    def _is_due(self, opened: _OpenFeed, now: datetime) -> bool:
        if opened.looked is None or opened.hurries:
            return True
        return now - opened.looked >= opened.spec.discovery_interval

    def _begin(self, opened: _OpenFeed, feed: ledger.Feed, now: datetime) -> None:
        if opened.looker.has_to_merge(feed):
            opened.job = self._pool.submit(opened.looker.merge, feed)
        else:
            again = self._to_try_again(opened, feed, now)
            opened.looked, opened.hurries = now, False
            opened.job = self._pool.submit(opened.looker.look, feed, again, now)
        opened.job.add_done_callback(lambda _: self._wake())

    def _to_try_again(self, opened: _OpenFeed, feed: ledger.Feed, now: datetime) -> tuple[int, ...]:
        """Parked parts that may be readable now; a driver that starts tries all at once."""
        if feed.leasing:
            return ()  # takers get them under the numbers that they have
        opened.parked = {n: at for n, at in opened.parked.items() if n in feed.parked}
        return tuple(
            number
            for number, parked in sorted(feed.parked.items())
            if parked.attempt < opened.spec.max_attempts
            and now - opened.parked.get(number, _NEVER) >= opened.spec.retry_interval
        )

    def _finish(self, tp: TopicPartition, opened: _OpenFeed, state: State) -> State:
        """Append what a job that has ended has found."""
        if opened.job is None or not opened.job.done():
            return state
        job, opened.job = opened.job, None
        found = job.result()
        if isinstance(found, KnownFiles):
            return self._adopt_index(tp, opened, state, found)
        return self._adopt(tp, opened, state, found)

    def _adopt(self, tp: TopicPartition, opened: _OpenFeed, state: State, seen: Look) -> State:
        taken = {*seen.again, *seen.replaced}
        if not state.feeds[tp].parked.keys() >= taken:
            opened.hurries = True  # a decision has taken some meanwhile
            return state
        if seen.listed or taken:
            state = self._append(
                partial(
                    ledger.Discover,
                    topic_partition=tp,
                    listed=seen.listed,
                    again=seen.again,
                    replaced=seen.replaced,
                )
            )
            log.info("files found", extra=_fields(tp, seen))
        opened.looker.adopt(seen)
        opened.hurries = seen.found.has_more
        if not opened.hurries:
            self._unseen.discard(tp)
        for name, why in seen.found.skipped.reasons:
            log.warning("file left out", extra={"feed": str(tp), "file": name, "why": why})
        self._stop_changed(tp, opened, seen)
        return state

    def _adopt_index(
        self, tp: TopicPartition, opened: _OpenFeed, state: State, known: KnownFiles
    ) -> State:
        before = state.feeds[tp].known
        state = self._append(partial(ledger.Discover, topic_partition=tp, known=known))
        opened.looker.adopt_index(known, before)
        return state

    def _stop_changed(self, tp: TopicPartition, opened: _OpenFeed, seen: Look) -> None:
        """Stop a feed for files that were written anew after they were landed, if it asks so."""
        changed = seen.found.skipped.changed
        files = self._deps.observer.log
        if opened.spec.on_change != "Stall" or not changed or not isinstance(files, FilesLog):
            return
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        files.stopped[tp] = Stalled(
            Reason.FILE_CHANGED,
            f"{tp}: {changed[0]}{more} was written anew after it was landed; onChange: Ignore "
            "leaves the new contents out, LandAgain lands the new file as a whole",
        )

    def _stop_other_process(self, tp: TopicPartition, feed: ledger.Feed) -> bool:
        """Stop a feed that the ledger has for another purpose than the spec; whether it is."""
        own, is_external = self._specs[tp], feed.leasing is not None
        if own.is_external == is_external:
            return False
        if isinstance(files := self._deps.observer.log, FilesLog):
            files.stopped[tp] = Stalled(Reason.SPEC_INVALID, other_process(own))
        return True

    def _log_of(self, state: State) -> None:
        if isinstance(files := self._deps.observer.log, FilesLog):
            files.take_in(state)

    # ------------------------------------------------------------------------------------- landing

    def with_parts(self, state: State, backlogs: Sequence[Backlog]) -> tuple[Backlog, ...]:
        """The backlogs, of feeds with the sizes of their first parts, and up to these.

        A feed whose lists cannot be read is left out.
        """
        if not self._specs:
            return tuple(backlogs)
        found: list[Backlog] = []
        for backlog in backlogs:
            try:
                found.append(self._with_parts(state, backlog) if len(backlog.offsets) else backlog)
            except (Retry, Stalled) as error:
                record_failure(self._deps, cause(error, "ListUnreadable"), error)
        return tuple(found)

    def _with_parts(self, state: State, backlog: Backlog) -> Backlog:
        tp, start = backlog.topic_partition, backlog.offsets.start
        feed, first = state.feeds[tp], number_of(start)
        sizes: list[PartSize] = []
        for number, part in self._parts_from(tp, feed, first):
            sizes.append(PartSize((number + 1) * SPAN, len(part)))
            if len(sizes) == MAX_PLANNED:
                break
        end = min(backlog.offsets.end, sizes[-1].end)
        return replace(backlog, offsets=OffsetRange(start, end), parts=tuple(sizes)).up_to(end)

    def _parts_from(
        self, tp: TopicPartition, feed: ledger.Feed, first: int
    ) -> Iterable[tuple[int, ListedPart]]:
        opened = self._feed(tp)
        opened.read = {each: parts for each, parts in opened.read.items() if each.end > first}
        for listed in feed.lists:
            if listed.end <= first:
                continue
            if listed not in opened.read:
                keys = FeedKeys(self._group, LANE, tp.topic)
                opened.read[listed] = part_lists.read(self._deps.store, keys, listed)
            for number in range(max(first, listed.first), listed.end):
                yield number, opened.read[listed][number - listed.first]

    def park(self, state: State, unreadable: Mapping[TopicPartition, PartUnreadable]) -> State:
        """Move the checkpoint past parts that could not be read.

        Args:
            state: of the lane.
            unreadable: why a slice failed, of topic partitions of which no batch is in flight.

        Raises:
            Retry: the store does not answer; the part fails again then.
        """
        for tp, error in sorted(unreadable.items()):
            at, feed = state.checkpoint[tp], state.feeds[tp]
            # Only what is next: what failed behind it is tried again when it is next.
            if error.offset != at or len(feed.parked) >= MAX_PARKED:
                continue
            number = number_of(at)
            part = next(iter(self._parts_from(tp, feed, number)))[1]
            hole = Slice(tp, OffsetRange(at, part_offsets(number).end))
            state = self._append(
                partial(ledger.Hole, piece=hole, reason=str(error), attempt=part.attempt + 1)
            )
            self._feed(tp).parked[number] = self._deps.clock()
            log.warning("file parked", extra={"slice": str(hole), "why": str(error)})
        return state


def other_process(feed: spec.Feed) -> str:
    """Why a feed is stopped whose ``process`` is another than when it entered the ledger."""
    was = "Land" if feed.is_external else "External"
    return (
        f"spec.source.files: {feed.topic} entered the ledger with process: {was}, which cannot "
        f"become {feed.process}: what is numbered is counted in another way. Give the files "
        "another topic"
    )


def _problem(tp: TopicPartition, feed: ledger.Feed, own: spec.Feed) -> Stalled | None:
    """What is wrong with files that are not landed; of those of others, with what they gave up."""
    if feed.leasing:
        failed = {n: p for n, p in feed.parked.items() if p.attempt >= own.max_attempts}
        return _parked(tp, replace(feed, parked=failed), "done") if failed else None
    return _parked(tp, feed) if feed.parked else None


def _parked(tp: TopicPartition, feed: ledger.Feed, how: str = "landed") -> Stalled:
    first = feed.parked[min(feed.parked)]
    count = f"{len(feed.parked)} part{'' if len(feed.parked) == 1 else 's'} of files"
    return Stalled(
        Reason.FILE_UNREADABLE,
        f"{tp}: {count} not {how}, the first tried {first.attempt} times: {first.reason}",
    )


def _whole(name: str, size: int) -> tuple[FilePart, ...]:
    """A file that is processed by others is theirs as a whole."""
    del name
    return (FilePart(0, size),)


def _cut(
    parts: Callable[[str, int, int], tuple[FilePart, ...]], part_bytes: int, name: str, size: int
) -> tuple[FilePart, ...]:
    return parts(name, size, part_bytes)


def _fields(tp: TopicPartition, seen: Look) -> dict[str, object]:
    listed = seen.listed
    return {
        "feed": str(tp),
        "parts": len(seen.parts),
        "files": listed.files if listed else 0,
        "bytes": listed.bytes if listed else 0,
        "again": len(seen.again),
        "replaced": len(seen.replaced),
    }
