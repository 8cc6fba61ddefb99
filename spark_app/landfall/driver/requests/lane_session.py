"""Carries a request out without a driver: opens the lane, records, and hands the lane over again.

Opening the lane fences its owner, so a lane that a driver may own is opened only if that is asked
for. It is safe at any time: the ledger decides who lands, and a driver that is fenced ends and is
restarted by its Deployment. Nothing is landed here but what a request lands.
"""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
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
    Request,
    RetryRequest,
    UndoRequest,
    verb_of,
)
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.core.runner import BinRunner
from landfall.driver.core.steps import Steps, run
from landfall.driver.core.stored_specs import store_spec
from landfall.driver.decide.requests import Observed, Refusal
from landfall.driver.feeds.file_requests import (
    AskedOfFiles,
    discovered,
    feed_looker,
    prepare_files,
    why_no_feed,
)
from landfall.driver.feeds.leases import Leases
from landfall.driver.landing.letters_places import check_letters_places
from landfall.driver.landing.lost_ranges import lost_end
from landfall.driver.replacing.giving_up import given_up, why_not_given_up
from landfall.driver.replacing.promoting import Promoting, promote
from landfall.driver.replacing.restoring import Restoring
from landfall.driver.replacing.undo import ReplacingEffects, undo
from landfall.driver.requests.executor import RequestExecutor, observe
from landfall.driver.requests.lease_sessions import SESSION, LeaseSession
from landfall.driver.requests.replay import Replayer
from landfall.errors import Retry
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.lane.replacements import read_replace
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
    """Executes requests without a driver.

    Attributes:
        group: the resource.
        store: holds the ledger and the objects.
        lane: the ledger.
        source: the log.
        runner: lands dead letters.
        clock: the current time.
        new_name: returns a name that was never used before.
        open_files: where the files of a feed are.
        backup: what another group has landed of offsets that the log has lost, if any has.
    """

    group: ConsumerGroup
    store: Store
    lane: Lane
    source: Log
    runner: BinRunner
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
            return LeaseSession(
                group=self.group,
                store=self.store,
                lane=self.lane,
                clock=self.clock,
                new_name=self.new_name,
                request=request,
                take_over=take_over,
            ).run()
        state = self.lane.read()
        if refusal := self._why_not(state, request, take_over=take_over):
            return Answer(Outcome.REFUSED, message=refusal)
        executor = RequestExecutor(
            leases=Leases(self.group, self.store),
            replayer=Replayer(self.group, self.store, self.runner, self.new_name),
        )
        why = f"{verb_of(request)} by {request.who}"
        with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(THREADS) as copiers:
            lane = _SessionLane(session=self, read=state, why=why, pool=pool, copiers=copiers)
            if isinstance(request, UndoRequest | PromoteRequest):
                # Copying takes hours: the lane is opened to record what was copied, and no sooner.
                return run(executor.execute(request, lane, self.clock()))
            # Tried before the lane is opened: no driver is fenced for a request that is refused.
            dry = msgspec.structs.replace(request, dry_run=True)
            planned = run(executor.execute(dry, lane, self.clock()))
            if request.dry_run or planned.outcome is not Outcome.DRY_RUN:
                return planned
            lane.open()
            try:
                answer = run(executor.execute(request, lane, self.clock()))
                if answer.outcome is Outcome.REFUSED:
                    lane.why = answer.message
                return answer
            finally:
                lane.hand_over()

    def append(self, make: Callable[[State], tuple[Callable[..., Record], ...]], why: str) -> State:
        """Open the lane, append the records that ``make`` returns for its state, and hand it over.

        Raises:
            Fenced, Retry, Stalled: as ``carry_out``.
        """
        writer = self.open(self.lane.read())
        for record in make(writer.state):
            _append(writer, record)
        return _hand_over(writer, why)

    def as_opened(self, state: State) -> State:
        """Return the state as if this session had opened the lane."""
        return replace(state, generation=self.generation(state))

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

    def generation(self, state: State) -> int:
        """Return the generation that this session opens the lane with."""
        return max(state.generation, self.group.spec.generation)

    def open(self, state: State) -> LaneWriter:
        """Open the lane, whose state was read before.

        Raises:
            Fenced, Retry, Stalled: as ``carry_out``.
        """
        check_letters_places(state, self.group.spec)
        # The owner's revision: a driver that is restarted after this may open the lane by itself.
        spec = store_spec(self.store, self.group, self.lane.name)
        request = OpenRequest(
            writer=SESSION + self.new_name(),
            generation=self.generation(state),
            software=__version__,
            revision=state.revision,
            spec=spec,
        )
        return LaneWriter.open(
            lane=self.lane, request=request, clock=self.clock, on_retry=_log_retry, state=state
        )


@dataclass
class _SessionLane:
    """A ``RequestLane``: as it will be when the session has opened it, and then as it is.

    Attributes:
        session: what carries the request out.
        read: the state before the lane is opened, or after it was handed over.
        why: the reason in the ledger when the lane is handed over.
        pool: runs the steps of a request.
        copiers: make copies.
    """

    session: LaneSession
    read: State
    why: str
    pool: Executor
    copiers: Executor
    _opened: "_Opened | None" = None
    _observed: dict[TopicPartition, Observed] = field(default_factory=dict)

    def open(self) -> LaneWriter:
        """Open the lane; ``hand_over`` follows."""
        writer = self.session.open(self.read)
        before = writer.state
        is_clean = not (before.unapplied or before.replacing)
        self._opened = _Opened(writer, _Visible(self.session.store, clean=is_clean))
        return writer

    def hand_over(self) -> State:
        """Let a driver open the lane."""
        opened = self._now_open
        self.read = _hand_over(opened.writer, self.why, opened.visible.through)
        self._opened = None
        return self.read

    @property
    def _now_open(self) -> "_Opened":
        assert self._opened, "a dry run records nothing"
        return self._opened

    @property
    def state(self) -> State:
        """See ``RequestLane``."""
        return self._opened.writer.state if self._opened else self.session.as_opened(self.read)

    def append(self, make: Callable[..., Record]) -> State:
        """See ``RequestLane``."""
        return _append(self._now_open.writer, make)

    def is_fenced(self) -> bool:
        """See ``RequestLane``."""
        return self._now_open.writer.is_fenced()

    def apply(self, slot: int, objects: Iterable[LandedObject]) -> None:
        """See ``RequestLane``."""
        self._now_open.visible.apply(slot, objects)

    def observed(self, tp: TopicPartition) -> Observed:
        """See ``RequestLane``; the log is asked once, before the lane is opened."""
        if tp not in self._observed:
            unapplied = chain.from_iterable(self.read.unapplied.values())
            is_due = any(topic_partition(o.upload.key) == tp for o in unapplied)
            seen = observe(self.session.source, tp)
            lost = lost_end(self.session.backup, self.read, tp, seen.marks)
            self._observed[tp] = replace(seen, is_due=is_due, lost_end=lost)
        return self._observed[tp]

    def forget(self, tp: TopicPartition) -> None:
        """See ``RequestLane``; a session remembers nothing."""

    def ask_files(self, request: FilesRequest, decision: Decision) -> "Future[Answer]":
        """See ``RequestLane``."""
        answer = Future[Answer]()
        answer.set_result(self._ask_files(request, decision))
        return answer

    def _ask_files(self, request: FilesRequest, decision: Decision) -> Answer:
        feeds = self.session.group.spec.source.files
        tp = TopicPartition(request.topic, 0)
        if refusal := why_no_feed(self.state, feeds, request.topic):
            return Answer(Outcome.REFUSED, message=refusal)
        spec = next(feed for feed in feeds if feed.topic == request.topic)
        source = self.session.open_files(spec)
        # One for each time: the feed may have more files, and another index, once the lane is open.
        looker = feed_looker(self.session.group.metadata.name, self.session.store, spec, source)
        asked = AskedOfFiles(request, decision, Future())
        prepared = prepare_files(looker, self.state.feeds[tp], asked)
        if isinstance(prepared.plan, Refusal):
            return Answer(Outcome.REFUSED, message=prepared.plan.message)
        if request.dry_run:
            return Answer(Outcome.DRY_RUN, (prepared.plan.text,))
        self.append(discovered(tp.topic, prepared.plan, prepared.listed, decision))
        return Answer(Outcome.DONE, (prepared.plan.text,))

    def undo(self, request: UndoRequest, decision: Decision) -> Steps:
        """See ``RequestLane``."""
        session, state = self.session, self.read
        token = session.new_name()
        through = state.settled_through
        restoring = Restoring(
            store=session.store, lane=session.lane, state=state, token=token, read_through=through
        )
        return undo(request, lambda: restoring, decision, self._effects)

    def promote(self, request: PromoteRequest, decision: Decision) -> Steps:
        """See ``RequestLane``."""
        session = self.session
        token = session.new_name()
        # What the record needs to be there: the lane is opened for it, by this spec.
        spec = store_spec(session.store, session.group, session.lane.name)
        promoting = Promoting(
            group=session.group,
            store=session.store,
            lane=session.lane,
            token=token,
            runner=session.runner,
            specs={session.generation(self.read): spec},
        )
        return promote(request, promoting, decision, self._effects)

    @property
    def _effects(self) -> ReplacingEffects:
        return ReplacingEffects(
            state=lambda: self.read,
            why_not=lambda _: "",
            record=self._replace,
            pool=self.pool,
            copiers=self.copiers,
            give_up=self._give_up,
        )

    def _replace(self, plan: PlannedReplacement, decision: Decision | None) -> State:
        """Record it. The next driver makes visible what is new, and deletes the rest.

        What a promotion is made after, objects that are cut, is made visible here.
        """
        writer = self.open()
        if refusal := plan.why_not(writer.state, writer.state.applied_through):
            raise self._refused(refusal)
        named = plan.stored(self.session.store, self.session.lane)
        after = self.append(plan.record(named, decision=decision))
        if decision is None:
            self.apply(after.seq, (new.landed for new in plan.listed.objects))
        self.hand_over()
        return after

    def _give_up(self, slot: int, decision: Decision) -> State:
        writer = self.open()
        if refusal := why_not_given_up(writer.state, slot, writer.state.applied_through):
            raise self._refused(refusal)
        session = self.session
        before, _ = read_replace(session.lane, writer.state, slot)
        token = session.new_name()
        after = self.append(
            given_up(
                slots=session.store,
                lane=session.lane,
                record=before,
                token=token,
                decision=decision,
            )
        )
        self.hand_over()
        return after

    def _refused(self, why: str) -> Retry:
        """Hand the lane over; return the error with the reason why nothing is recorded."""
        self.why = why
        self.hand_over()
        return Retry(why)


@dataclass(frozen=True)
class _Opened:
    """A lane that is open.

    Attributes:
        writer: the right to append to it.
        visible: makes objects visible.
    """

    writer: LaneWriter
    visible: "_Visible"


class _Visible:
    """Makes decided objects visible, and knows up to which slot all are."""

    def __init__(self, store: Store, *, clean: bool) -> None:
        """``clean``: whether everything decided before is visible."""
        self._store = store
        self._clean = clean
        self.through = -1

    def apply(self, slot: int, objects: Iterable[LandedObject]) -> None:
        """Complete the objects of a slot; what the store does not do now the next driver does."""
        with ThreadPoolExecutor(THREADS) as pool:
            try:
                list(pool.map(self._complete, objects))
            except (Retry, UploadLost) as error:
                self._clean = False
                log.warning(
                    "object left to the next driver", extra={"slot": slot, "why": str(error)}
                )
        if self._clean:
            self.through = slot

    def _complete(self, landed: LandedObject) -> None:
        for attempt in stamina.retry_context(on=Retry, attempts=COMPLETE_TRIES, timeout=60):
            with attempt:
                self._store.complete(landed.upload)


def _append(writer: LaneWriter, make: Callable[..., Record]) -> State:
    return writer.append(lambda header: make(header=header))


def _hand_over(writer: LaneWriter, why: str, applied_through: int = -1) -> State:
    return writer.append(lambda header: ledger.Yield(header=header, reason=why), applied_through)


def _log_retry(error: Retry) -> None:
    log.warning("lane not written", extra={"why": str(error)})
