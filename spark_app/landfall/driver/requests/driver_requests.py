"""Carries out requests on a running driver, on the driver's own thread.

A request is carried out between two steps of a pass. A record that moves or drops a checkpoint must
not meet a batch of the same topic partition: no batch of it is started while a request waits, and
the request waits for the batch that is in flight. A replay works alongside landing, in a thread of
its own, because it moves no checkpoint; only its REPLAY records are appended here. What is asked
about files is done where they are looked for: it moves no checkpoint either.
"""

import logging
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from landfall.api.spec import ConsumerGroup
from landfall.api.values import plural
from landfall.api.verbs import (
    Answer,
    FilesRequest,
    Outcome,
    PromoteRequest,
    Request,
    RetryRequest,
    UndoRequest,
    verb_of,
)
from landfall.driver.core.deps import Append
from landfall.driver.core.observer import Observer
from landfall.driver.core.parts import DriverPart
from landfall.driver.core.steps import Steps
from landfall.driver.decide.requests import LedgerRequest, Observed
from landfall.driver.feeds.feeds import Feeds
from landfall.driver.landing.commits import BatchCommitter
from landfall.driver.landing.completer import Completer
from landfall.driver.landing.in_flight import InFlightBatches
from landfall.driver.landing.lost_ranges import LostRanges
from landfall.driver.landing.membership_sync import MembershipSync
from landfall.driver.replacing.replacements import Replacements
from landfall.driver.requests.executor import RequestExecutor, observe
from landfall.driver.requests.pending_requests import PendingRequest, PendingRequests
from landfall.errors import Fenced, LandfallError
from landfall.lane import LaneWriter
from landfall.ledger import Decision, State
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DriverLane:
    """The ``RequestLane`` of a running driver.

    Attributes:
        group: the resource.
        writer: the right to append to the lane.
        append: appends a record.
        observer: the last known state of the log.
        committer: knows what is stopped without a record.
        membership: knows what the log stops.
        lost_ranges: knows which offsets no group has.
        completer: makes objects visible.
        feeds: know the files of feeds.
        replacements: replace objects.
        pool: where replays run.
    """

    group: ConsumerGroup
    writer: LaneWriter
    append: Append
    observer: Observer
    committer: BatchCommitter
    membership: MembershipSync
    lost_ranges: LostRanges
    completer: Completer
    feeds: Feeds
    replacements: Replacements
    pool: Executor

    @property
    def state(self) -> State:
        """See ``RequestLane``."""
        return self.writer.state

    def is_fenced(self) -> bool:
        """See ``RequestLane``."""
        return self.writer.is_fenced()

    def apply(self, slot: int, objects: Iterable[LandedObject]) -> None:
        """See ``RequestLane``."""
        self.completer.apply(slot, objects)

    def observed(self, tp: TopicPartition) -> Observed:
        """See ``RequestLane``."""
        stalled = {**self.membership.blocked_by_source, **self.committer.blocked}
        return replace(
            observe(self.observer.log, tp),
            last_end=self.observer.last_ends.get(tp),
            lost_end=self._lost_end(tp),
            stalled=stalled.get(tp),
            is_due=tp in self.completer.topic_partitions,
        )

    def _lost_end(self, tp: TopicPartition) -> int | None:
        at = self.state.checkpoint.next_offsets.get(tp)
        return None if at is None else self.lost_ranges.lost_end(tp, at)

    def forget(self, tp: TopicPartition) -> None:
        """See ``RequestLane``."""
        self.committer.try_again(tp)
        self.observer.force_discovery()

    def retry_all(self) -> int:
        """Try everything again; returns how many topic partitions were stopped or waiting."""
        found = self.committer.try_all_again()
        self.observer.force_discovery()
        return found

    def ask_files(self, request: FilesRequest, decision: Decision) -> "Future[Answer]":
        """See ``RequestLane``."""
        return self.feeds.ask(self.state, request, decision)

    def undo(self, request: UndoRequest, decision: Decision) -> Steps:
        """See ``RequestLane``."""
        return self.replacements.undo(request, decision)

    def promote(self, request: PromoteRequest, decision: Decision) -> Steps:
        """See ``RequestLane``."""
        return self.replacements.promote(request, self.group, decision)


@dataclass
class _RunningRequest:
    """A request that takes several steps, and what it waits for."""

    pending: PendingRequest
    steps: Steps
    waits_for: "Future[Any]"


@dataclass
class DriverRequests(DriverPart):
    """Used by the driver's thread; ``pending.submit`` is for any thread.

    Attributes:
        executor: carries requests out.
        lane: the driver's.
        batches: the ones in flight.
        pending: requests that wait to be carried out.
    """

    executor: RequestExecutor
    lane: DriverLane
    batches: InFlightBatches
    pending: PendingRequests
    _running: list[_RunningRequest] = field(default_factory=list)

    @property
    def held(self) -> set[TopicPartition]:
        """Topic partitions with which no batch may be started now."""
        changed = (_changed(pending.request) for pending in self.pending.waiting())
        return {tp for tp in changed if tp is not None}

    @property
    def is_carrying_out(self) -> bool:
        """True if a replay, or another request of several steps, has begun and not ended."""
        return bool(self._running)

    def advance(self, now: datetime) -> None:
        """Carry out what waits, except what has to wait for a batch in flight; end late leases.

        Raises:
            Fenced: another driver has opened the lane.
        """
        in_flight = self.batches.in_flight()
        running = {id(request.pending) for request in self._running}
        for pending in self.pending.waiting():
            if id(pending) in running or _changed(pending.request) in in_flight:
                continue
            if isinstance(pending.request, RetryRequest):
                self._finish(pending, self._retry(pending.request))
            else:
                steps = self.executor.execute(pending.request, self.lane, now)
                self._continue(pending, steps, None)
        self.executor.leases.expire(self.lane.state, now, self.lane.append)
        self._continue_all()

    def close(self, why: str) -> None:
        """Answer everything that waits, and everything that comes, with ``why``."""
        self.pending.close(why)
        self.lane.pool.shutdown(wait=False, cancel_futures=True)

    def _retry(self, request: RetryRequest) -> Answer:
        found = 0 if request.dry_run else self.lane.retry_all()
        message = f"tried again: {plural(found, 'topic partition')} that were stopped or waiting"
        return Answer(Outcome.DONE, message=message)

    def _continue_all(self) -> None:
        running = self._running
        self._running = []
        for request in running:
            if request.waits_for.done():
                self._continue(request.pending, request.steps, request.waits_for)
            else:
                self._running.append(request)

    def _continue(
        self, pending: PendingRequest, steps: Steps, waited_for: "Future[Any] | None"
    ) -> None:
        """Run a request up to where it waits, or to its answer; it has waited for a future."""
        try:
            waits_for = steps.send(waited_for.result() if waited_for else None)
        except StopIteration as end:
            self._finish(pending, end.value)
        except Fenced:
            raise
        except LandfallError as error:
            steps.close()
            self._finish(pending, Answer(Outcome.FAILED, message=str(error)))
        else:
            waits_for.add_done_callback(lambda _: self.pending.wake())
            self._running.append(_RunningRequest(pending, steps, waits_for))

    def _finish(self, pending: PendingRequest, answer: Answer) -> None:
        request = pending.request
        log.info(
            "request answered",
            extra={
                "verb": verb_of(request),
                "who": request.who,
                "outcome": answer.outcome,
                "records": answer.records,
                "why": answer.message or request.why,
            },
        )
        self.pending.finish(pending, answer)


def _changed(request: Request) -> TopicPartition | None:
    """Return the topic partition whose checkpoint or membership a request may change."""
    if not isinstance(request, LedgerRequest) or request.dry_run:
        return None
    return TopicPartition(request.topic, request.partition)
