"""An operator's lives in this process: each begins with nothing but what the API server knows, and
may
end in any write.

The parts are the product's own, but for kopf: each pass is preceded by a list of everything, so
that a test says when it looks.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import aiohttp
from kubernetes.client import Configuration

from landfall.errors import LandfallError
from landfall_operator.core.cache import ObjectCache
from landfall_operator.objects.pod_templates import OperatorContext
from landfall_operator.runtime import watcher
from landfall_operator.runtime.action_executor import ActionExecutor
from landfall_operator.runtime.driver_client import HttpDrivers, Word
from landfall_operator.runtime.event_recorder import Events
from landfall_operator.runtime.kube_client import Kube, Request
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.reconciler import Reconciler, ReconcilerSettings
from tests.support.cluster import Cluster

SITE = OperatorContext(
    image="good:0", namespace="landfall-system", operator_labels={"app": "operator"}
)
LOOK = 0.1
"""Seconds between two passes."""


class Death(BaseException):
    """The operator is gone in the middle of what it did."""


class Allowance:
    """So many writes a life has; the last one is done, and its outcome never known."""

    def __init__(self, writes: int | None) -> None:
        """None is a life that does not end like this."""
        self.left = writes

    def spend(self) -> None:
        """One write was made.

        Raises:
            Death: it was the last one.
        """
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                raise Death


class MortalKube(Kube):
    """Dies by its writes."""

    def __init__(
        self, configuration: Configuration, metrics: Metrics, allowance: Allowance
    ) -> None:
        super().__init__(configuration, metrics)
        self._allowance = allowance

    def _answer(self, request: Request) -> tuple[int, bytes, str | None]:
        answer = super()._answer(request)
        if request.method != "GET":
            self._allowance.spend()
        return answer


class MortalDrivers(HttpDrivers):
    """Dies by its words."""

    def __init__(
        self, session: aiohttp.ClientSession, metrics: Metrics, allowance: Allowance
    ) -> None:
        super().__init__(session, metrics)
        self._allowance = allowance

    async def tell(self, address: str, word: Word, token: str) -> None:
        await super().tell(address, word, token)
        self._allowance.spend()


async def live(
    cluster: Cluster, namespace: str, name: str, writes: int | None, enough: Callable[[], Any]
) -> bool:
    """Pass over one group until it is enough; whether it died before."""
    metrics = Metrics(lambda: OperatorSnapshot(leads=True, groups=1, oldest_pass=0.0))
    cache, allowance = ObjectCache(), Allowance(writes)
    kube = MortalKube(cluster.admin.configuration, metrics, allowance)
    with ThreadPoolExecutor(4) as pool:
        async with aiohttp.ClientSession() as session:
            drivers = MortalDrivers(session, metrics, allowance)
            hands = ActionExecutor(kube, cache, drivers, Events(kube, metrics, _now), pool)
            reconciler = Reconciler(cache, drivers, hands, metrics, ReconcilerSettings(SITE, _now))
            try:
                while not enough():
                    await asyncio.to_thread(watcher.sweep, kube, cache, (namespace,))
                    await _pass(reconciler, (namespace, name))
                    await asyncio.sleep(LOOK)
            except Death:
                return True
    return False


async def _pass(reconciler: Reconciler, key: tuple[str, str]) -> None:
    try:
        await reconciler.reconcile(key)
    except LandfallError:
        return  # the next pass looks again


def _now() -> datetime:
    return datetime.now(UTC)
