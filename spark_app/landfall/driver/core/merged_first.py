"""Lets the end of an hour wait until the hour is merged (docs/adr/0058).

A reader that waits for ``_SUCCESS``, an event or a horizon and then lists a folder should not meet
a merge. So before a record calls a topic complete up to a time, its folders up to then are merged,
and the old objects in them deleted. What takes too long, or fails, is not waited for after a
deadline.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from landfall.ledger import State


class ReadyTopics(Protocol):
    """The topics that may be called complete now; see ``Planner.merged_first``."""

    def __call__(
        self,
        state: State,
        wanted: Mapping[str, int],
        *,
        ends: bool = False,
        until_deleted: bool = True,
    ) -> Mapping[str, int]:
        """By topic, up to when (ms)."""
        ...


def all_at_once(
    state: State,  # noqa: ARG001  # of the protocol
    wanted: Mapping[str, int],
    *,
    ends: bool = False,  # noqa: ARG001  # of the protocol
    until_deleted: bool = True,  # noqa: ARG001  # of the protocol
) -> Mapping[str, int]:
    """See ``ReadyTopics``: nothing is merged, so nothing waits."""
    return wanted


log = logging.getLogger(__name__)

DEADLINE = timedelta(minutes=15)
"""How long the end of an hour waits for its merge at most, in addition to the grace period."""


@dataclass(frozen=True, slots=True)
class ExpectedTopic:
    """A topic that is about to be complete.

    Attributes:
        until: the event time (ms) up to which it is.
        through: the last slot at that time. What is committed later comes late.
    """

    until: int
    through: int


@dataclass(frozen=True, slots=True)
class MergeProgress:
    """How far merging is, by the ledger as it was read.

    Attributes:
        state: of the ledger.
        expected: by topic, the ``ExpectedTopic`` that its folders were examined for.
        left: topics with folders to be merged that are complete, or will be.
    """

    state: State = field(default_factory=State)
    expected: Mapping[str, ExpectedTopic] = field(default_factory=dict)
    left: frozenset[str] = frozenset()

    def has_merged(self, topic: str, expected: ExpectedTopic) -> bool:
        """Return whether nothing is left to merge of a topic that is about to be complete."""
        unapplied = min(self.state.unapplied, default=self.state.seq + 1)
        is_read = self.state.seq >= expected.through < unapplied
        return is_read and self.expected.get(topic) == expected and topic not in self.left


@dataclass
class _Wait:
    """A topic's wait: for what, since when, and whether it has ended."""

    expected: ExpectedTopic
    since: datetime
    is_given_up: bool = False


@dataclass
class MergedFirst:
    """Decides which topics may be called complete now. Used by the driver's thread alone.

    Attributes:
        patience: how long a topic waits at most.
        unmerged: how often a topic was called complete after that, before all was merged and
            deleted; or when the driver ended, before all was merged.
    """

    patience: timedelta
    unmerged: int = 0
    _waits: dict[str, _Wait] = field(default_factory=dict)

    @property
    def expected(self) -> Mapping[str, ExpectedTopic]:
        """By topic, what is waited for."""
        return {topic: wait.expected for topic, wait in self._waits.items()}

    def ready(  # noqa: PLR0913  # what is known, and what is wanted
        self,
        state: State,
        wanted: Mapping[str, int],
        now: datetime,
        progress: MergeProgress,
        *,
        ends: bool,
        has_old: Callable[[str, int], bool],
    ) -> dict[str, int]:
        """Return the topics that may be called complete, and up to when (ms).

        That is earlier than ``wanted`` if another hour is over meanwhile, which waits then.

        Args:
            state: of the lane.
            wanted: by topic, up to when it is complete.
            now: the current time.
            progress: how far merging is.
            ends: the driver ends, so nothing is waited for any more.
            has_old: whether objects that are replaced are left in folders of a topic up to a time.
        """
        decided = state.decided_horizons
        self._waits = {
            topic: wait
            for topic, wait in self._waits.items()
            if wait.expected.until > decided.get(topic, -1)
        }
        ready = dict[str, int]()
        for topic, until in wanted.items():
            wait = self._waits.setdefault(topic, _Wait(ExpectedTopic(until, state.seq), now))
            is_merged = not state.replacing and progress.has_merged(topic, wait.expected)
            is_done = is_merged and (ends or not has_old(topic, wait.expected.until))
            is_over = ends or now - wait.since >= self.patience
            if not is_done and is_over and not wait.is_given_up:
                self._give_up(topic, wait)
            if is_done or wait.is_given_up:
                ready[topic] = until if ends else wait.expected.until
                if wait.expected.until < until:
                    self._waits[topic] = _Wait(ExpectedTopic(until, state.seq), now)
        return ready

    def _give_up(self, topic: str, wait: _Wait) -> None:
        wait.is_given_up = True
        self.unmerged += 1
        extra = {"topic": topic, "until": wait.expected.until}
        log.warning("topic completed before its merge", extra=extra)
