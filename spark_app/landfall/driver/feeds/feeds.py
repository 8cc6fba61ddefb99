"""Finds files for the feeds of a group, and appends DISCOVERs that give their parts numbers.

Buckets are looked at in the background, one look per feed at a time; only the driver's thread
appends. What a look has stored counts once its DISCOVER is in the ledger (docs/adr/0027).

A part that a task could not read is parked: a HOLE moves the checkpoint past it, so that nothing
after it waits. After ``retryInterval`` it gets another number, until it was tried ``maxAttempts``
times; then it stays parked until a user decides.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from landfall import ledger
from landfall.api import spec
from landfall.api.contract import LANE
from landfall.api.feed_status import FeedStatus
from landfall.api.verbs import Answer, FilesRequest, Outcome
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.looker import Look
from landfall.driver.core.deps import Append, DriverDeps, record_failure
from landfall.driver.core.parts import DriverPart
from landfall.driver.decide.file_requests import FilesPlan
from landfall.driver.decide.requests import Refusal
from landfall.driver.feeds.feed_problems import (
    FeedFailures,
    LeftOut,
    changed_problem,
    files_problem,
    other_process,
)
from landfall.driver.feeds.file_requests import (
    AskedOfFiles,
    PreparedFiles,
    discovered,
    feed_looker,
    prepare_files,
    why_no_feed,
)
from landfall.driver.feeds.open_feeds import OpenFeed
from landfall.driver.feeds.wakeups import Wakeups
from landfall.errors import PartUnreadable, Reason, Retry, Stalled, cause
from landfall.ledger import Decision, KnownFiles, State
from landfall.ledger.feeds import MAX_PARKED, SPAN, begun_to, number_of, part_offsets
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.plan import Backlog, PartSize
from landfall.source.files_log import FilesLog, Listed

log = logging.getLogger(__name__)

MAX_PLANNED = 20_000
"""Of how many unlanded parts of a feed the sizes are known at once."""
MAX_LOOKS = 16
"""How many feeds are looked at at once, so that some that do not answer keep no other waiting."""


class Feeds(DriverPart):
    """The feeds of a group; none if it lands topics of Kafka. Used by the driver's thread alone."""

    def __init__(
        self,
        group: spec.ConsumerGroup,
        deps: DriverDeps,
        append: Append,
        wake: Callable[[], object],
        *,
        retries_own: bool = True,
    ) -> None:
        """The feeds that a group names.

        Args:
            group: the resource.
            deps: what the driver works with.
            append: appends a record.
            wake: called, from any thread, when a look has ended.
            retries_own: whether parts that this driver parks are tried again by it. A driver that
                ends when it has caught up leaves them to the next one, or it would end with parts
                that are neither landed nor parked, and call that success.
        """
        self._group = group.metadata.name
        self._deps = deps
        self._append = append
        self._wake = wake
        self._retries_own = retries_own
        self._specs = {TopicPartition(f.topic, 0): f for f in group.spec.source.files}
        self._open: dict[TopicPartition, OpenFeed] = {}
        self._pool = deps.background.pool(min(max(1, len(self._specs)), MAX_LOOKS), "discovery")
        self._failures = FeedFailures()
        self._unseen = set(self._specs)
        files = deps.observer.log
        self._log = files if isinstance(files, FilesLog) else FilesLog(group)

    @property
    def are_found(self) -> bool:
        """True if all files that existed at the start and may get numbers have them.

        Feeds that could not be looked at for long are not waited for.
        """
        return self._unseen <= self._failures.problems().keys()

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about feeds, though all is well."""
        return tuple(note for opened in self._open.values() for note in opened.notes)

    @property
    def waiting(self) -> frozenset[str]:
        """The topics of feeds with files that wait for a user, but for parked parts."""
        changed = (tp for tp, opened in self._open.items() if opened.changed_problem)
        return frozenset(tp.topic for tp in (*self._log.stopped, *changed))

    def problems(self, state: State) -> tuple[Stalled, ...]:
        """Return the problems of feeds, and of files that are not landed: an error for each."""
        return (
            *self._failures.problems().values(),
            *(
                wrong
                for tp, one in self._specs.items()
                if tp in state.feeds and (wrong := files_problem(tp, state.feeds[tp], one))
            ),
            *filter(None, (opened.changed_problem for opened in self._open.values())),
        )

    def statuses(self, state: State) -> tuple[FeedStatus, ...]:
        """Return the status of the files of each feed."""
        stopped = self._log.stopped
        return tuple(
            opened.status(state.feeds[tp], state.checkpoint[tp], stopped.get(tp))
            for tp, opened in self._open.items()
            if tp in state.feeds
        )

    def look(self, state: State, now: datetime, until: datetime | None = None) -> State:
        """Append what looks have found, and begin looks that are due.

        Once ``until`` has come, the end of a closed range, all names are listed for it. When all
        files of the range have numbers there is no other look: what is found later would be landed
        with the range, and with many files it would never end.

        Raises:
            Fenced: another driver has opened the lane.
        """
        closing = until if until and now >= until else None
        for tp in self._specs:
            if tp not in state.feeds or self._is_paused(tp, now):
                continue  # it is about to enter, or could not be opened
            if self._stop_other_process(tp, state.feeds[tp]):
                continue
            try:
                opened = self._feed(tp)
                state = self._finish(tp, opened, state)
                if opened.is_due(now, closing):
                    self._begin(opened, (state.feeds[tp], state.checkpoint[tp]), now, closing)
            except (Retry, Stalled) as error:  # the next look finds the same; no other feed waits
                record_failure(self._deps, cause(error, "DiscoveryFailed"), error)
                self._failures.add(tp, error, now)
        self._log.take_in(state)
        return state

    def ask(self, state: State, request: FilesRequest, decision: Decision) -> "Future[Answer]":
        """Carry a request about files out as soon as the running look has ended."""
        asked = AskedOfFiles(request, decision, Future())
        tp, specs = TopicPartition(request.topic, 0), tuple(self._specs.values())
        if refusal := why_no_feed(state, specs, request.topic):
            asked.answer.set_result(Answer(Outcome.REFUSED, message=refusal))
        else:
            self._feed(tp).asked.append(asked)
            self._wake()
        return asked.answer

    def arrived(self, tp: TopicPartition, offsets: int) -> int:
        """By how much a topic partition has grown: of a feed, by how many parts of files."""
        return offsets // SPAN if tp in self._specs else offsets

    def stop(self) -> None:
        """Begin no more looks."""
        for opened in self._open.values():
            if opened.wakeups:
                opened.wakeups.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------------------------- looking

    def _feed(self, tp: TopicPartition) -> OpenFeed:
        if tp not in self._open:
            one = self._specs[tp]
            source = self._deps.open_files(one)
            looker = feed_looker(self._group, self._deps.store, one, source)
            opened = OpenFeed(one, looker, LeftOut(str(tp)), retries_own=self._retries_own)
            if one.events:
                opened.wakeups = Wakeups(one, self._deps.open_events, self._wake)
                opened.wakeups.start()
            self._open[tp] = opened
        return self._open[tp]

    def _is_paused(self, tp: TopicPartition, now: datetime) -> bool:
        """Return whether a feed that could not even be opened is not tried yet."""
        since = self._failures.since(tp, now) if tp not in self._open else None
        return since is not None and since < self._specs[tp].discovery_interval

    def _begin(
        self,
        opened: OpenFeed,
        landed: tuple[ledger.FeedState, int],
        now: datetime,
        closing: datetime | None,
    ) -> None:
        feed, checkpoint = landed
        if opened.asked:
            asked = opened.asked.popleft()
            opened.job = self._pool.submit(prepare_files, opened.looker, feed, asked)
        elif opened.looker.has_to_merge(feed):
            opened.looked = now
            opened.hurries = False
            opened.job = self._pool.submit(opened.looker.merge, feed)
        else:
            opened.looked = now
            opened.hurries = False
            again = opened.to_try_again(feed, now)
            if opened.wakeups:
                opened.looker.add_hints(opened.wakeups.take())
            anew = opened.lists_anew(closing)
            begun = begun_to(feed, checkpoint)
            look = partial(opened.looker.look, begun=begun, anew=anew)
            opened.job = self._pool.submit(look, feed, again, now)
        opened.job.add_done_callback(lambda _: self._wake())

    def _finish(self, tp: TopicPartition, opened: OpenFeed, state: State) -> State:
        """Append what a job that has ended has found."""
        if opened.job is None or not opened.job.done():
            return state
        job = opened.job
        opened.job = None
        found = job.result()
        self._failures.clear(tp)
        match found:
            case KnownFiles():
                return self._adopt_index(tp, opened, state, found)
            case PreparedFiles():
                return self._record(tp, opened, state, found)
            case Look():
                return self._adopt(tp, opened, state, found)

    def _adopt(self, tp: TopicPartition, opened: OpenFeed, state: State, seen: Look) -> State:
        taken = {*seen.again, *seen.replaced}
        feed = state.feeds[tp]
        if not feed.parked.keys() | feed.ignored.keys() >= taken:
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
        opened.ended = self._deps.clock()
        opened.waiting_files = seen.found.waiting_files
        opened.left_out.sees(seen.found)
        position, changed = seen.found.position, seen.found.skipped.changed
        opened.hurries = position.has_more
        if not position.has_more:
            self._unseen.discard(tp)
            assert position.relisted is not None, "the first listing is of all names"
            self._log.listed[tp] = opened.listed = Listed(position.relisted, position.waits_since)
        if position.relisted != opened.relisted:
            opened.relisted = position.relisted
            opened.changed = set()
        opened.changed.update(changed)
        if changed or not position.has_more:
            self._stop_changed(tp, opened)
        return state

    def _record(
        self, tp: TopicPartition, opened: OpenFeed, state: State, prepared: PreparedFiles
    ) -> State:
        """Append what a request records, and answer it."""
        asked = prepared.asked
        plan = prepared.plan
        listed = prepared.listed
        if isinstance(plan, Refusal):
            asked.answer.set_result(Answer(Outcome.REFUSED, message=plan.message))
            return state
        if asked.request.dry_run:
            asked.answer.set_result(Answer(Outcome.DRY_RUN, (plan.text,)))
            return state
        if not prepared.holds(state.feeds[tp]):
            opened.asked.appendleft(asked)  # a HOLE was appended meanwhile
            return state
        try:
            state = self._append(discovered(tp.topic, plan, listed, asked.decision))
        except (Retry, Stalled) as error:
            asked.answer.set_result(Answer(Outcome.FAILED, message=str(error)))
            raise
        if listed:
            opened.looker.adopt_list(listed, plan.parts)
        self._go_on(tp, opened, plan)
        asked.answer.set_result(Answer(Outcome.DONE, (plan.text,)))
        return state

    def _go_on(self, tp: TopicPartition, opened: OpenFeed, plan: FilesPlan) -> None:
        """Land a feed again that was stopped by rewritten files, if none of these is left."""
        opened.hurries = True
        if opened.changed & plan.names:
            opened.changed -= plan.names
            opened.looker.look_at_all()  # there may be more than a look names
            self._stop_changed(tp, opened)

    def _adopt_index(
        self, tp: TopicPartition, opened: OpenFeed, state: State, known: KnownFiles
    ) -> State:
        before = state.feeds[tp].known
        state = self._append(partial(ledger.Discover, topic_partition=tp, known=known))
        opened.hurries = True  # a look was due when the index was merged
        opened.looker.adopt_index(known, before)
        return state

    def _stop_changed(self, tp: TopicPartition, opened: OpenFeed) -> None:
        """Stop a feed while it has files that were rewritten after they were landed.

        That is, if it asks so. It continues once a look at all names finds none.
        """
        changed = sorted(opened.changed)
        if opened.spec.on_change != "Stall":
            return
        if not changed:
            self._log.stopped.pop(tp, None)
            return
        self._log.stopped[tp] = changed_problem(tp, changed)

    def _stop_other_process(self, tp: TopicPartition, feed: ledger.FeedState) -> bool:
        """Stop a feed that the ledger has for another purpose than the spec; whether it is."""
        own, is_external = self._specs[tp], feed.leasing is not None
        if own.is_external == is_external:
            return False
        self._log.stopped[tp] = Stalled(Reason.SPEC_INVALID, other_process(own))
        return True

    # ------------------------------------------------------------------------------------- landing

    def with_parts(self, state: State, backlogs: Sequence[Backlog]) -> tuple[Backlog, ...]:
        """Return the backlogs, of feeds with the sizes of their first parts, and up to these.

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
        self, tp: TopicPartition, feed: ledger.FeedState, first: int
    ) -> Iterable[tuple[int, ListedPart]]:
        opened = self._feed(tp)
        opened.read = {list_: parts for list_, parts in opened.read.items() if list_.end > first}
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
            unreadable: why a slice failed, of topic partitions without a batch in flight.

        Raises:
            Retry: the store does not answer; the part fails again then.
        """
        for tp, error in sorted(unreadable.items()):
            at, feed = state.checkpoint[tp], state.feeds[tp]
            # Only what is next: what failed after it is tried again when it is next.
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
