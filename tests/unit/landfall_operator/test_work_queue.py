"""When groups are looked at."""

import asyncio

import pytest

from landfall_operator.runtime.kube_client import Conflict, Unavailable
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.work_queue import WorkQueue, backoff

KEY = ("logs", "clicks")


pytestmark = pytest.mark.asyncio


class Passes:
    """Passes that end as they are told, one after the other; the last way again and again."""

    def __init__(self, *ends: float | Exception | None) -> None:
        self.ends = list(ends)
        self.seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def __call__(self, key: tuple[str, str]) -> float | None:
        self.seen.put_nowait(key)
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, Exception):
            raise end
        return end

    async def more(self, count: int) -> None:
        """Until there were so many more."""
        async with asyncio.timeout(60):
            for _ in range(count):
                assert await self.seen.get() == KEY


def rounds(passes: Passes) -> tuple[WorkQueue, Metrics]:
    metrics = Metrics(lambda: OperatorSnapshot(leads=True, groups=0, oldest_pass=0))
    return WorkQueue(passes, metrics), metrics


def ended(metrics: Metrics, outcome: str) -> float:
    return (
        metrics.registry.get_sample_value("landfall_operator_passes_total", {"outcome": outcome})
        or 0.0
    )


async def test_a_group_is_looked_at_again_when_it_is_time() -> None:
    passes = Passes(0.01)
    made, _ = rounds(passes)

    made.wake(KEY)

    await passes.more(3)
    await made.stop()


async def test_an_event_does_not_wait_for_the_time() -> None:
    passes = Passes(3600.0)
    made, _ = rounds(passes)
    made.wake(KEY)
    await passes.more(1)

    made.wake(KEY)

    await passes.more(1)
    await made.stop()


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Unavailable("no answer"), "failed"),
        (Conflict("changed"), "conflict"),
        (ZeroDivisionError(), "failed"),
    ],
)
async def test_a_pass_that_fails_is_followed_by_another(fault: Exception, outcome: str) -> None:
    passes = Passes(fault, 3600.0)
    made, metrics = rounds(passes)

    made.wake(KEY)

    await passes.more(2)
    assert ended(metrics, outcome) == 1
    await made.stop()


@pytest.mark.parametrize(
    ("failures", "least", "most"), [(0, 0.5, 1), (2, 2, 4), (9, 7.5, 15), (10**6, 7.5, 15)]
)
async def test_failures_are_waited_out_longer_and_longer(
    failures: int, least: float, most: float
) -> None:
    assert least <= backoff(failures) <= most


async def test_a_group_that_is_gone_is_no_longer_looked_at() -> None:
    passes = Passes(None)
    made, _ = rounds(passes)

    made.wake(KEY)

    async with asyncio.timeout(60):
        while len(made):  # noqa: ASYNC110  # nobody else waits for it
            await asyncio.sleep(0.01)
    assert passes.seen.qsize() == 1
