"""When the work queue reconciles a group."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from landfall_operator.runtime import work_queue
from landfall_operator.runtime.kube_client import Conflict, Unavailable
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.work_queue import Reconcile, WorkQueue, backoff

KEY = ("logs", "clicks")


pytestmark = pytest.mark.asyncio


class Passes:
    """Reconcile passes with given results, one after the other; the last result is repeated."""

    def __init__(self, *results: float | Exception | None) -> None:
        self.results = list(results)
        self.keys: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def __call__(self, key: tuple[str, str]) -> float | None:
        self.keys.put_nowait(key)
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result

    async def wait_for(self, count: int) -> None:
        """Return after this many more passes."""
        async with asyncio.timeout(60):
            for _ in range(count):
                assert await self.keys.get() == KEY


class HeldPasses:
    """Passes that last until they are let go."""

    def __init__(self) -> None:
        self.running = self.most = self.ended = 0
        self.keys = list[tuple[str, str]]()
        self.let_go = asyncio.Event()

    async def __call__(self, key: tuple[str, str]) -> float | None:
        self.keys.append(key)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.let_go.wait()
        finally:
            self.running -= 1
        self.ended += 1
        return 3600.0


def many(count: int) -> list[tuple[str, str]]:
    return [("logs", f"group-{number}") for number in range(count)]


def queue_of(passes: Reconcile, **settings: Any) -> tuple[WorkQueue, Metrics]:
    metrics = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=0, oldest_pass=0))
    return WorkQueue(passes, metrics.passes, **settings), metrics


def passes_ended(metrics: Metrics, outcome: str) -> float:
    return (
        metrics.registry.get_sample_value("landfall_operator_passes_total", {"outcome": outcome})
        or 0.0
    )


async def test_a_group_is_reconciled_again_when_it_is_due() -> None:
    passes = Passes(0.01)
    queue, _ = queue_of(passes)

    queue.wake(KEY)

    await passes.wait_for(3)
    await queue.stop()


async def test_an_event_starts_a_pass_before_the_next_due_time() -> None:
    passes = Passes(3600.0)
    queue, _ = queue_of(passes)
    queue.wake(KEY)
    await passes.wait_for(1)

    queue.wake(KEY)

    await passes.wait_for(1)
    await queue.stop()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Unavailable("no answer"), "failed"),
        (Conflict("changed"), "conflict"),
        (ZeroDivisionError(), "failed"),
    ],
)
async def test_a_pass_that_fails_is_followed_by_another(error: Exception, outcome: str) -> None:
    passes = Passes(error, 3600.0)
    queue, metrics = queue_of(passes)

    queue.wake(KEY)

    await passes.wait_for(2)
    assert passes_ended(metrics, outcome) == 1
    await queue.stop()


@pytest.mark.parametrize(
    ("failures", "least", "most"), [(0, 0.5, 1), (2, 2, 4), (9, 7.5, 15), (10**6, 7.5, 15)]
)
async def test_the_backoff_grows_with_the_failures(
    failures: int, least: float, most: float
) -> None:
    assert least <= backoff(failures) <= most


async def test_a_deleted_group_is_no_longer_reconciled() -> None:
    passes = Passes(None)
    queue, _ = queue_of(passes)

    queue.wake(KEY)

    async with asyncio.timeout(60):
        while len(queue):  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.01)
    assert passes.keys.qsize() == 1


async def test_only_so_many_passes_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PASS_SPREAD_SECONDS", 0.0)
    passes = HeldPasses()
    queue, _ = queue_of(passes, concurrent=4)

    for key in [*many(10), *((f"namespace-{number}", "clicks") for number in range(10))]:
        queue.wake(key)
    await eventually(lambda: passes.running == 4)
    for _ in range(100):  # turns of the loop, in which others could begin
        await asyncio.sleep(0)

    assert (passes.running, passes.most) == (4, 4)
    passes.let_go.set()
    await eventually(lambda: passes.ended == 20)
    assert passes.most == 4
    await queue.stop()


async def test_a_namespace_of_slow_passes_does_not_delay_the_group_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PASS_SPREAD_SECONDS", 0.0)
    passes = HeldPasses()
    queue, _ = queue_of(passes, concurrent=8)
    for key in many(200):
        queue.wake(key)
    await eventually(lambda: passes.running == 6)

    queue.wake(("pay", "orders"))

    await eventually(lambda: passes.running == 7)
    assert passes.keys[-1] == ("pay", "orders")
    passes.let_go.set()
    await queue.stop()


async def test_many_new_groups_of_a_namespace_do_not_delay_a_new_one_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_queue, "FIRST_PASS_SPREAD_SECONDS", 5.0)
    began = asyncio.Event()

    async def reconcile(key: tuple[str, str]) -> float | None:
        if key[0] == "pay":
            began.set()
        return 3600.0

    queue, _ = queue_of(reconcile)
    for key in many(200):
        queue.wake(key)
    await asyncio.sleep(0)

    queue.wake(("pay", "orders"))

    async with asyncio.timeout(20):  # one period for all namespaces would be 1,000 seconds long
        await began.wait()
    await queue.stop()


async def test_many_groups_that_wait_are_no_stall_as_long_as_passes_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, oldest, stalled = [time.monotonic() + 1000], list[float](), list[float]()
    monkeypatch.setattr(work_queue, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(work_queue, "FIRST_PASS_SPREAD_SECONDS", 0.0)

    async def pass_of_a_second(_: tuple[str, str]) -> float | None:
        await asyncio.sleep(0)  # meanwhile all others are due, and wait
        now[0] += 1
        oldest.append(queue.oldest)
        stalled.append(queue.stalled)
        return 3600.0

    queue, _ = queue_of(pass_of_a_second, concurrent=1)
    for key in many(100):
        queue.wake(key)
    await eventually(lambda: len(stalled) == 100)

    assert min(oldest) > 100  # all came long ago by this clock
    assert stalled == pytest.approx([1.0] * 100)
    await queue.stop()


async def test_passes_that_are_due_and_do_not_end_are_a_stall() -> None:
    passes = HeldPasses()
    queue, _ = queue_of(passes, concurrent=2)
    for key in many(4):
        queue.wake(key)

    await eventually(lambda: queue.stalled > 0.5)

    passes.let_go.set()
    await eventually(lambda: passes.ended == 4)
    assert queue.stalled == 0
    await queue.stop()


async def test_nothing_is_stalled_while_no_pass_is_due() -> None:
    passes = Passes(3600.0)
    queue, _ = queue_of(passes)
    assert queue.stalled == 0

    queue.wake(KEY)
    await passes.wait_for(1)
    await asyncio.sleep(0.5)

    assert queue.stalled == 0
    await queue.stop()


async def test_a_pass_that_hangs_is_given_up_and_repeated() -> None:
    passes = HeldPasses()
    queue, metrics = queue_of(passes, pass_seconds=0.1)

    queue.wake(KEY)
    await eventually(lambda: passes_ended(metrics, "failed") >= 1)
    passes.let_go.set()

    await eventually(lambda: passes_ended(metrics, "done") == 1)
    await queue.stop()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long passes are waited for; nobody waits."""
    waits: list[float] = []

    async def wait_for(_: asyncio.Event, seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(work_queue, "_wait_for", wait_for)
    monkeypatch.setattr(work_queue, "MIN_INTERVAL_SECONDS", 0.0)
    return waits


async def test_a_group_that_keeps_conflicting_is_reconciled_less_and_less_often(
    waits: list[float],
) -> None:
    passes = Passes(Conflict("changed"))
    queue, _ = queue_of(passes)

    queue.wake(KEY)
    await passes.wait_for(7)
    await queue.stop()

    first, *later = waits[:7]
    assert first == 0
    for wait, most in zip(later, (1, 2, 4, 8, 15, 15), strict=True):
        assert most / 2 <= wait <= most


async def test_groups_that_were_woken_together_do_not_stay_in_step(waits: list[float]) -> None:
    passes = Passes(100.0)
    queue, _ = queue_of(passes)

    queue.wake(KEY)
    await passes.wait_for(400)
    await queue.stop()

    first, *later = waits
    assert first == 0
    assert 75 <= min(later) <= max(later) <= 125
    # No tenth of this time has a third of all passes.
    assert Counter(int(wait / 5) for wait in later).most_common(1)[0][1] < len(later) / 3


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.01)
