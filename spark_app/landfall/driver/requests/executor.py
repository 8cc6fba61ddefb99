"""Carries out requests of engineers, in the same way with and without a driver.

``landfall.driver.decide.requests`` decides what a request records; here it is recorded, in a
``RequestLane``. A running driver has one, and carries requests out between two steps of a pass
(``driver_requests``). A session of the command line has another, which it opens for one request
(``lane_session``).

What takes several steps is a generator (``landfall.driver.core.steps``), so that a driver lands
meanwhile: it yields what it waits for, and the thread that appends to the lane sends it the result.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from landfall.api.verbs import (
    Answer,
    DropRequest,
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
from landfall.driver.core.steps import Steps
from landfall.driver.decide.requests import (
    LedgerRequest,
    Observed,
    PlannedRecord,
    Refusal,
    decide_request,
)
from landfall.driver.feeds.leases import Leases
from landfall.driver.requests.replay import ReplayEffects, Replayer, replay
from landfall.ledger import Decision, Record, State
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject
from landfall.source import Bound, Log, Watermarks


class RequestLane(Protocol):
    """The lane that a request is about, with what is known of its log and its files."""

    @property
    def state(self) -> State:
        """The state after the last record."""
        ...

    @property
    def pool(self) -> Executor:
        """Runs the steps of a replay, one at a time."""
        ...

    def append(self, make: Callable[..., Record], /) -> State:
        """Append the record that ``make(header=…)`` returns."""
        ...

    def is_fenced(self) -> bool:
        """Return whether another driver has opened the lane since ``state``."""
        ...

    def apply(self, slot: int, objects: Iterable[LandedObject], /) -> None:
        """Make the objects of a slot visible."""
        ...

    def observed(self, tp: TopicPartition, /) -> Observed:
        """Return what the log shows of a topic partition now.

        Raises:
            Retry: the log does not answer.
            Stalled: the log denies access.
        """
        ...

    def forget(self, tp: TopicPartition, /) -> None:
        """Forget why a topic partition is stopped or waits, as far as no record holds it."""
        ...

    def ask_files(self, request: FilesRequest, decision: Decision, /) -> "Future[Answer]":
        """Carry out a request about the files of a feed."""
        ...

    def undo(self, request: UndoRequest, decision: Decision, /) -> Steps:
        """Undo a REPLACE; see ``landfall.driver.replacing.undo``."""
        ...

    def promote(self, request: PromoteRequest, decision: Decision, /) -> Steps:
        """Promote a backfill; see ``landfall.driver.replacing.promoting``."""
        ...


@dataclass
class RequestExecutor:
    """Carries requests out; appends on the thread that runs the steps.

    Attributes:
        leases: gives files to workers.
        replayer: lands dead letters.
    """

    leases: Leases
    replayer: Replayer

    def execute(self, request: Request, lane: RequestLane, now: datetime) -> Steps:
        """Carry a request out.

        Raises:
            Fenced: another driver has opened the lane.
            LandfallError: something is away; what is recorded by then stays recorded.
        """
        assert not isinstance(request, RetryRequest), "it is for a driver alone"
        if isinstance(request, LeaseRequest):
            return self.leases.answer(request, lane.state, now, lane.append, lane.is_fenced)
        decision = decision_of(request, now)
        steps: Steps
        if isinstance(request, ReplayRequest):
            effects = ReplayEffects(lane.append, lane.apply, lane.pool)
            steps = replay(
                replayer=self.replayer,
                request=request,
                decision=decision,
                state=lane.state,
                effects=effects,
            )
        elif request.id and request.id in lane.state.decision_ids:
            return Answer(Outcome.DONE, message=f"recorded before, under the id {request.id}")
        elif isinstance(request, FilesRequest):
            steps = _awaited(lane.ask_files(request, decision))
        elif isinstance(request, UndoRequest):
            steps = lane.undo(request, decision)
        elif isinstance(request, PromoteRequest):
            steps = lane.promote(request, decision)
        else:
            return _record(request, lane, decision)
        return (yield from steps)


def _awaited(answer: "Future[Answer]") -> Steps:
    """Yield the only step of a request whose answer comes as a whole."""
    found: Answer = yield answer
    return found


def _record(request: LedgerRequest, lane: RequestLane, decision: Decision) -> Answer:
    """Append the records of a request that moves or drops a checkpoint, or clears a block.

    Raises:
        Retry: the log does not answer.
    """
    tp = TopicPartition(request.topic, request.partition)
    observed = lane.observed(tp)
    # Only to leave needs no answer of the log: else a Kafka partition that lost its leader for good
    # could never be taken out.
    if observed.away is not None and not isinstance(request, DropRequest):
        raise observed.away
    plan = decide_request(lane.state, request, observed, decision)
    if isinstance(plan, Refusal):
        return Answer(Outcome.REFUSED, message=plan.message)
    texts = tuple(planned.text for planned in plan)
    if request.dry_run:
        return Answer(Outcome.DRY_RUN, texts)
    _append_all(plan, lane.append)
    lane.forget(tp)
    return Answer(Outcome.DONE, texts)


def _append_all(plan: Iterable[PlannedRecord], append: Append) -> None:
    """Append the records in order.

    Raises:
        Fenced: another driver has opened the lane; the records before are in the ledger.
        Stalled: LEDGER_BROKEN, a record breaks a rule and is not written.
    """
    for planned in plan:
        append(planned.make)


def decision_of(request: Request, now: datetime) -> Decision:
    """Return who asks for what, when and why, as records keep it."""
    return Decision(
        verb=verb_of(request),
        who=request.who,
        why=request.why,
        requested=now.isoformat(),
        id=request.id,
    )


def observe(source: Log, tp: TopicPartition) -> Observed:
    """Return what the log shows of a topic partition now.

    Raises:
        Retry: the log does not answer; of one topic partition alone, ``away`` has its error.
        Stalled: the log denies access.
    """
    found_topics = source.topics({tp.topic})
    if tp.topic in found_topics.denied:
        raise found_topics.denied[tp.topic]
    starts = source.offsets([tp], Bound.LOG_START)
    ends = source.offsets([tp], Bound.END)
    topic_id = found_topics.ids.get(tp.topic)
    for answer in (starts, ends):
        if tp in answer.unavailable:
            return Observed(topic_id=topic_id, away=answer.unavailable[tp])
    marks = None
    if tp in starts.offsets and tp in ends.offsets:
        marks = Watermarks.of(starts.offsets[tp], ends.offsets[tp])
    return Observed(marks=marks, topic_id=topic_id)
