"""Schedules passes: one coroutine per object sleeps until an event or its next due time.

Groups and Backfills each have a queue, so that neither holds up the other. Events only wake an
object; what has to be done is found out by observing it. Events that arrive during a pass lead to
one more pass. A pass that fails is repeated with exponential backoff. Only so many passes run at
once; the other passes wait, and namespaces take turns. The operator is alive as long as passes end:
having many groups waiting is no reason to restart it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from landfall.errors import LandfallError
from landfall_operator.core.cache import Key
from landfall_operator.runtime.fair_slots import FairSlots
from landfall_operator.runtime.kube_client import Conflict, Unavailable
from landfall_operator.runtime.metrics import PassMetrics

log = logging.getLogger(__name__)

FIRST_PASS_SPREAD_SECONDS = 0.05
"""First passes are spread over this time per new object of the namespace: when an operator starts,
all are new.
"""
MIN_INTERVAL_SECONDS = 0.3
"""The shortest time between two passes over an object: events come in bursts."""
MAX_BACKOFF_SECONDS = 15.0
"""The longest wait after a failure, unless the API server asks for a longer one."""
CONCURRENT_PASSES = 64
"""Passes that run at once. If no driver answers, a thousand groups take their turn in a minute."""
PASS_SECONDS = 120.0
"""A pass that takes longer is given up; the next one continues from what is in the cluster."""
JITTER = 0.25
"""The share by which the time between two passes varies, so that groups do not stay in step."""

Reconcile = Callable[[Key], Awaitable[float | None]]
"""One pass; returns in how many seconds the next one is due, None if only an event makes it so."""


@dataclass(slots=True)
class _Item:
    """The state of one object in the queue. Times are of the monotonic clock.

    Attributes:
        task: The coroutine that runs its passes.
        wake: Set when an event has arrived since the last pass began.
        woken_at: When the first such event arrived; None if there is none.
        due: When the next pass is or was due; it stays so until that pass has ended.
        last_pass: When the last pass ended; before the first pass, when it was added.
        is_new: Whether it has had no pass yet.
    """

    task: asyncio.Task[None] | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    woken_at: float | None = None
    due: float = float("inf")
    last_pass: float = field(default_factory=time.monotonic)
    is_new: bool = True


class WorkQueue:
    """Runs the passes over all objects of a kind; passes over the same one never overlap."""

    def __init__(  # noqa: PLR0913  # each is given by name
        self,
        reconcile: Reconcile,
        metrics: PassMetrics,
        *,
        noun: str = "group",
        concurrent: int = CONCURRENT_PASSES,
        pass_seconds: float = PASS_SECONDS,
        repeats_failed: bool = True,
    ) -> None:
        """Start without objects; ``wake`` adds them.

        Args:
            reconcile: Runs one pass.
            metrics: Counts the passes.
            noun: What an object is called in log events.
            concurrent: How many passes may run at once.
            pass_seconds: How long one pass may take.
            repeats_failed: Whether a pass that failed is repeated by itself, and not only by the
                next event.
        """
        self._reconcile = reconcile
        self._metrics = metrics
        self._noun = noun
        self._pass_seconds = pass_seconds
        self._repeats_failed = repeats_failed
        self._slots = FairSlots(concurrent)
        self._items: dict[Key, _Item] = {}
        self._last_end = float("-inf")

    def __len__(self) -> int:
        return len(self._items)

    @property
    def oldest(self) -> float:
        """Seconds since the last pass over the object that has waited longest."""
        now = time.monotonic()
        return max((now - item.last_pass for item in self._items.values()), default=0.0)

    @property
    def stalled(self) -> float:
        """Seconds for which passes have been due and none has ended; 0 when none is due."""
        due = min((item.due for item in self._items.values()), default=float("inf"))
        return max(0.0, time.monotonic() - max(due, self._last_end))

    def wake(self, key: Key) -> None:
        """Run a pass over an object as soon as possible, and from then on whenever one is due."""
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = _Item()
            item.task = asyncio.create_task(self._run(key, item), name="/".join(key))
        if item.woken_at is None:
            item.woken_at = time.monotonic()
        item.wake.set()

    async def stop(self) -> None:
        """Cancel all passes; the next leader continues from the cluster's state."""
        tasks = [item.task for item in self._items.values() if item.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._items.clear()

    async def _run(self, key: Key, item: _Item) -> None:
        wait: float | None = 0.0
        failures = 0
        await asyncio.sleep(self._first_delay(key[0]))
        while wait is not None or item.wake.is_set():
            item.due = time.monotonic() + (wait or 0.0)
            await _wait_for(item.wake, wait or 0.0)
            item.due = min(item.due, time.monotonic())
            async with self._slots.of(key[0]):
                # Cleared before the pass, so that an event during the pass leads to another one.
                item.wake.clear()
                if item.woken_at is not None:
                    self._metrics.began(time.monotonic() - item.woken_at)
                    item.woken_at = None
                began = time.monotonic()
                outcome, wait = await self._pass(key, failures)
            self._metrics.ended(outcome, time.monotonic() - began)
            item.is_new = False
            failures = failures + 1 if outcome != "done" else 0
            item.last_pass = self._last_end = time.monotonic()
            item.due = float("inf")
            await asyncio.sleep(MIN_INTERVAL_SECONDS)
        del self._items[key]

    def _first_delay(self, namespace: str) -> float:
        """A random time within the period over which a namespace's first passes are spread."""
        new = sum(item.is_new for key, item in self._items.items() if key[0] == namespace)
        return FIRST_PASS_SPREAD_SECONDS * new * random.random()  # noqa: S311  # no secret

    async def _pass(self, key: Key, failures: int) -> tuple[str, float | None]:
        """Run one pass; returns its outcome and in how many seconds the next one is due.

        Every failure is logged: an error in the handling of one object must not stop the other
        objects.
        """
        fields = {self._noun: "/".join(key)}
        outcome = "failed"
        retry_after: float | None = None
        try:
            async with asyncio.timeout(self._pass_seconds):
                wait = await self._reconcile(key)
            return "done", None if wait is None else _jittered(wait)
        except Conflict as conflict:
            log.info("changed again and again during the pass: %s", conflict, extra=fields)
            outcome = "conflict"
        except TimeoutError:
            log.warning("pass given up after %g s", self._pass_seconds, extra=fields)
        except LandfallError as failure:
            log.warning("pass failed: %s", failure, extra=fields)
            retry_after = failure.retry_after if isinstance(failure, Unavailable) else None
        except Exception:
            log.exception("pass failed", extra=fields)
        if not self._repeats_failed:
            return outcome, None
        return outcome, max(retry_after or 0.0, backoff(failures))


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
