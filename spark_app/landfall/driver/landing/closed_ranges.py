"""Lands closed ranges of the log, one after the other, and ends each with a RUN.

``landfall.driver.decide.closed_range`` decides where a range ends. This asks the log for it, once
for each topic partition and range (again if the topic is created again), limits what is planned to
that, and appends RUN when everything is visible. Until the end of a range has come, everything is
landed as it is without one.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import partial

from landfall import ledger
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, Schedule
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.stored_specs import with_stored_formats
from landfall.driver.decide.closed_range import (
    PartitionsInLog,
    RangeLook,
    closed_topics,
    is_reached,
    numbered,
    range_ends,
)
from landfall.driver.landing.goals import Due, Endless, GoalParts, GoalType
from landfall.errors import Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject
from landfall.publish.finished import Calendars
from landfall.publish.following import Follower
from landfall.source.membership import former_members
from landfall.task.counting import ObjectsOfSpec, in_shares

log = logging.getLogger(__name__)

Ranges = Callable[[int | None, datetime], Iterable[datetime]]
"""The ends of the ranges that are due at a time, in order, after the range that ended at the given
time (ms); after None, the ends for a group that has landed none.
"""
_MILLISECOND = timedelta(milliseconds=1)
_NOTHING: Mapping[TopicPartition, int] = {}


class ClosedRanges:
    """A ``Goal``: the ranges that are due, one after the other.

    Attributes:
        left: topics of the spec that are not landed in full, in the last range that has ended.
        problems: with the objects of that range, as they were read back.
        until: where the range ends that is being landed; None if there is none.
    """

    def __init__(self, ranges: Ranges, parts: GoalParts, *, stays: bool = False) -> None:
        """``ranges`` returns the ones that are due; with ``stays``, the next one is waited for."""
        self._ranges = ranges
        self._append = parts.append
        spec = parts.group.spec
        self._selects = spec.source.selects
        self._observer = parts.deps.observer
        self._merged_first = parts.merged_first
        self._read_back = ReadingBack(parts.group, parts.deps, parts.wake)
        self._calendars = Calendars(spec)
        completeness = spec.completeness
        self._delay = completeness.delay // _MILLISECOND if completeness else None
        self._ends: Mapping[TopicPartition, int] = {}
        self._topic_ids: Mapping[TopicPartition, str] = {}
        self._numbered: Mapping[TopicPartition, int] = {}
        self._began: datetime | None = None
        self._ended: int | None = None
        self._after = -1
        self._reading: Future[Mapping[str, Stalled]] | None = None
        self._stays = stays
        self._none_due = False
        self._stalled: set[str] = set()
        self._held_by: set[str] = set()
        self.until: datetime | None = None
        self.left: Sequence[str] = ()
        self.problems: Sequence[Stalled] = ()

    @property
    def is_done(self) -> bool:
        """True if every range that was due is landed, or as much of it as can be."""
        return self._none_due and not self._stays

    @property
    def due(self) -> Due:
        """Nothing after the end of the range, once that has come.

        Until then, everything that comes is landed. Of topic partitions whose end is not known yet,
        nothing is due, but for feeds: each part that has a number by then belongs to the range.
        """
        if self.until is None:
            return Due(_NOTHING, waits=self._none_due)
        if not self._is_closing:
            return Due(until=self.until)
        ends = {**self._ends, **self._numbered}
        return Due(ends, is_closing=True, since=self.until, until=self.until)

    def look(self, state: State, now: datetime) -> None:
        """Find out which range is next, and where it ends."""
        if self.until is None and not self.is_done:
            self._begin(state, now)
        observer, until = self._observer, self.until
        self._numbered = numbered(state)
        looked = observer.looked_high
        if until is None or looked is None or looked < until:
            return
        observer.discover_since(until)  # the range has what was created before it ended
        self._ends = self._ends_of(state)
        ends = {tp: marks.end for tp, marks in observer.watermarks.items()}
        unknown = [tp for tp in ends if tp not in self._ends]
        if not unknown:
            return
        first = observer.log.first_from(unknown, until)
        found = range_ends(RangeLook(_millis(now), observer.high, ends, first))
        self._ends = {**self._ends, **found}
        self._topic_ids = {**self._topic_ids, **{tp: _topic_id(state, tp) for tp in found}}

    def _ends_of(self, state: State) -> Mapping[TopicPartition, int]:
        """Return where the range ends, without ends in the log of a former topic of that name."""
        ends, ids = self._ends, self._topic_ids
        return {tp: end for tp, end in ends.items() if ids[tp] == _topic_id(state, tp)}

    @property
    def _is_closing(self) -> bool:
        """True if the end of the range has come, so that all of it is due."""
        looked = self._observer.looked_high
        return self.until is not None and looked is not None and looked >= self.until

    def advance(
        self,
        state: State,
        stalled: Collection[TopicPartition],
        waiting: Collection[str] = (),
        *,
        is_landed: bool,
    ) -> None:
        """Append RUN once the range is landed; the next one begins at the next look."""
        self._stalled = {*waiting, *(tp.topic for tp in stalled)}
        if self.until is None or not self._is_closing or not is_landed:
            return
        ends = self._ends_of(state)
        found = [tp for topic in self._observer.topics for tp in topic.topic_partitions]
        waits = (tp for tp in found if tp not in stalled and tp not in state.excluded)
        if not all(is_reached(state, ends, tp) for tp in waits):
            return
        if not self._is_merged(state):
            return
        wrong = self._wrong(state)
        if wrong is None:
            return
        unlanded = {*self._observer.denied, *waiting, *wrong}
        in_log = PartitionsInLog(found, unlanded, former_members(state, self._observer.topics))
        topics, left = closed_topics(state, ends, in_log, self._horizon)
        until = _millis(self.until)
        if not _is_repeated(state, until, left):
            assert self._began is not None, "a range has begun before it ends"
            made = partial(
                ledger.Run,
                until=until,
                began=self._began.isoformat(),
                topics=topics,
                left=left,
                delay=self._delay or 0,
            )
            self._append(made)
            log.info("range landed", extra={"until": self.until.isoformat(), "left": len(left)})
        self.left = tuple(filter(self._selects, left))
        self.problems = tuple(wrong.values())
        self.until = None
        self._ended = until
        self._held_by = self._stalled & {*left}

    def _is_merged(self, state: State) -> bool:
        """Return whether what the range completes is merged, or need not be."""
        decided = state.decided_horizons
        horizons = {tp.topic: self._horizon(tp.topic) for tp in state.members}
        wanted = {t: until for t, until in horizons.items() if until > decided.get(t, -1)}
        return (
            self._reading is not None
            or self._merged_first(state, wanted, until_deleted=False) == wanted
        )

    def _wrong(self, state: State) -> Mapping[str, Stalled] | None:
        """Return problems with objects of the range, by topic; None as long as they are read."""
        if self._reading is None:
            if state.unapplied:  # a follower of the ledger does not know yet that they are visible
                self._append(ledger.Applied)
            self._reading = self._read_back.begin(self._after)
        if not self._reading.done():
            return None
        reading = self._reading
        self._reading = None
        return reading.result()

    def stop(self) -> None:
        """End the work in the background."""
        self._read_back.stop()

    def _begin(self, state: State, now: datetime) -> None:
        after = self._ended
        if after is None and state.runs:
            last = state.runs[-1]
            is_left = any(map(self._selects, last.left))  # it may be landed now
            after = last.until - is_left
        elif after is not None and self._held_by and not self._held_by & self._stalled:
            after -= 1  # what held the topics that were left is over
        self.until = next(iter(self._ranges(after, now)), None)
        self._none_due = self.until is None
        self._ends = {}
        self._began = now
        self._after = state.runs[-1].slot if state.runs else state.seq

    def _horizon(self, topic: str) -> int:
        if self._delay is None or self.until is None:
            return -1
        return self._calendars.of(topic).boundary(_millis(self.until) - self._delay)


def closing(ranges: Ranges, *, stays: bool = False) -> GoalType:
    """Return the goal to land these ranges, and to wait for the next ones or to end."""
    return partial(ClosedRanges, ranges, stays=stays)


def scheduled(schedule: Schedule | None, *, stays: bool = False) -> GoalType:
    """Return the goal to land a schedule's ranges as they come; without one, everything.

    Without ``stays``, the driver ends when no range is due.
    """
    if schedule is None:
        return Endless

    def ranges(after: int | None, now: datetime) -> Iterable[datetime]:
        landed = None if after is None else datetime.fromtimestamp(after / 1000, UTC)
        return schedule.ends(landed, now)

    return closing(ranges, stays=stays)


def until(end: datetime) -> GoalType:
    """Return the goal to land one range, unless it has ended already."""

    def ranges(after: int | None, _: datetime) -> Iterable[datetime]:
        return () if after is not None and _millis(end) <= after else (end,)

    return closing(ranges)


def _topic_id(state: State, tp: TopicPartition) -> str:
    member = state.members.get(tp)
    return member.topic_id if member else ""


def _is_repeated(state: State, until: int, left: Collection[str]) -> bool:
    """Return whether the last RUN records the same: nothing more of its range is landed."""
    if not state.runs or state.runs[-1].until != until:
        return False
    return not {*left} < {*state.runs[-1].left}


def _millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


# Reads back what a range has landed, in tasks, before the range is called landed.

SHARES_PER_SLOT = 3
"""Tasks per Spark task slot at most, so that a slow one does not hold the rest up."""


class ReadingBack:
    """Counts the rows of a range's objects in the store. Used by the driver's thread alone."""

    def __init__(self, group: ConsumerGroup, deps: DriverDeps, wake: Callable[[], object]) -> None:
        """``wake`` is called, from any thread, when a check has ended."""
        self._group = group
        self._deps = deps
        self._wake = wake
        self._pool = deps.background.pool(1, "read-back")

    def begin(self, after: int) -> Future[Mapping[str, Stalled]]:
        """Read back what became visible after a slot: what is wrong with objects, by topic.

        The future may raise Retry.
        """
        found = self._pool.submit(self._problems, after)
        found.add_done_callback(lambda _: self._wake())
        return found

    def stop(self) -> None:
        """Wait for nothing."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _problems(self, after: int) -> Mapping[str, Stalled]:
        problems = dict[str, Stalled]()
        store, name = self._deps.store, self._group.metadata.name
        lane = Lane(store, name, LANE, partial(self._deps.background.pool, name="read-slots"))
        follower, count = Follower(lane), 0
        before = lane.read()
        for stretch in follower.remaining(after):
            by_spec = dict[str, list[LandedObject]]()
            for object_ in stretch.objects:
                generation = object_names.parse_key(object_.key).generation
                spec = follower.opens.digest(generation, object_.decided)
                by_spec.setdefault(spec, []).append(object_.landed)
            for spec, objects in by_spec.items():
                topics = {object_names.parse_key(o.upload.key).topic for o in objects}
                try:
                    group = with_stored_formats(
                        slots=store, group=self._group, lane=LANE, name=spec, topics=topics
                    )
                except Stalled as unreadable:
                    problems |= dict.fromkeys(topics - problems.keys(), unreadable)
                    continue
                landed = ObjectsOfSpec(group, tuple(objects))
                shares = tuple(in_shares(landed, SHARES_PER_SLOT * self._deps.runner.slots))
                for result in self._deps.runner.read_back(shares):
                    log.error(
                        "object read back with wrong rows", extra={"why": str(result.problem)}
                    )
                    problems.setdefault(result.topic, result.problem)
            count += len(stretch.objects)
        if problems and (before.replacing or lane.read().replaced != before.replaced):
            raise Retry("objects were replaced while they were read back")
        log.info("range read back", extra={"objects": count, "topics": len(problems)})
        return problems
