"""Carries a request out without a driver: opens the lane, records, and hands the lane over again.

Opening the lane fences whoever has it, so a lane that a driver may own is opened only if that is
asked for. It is safe at any time: the ledger decides who lands, and a driver that is fenced ends
and is restarted by its Deployment. Nothing is landed here but what a request lands.
"""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain

import msgspec
import stamina

from landfall import __version__, ledger
from landfall.api.spec import ConsumerGroup, Feed
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
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.core.runner import Runner
from landfall.driver.core.steps import Steps, run
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.decide.requests import LedgerRequest, Refusal, decide_request
from landfall.driver.feeds.file_requests import (
    AskedOfFiles,
    discovered,
    feed_looker,
    plan_files,
    prepare_files,
    why_no_feed,
)
from landfall.driver.landing.letters_places import check_letters_places
from landfall.driver.landing.lost_ranges import lost_end
from landfall.driver.replacing.giving_up import given_up, why_not_given_up
from landfall.driver.replacing.promoting import Promoting, promote
from landfall.driver.replacing.restoring import Restoring, read_list
from landfall.driver.replacing.undo import ReplacingEffects, undo
from landfall.driver.requests.decisions import append_all, decision_of, observe
from landfall.driver.requests.lease_sessions import SESSION, carry_out_lease
from landfall.driver.requests.replay import ReplayEffects, Replayer, replay
from landfall.errors import Retry
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger import Decision, LaneOwnership, Record, State
from landfall.ledger.decisions import topic_partition
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject
from landfall.objects import UploadLost
from landfall.source import Backup, Log
from landfall.store import SourceFiles, Store
from landfall.store.urls import open_files

log = logging.getLogger(__name__)

THREADS = 16
COMPLETE_TRIES = 5
"""How often an object is completed before that is left to the next driver."""


@dataclass(frozen=True)
class LaneSession:
    """What carries requests out.

    Attributes:
        group: the resource.
        store: holds the ledger and the objects.
        lane: the ledger.
        source: the log.
        runner: lands dead letters.
        clock: the current time.
        new_name: returns a name that nobody has used before.
        open_files: where the files of a feed are.
        backup: what another group has landed of offsets that the log has lost, if any has.
    """

    group: ConsumerGroup
    store: Store
    lane: Lane
    source: Log
    runner: Runner
    clock: Callable[[], datetime]
    new_name: Callable[[], str]
    open_files: Callable[[Feed], SourceFiles] = open_files
    backup: Backup | None = None

    def carry_out(self, request: Request, *, take_over: bool) -> Answer:
        """Record what the request is about, unless it is refused; then the lane stays untouched.

        Args:
            request: what is asked for.
            take_over: open the lane even if a driver owns it.

        Raises:
            Retry: the store or the log does not answer.
            Fenced: a driver opened the lane meanwhile.
            Stalled: the store or the log denies access, or the ledger is broken.
        """
        if isinstance(request, LeaseRequest):
            return carry_out_lease(self, request, take_over=take_over)
        state = self.lane.read()
        if refusal := self._why_not(state, request, take_over=take_over):
            return Answer(Outcome.REFUSED, message=refusal)
        if isinstance(request, ReplayRequest):
            return self._replay(state, request)
        if isinstance(request, UndoRequest | PromoteRequest):
            return self._replace(state, request)
        if isinstance(request, FilesRequest):
            return self._decide_files(state, request)
        assert not isinstance(request, RetryRequest)
        return self._decide(state, request)

    def append(self, make: Callable[[State], tuple[Callable[..., Record], ...]], why: str) -> State:
        """Open the lane, append the records that ``make`` returns for its state, and hand it over.

        Raises:
            Fenced, Retry, Stalled: as ``carry_out``.
        """
        writer = self._open(self.lane.read())
        for record in make(writer.state):
            _append(writer, record)
        return _hand_over(writer, why)

    def as_opened(self, state: State) -> State:
        """The state as if this session had opened the lane."""
        return replace(state, generation=self._generation(state))

    def _why_not(self, state: State, request: Request, *, take_over: bool) -> str:
        if isinstance(request, RetryRequest):
            return (
                "retry is for a running driver: name it with --driver; "
                "a driver that starts tries everything at once"
            )
        if state.seq < 0:
            return f"{self.group.spec.ledger_root.url} has no ledger of {self.group.metadata.name}"
        if state.holding is LaneOwnership.HELD and not (take_over or request.dry_run):
            return (
                f"a driver has the lane (epoch {state.epoch}, writer {state.writer}). If it runs, "
                "ask it: --driver http://HOST:8081 --token-file FILE, or on Kubernetes "
                "`kubectl exec deploy/GROUP-REVISION -- landfall …`. If it does not run, or to "
                "fence it: --take-over, which is safe at any time"
            )
        return ""

    def _decide(self, state: State, request: LedgerRequest) -> Answer:
        tp = TopicPartition(request.topic, request.partition)
        unapplied = chain.from_iterable(state.unapplied.values())
        is_due = any(topic_partition(o.upload.key) == tp for o in unapplied)
        seen = observe(self.source, tp)
        lost = lost_end(self.backup, state, tp, seen.marks)
        observed = replace(seen, is_due=is_due, lost_end=lost)
        decision = decision_of(request, self.clock())
        # Decided before the lane is opened, too: nobody is fenced for a request that is refused.
        plan = decide_request(self.as_opened(state), request, observed, decision)
        if isinstance(plan, Refusal):
            return Answer(Outcome.REFUSED, message=plan.message)
        if request.dry_run:
            return Answer(Outcome.DRY_RUN, tuple(planned.text for planned in plan))
        writer = self._open(state)
        plan = decide_request(writer.state, request, observed, decision)
        if isinstance(plan, Refusal):
            _hand_over(writer, plan.message)
            return Answer(Outcome.REFUSED, message=plan.message)
        append_all(plan, partial(_append, writer))
        _hand_over(writer, f"{decision.verb} by {decision.who}")
        return Answer(Outcome.DONE, tuple(planned.text for planned in plan))

    def _decide_files(self, state: State, request: FilesRequest) -> Answer:
        feeds, tp = self.group.spec.source.files, TopicPartition(request.topic, 0)
        if refusal := why_no_feed(state, feeds, request.topic):
            return Answer(Outcome.REFUSED, message=refusal)
        if request.id and request.id in state.decision_ids:
            return Answer(Outcome.DONE, message=f"recorded before, under the id {request.id}")
        spec = next(feed for feed in feeds if feed.topic == request.topic)
        name, source = self.group.metadata.name, self.open_files(spec)
        # Planned before the lane is opened: nobody is fenced for a request that is refused.
        looker = feed_looker(name, self.store, spec, source)
        plan = plan_files(looker, state.feeds[tp], request)
        if isinstance(plan, Refusal):
            return Answer(Outcome.REFUSED, message=plan.message)
        if request.dry_run:
            return Answer(Outcome.DRY_RUN, (plan.text,))
        writer, decision = self._open(state), decision_of(request, self.clock())
        # Another one: the feed may have more files, and another index, than it had before.
        looker = feed_looker(name, self.store, spec, source)
        asked = AskedOfFiles(request, decision, Future())
        prepared = prepare_files(looker, writer.state.feeds[tp], asked)
        if isinstance(prepared.plan, Refusal):
            _hand_over(writer, prepared.plan.message)
            return Answer(Outcome.REFUSED, message=prepared.plan.message)
        _append(writer, discovered(tp.topic, prepared.plan, prepared.listed, decision))
        _hand_over(writer, f"{decision.verb} by {decision.who}")
        return Answer(Outcome.DONE, (prepared.plan.text,))

    def _replace(self, state: State, request: UndoRequest | PromoteRequest) -> Answer:
        """Record it. The next driver makes visible what is new, and deletes the rest.

        What a promotion is made after, objects that are cut, is made visible here.
        """
        why = f"{verb_of(request)} by {request.who}"
        now = state

        def record(plan: PlannedReplacement, decision: Decision | None) -> State:
            nonlocal now
            writer = self._open(now)
            if refusal := plan.why_not(writer.state, writer.state.applied_through):
                _hand_over(writer, refusal)
                raise Retry(refusal)
            before = writer.state
            named = plan.stored(self.store, self.lane)
            after = _append(writer, plan.record(named, decision=decision))
            visible = _Visible(self.store, clean=not (before.unapplied or before.replacing))
            if decision is None:
                visible.apply(after.seq, (new.landed for new in plan.listed.objects))
            now = _hand_over(writer, why, visible.through)
            return after

        def give_up(slot: int, decision: Decision) -> State:
            writer = self._open(now)
            if why := why_not_given_up(writer.state, slot, writer.state.applied_through):
                _hand_over(writer, why)
                raise Retry(why)
            before, _ = read_list(self.lane, writer.state, slot)
            make = given_up(self.store, self.lane, before, self.new_name(), decision)
            after = _append(writer, make)
            _hand_over(writer, f"{decision.verb} by {decision.who}")
            return after

        with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(THREADS) as copiers:
            effects = ReplacingEffects(
                lambda: now, lambda _: "", record, pool, copiers, give_up=give_up
            )
            return run(self._steps(state, request, effects))

    def _steps(
        self, state: State, request: UndoRequest | PromoteRequest, effects: ReplacingEffects
    ) -> Steps:
        decision, token = decision_of(request, self.clock()), self.new_name()
        if isinstance(request, UndoRequest):
            restoring = Restoring(self.store, self.lane, state, token, state.applied_through)
            return undo(request, lambda: restoring, decision, effects)
        # What the record needs to be there: the lane is opened for it, by this spec.
        specs = {self._generation(state): store_spec(self.store, self.group, self.lane.name)}
        promoting = Promoting(self.group, self.store, self.lane, token, self.runner, specs)
        return promote(request, promoting, decision, effects)

    def _replay(self, state: State, request: ReplayRequest) -> Answer:
        decision = decision_of(request, self.clock())
        replayer = Replayer(self.group, self.store, self.runner, self.new_name)
        with ThreadPoolExecutor(1) as pool:
            # Tried before the lane is opened: nobody is fenced for a request that is refused.
            nothing = ReplayEffects(_append_nothing, lambda *_: None, pool)
            dry = msgspec.structs.replace(request, dry_run=True)
            planned = run(replay(replayer, dry, decision, self.as_opened(state), nothing))
            if request.dry_run or planned.outcome is Outcome.REFUSED:
                return planned
            writer = self._open(state)
            before = writer.state
            visible = _Visible(self.store, clean=not (before.unapplied or before.replacing))
            effects = ReplayEffects(partial(_append, writer), visible.apply, pool)
            try:
                return run(replay(replayer, request, decision, writer.state, effects))
            finally:
                _hand_over(writer, f"{verb_of(request)} by {request.who}", visible.through)

    def _generation(self, state: State) -> int:
        return max(state.generation, self.group.spec.generation)

    def _open(self, state: State) -> LaneWriter:
        check_letters_places(state, self.group.spec)
        # The owner's revision: a driver that is restarted after this may open the lane by itself.
        spec = store_spec(self.store, self.group, self.lane.name)
        request = OpenRequest(
            SESSION + self.new_name(), self._generation(state), __version__, state.revision, spec
        )
        return LaneWriter.open(self.lane, request, self.clock, _log_retry, state)


class _Visible:
    """Makes decided objects visible, and knows up to which slot all are."""

    def __init__(self, store: Store, *, clean: bool) -> None:
        """``clean`` says whether everything decided before is visible."""
        self._store, self._clean = store, clean
        self.through = -1

    def apply(self, slot: int, objects: Iterable[LandedObject]) -> None:
        """Complete the objects of a slot; what the store does not do now the next driver does."""
        with ThreadPoolExecutor(THREADS) as pool:
            try:
                list(pool.map(self._complete, objects))
            except (Retry, UploadLost) as error:
                self._clean = False
                log.warning("left to the next driver", extra={"slot": slot, "why": str(error)})
        if self._clean:
            self.through = slot

    def _complete(self, landed: LandedObject) -> None:
        for attempt in stamina.retry_context(on=Retry, attempts=COMPLETE_TRIES, timeout=60):
            with attempt:
                self._store.complete(landed.upload)


def _append(writer: LaneWriter, make: Callable[..., Record]) -> State:
    return writer.append(lambda header: make(header=header))


def _append_nothing(_: Callable[..., Record]) -> State:
    raise AssertionError("a dry run records nothing")


def _hand_over(writer: LaneWriter, why: str, applied_through: int = -1) -> State:
    return writer.append(lambda header: ledger.Yield(header=header, reason=why), applied_through)


def _log_retry(error: Retry) -> None:
    log.warning("the lane cannot be written", extra={"why": str(error)})
