"""Runs an operator: ``landfall-operator``, or ``python -m landfall_operator``.

Everything is put together here and nothing is decided: the stock is filled by kopf (``watch``),
passes over groups (``reconcile``) are run when it is time (``rounds``), and all of that only while
this operator holds the lease. When it ends, by a signal or by a fault, the process ends: whoever
has the lease next goes on where it stopped.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import kopf
from kubernetes import config
from kubernetes.client import Configuration
from prometheus_client import disable_created_metrics

from landfall import __version__
from landfall.api.contract import ExitCode
from landfall.clock import SteadyClock
from landfall.errors import Fenced, LandfallError, Retry
from landfall_operator import logs
from landfall_operator.core.cache import GROUP, ObjectCache
from landfall_operator.runtime import http, watcher
from landfall_operator.runtime.action_executor import ActionExecutor
from landfall_operator.runtime.driver_client import HttpDrivers
from landfall_operator.runtime.event_recorder import Events
from landfall_operator.runtime.kube_client import Kube, RequestRejected
from landfall_operator.runtime.leader_election import Lease
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.reconciler import Reconciler, ReconcilerSettings
from landfall_operator.runtime.work_queue import WorkQueue
from landfall_operator.settings import Settings, read

log = logging.getLogger("landfall_operator")

STUCK = 120.0
"""Seconds without a pass over some group, or without a look at the lease, that make an operator
dead.
"""
SWEEP = 600.0
"""Seconds between two lists of everything."""
LEASE_ANSWER = 3.0
"""Seconds a request about the lease may take: one that hangs leaves time for the next one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; returns the exit code, see ``landfall.api.contract.ExitCode``."""
    settings = read(sys.argv[1:] if arguments is None else arguments, os.environ)
    logs.configure(settings.log_format, settings.log_level)
    disable_created_metrics()
    code = asyncio.run(_guarded(settings))
    logging.shutdown()
    # threads that wait for an answer must not keep a process alive that has stopped acting
    os._exit(code)


async def _guarded(settings: Settings) -> ExitCode:
    try:
        await Operator(settings).run()
    except Fenced as lost:
        log.error("%s", lost)  # noqa: TRY400  # the message says it all
        return ExitCode.FENCED
    except RequestRejected as refused:
        log.error("%s", refused)  # noqa: TRY400  # the message says it all
        return ExitCode.STALLED
    except (LandfallError, config.ConfigException, OSError) as error:
        log.error("%s", error)  # noqa: TRY400  # the message says it all
        return ExitCode.UNAVAILABLE
    except Exception:  # the last loop: say what it was, and end
        log.exception("ended by a fault")
        return ExitCode.ERROR
    return ExitCode.OK


class Operator:
    """One operator, put together."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is asked yet."""
        self._settings = settings
        self._cache = ObjectCache()
        self._metrics = metrics = Metrics(self._standing)
        self._session = aiohttp.ClientSession()
        now = SteadyClock()
        hasty = Kube(connection(), metrics, connections=2, answer=LEASE_ANSWER)
        self._lease = Lease(hasty, (settings.namespace, settings.lease), settings.holder, now)
        check = self._lease.check
        self._kube = Kube(connection(), metrics, connections=settings.threads, before_write=check)
        drivers, pool = (
            HttpDrivers(self._session, metrics, check),
            ThreadPoolExecutor(settings.threads),
        )
        executor = ActionExecutor(
            self._kube, self._cache, drivers, Events(self._kube, metrics, now), pool
        )
        reconciler = Reconciler(
            self._cache,
            drivers,
            executor,
            metrics,
            ReconcilerSettings(settings.context, now, settings.interval),
        )
        self._queue = WorkQueue(reconciler.reconcile, metrics)
        self._watching = asyncio.Event()

    async def run(self) -> None:
        """Stand by, lead, and stop at a signal.

        Raises:
            Fenced: the lease is lost.
            Refused: a right is missing.
        """
        settings = self._settings
        log.info(
            "starting",
            extra={"version": __version__, "namespaces": ",".join(settings.namespaces) or "all"},
        )
        shown = await http.serve(
            self._metrics.registry, self._healthy, self._ready, settings.host, settings.port
        )
        log.info(
            "serving",
            extra={"address": ",".join(f"http://{at[0]}:{at[1]}" for at in shown.addresses)},
        )
        try:
            await _first(_signal(), self._lead())
        finally:
            await self._queue.stop()
            await self._lease.release()
            await shown.cleanup()
            await self._session.close()
        log.info("stopped")

    async def _lead(self) -> None:
        await self._prepared()
        await self._lease.acquire()
        await _first(self._lease.keep(), self._watch(), self._sweep())

    async def _prepared(self) -> None:
        """Wait until the API server answers and knows ConsumerGroups, which kopf would only look for once.

        Raises:
            Refused: a right is missing.
        """
        told = ""
        while waits := await asyncio.to_thread(self._missing):
            if waits != told:
                log.warning("waiting for %s", waits)
            told = waits
            self._lease.looked = time.monotonic()
            await asyncio.sleep(2)

    def _missing(self) -> str:
        try:
            if not self._kube.serves(GROUP):
                return "the CustomResourceDefinition of ConsumerGroups"
            watcher.check(self._kube, self._settings.namespaces)
        except Retry as error:
            return f"the API server: {error}"
        return ""

    async def _watch(self) -> None:
        namespaces = self._settings.namespaces
        await kopf.operator(
            registry=watcher.registry(self._cache, self._queue.wake, connection),
            settings=watcher.settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            ready_flag=self._watching,
        )

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            try:
                missed = await asyncio.to_thread(
                    watcher.sweep, self._kube, self._cache, self._settings.namespaces
                )
                for key in missed:
                    self._queue.wake(key)
            except LandfallError as error:
                log.warning("list of everything failed: %s", error)

    def _standing(self) -> OperatorSnapshot:
        return OperatorSnapshot(
            leads=self._lease.held, groups=len(self._queue), oldest_pass=self._queue.oldest
        )

    def _healthy(self) -> tuple[bool, str]:
        looked = time.monotonic() - self._lease.looked
        if looked > STUCK:
            return False, f"no look at the lease for {looked:.0f} s"
        if self._queue.oldest > STUCK:
            return False, f"no pass over some group for {self._queue.oldest:.0f} s"
        return True, "ok"

    def _ready(self) -> tuple[bool, str]:
        if not self._lease.held:
            return self._lease.stands_by, "standing by" if self._lease.stands_by else "starting"
        return self._watching.is_set(), f"leading, {len(self._queue)} groups"


def connection() -> Configuration:
    """The way to the API server: by KUBECONFIG if it is set, else as a pod has it, else as kubectl has it.

    Raises:
        ConfigException: there is none.
    """
    made = Configuration()
    if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
        config.load_incluster_config(client_configuration=made)
    else:
        config.load_kube_config(client_configuration=made)
    return made


async def _signal() -> None:
    """Until somebody asks the process to end."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    await asked.wait()


async def _first(*jobs: Coroutine[Any, Any, None]) -> None:
    """Run all until one ends; then none goes on, and what ended it is raised if it was a fault."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


if __name__ == "__main__":
    sys.exit(main())
