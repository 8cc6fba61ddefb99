"""How takers of a schedule ask: a driver, or in a session of their own, as ``landfall files`` does.

A driver gets a request as one does over HTTP. Whoever asks waits for the answer, but not for ever;
it never comes from a driver that was killed, froze or lost the lane. A session opens the lane,
appends and hands it over on the taker's thread: every call of it may meet a fault.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from landfall.api.contract import LANE
from landfall.api.verbs import Answer, LeaseRequest, Outcome
from landfall.driver.requests import lease_sessions
from landfall.driver.requests.lane_session import LaneSession
from landfall.errors import Fenced, Retry
from landfall.lane import Lane
from landfall.source.files_log import FilesLog
from tests.crashes.process import Process
from tests.support.driver.fakes import FakeRunner

if TYPE_CHECKING:
    from tests.crashes.feeds import FeedSchedule
    from tests.crashes.scheduler import Owner

ASKS_DRIVER = 0.7
"""How often a driver is asked, if there is one."""
TAKES_OVER = 0.4
"""How often a session opens the lane though a driver owns it."""
SLEEP = 5.0
"""Seconds that pass while a session waits for others: a few sleeps, and they count as dead."""
NOTHING_THERE = "has no ledger"
"""What a refusal says that is about the group, and not about the request."""


def is_final(answer: Answer) -> bool:
    """Whether an answer says what became of the request."""
    is_refused = answer.outcome is Outcome.REFUSED
    is_there = NOTHING_THERE not in answer.message
    return answer.outcome is Outcome.DONE or (is_refused and is_there)


class Asking:
    """The ways by which the takers of a schedule ask.

    Attributes:
        waits: the driver that is asked, and its answer, by the name of the taker that waits.
    """

    def __init__(self, schedule: "FeedSchedule") -> None:
        self._schedule, self._slept = schedule, 0.0
        self.waits: dict[str, tuple[Process, Future[Answer]]] = {}

    def ask(self, me: "Owner", request: LeaseRequest) -> Answer | None:
        """Ask somebody; returns the answer, None if there is none.

        Raises:
            Stalled: the ledger is broken.
        """
        schedule = self._schedule
        going = [p for p in schedule.processes if not (p.dead or p.ended)]
        if schedule.calm:
            going = [p for p in going if not p.frozen]
        owners = [p for p in going if p.contender._driver]
        if owners and (schedule.calm or schedule.dice.random() < ASKS_DRIVER):
            return self._ask_driver(me, schedule.dice.choice(owners), request)
        # Once nothing fails any more, drivers are left alone: they must manage by themselves.
        takes_over = not going if schedule.calm else schedule.dice.random() < TAKES_OVER
        return self._ask_session(me, request, take_over=takes_over)

    @contextmanager
    def time_of_sessions(self) -> Iterator[None]:
        """Inside, sessions wait for the schedule's other threads instead of real time."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lease_sessions, "time", self)
            yield

    def sleep(self, _: float) -> None:
        """See ``time.sleep``."""
        self._slept += SLEEP
        self._schedule.pause()

    def monotonic(self) -> float:
        """See ``time.monotonic``."""
        return self._slept

    def _ask_driver(self, me: "Owner", process: Process, request: LeaseRequest) -> Answer | None:
        driver = process.contender._driver
        assert driver
        self._schedule.say(f"{me.name} asks {process.name}: {request}")
        pending = driver._requests.pending
        said = pending.submit(request, timedelta(0))
        if said.outcome is not Outcome.WAITING:
            return said
        answer = next(each.answer for each in pending.waiting() if each.request == request)
        self.waits[me.name] = process, answer
        try:
            self._schedule.scheduler.wait(answer.done, idle=True)
        finally:
            del self.waits[me.name]
        return answer.result() if answer.done() else None

    def _ask_session(self, me: "Owner", request: LeaseRequest, *, take_over: bool) -> Answer | None:
        schedule = self._schedule
        how = ", and takes over" * take_over
        schedule.say(f"{me.name} asks in a session{how}: {request}")
        group = schedule.group(schedule.generations)
        pool = schedule.background.pool
        session = LaneSession(
            group,
            schedule.store,
            Lane(schedule.store, group.metadata.name, LANE, lambda _: pool()),
            FilesLog(group),
            FakeRunner(schedule.store),
            schedule.clock,
            lambda: f"{me.name}-{next(schedule.names)}",
        )
        try:
            return session.carry_out(request, take_over=take_over)
        except (Retry, Fenced) as error:
            schedule.say(f"{me.name}: {error}")
            return None
