"""When groups are looked at: one coroutine each, that sleeps until something happens or its time has come.

Events only wake; what to do is found by looking. Wake-ups that come while a pass is under way lead
to one more pass. A pass that fails is tried again soon, then less and less soon; how long the group
has waited is what liveness is judged by.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from landfall.errors import LandfallError
from landfall_operator.core.cache import Key
from landfall_operator.runtime.kube_client import Conflict, Unavailable
from landfall_operator.runtime.metrics import Metrics

log = logging.getLogger(__name__)

SPREAD = 0.05
"""Seconds per group that was not looked at yet, over which first looks are spread: at a start all
are new at once.
"""
APART = 0.3
"""Seconds from one pass over a group to the next at least: events come in bursts."""
LONGEST = 15.0
"""Seconds to the next pass after failures, at most; unless the API server asks for more."""

Pass = Callable[[Key], Awaitable[float | None]]


@dataclass(slots=True)
class _Item:
    """The coroutine of one group.

    Attributes:
        task: itself.
        wake: set when something happened.
        woken: when that was, by the monotonic clock; None when nothing did.
        passed: when the last pass ended, or the group was first heard of.
        is_new: whether there was no pass yet.
    """

    task: asyncio.Task[None] | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    woken: float | None = None
    passed: float = field(default_factory=time.monotonic)
    is_new: bool = True


class WorkQueue:
    """Runs passes over groups when it is time for them."""

    def __init__(self, reconcile: Pass, metrics: Metrics) -> None:
        """``reconcile`` returns in how many seconds to look again, or None when the group is gone."""
        self._reconcile = reconcile
        self._metrics = metrics
        self._turns: dict[Key, _Item] = {}

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def oldest(self) -> float:
        """Seconds since the last pass over the group that has waited longest."""
        now = time.monotonic()
        return max((now - turn.passed for turn in self._turns.values()), default=0.0)

    def wake(self, key: Key) -> None:
        """Look at a group as soon as possible, and again and again from then on."""
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Item()
            turn.task = asyncio.create_task(self._queue(key, turn), name="/".join(key))
        if turn.woken is None:
            turn.woken = time.monotonic()
        turn.wake.set()

    async def stop(self) -> None:
        """End all passes where they are; whatever they were at is gone on with by whoever is next."""
        tasks = [turn.task for turn in self._turns.values() if turn.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._turns.clear()

    async def _queue(self, key: Key, turn: _Item) -> None:
        wait: float | None = 0.0
        failures = 0
        await asyncio.sleep(self._share())
        while wait is not None or turn.wake.is_set():
            await _until(turn.wake, wait or 0.0)
            turn.wake.clear()
            if turn.woken is not None:
                self._metrics.wake_seconds.observe(time.monotonic() - turn.woken)
                turn.woken = None
            outcome, wait = await self._one(key, failures)
            turn.is_new = False
            failures = failures + 1 if outcome == "failed" else 0
            self._metrics.passes.labels(outcome).inc()
            turn.passed = time.monotonic()
            await asyncio.sleep(APART)
        del self._turns[key]

    def _share(self) -> float:
        """A random share of the time in which all new groups are looked at."""
        return SPREAD * sum(turn.is_new for turn in self._turns.values()) * random.random()  # noqa: S311  # no secret

    async def _one(self, key: Key, failures: int) -> tuple[str, float | None]:
        """One pass; how it ended, and in how many seconds the next one is due."""
        about = {"group": "/".join(key)}
        try:
            with self._metrics.pass_seconds.time():
                wait = await self._reconcile(key)
            return "done", None if wait is None else wait * random.uniform(0.9, 1.1)  # noqa: S311  # no secret
        except Conflict as conflict:
            log.debug("changed meanwhile: %s", conflict, extra=about)
            return "conflict", 0.0
        except LandfallError as failure:
            log.warning("%s", failure, extra=about)
            asked = failure.after if isinstance(failure, Unavailable) else None
        except Exception:  # a fault of ours in one group is no reason to leave the others alone
            log.exception("pass failed", extra=about)
            asked = None
        return "failed", max(asked or 0.0, backoff(failures))


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row, with jitter."""
    return min(LONGEST, 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311  # no secret


async def _until(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, or for so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
