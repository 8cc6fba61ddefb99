"""Carries out requests of engineers on a running driver, on the driver's own thread.

``landfall.driver.decide.requests`` decides what a request records; here it happens between two
steps of a pass. A record that moves or drops a checkpoint must not meet a batch of the same topic
partition: no batch of it is started while a request waits, and the request waits for the batch that
is in flight. A replay works beside landing, in a thread of its own, because it moves no checkpoint;
only its REPLAY records are appended here. What is asked about files is done where they are looked
for: it moves no checkpoint either.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from landfall.api.values import plural
from landfall.api.verbs import (
    Answer,
    FilesRequest,
    LeaseRequest,
    Outcome,
    PromoteRequest,
    ReplayRequest,
    Request,
    RetryRequest,
    UndoRequest,
    verb_of,
)
from landfall.driver.core.deps import Append
from landfall.driver.core.observer import Observer
from landfall.driver.core.parts import Part
from landfall.driver.core.steps import Steps
from landfall.driver.decide.requests import (
    LedgerRequest,
    Observed,
    PlannedRecord,
    Refusal,
    decide_request,
)
from landfall.driver.feeds.feeds import Feeds
from landfall.driver.feeds.leases import Leases
from landfall.driver.landing.commits import BatchCommitter
from landfall.driver.landing.completer import Completer
from landfall.driver.landing.membership_sync import MembershipSync
from landfall.driver.replacing.replacements import Replacements
from landfall.driver.requests.pending_requests import PendingRequest, PendingRequests
from landfall.driver.requests.replay import ReplayEffects, Replayer, replay
from landfall.errors import Fenced, LandfallError
from landfall.ledger import Decision, State
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, Log, Watermarks

log = logging.getLogger(__name__)


def decision_of(request: Request, now: datetime) -> Decision:
    """Who asks for what, when and why, as records keep it."""
    return Decision(verb_of(request), request.who, request.why, now.isoformat(), request.id)


@dataclass(frozen=True)
class DriverLane:
    """What requests see of a driver, and what they make it forget.

    Attributes:
        observer: the last known state of the log.
        committer: knows what is stopped without a record, and appends.
        membership: knows what the log stops.
        completer: makes objects visible.
        feeds: know the files of feeds.
        replacements: put objects in the place of others.
    """

    observer: Observer
    committer: BatchCommitter
    membership: MembershipSync
    completer: Completer
    feeds: Feeds
    replacements: Replacements

    def observed(self, tp: TopicPartition) -> Observed:
        """What the log shows of a topic partition now.

        Raises:
            Retry: the log does not answer.
            Stalled: the log denies access.
        """
        stalled = {**self.membership.blocked_by_source, **self.committer.blocked}
        return replace(
            observe(self.observer.log, tp),
            last_end=self.observer.last_ends.get(tp),
            lost_end=self._lost_end(tp),
            stalled=stalled.get(tp),
            is_due=tp in self.completer.topic_partitions,
        )

    def _lost_end(self, tp: TopicPartition) -> int | None:
        at = self.committer.writer.state.checkpoint.next_offsets.get(tp)
        return None if at is None else self.membership.lost_ranges.lost_end(tp, at)

    def forget(self, tp: TopicPartition) -> None:
        """Forget why a topic partition is stopped or waits, as far as no record says so."""
        self.committer.blocked.pop(tp, None)
        self.committer.batches.backoff.forget()
        self.observer.force_discovery()

    def retry_all(self) -> int:
        """Forget it for every topic partition; returns how many were stopped or waiting."""
        waiting = {*self.committer.blocked, *self.committer.batches.backoff.apart()}
        self.committer.blocked.clear()
        self.committer.batches.backoff.forget()
        self.observer.force_discovery()
        return len(waiting)


def observe(source: Log, tp: TopicPartition) -> Observed:
    """What the log shows of a topic partition now.

    Raises:
        Retry: the log does not answer.
        Stalled: the log denies access.
    """
    found_topics = source.topics({tp.topic})
    if tp.topic in found_topics.denied:
        raise found_topics.denied[tp.topic]
    starts, ends = source.offsets([tp], Bound.LOG_START), source.offsets([tp], Bound.END)
    for found in (starts, ends):
        if tp in found.unavailable:
            raise found.unavailable[tp]
    marks = None
    if tp in starts.offsets and tp in ends.offsets:
        marks = Watermarks.of(starts.offsets[tp], ends.offsets[tp])
    return Observed(marks=marks, topic_id=found_topics.ids.get(tp.topic))


@dataclass
class _RunningRequest:
    """A request that takes several steps, and what it waits for."""

    pending: PendingRequest
    steps: Steps
    waits_for: "Future[Any]"


@dataclass
class Decisions(Part):
    """Used by the driver's thread; ``pending.submit`` is for any thread.

    Attributes:
        parts: the driver's parts.
        replayer: lands dead letters.
        pool: where replays run.
        pending: requests that wait to be carried out.
    """

    parts: DriverLane
    replayer: Replayer
    pool: Executor
    pending: PendingRequests
    _running: list[_RunningRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        committer = self.parts.committer
        self._leases = Leases(committer.group, committer.deps.store)

    @property
    def held(self) -> set[TopicPartition]:
        """Topic partitions of which no batch may be started now."""
        found = (_changed(pending.request) for pending in self.pending.waiting())
        return {tp for tp in found if tp is not None}

    @property
    def is_carrying_out(self) -> bool:
        """Whether a replay, or another request of several steps, has begun and not ended."""
        return bool(self._running)

    def advance(self, now: datetime) -> None:
        """Carry out what waits; see ``carry_out``."""
        committer = self.parts.committer
        self.carry_out(lambda: committer.writer.state, committer.batches.in_flight(), now)

    def carry_out(
        self, state: Callable[[], State], in_flight: Collection[TopicPartition], now: datetime
    ) -> None:
        """Carry out what waits, except what has to wait for a batch in flight; end late leases.

        ``state`` returns the lane's state, which each request may change.

        Raises:
            Fenced: another driver has opened the lane.
        """
        running = {id(replay.pending) for replay in self._running}
        for pending in self.pending.waiting():
            if id(pending) in running or _changed(pending.request) in in_flight:
                continue
            try:
                answer = self._answer(pending, state(), now)
            except Fenced:
                raise
            except LandfallError as error:
                answer = Answer(Outcome.FAILED, message=str(error))
            if answer:
                self._finish(pending, answer)
        self._leases.expire(state(), now, self.parts.committer.append)
        self._continue_all()

    def close(self, why: str) -> None:
        """Answer everything that waits, and everything that comes, with ``why``."""
        self.pending.close(why)
        self.pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, pending: PendingRequest, state: State, now: datetime) -> Answer | None:
        """The answer; None if it comes later."""
        request = pending.request
        if isinstance(request, LeaseRequest):
            committer = self.parts.committer
            is_fenced = committer.writer.is_fenced
            return self._leases.answer(request, state, now, committer.append, is_fenced)
        match request:
            case RetryRequest():
                found = 0 if request.dry_run else self.parts.retry_all()
                message = (
                    f"tried again: {plural(found, 'topic partition')} that were stopped or waiting"
                )
                return Answer(Outcome.DONE, message=message)
            case ReplayRequest():
                self._begin_replay(pending, request, decision_of(request, now), state)
                return None
        if request.id and request.id in state.decision_ids:
            return Answer(Outcome.DONE, message=f"recorded before, under the id {request.id}")
        if isinstance(request, FilesRequest | UndoRequest | PromoteRequest):
            steps = self._steps(request, state, decision_of(request, now))
            self._wait_for(_RunningRequest(pending, steps, next(steps)))
            return None
        return self._decide(request, state, now)

    def _decide(self, request: LedgerRequest, state: State, now: datetime) -> Answer:
        tp = TopicPartition(request.topic, request.partition)
        observed = self.parts.observed(tp)
        plan = decide_request(state, request, observed, decision_of(request, now))
        if isinstance(plan, Refusal):
            return Answer(Outcome.REFUSED, message=plan.message)
        texts = tuple(planned.text for planned in plan)
        if request.dry_run:
            return Answer(Outcome.DRY_RUN, texts)
        append_all(plan, self.parts.committer.append)
        self.parts.forget(tp)
        return Answer(Outcome.DONE, texts)

    # --------------------------------------------------------------------- what takes several steps

    def _steps(
        self,
        request: FilesRequest | UndoRequest | PromoteRequest,
        state: State,
        decision: Decision,
    ) -> Steps:
        if isinstance(request, UndoRequest):
            return self.parts.replacements.undo(request, decision)
        if isinstance(request, PromoteRequest):
            group = self.parts.committer.group
            return self.parts.replacements.promote(request, group, decision)
        return _awaited(self.parts.feeds.ask(state, request, decision))

    def _begin_replay(
        self, pending: PendingRequest, request: ReplayRequest, decision: Decision, state: State
    ) -> None:
        committer, completer = self.parts.committer, self.parts.completer
        effects = ReplayEffects(committer.append, completer.apply, self.pool)
        steps = replay(self.replayer, request, decision, state, effects)
        self._wait_for(_RunningRequest(pending, steps, next(steps)))

    def _wait_for(self, running: _RunningRequest) -> None:
        running.waits_for.add_done_callback(lambda _: self.pending.wake())
        self._running.append(running)

    def _continue_all(self) -> None:
        running, self._running = self._running, []
        for each in running:
            if each.waits_for.done():
                self._continue(each)
            else:
                self._running.append(each)

    def _continue(self, each: _RunningRequest) -> None:
        try:
            following = each.steps.send(each.waits_for.result())
        except StopIteration as end:
            answer = end.value
        except Fenced:
            raise
        except LandfallError as error:
            each.steps.close()
            answer = Answer(Outcome.FAILED, message=str(error))
        else:
            self._wait_for(_RunningRequest(each.pending, each.steps, following))
            return
        self._finish(each.pending, answer)

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


def _awaited(answer: "Future[Answer]") -> Steps:
    """The only step of a request whose answer comes as a whole."""
    found: Answer = yield answer
    return found


def append_all(plan: Iterable[PlannedRecord], append: Append) -> State:
    """Append the records in order, and return the state after the last.

    Raises:
        Fenced: another driver has opened the lane; the records before are in the ledger.
        Stalled: LEDGER_BROKEN, a record breaks a rule and is not written.
    """
    state: State | None = None
    for planned in plan:
        state = append(planned.make)
    assert state is not None, "a plan has at least one record"
    return state


def _changed(request: Request) -> TopicPartition | None:
    """The topic partition whose checkpoint or membership a request may change."""
    if not isinstance(request, LedgerRequest) or request.dry_run:
        return None
    return TopicPartition(request.topic, request.partition)
