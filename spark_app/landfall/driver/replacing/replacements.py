"""Records that objects replace existing ones, and carries it out (docs/adr/0029).

In this order, which ``tests/model/replacing.py`` explores: the REPLACE; the new objects become
visible; a record calls the slot applied. From then they count, and nothing waits for more:
``landfall.driver.replacing.cleaning_up`` deletes the old ones, and RETIRED records when none is
left (docs/adr/0066). A driver that opens the lane continues what former ones have begun.

Nothing waits for a REPLACE that takes long, or that the store refuses to make visible
(docs/adr/0075). If anything was recorded after it that only waits for it, it is decided *again*, by
a later record that is the same: what came in between is applied without it.

If the store loses the upload of a new object, the REPLACE is *given up*, by another one with an
empty list: what was to be replaced counts as before, and is all there, since nothing is deleted
before a record calls the REPLACE applied. ``landfall undo`` gives up what is refused, too.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from threading import Event
from typing import TypeVar

import stamina
from msgspec import structs

from landfall.api.compaction_status import ReplacingStatus
from landfall.api.next_steps import give_up_step
from landfall.api.spec import ConsumerGroup
from landfall.api.values import plural
from landfall.api.verbs import PromoteRequest, UndoRequest
from landfall.driver.core.deps import Append, DriverDeps, record_failure
from landfall.driver.core.draining import Draining
from landfall.driver.core.parts import DriverPart
from landfall.driver.core.planned_replacement import PlannedReplacement
from landfall.driver.core.retry_backoff import wait_after
from landfall.driver.core.steps import Steps
from landfall.driver.landing.completer import LONGEST_WAIT, Completer
from landfall.driver.landing.lost_uploads import Abort
from landfall.driver.replacing.cleaning_up import CleaningUp, delete_expired
from landfall.driver.replacing.giving_up import given_up, why_not_given_up
from landfall.driver.replacing.grace_period import GracePeriod, Publishers
from landfall.driver.replacing.promoting import Promoting, promote
from landfall.driver.replacing.restoring import Restoring
from landfall.driver.replacing.undo import ReplacingEffects, undo
from landfall.errors import (
    AccessDenied,
    Fenced,
    LandfallError,
    LettersDenied,
    Retry,
    StoreDenied,
    cause,
)
from landfall.lane import LaneWriter
from landfall.lane.replacements import read_replaced
from landfall.ledger import (
    Decision,
    Header,
    PendingReplacement,
    Record,
    Replace,
    Retired,
    State,
    decode,
)
from landfall.ledger.effects import replaces
from landfall.ledger.replace.replacement_lists import ReplacementList

log = logging.getLogger(__name__)

PATIENCE = timedelta(minutes=1)
"""How long an undoing or a promotion waits for what is being replaced before it looks again."""
EXPIRY_INTERVAL = timedelta(hours=1)
"""Between two looks for copies that have expired."""

MAX_RETIRING = 100
"""REPLACEs whose old objects cannot be deleted, above which nothing is merged."""
MAX_KEPT = 2000
"""REPLACEs with old objects left, above which nothing is merged: every snapshot has them."""

Result = TypeVar("Result")


@dataclass(slots=True)
class _Running:
    """A REPLACE that is not applied.

    Attributes:
        pending: its entry in the ledger.
        since: when it was recorded, or found.
        reading: reads it and its list; None if this driver has recorded it.
        record: it, once the new objects were given to the completer.
        failures: how often in a row something of it failed.
        wait_until: it is not tried before this time.
    """

    pending: PendingReplacement
    since: datetime
    reading: "Future[tuple[Replace, ReplacementList]] | None" = None
    record: Replace | None = None
    failures: int = 0
    wait_until: datetime | None = None


@dataclass
class Replacements(DriverPart):
    """Used by the driver's thread alone; the work is done in threads of its own.

    Attributes:
        writer: the right to append to the lane.
        deps: the driver's dependencies.
        append: appends a record.
        completer: makes new objects visible.
        wake: called, from any thread, when something has ended.
        abort: aborts uploads that are not needed.
        draining: shows whether the driver must end, so that nothing new is recorded.
        retain: how long what retired can be brought back.
        keep: how long old objects stay where they are.
        publishers: that must have followed before old objects are deleted, and may hold them.
    """

    writer: LaneWriter
    deps: DriverDeps
    append: Append
    completer: Completer
    wake: Callable[[], object]
    abort: Abort
    draining: Draining
    retain: timedelta
    keep: timedelta = timedelta(0)
    publishers: Publishers = field(default_factory=dict)
    _running: dict[int, _Running] = field(default_factory=dict)
    _plan: PlannedReplacement | None = None
    _refused: AccessDenied | None = None
    _reserved: dict[int, frozenset[str]] = field(default_factory=dict)
    _waiting: list[tuple["Future[None]", datetime]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)
    _deletable: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.planner = self.deps.new_planner(self.writer.lane, self.wake)
        self._expired_at = self.deps.clock() - EXPIRY_INTERVAL
        self._stopped = Event()
        self._readers = self.deps.background.pool(1, "replace")
        copies = self.keep < self.retain  # else the way back has expired before the deletion
        self._cleaning_up = CleaningUp(self.deps, self.writer.lane, self.wake, copies=copies)
        self._grace = GracePeriod(
            deps=self.deps,
            lane=self.writer.lane,
            keep=self.keep,
            publishers=self.publishers,
            wake=self.wake,
        )
        self._expiring = self.deps.background.pool(1, "expire")
        for slot, pending in sorted(self.writer.state.replacing.items()):
            # Before anything is appended: no record may call the slot applied meanwhile.
            self.completer.hold(slot)
            reading = self._submit(self._readers, self._read, slot)
            self._running[slot] = _Running(pending, self.deps.clock(), reading)

    def finish_merging(self, *, merges: bool) -> bool:
        """Return whether something is under way that a driver waits for before it ends.

        Args:
            merges: whether what is due may begin now, since nothing waits for the end.
        """
        # What the store refuses is left to the next driver.
        running = any(not self.completer.refused(slot) for slot in self._running)
        if running or not merges:
            return running
        state, applied = self.writer.state, self.completer.applied_through
        is_unrecorded = any(slot <= applied for slot in state.replacing)  # APPLIED comes next
        is_looking = self._grace.is_looking(state)
        cleans_up = is_looking or self._cleaning_up.is_advancing(self._deletable)
        return is_unrecorded or cleans_up or self.planner.finish(state)

    @property
    def note(self) -> str:
        """A line on work under way, and on what the planner cannot do; empty if nothing."""
        running = plural(len(self._running), "ledger record")
        busy = f"replacing objects: {running}" if self._running else ""
        if self.refused:
            slot, refused = next(iter(self.refused.items()))
            busy = (
                f"{plural(len(self.refused), 'REPLACE')} refused by the store, and tried again; "
                f"nothing waits for it. To give it up: `landfall undo {slot}`: {refused}"
            )
        status = self.planner.status
        problem = status.problem if status else ""
        wrong = f"objects are not merged: {problem}" if problem else ""
        waits = self._grace.problem
        kept = f"replaced objects are not deleted yet: {waits}" if waits else ""
        held = self._grace.held
        return "\n".join(filter(None, (busy, wrong, self._cleaning_up.note, kept, held)))

    @property
    def status(self) -> ReplacingStatus:
        """The work that is left, and what the store refuses."""
        refused, left = self.refused, self._cleaning_up.left
        undeletable = left if self._cleaning_up.problem else 0
        found = (str(error) for error in refused.values())
        problem = next(found, "") or self._cleaning_up.problem
        step = next((give_up_step(slot) for slot in refused), "")
        return ReplacingStatus(
            waiting=len(self._running),
            refused=len(refused),
            undeleted_objects=left,
            undeletable_objects=undeletable,
            problem=problem,
            next_step=step,
        )

    def why_not(self, plan: PlannedReplacement) -> str:
        """Return why a plan must not be recorded now; empty if it may be."""
        state = self.writer.state
        return plan.why_not(state, max(state.applied_through, self.completer.applied_through))

    def record(self, plan: PlannedReplacement, decision: Decision | None = None) -> State:
        """Append the REPLACE of a plan that may be recorded, and begin to carry it out.

        Raises:
            Retry: its list could not be stored; nothing is recorded.
            Fenced: another driver has opened the lane.
        """
        named = plan.stored(self.deps.store, self.writer.lane)
        state, record = self._append(plan.record(named, decision=decision))
        self._running[state.seq] = self._begun(state, record)
        objects = (new.landed for new in plan.listed.objects)
        self.completer.apply(state.seq, objects, is_fresh=True)
        counts = {"retired": named.retired, "objects": named.objects}
        log.info("replacement recorded", extra={"slot": state.seq, **counts})
        return state

    def give_up(self, slot: int, decision: Decision | None = None) -> State:
        """Give up a REPLACE that is not applied; what it was to replace counts as before.

        Raises:
            Retry: it is applied, or not read yet, or its empty list could not be stored.
            Fenced: another driver has opened the lane.
        """
        state, running = self.writer.state, self._running.get(slot)
        applied = max(state.applied_through, self.completer.applied_through)
        if why := why_not_given_up(state, slot, applied):
            raise Retry(why)
        if running is None:
            raise Retry(f"the REPLACE in slot {slot} is applied meanwhile")
        return self._give_up(slot, running, decision)

    def _give_up(self, slot: int, running: _Running, decision: Decision | None = None) -> State:
        if running.record is None:
            raise Retry(f"the REPLACE in slot {slot} is being read")
        store, lane = self.deps.store, self.writer.lane
        token = self.deps.new_name()
        after, record = self._append(
            given_up(slots=store, lane=lane, record=running.record, token=token, decision=decision)
        )
        del self._running[slot]
        self.completer.give_up(slot)
        self._running[after.seq] = self._begun(after, record)
        log.warning("replacement given up", extra={"slot": slot, "by": after.seq})
        return after

    def _append(self, make: Callable[..., Record]) -> tuple[State, Replace]:
        """Append a REPLACE; its slot is not called applied before it is released."""
        made = list[Replace]()

        def kept(header: Header) -> Record:
            record = make(header=header)
            made.extend(replaces([record]))
            return record

        state = self.append(kept)
        self.completer.hold(state.seq)
        return state, made[-1]

    def _begun(self, state: State, record: Replace) -> _Running:
        """Return a REPLACE that was recorded just now."""
        return _Running(state.replacing[state.seq], self.deps.clock(), record=record)

    def undo(self, request: UndoRequest, decision: Decision) -> Steps:
        """Undo a REPLACE; see ``landfall.driver.replacing.undo``."""

        def begin() -> Restoring:
            return self._restoring(self.writer.state.settled_through)

        return undo(request, begin, decision, self._effects)

    def promote(self, request: PromoteRequest, group: ConsumerGroup, decision: Decision) -> Steps:
        """Promote a backfill of the group; see ``landfall.driver.replacing.promoting``."""
        lane, token = self.writer.lane, self.deps.new_name()
        promoting = Promoting(
            group=group, store=self.deps.store, lane=lane, token=token, runner=self.deps.runner
        )
        return promote(request, promoting, decision, self._effects)

    @property
    def _effects(self) -> ReplacingEffects:
        return ReplacingEffects(
            state=lambda: self.writer.state,
            why_not=self.why_not,
            record=self.record,
            pool=self._readers,
            copiers=self._cleaning_up.pool,
            reserve=self._reserve,
            settled=self._settled,
            give_up=self.give_up,
        )

    def _settled(self) -> "Future[None]":
        """Return a future that is done once nothing is being replaced, or after ``PATIENCE``."""
        waiting = Future[None]()
        self._waiting.append((waiting, self.deps.clock() + PATIENCE))
        return waiting

    def _release_waiting(self, now: datetime) -> None:
        is_settled = not self.writer.state.replacing
        waiting = self._waiting
        self._waiting = []
        for future, until in waiting:
            if is_settled or now >= until:
                future.set_result(None)
            else:
                self._waiting.append((future, until))

    def _reserve(self, folders: Iterable[str]) -> Callable[[], None]:
        """Let nothing be merged in folders until what this returns is called."""
        number = next(self._numbers)

        def release() -> None:
            self._reserved.pop(number, None)
            self.planner.reserve(self._all_reserved)

        self._reserved[number] = frozenset(folders)
        self.planner.reserve(self._all_reserved)
        return release

    @property
    def _all_reserved(self) -> frozenset[str]:
        return frozenset().union(*self._reserved.values())

    @property
    def protected_uploads(self) -> frozenset[str]:
        """Ids of uploads that are perhaps to be recorded."""
        taken = self._plan.uploads if self._plan else ()
        return self.planner.protected.union(upload.upload_id for upload in taken)

    def recover(self, report: Callable[[], None], wait: Callable[[], None]) -> None:
        """Return once it is known what former drivers have decided, so that it is not aborted.

        Raises:
            Stalled: a list is missing or damaged.
        """
        while True:
            self._proceed(self.deps.clock(), begins=False)
            if all(running.record is not None for running in self._running.values()):
                return
            report()
            wait()

    def advance(self, now: datetime) -> None:
        """Continue every REPLACE that is not applied, and record what is planned.

        Raises:
            Stalled: a foreign object is at a key; a list is missing or damaged.
            Fenced: another driver has opened the lane.
        """
        self._proceed(now, begins=not self.draining.must_end)

    def _proceed(self, now: datetime, *, begins: bool) -> None:
        """Take the steps of a pass; with ``begins``, those too that record something new."""
        refused = self._refused
        self._refused = None
        if refused:
            record_failure(self.deps, cause(refused, "Replace"), refused)
        lost = self.completer.lost() if self._running else {}
        for slot, running in list(self._running.items()):
            if running.wait_until is not None and now < running.wait_until:
                continue
            try:
                self._advance(slot, running, is_lost=slot in lost)
            except Retry as error:
                running.failures += 1
                running.wait_until = now + wait_after(running.failures)
                record_failure(self.deps, cause(error, "Replace"), error)
        self._clean_up(now, begins=begins)
        self._release_waiting(now)
        if begins:
            self._decide_again(now)
            self._record_plans()
            self._expire_if_due(now)

    def stop(self) -> None:
        """Leave what is not done to the next driver."""
        self._stopped.set()
        taken = self._plan.uploads if self._plan else ()
        self.abort((*taken, *self.planner.stop()))
        self._cleaning_up.stop()
        self._grace.stop()
        for pool in (self._readers, self._expiring):
            pool.shutdown(wait=False, cancel_futures=True)

    def _clean_up(self, now: datetime, *, begins: bool) -> None:
        """Continue the deletion of retired objects, and record what is gone."""
        retiring = self.writer.state.retiring
        self._deletable = self._grace.over(self.writer.state, now)
        for slot in sorted(self._deletable):
            self._cleaning_up.begin(slot, retiring[slot])
        before = {s: r.pending for s, r in self._running.items() if not r.pending.retires_later}
        gone = self._cleaning_up.advance(now, {**before, **retiring})
        for slot in before.keys() & {*gone}:
            del self._running[slot]
            self.completer.release(slot)
            self._cleaning_up.forget([slot])
        emptied = tuple(sorted(retiring.keys() & {*gone}))
        if emptied and begins:
            try:
                self.append(partial(Retired, slots=emptied))
            except Retry as error:  # the next pass tries again
                record_failure(self.deps, cause(error, "Replace"), error)
            else:
                self._cleaning_up.forget(emptied)

    def _record_plans(self) -> None:
        left = len(self.writer.state.retiring)
        if len(self._deletable) < MAX_RETIRING and left < MAX_KEPT:
            self.planner.observe(self.writer.state)
        while plan := self._plan or self.planner.take():
            self._plan = plan
            if why := self._why_reserved(plan) or self.why_not(plan):
                self._discard(plan, why)
                continue
            try:
                state = self.record(plan)
            except Retry as error:  # the next pass tries again
                record_failure(self.deps, cause(error, "Replace"), error)
                return
            self._plan = None
            self.planner.recorded(plan, state.seq)

    def _discard(self, plan: PlannedReplacement, why: str) -> None:
        """Never record a plan. To give way to a copy in its folders is no failure."""
        self._plan = None
        self.abort(plan.uploads)
        if self._why_reserved(plan):
            self.planner.gave_way(plan)
        else:
            self.planner.refused(plan, why)

    def _why_reserved(self, plan: PlannedReplacement) -> str:
        """Return why merges are not recorded: an undoing or a promotion copies at the same time."""
        taken = self._all_reserved.intersection(plan.folders)
        return f"objects in {min(taken)} are being undone or promoted" if taken else ""

    def _advance(self, slot: int, running: _Running, *, is_lost: bool) -> None:
        if running.record is None:
            if running.reading and running.reading.done():
                running.record, listed = running.reading.result()
                self.completer.apply(slot, (new.landed for new in listed.objects))
        elif is_lost:
            log.warning("upload of a replacement lost", extra={"slot": slot})
            self._give_up(slot, running)
        elif self.completer.is_complete(slot):
            if running.pending.retires_later:
                del self._running[slot]
                self.completer.release(slot)
                log.info("replacement made visible", extra={"slot": slot})
            else:
                self._cleaning_up.begin(slot, running.pending)

    def _decide_again(self, now: datetime) -> None:
        """Decide those again, by a later record, that hold up what was recorded after them."""
        due = [
            slot
            for slot, running in sorted(self._running.items())
            if self._holds_up(slot, running, now)
        ]
        for slot in due:
            running = self._running[slot]
            assert running.record is not None
            again = partial(
                structs.replace, running.record, instead=slot, again=True, decision=None
            )
            try:
                state, running.record = self._append(again)
            except Retry as error:  # the next pass tries again
                record_failure(self.deps, cause(error, "Replace"), error)
                return
            self.completer.decide_again(slot, state.seq)
            del self._running[slot]
            self._running[state.seq] = running
            running.since = now
            extra = {"slot": state.seq, "instead": slot}
            log.info("replacement decided again", extra=extra)

    def _holds_up(self, slot: int, running: _Running, now: datetime) -> bool:
        """Return whether anything waits for nothing but a REPLACE, and has waited for long."""
        if running.record is None or not running.pending.retires_later:
            return False
        if now - running.since < self.deps.decide_again_after:
            return False
        state = self.writer.state
        after = (*state.unapplied, *(state.replacing.keys() - self._running.keys()))
        horizons = (horizon.after for horizon in state.pending_horizons)
        return any(other > slot for other in (*after, *horizons))

    @property
    def refused(self) -> Mapping[int, AccessDenied]:
        """The REPLACEs whose new objects the store refuses to make visible, by slot."""
        found = {slot: self.completer.refused(slot) for slot in sorted(self._running)}
        return {slot: error for slot, error in found.items() if error}

    def _expire_if_due(self, now: datetime) -> None:
        state = self.writer.state
        if state.replaced and now - self._expired_at >= EXPIRY_INTERVAL:
            self._expired_at = now
            self._submit(self._expiring, self._expire, state, now)

    def _expire(self, state: State, now: datetime) -> None:
        try:
            delete_expired(self.writer.lane, state, self.retain, now)
        except LandfallError as error:  # tried again an hour later
            log.warning("copies of replaced objects not expired", extra={"why": str(error)})

    def _restoring(self, read_through: int) -> Restoring:
        lane = self.writer.lane
        state = self.writer.state
        token = self.deps.new_name()
        return Restoring(
            store=self.deps.store, lane=lane, state=state, token=token, read_through=read_through
        )

    # --------------------------------------------------------------------------- in other threads

    def _submit(
        self, pool: Executor, work: Callable[..., Result], *arguments: object
    ) -> "Future[Result]":
        future = pool.submit(work, *arguments)
        future.add_done_callback(lambda _: self.wake())
        return future

    def _read(self, slot: int) -> tuple[Replace, ReplacementList]:
        lane = self.writer.lane
        body = self._until_done(lane.read_slot, self.writer.state, slot)
        if body is None:  # only a later owner, to whom it was applied, rolls it up
            raise Fenced(f"another driver has opened the lane, and has rolled up slot {slot}")
        [record] = replaces([decode(slot, body)])
        return record, self._until_done(read_replaced, lane.slots, slot, record.listed)

    def _until_done(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Return the result, as soon as the store answers."""
        for attempt in stamina.retry_context(
            on=self._should_retry, attempts=None, timeout=None, wait_max=LONGEST_WAIT
        ):
            with attempt:
                try:
                    return work(*arguments)
                except (StoreDenied, LettersDenied) as denied:
                    self._refused = denied
                    raise
        raise AssertionError("there is no last attempt")

    def _should_retry(self, error: Exception) -> bool:
        return isinstance(error, Retry) and not self._stopped.is_set()
