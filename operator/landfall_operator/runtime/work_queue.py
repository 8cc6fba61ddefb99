"""Schedules reconcile passes: one coroutine per group sleeps until an event or its next due time.

Events only wake a group; what has to be done is found out by observing it. Events that arrive
during a pass lead to one more pass. A pass that fails is repeated with exponential backoff. Only so
many passes run at once; the others wait for their turn, in the order in which they became due. The
operator is alive as long as passes end: having many groups waiting is no reason to restart it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from landfall.errors import Fenced, LandfallError
from landfall_operator.core.cache import Key
from landfall_operator.runtime.kube_client import Conflict, Unavailable
from landfall_operator.runtime.metrics import Metrics

log = logging.getLogger(__name__)

FIRST_PASS_SPREAD_SECONDS = 0.05
"""First passes are spread over this time per new group: when an operator starts, all are new."""
MIN_INTERVAL_SECONDS = 0.3
"""The shortest time between two passes over a group: events come in bursts."""
MAX_BACKOFF_SECONDS = 15.0
"""The longest wait after a failure, unless the API server asks for a longer one."""
CONCURRENT_PASSES = 64
"""Passes that run at once. If no driver answers, a thousand groups take their turn in a minute."""
PASS_SECONDS = 120.0
"""A pass that takes longer is given up; it continues from what is in the cluster."""
JITTER = 0.25
"""The share by which the time between two passes varies, so that groups do not stay in step."""

Reconcile = Callable[[Key], Awaitable[float | None]]
"""One pass; returns in how many seconds the next one is due, None when the group is gone."""


@dataclass(slots=True)
class _Item:
    """The state of one group in the queue. Times are of the monotonic clock.

    Attributes:
        task: The coroutine that runs the group's passes.
        wake: Set when an event has arrived since the last pass began.
        woken_at: When the first such event arrived; None if there is none.
        due: When the next pass is or was due; it stays so until that pass has ended.
        last_pass: When the last pass ended; before the first pass, when the group was added.
        is_new: Whether the group has had no pass yet.
    """

    task: asyncio.Task[None] | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    woken_at: float | None = None
    due: float = float("inf")
    last_pass: float = field(default_factory=time.monotonic)
    is_new: bool = True


class WorkQueue:
    """Runs the passes over all groups; passes over the same group never overlap."""

    def __init__(
        self,
        reconcile: Reconcile,
        metrics: Metrics,
        *,
        concurrent: int = CONCURRENT_PASSES,
        pass_seconds: float = PASS_SECONDS,
    ) -> None:
        """Start without groups; ``wake`` adds them.

        Args:
            reconcile: Runs one pass.
            metrics: Counts the passes.
            concurrent: How many passes may run at once.
            pass_seconds: How long one pass may take.
        """
        self._reconcile = reconcile
        self._metrics = metrics
        self._pass_seconds = pass_seconds
        self._slots = asyncio.Semaphore(concurrent)
        self._items: dict[Key, _Item] = {}
        self._last_end = float("-inf")

    def __len__(self) -> int:
        return len(self._items)

    @property
    def oldest(self) -> float:
        """Seconds since the last pass over the group that has waited longest."""
        now = time.monotonic()
        return max((now - item.last_pass for item in self._items.values()), default=0.0)

    @property
    def stalled(self) -> float:
        """Seconds for which passes have been due and none has ended; 0 when none is due."""
        due = min((item.due for item in self._items.values()), default=float("inf"))
        return max(0.0, time.monotonic() - max(due, self._last_end))

    def wake(self, key: Key) -> None:
        """Reconcile a group as soon as possible, and from then on whenever it is due."""
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = _Item()
            item.task = asyncio.create_task(self._run(key, item), name="/".join(key))
        if item.woken_at is None:
            item.woken_at = time.monotonic()
        item.wake.set()

    async def stop(self) -> None:
        """Cancel all passes; the next leader continues from what is in the cluster."""
        tasks = [item.task for item in self._items.values() if item.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._items.clear()

    async def _run(self, key: Key, item: _Item) -> None:
        wait: float | None = 0.0
        failures = 0
        await asyncio.sleep(self._first_delay())
        while wait is not None or item.wake.is_set():
            item.due = time.monotonic() + (wait or 0.0)
            await _wait_for(item.wake, wait or 0.0)
            item.due = min(item.due, time.monotonic())
            async with self._slots:
                # Cleared before the pass, so that an event during the pass leads to another one.
                item.wake.clear()
                if item.woken_at is not None:
                    self._metrics.wake_seconds.observe(time.monotonic() - item.woken_at)
                    item.woken_at = None
                outcome, wait = await self._pass(key, failures)
            item.is_new = False
            failures = failures + 1 if outcome != "done" else 0
            self._metrics.passes.labels(outcome).inc()
            item.last_pass = self._last_end = time.monotonic()
            item.due = float("inf")
            await asyncio.sleep(MIN_INTERVAL_SECONDS)
        del self._items[key]

    def _first_delay(self) -> float:
        """A random time within the period over which the first passes are spread."""
        new = sum(item.is_new for item in self._items.values())
        return FIRST_PASS_SPREAD_SECONDS * new * random.random()  # noqa: S311  # no secret

    async def _pass(self, key: Key, failures: int) -> tuple[str, float | None]:
        """Run one pass; returns its outcome and in how many seconds the next one is due."""
        with self._metrics.pass_seconds.time():
            ended = await run_pass(
                partial(self._reconcile, key), self._pass_seconds, {"group": "/".join(key)}
            )
        if ended.outcome == "done":
            return "done", None if ended.wait is None else _jittered(ended.wait)
        return ended.outcome, max(ended.wait or 0.0, backoff(failures))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a pass over a group or a Backfill has ended.

    Attributes:
        outcome: ``done``, ``conflict`` or ``failed``, as the metrics have it.
        wait: what the pass returned, or the seconds for which the API server asks after a failure.
        fenced: what says that this operator is no longer the leader, if that ended it.
    """

    outcome: str
    wait: float | None = None
    fenced: Fenced | None = None


async def run_pass(
    reconcile: Callable[[], Awaitable[float | None]], seconds: float, fields: Mapping[str, str]
) -> Ended:
    """Run one pass for so many seconds at most; whatever goes wrong is logged with ``fields``."""
    try:
        async with asyncio.timeout(seconds):
            return Ended("done", await reconcile())
    except Conflict as conflict:
        log.info("changed again and again during the pass: %s", conflict, extra=fields)
        return Ended("conflict")
    except TimeoutError:
        log.warning("pass given up after %g s", seconds, extra=fields)
    except LandfallError as failure:
        log.warning("pass failed: %s", failure, extra=fields)
        retry_after = failure.retry_after if isinstance(failure, Unavailable) else None
        return Ended("failed", retry_after, failure if isinstance(failure, Fenced) else None)
    except Exception:  # an error in the handling of one must not stop the others
        log.exception("pass failed", extra=fields)
    return Ended("failed")


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  # no secret


def backoff(failures: int) -> float:
    """Seconds to wait after this many earlier failures in a row: exponential, with jitter."""
    return min(MAX_BACKOFF_SECONDS, 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311  # no secret


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, or after the given time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
