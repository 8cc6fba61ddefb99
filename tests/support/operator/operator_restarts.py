"""Operators in this process that are killed at a given write, and started again without any memory.

The parts are the product's own, except for kopf: each pass is preceded by a list of all objects, so
that a test decides when the operator observes them.
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
from landfall_operator.runtime.control_port import Credentials
from landfall_operator.runtime.driver_client import Command, HttpDriverClient
from landfall_operator.runtime.event_recorder import EventRecorder
from landfall_operator.runtime.kube_client import KubeClient, KubeRequest
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.reconciler import Reconciler, ReconcilerSettings
from tests.support.driver.signing import control_port, new_key, public
from tests.support.kubernetes.cluster import Cluster

CONTEXT = OperatorContext(
    image="good:0", namespace="landfall-system", operator_labels={"app": "operator"}
)
PASS_INTERVAL = 0.1
"""Seconds between two passes."""


class Killed(BaseException):
    """The operator was killed at a write. It is no Exception, so the product never catches it."""


class WriteBudget:
    """The number of writes until the kill; the last one takes effect, but its result is lost."""

    def __init__(self, writes: int | None) -> None:
        """None is an unlimited budget."""
        self.left = writes

    def count_write(self) -> None:
        """Count one write.

        Raises:
            Killed: It was the last one.
        """
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                raise Killed


class KillableKubeClient(KubeClient):
    """Counts its writes."""

    def __init__(self, configuration: Configuration, metrics: Metrics, budget: WriteBudget) -> None:
        super().__init__(configuration, metrics)
        self._budget = budget

    def _answer(self, request: KubeRequest) -> tuple[int, bytes, str | None]:
        answer = super()._answer(request)
        if request.method != "GET":
            self._budget.count_write()
        return answer


class KillableDriverClient(HttpDriverClient):
    """Counts its commands."""

    def __init__(
        self, session: aiohttp.ClientSession, metrics: Metrics, budget: WriteBudget
    ) -> None:
        super().__init__(session, control_port(session), metrics)
        self._budget = budget

    async def send(self, address: str, command: Command, credentials: Credentials) -> None:
        await super().send(address, command, credentials)
        self._budget.count_write()


async def run_operator(
    cluster: Cluster, namespace: str, name: str, writes: int | None, is_done: Callable[[], Any]
) -> bool:
    """Reconcile one group until ``is_done``; returns whether the operator was killed before."""
    metrics = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=1, oldest_pass=0.0))
    cache, budget = ObjectCache(), WriteBudget(writes)
    kube = KillableKubeClient(cluster.admin.configuration, metrics, budget)
    with ThreadPoolExecutor(4) as pool:
        async with aiohttp.ClientSession() as session:
            drivers = KillableDriverClient(session, metrics, budget)
            events = EventRecorder(kube, metrics, _now)
            executor = ActionExecutor(kube, cache, drivers, events, pool)
            settings = ReconcilerSettings(CONTEXT, _now, keys=lambda: (public(new_key()),))
            reconciler = Reconciler(cache, drivers, executor, metrics, settings)
            try:
                while not is_done():
                    await watcher.resync(kube, cache, (namespace,))
                    await _pass(reconciler, (namespace, name))
                    await asyncio.sleep(PASS_INTERVAL)
            except Killed:
                return True
    return False


async def _pass(reconciler: Reconciler, key: tuple[str, str]) -> None:
    try:
        await reconciler.reconcile(key)
    except LandfallError:
        return  # the next pass tries again


def _now() -> datetime:
    return datetime.now(UTC)
