"""A driver's process in a schedule, and what schedules need around them."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import stamina

from landfall.api.contract import ExitCode
from landfall.driver.http.status import DriverProgress
from landfall.driver.process.handover import LaneContender
from landfall.errors import LandfallError, Reason, Stalled
from tests.crashes.scheduler import Owner, Task

if TYPE_CHECKING:
    from tests.crashes.machine import Schedule

LATE_CHECKS = 0.5
"""How often others continue before a check gets its answer, again and again."""


class Wrong(AssertionError):  # noqa: N818  # the name is the finding
    """The store or a driver is in a state that it must never be in."""


class Process(Owner):
    """A driver's process.

    Attributes:
        contender: what runs in it.
        code: its exit code, if it has ended by itself.
        error: what it has raised otherwise.
        ended: whether it has ended.
        progress: how far its driver was at its last report.
        was_owner: whether it said that it was fenced while it owned the lane.
        is_endless: whether it lands whatever comes, and not only ranges that are due.
        may_name: more reasons that it may end for.
    """

    def __init__(self, name: str, contender: LaneContender, *, is_endless: bool) -> None:
        super().__init__(name)
        self.contender = contender
        self.task: Task | None = None
        self.code: ExitCode | None = None
        self.error: LandfallError | None = None
        self.ended = False
        self.progress: DriverProgress | None = None
        self.was_owner = False
        self.is_endless = is_endless
        self.may_name: tuple[Reason, ...] = ()

    def keeping(self, report: Callable[[DriverProgress], None]) -> Callable[[DriverProgress], None]:
        """The report of its driver, whose progress is kept."""

        def keep(progress: DriverProgress) -> None:
            self.progress = progress
            report(progress)

        return keep

    def run(self) -> None:
        try:
            self.code = self.contender.run()
        except LandfallError as error:
            self.error = error
        finally:
            self.ended = True

    def must_end_with(self, code: ExitCode) -> None:
        """Refuse another end of the last driver.

        Raises:
            Wrong: it has ended otherwise.
        """
        if self.code is not code:
            message = self.contender.deps.counters.message
            raise Wrong(f"the last driver ended with {self.code} {self.error}: {message}")

    @property
    def went_wrong(self) -> str:
        """The message of an end that must never happen, if it did."""
        if isinstance(self.error, Stalled) and self.error.reason not in self.may_name:
            return f"{self.error.reason}: {self.error}"
        message = self.contender.deps.counters.message
        if self.was_owner:
            return f"it said that it was fenced, but it owned the lane: {message}"
        is_named = all(line.startswith(self._named) for line in message.splitlines())
        return message if self.code is ExitCode.STALLED and not is_named else ""

    @property
    def _named(self) -> tuple[str, ...]:
        """How a line of a message begins that somebody can act on."""
        named = (
            Reason.OBJECT_LOST,
            Reason.DATA_LOSS,
            Reason.SOURCE_UNAVAILABLE,
            Reason.FILE_UNREADABLE,
            *self.may_name,
        )
        if self.is_endless:
            return named
        return (*named, Reason.TOPIC_RECREATED, "not landed up to the end of the range: ")


def check_store(schedule: "Schedule", process: Process) -> None:
    """What ``StoreMonitor`` does, until the driver has ended."""
    scheduler, dice, checks = schedule.scheduler, schedule.dice, schedule.luck.checks

    def read_late(key: str) -> bytes | None:
        body = schedule.store.read(key)
        while dice.random() < LATE_CHECKS:
            scheduler.step()
        return body

    while not process.ended:
        scheduler.wait(lambda: process.ended or dice.random() < checks, idle=True)
        with suppress(LandfallError):
            process.contender.check_store(read_late)


@contextmanager
def no_waiting() -> Iterator[None]:
    """Inside, retries do not wait and nothing is logged."""
    hooks = stamina.instrumentation.get_on_retry_hooks()
    stamina.instrumentation.set_on_retry_hooks(())
    logging.disable(logging.CRITICAL)
    try:
        with stamina.set_testing(True, attempts=1000):
            yield
    finally:
        logging.disable(logging.NOTSET)
        stamina.instrumentation.set_on_retry_hooks(hooks)
