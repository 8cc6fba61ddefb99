"""Takes files, and reports their outcome, without a driver: in sessions of a few records.

A session opens the lane, appends its record, and hands the lane over. Several takers at once wait
for each other: a session does not open the lane while another one has it, unless that one made no
progress for a while, since its process may have been killed. A session that is fenced all the same
begins again: its request has an id, by which it finds what it has recorded.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from landfall import __version__, ledger
from landfall.api.spec import ConsumerGroup
from landfall.api.verbs import Answer, LeaseAnswer, LeaseRequest, Outcome, verb_of
from landfall.driver.decide.leases import expirations
from landfall.driver.feeds.leases import Leases
from landfall.errors import Fenced, Retry
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger import LaneOwnership, Record, State
from landfall.store import Store

log = logging.getLogger(__name__)

SESSION = "session-"
"""How the names of writers begin that have a lane for one request."""
WAIT = 0.2
"""Seconds between two looks at a lane that another session has."""
SESSION_PATIENCE = timedelta(seconds=15)
"""How long a session may make no progress before it counts as dead, and is fenced."""
SNAPSHOT_EVERY = 50
"""After how many records a session stores a snapshot: each one reads those after the last."""
MAX_WAIT = timedelta(minutes=5)
"""How long a taker waits for the sessions of other takers."""


class _LaneNeeded(Exception):  # noqa: N818  # stays in this module
    """A record would be needed; the lane is not open."""


@dataclass
class LeaseSession:
    """Carries a request out as soon as no other session has the lane.

    Attributes:
        group: the resource.
        store: holds the ledger and the lists of files.
        lane: the ledger.
        clock: the current time.
        new_name: returns a name that was never used before.
        request: what is asked for.
        take_over: open the lane even if a driver owns it.
    """

    group: ConsumerGroup
    store: Store
    lane: Lane
    clock: Callable[[], datetime]
    new_name: Callable[[], str]
    request: LeaseRequest
    take_over: bool

    def __post_init__(self) -> None:
        self._leases = Leases(self.group, self.store)
        self._seen: tuple[int, float] | None = None

    def run(self) -> Answer:
        """Carry it out.

        Raises:
            Retry: the store does not answer, or other sessions had the lane for too long.
            Stalled: the store denies access, or the ledger is broken.
        """
        began = time.monotonic()
        while time.monotonic() - began < MAX_WAIT.total_seconds():
            state = self.lane.read()
            if answer := self._without_lane(state):
                return answer
            if self._is_busy(state):
                time.sleep(WAIT)
                continue
            try:
                if answer := self._with_lane(state):
                    return answer
            except Fenced as fenced:
                log.info("session fenced", extra={"why": str(fenced)})
        raise Retry(
            f"other sessions have had the lane of {self.group.metadata.name} for {MAX_WAIT}"
        )

    def _without_lane(self, state: State) -> Answer | None:
        """Return the answer that needs no record; None if there is a record to append."""
        name = self.group.metadata.name
        root = self.group.spec.ledger_root.url
        if state.seq < 0:
            return LeaseAnswer(Outcome.REFUSED, message=f"{root} has no ledger of {name}")
        now = self.clock()
        if not self.request.dry_run and next(expirations(state, now), None):
            return self._owned(state)
        try:
            return self._leases.answer(self.request, state, now, _needs_lane)
        except _LaneNeeded:
            return self._owned(state)

    def _owned(self, state: State) -> Answer | None:
        """Return the answer while a driver owns the lane: the driver is to be asked.

        That is no refusal, which would mean that what a worker did must not count.
        """
        is_held = state.holding is LaneOwnership.HELD and not state.writer.startswith(SESSION)
        if not is_held or self.take_over:
            return None
        return LeaseAnswer(
            Outcome.FAILED,
            message=(
                f"a driver has the lane (epoch {state.epoch}, writer {state.writer}). If it runs, "
                "ask it: --driver http://HOST:8081 --token-file FILE, or on Kubernetes in its pod. "
                "If it does not run, or to fence it: --take-over, which is safe at any time"
            ),
        )

    def _is_busy(self, state: State) -> bool:
        """Return whether another session has the lane, and makes progress."""
        if state.holding is not LaneOwnership.HELD or not state.writer.startswith(SESSION):
            return False
        now = time.monotonic()
        if self._seen is None or self._seen[0] != state.seq:
            self._seen = (state.seq, now)
        return now - self._seen[1] < SESSION_PATIENCE.total_seconds()

    def _with_lane(self, state: State) -> Answer | None:
        """Return the answer once it is recorded; None if another process took the lane first."""
        clock = self.clock
        # Nothing is landed here: what is recorded of software and spec stays as it was.
        opening = OpenRequest(
            writer=SESSION + self.new_name(),
            generation=state.generation,
            software=__version__,
            revision=state.revision,
            spec=state.spec,
        )
        writer = LaneWriter.open_after(
            lane=self.lane, state=state, request=opening, clock=clock, on_retry=_log_retry
        )
        if writer is None:
            return None

        def append(make: Callable[..., Record]) -> State:
            return writer.append(lambda header: make(header=header))

        try:
            self._leases.expire(writer.state, clock(), append)
            answer = self._leases.answer(self.request, writer.state, clock(), append)
            every = min(self.group.spec.tuning.snapshot_every, SNAPSHOT_EVERY)
            if writer.state.seq - max(writer.state.snapshot_seq, 0) >= every:
                writer.snapshot(-1)
            return answer
        finally:
            why = f"{verb_of(self.request)} by {self.request.who}"
            append(lambda header: ledger.Yield(header=header, reason=why))


def _needs_lane(_: Callable[..., Record]) -> State:
    raise _LaneNeeded


def _log_retry(error: Retry) -> None:
    log.warning("lane not written", extra={"why": str(error)})
