"""When the operator's liveness probe fails."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kubernetes.client import Configuration

from landfall_operator import main
from landfall_operator.main import LIVENESS_SECONDS, Operator
from landfall_operator.runtime.work_queue import WorkQueue
from landfall_operator.settings import read

pytestmark = pytest.mark.asyncio

LATE = LIVENESS_SECONDS + 1


@asynccontextmanager
async def operator(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Operator]:
    """An operator that checked its lease a moment ago."""
    monkeypatch.setattr(main, "connection", Configuration)
    made = Operator(read([], {}))
    made._lease.last_check = time.monotonic()
    yield made
    await made._session.close()


@pytest.mark.parametrize(
    ("oldest", "stalled", "healthy"),
    [
        (0.0, 0.0, True),
        (3600.0, 0.0, True),  # a thousand groups wait for their first pass, and passes end
        (3600.0, LATE, False),
    ],
)
async def test_an_operator_is_alive_as_long_as_passes_end(
    monkeypatch: pytest.MonkeyPatch, oldest: float, stalled: float, *, healthy: bool
) -> None:
    monkeypatch.setattr(WorkQueue, "oldest", oldest)
    monkeypatch.setattr(WorkQueue, "stalled", stalled)

    async with operator(monkeypatch) as made:
        assert made._healthy()[0] is healthy


async def test_an_operator_that_does_not_check_its_lease_is_not_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with operator(monkeypatch) as made:
        made._lease.last_check -= LATE

        assert made._healthy() == (False, f"the lease was last checked {LATE:.0f} s ago")
