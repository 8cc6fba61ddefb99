"""Goals of a driver: to land everything that comes, or up to given offsets.

``landfall.driver.landing.closed_ranges`` has a third goal: ranges that end at times.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from msgspec.structs import replace

from landfall.api.spec import ConsumerGroup
from landfall.driver.core.deps import Append, DriverDeps
from landfall.driver.core.merged_first import ReadyTopics, all_at_once
from landfall.errors import Stalled
from landfall.ledger import State
from landfall.ledger.completeness import topics_with_missing
from landfall.ledger.offsets import TopicPartition
from landfall.plan import Backlog


@dataclass(frozen=True, slots=True)
class Due:
    """The offsets to land now. It never changes, so that any thread may read it.

    Attributes:
        ends: the next offsets after what is due, and nothing of topic partitions that are not in
            it; None for everything.
        is_closing: whether all of it is due, however little it is.
        since: since when it is due; None if the upload policy decides.
        until: the end of the closed range that is being landed, if there is one.
        waits: whether nothing is due until the next closed range is.
    """

    ends: Mapping[TopicPartition, int] | None = None
    is_closing: bool = False
    since: datetime | None = None
    until: datetime | None = None
    waits: bool = False

    def within(self, backlogs: Sequence[Backlog]) -> tuple[Backlog, ...]:
        """Return the part of these that is due, without backlogs that are not due at all."""
        if self.ends is None:
            return tuple(backlogs)
        return tuple(due for backlog in backlogs if len((due := self.of(backlog)).offsets))

    def of(self, backlog: Backlog) -> Backlog:
        """Return the part of a backlog that is due; it may be empty."""
        offsets = backlog.offsets
        if self.ends is None:
            return backlog
        end = max(offsets.start, min(offsets.end, self.ends.get(backlog.topic_partition, -1)))
        age = backlog.age if end > offsets.start else timedelta(0)
        return replace(backlog.up_to(end), age=age)


WHATEVER_COMES = Due()


class Goal(Protocol):
    """The goal that a driver lands before it ends. Used by the driver's thread alone."""

    left: Sequence[str]
    """Topics that are not landed as far as they were to be, once ``is_done``."""
    problems: Sequence[Stalled]
    """What is wrong with what is landed."""

    @property
    def is_done(self) -> bool:
        """True if all is landed that was to be, or as much of it as can be."""
        ...

    @property
    def due(self) -> Due:
        """The offsets to land now."""
        ...

    def look(self, state: State, now: datetime) -> None:
        """Take in what the last look at the log has shown.

        Raises:
            Retry: the log does not answer.
        """
        ...

    def advance(
        self,
        state: State,
        stalled: Collection[TopicPartition],
        waiting: Collection[str] = (),
        *,
        is_landed: bool,
    ) -> None:
        """Find out whether all is landed, and record it; called in every pass.

        Args:
            state: of the ledger.
            stalled: topic partitions that are not landed until a user acts.
            waiting: feeds with files that are not landed until a user acts.
            is_landed: nothing is in flight, and all that is committed is visible.

        Raises:
            Retry: the store does not answer; the next pass tries again.
            Fenced: another driver has opened the lane.
        """
        ...

    def stop(self) -> None:
        """End the work in the background."""
        ...


@dataclass(frozen=True)
class GoalParts:
    """The dependencies of a goal.

    Attributes:
        group: the resource.
        deps: the driver's dependencies.
        append: appends a record.
        wake: wakes the driver, from any thread.
        merged_first: see ``Planner``.
    """

    group: ConsumerGroup
    deps: DriverDeps
    append: Append
    wake: Callable[[], object]
    merged_first: ReadyTopics = all_at_once


GoalType = Callable[[GoalParts], Goal]
"""Makes the goal of a driver."""


class Endless:
    """Lands everything that comes, until the driver is stopped."""

    left: Sequence[str] = ()
    problems: Sequence[Stalled] = ()
    is_done = False
    due = WHATEVER_COMES

    def __init__(self, *_: object) -> None:
        """Nothing is needed."""

    def look(self, state: State, now: datetime) -> None:
        """See ``Goal``; nothing is looked for."""

    def advance(
        self,
        state: State,
        stalled: Collection[TopicPartition],
        waiting: Collection[str] = (),
        *,
        is_landed: bool,
    ) -> None:
        """See ``Goal``; it is never reached."""

    def stop(self) -> None:
        """See ``Goal``."""


class UntilOffsets:
    """Lands topic partitions up to offsets, and nothing of any other. No RUN records it."""

    problems: Sequence[Stalled] = ()

    def __init__(self, ends: Mapping[TopicPartition, int], *_: object) -> None:
        """``ends`` are the next offsets after those to land. What is not written yet is awaited."""
        self._ends = ends
        self.due = Due(ends, is_closing=True)
        self.is_done = False
        self.left: Sequence[str] = ()

    def look(self, state: State, now: datetime) -> None:
        """See ``Goal``; the ends are known."""

    def advance(
        self,
        state: State,
        stalled: Collection[TopicPartition],
        waiting: Collection[str] = (),  # noqa: ARG002  # of every goal
        *,
        is_landed: bool,
    ) -> None:
        """See ``Goal``."""
        waits = [tp for tp, end in self._ends.items() if not _reaches(state, tp, end)]
        self.is_done = is_landed and all(tp in stalled for tp in waits)
        missing = topics_with_missing(state) & {tp.topic for tp in self._ends}
        self.left = sorted({*missing, *(tp.topic for tp in waits)})

    def stop(self) -> None:
        """See ``Goal``."""


def _reaches(state: State, tp: TopicPartition, end: int) -> bool:
    return tp in state.members and state.checkpoint[tp] >= end
