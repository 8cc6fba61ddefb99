"""When the work queue reconciles a group."""

import asyncio

import pytest

from landfall_operator.runtime.kube_client import Conflict, Unavailable
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.work_queue import WorkQueue, backoff

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


def queue_of(passes: Passes) -> tuple[WorkQueue, Metrics]:
    metrics = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=0, oldest_pass=0))
    return WorkQueue(passes, metrics), metrics


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
