"""The operator's process: ``landfall-operator``, or ``python -m landfall_operator``.

This module assembles the parts and decides nothing: kopf fills the cache (``watcher``), and the
work queue runs the reconcile passes (``reconciler``) when they are due, only while this operator
holds the lease. When any part ends, by a signal or an error, the process ends: the next leader
continues from what is in the cluster.
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
from kubernetes import config
from kubernetes.client import Configuration
from prometheus_client import disable_created_metrics

from landfall import __version__
from landfall.api.contract import ExitCode
from landfall.clock import SteadyClock
from landfall.errors import Fenced, LandfallError, Retry
from landfall.logs import JsonFormatter, TextFormatter
from landfall_operator.core.cache import GROUP, Key, ObjectCache
from landfall_operator.core.claims import Claim
from landfall_operator.runtime import http, watcher
from landfall_operator.runtime.action_executor import ActionExecutor
from landfall_operator.runtime.backfill_pass import (
    CONCURRENT_PASSES,
    PASS_SECONDS,
    BackfillPass,
)
from landfall_operator.runtime.backfills import Backfills, BackfillScope
from landfall_operator.runtime.control_port import ControlPort, Signer
from landfall_operator.runtime.driver_client import HttpDriverClient
from landfall_operator.runtime.event_recorder import EventRecorder
from landfall_operator.runtime.group_list import group_list
from landfall_operator.runtime.kube_client import KubeClient, RequestRejected
from landfall_operator.runtime.leader_election import LeaderLease, LeaseIdentity
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from landfall_operator.runtime.namespaces import Namespaces
from landfall_operator.runtime.promotions import HttpPromotionClient
from landfall_operator.runtime.reconciler import Reconciler, ReconcilerSettings
from landfall_operator.runtime.signing_keys import SigningKeys
from landfall_operator.runtime.watcher import FirstLists, run_kopf
from landfall_operator.runtime.work_queue import WorkQueue
from landfall_operator.settings import OperatorSettings, read

log = logging.getLogger("landfall_operator")

LIVENESS_SECONDS = 120.0
"""The liveness probe fails when passes are due and none has ended for this long, or when the lease
has not been checked for this long.
"""
RESYNC_SECONDS = 600.0
"""Time between two lists of all objects, which find changes that the watches missed."""
LEASE_REQUEST_SECONDS = 3.0
"""Timeout of requests for the lease: short, so that there is time to retry before it expires."""
_LIBRARY_LEVELS = {
    "kopf": logging.WARNING,
    "kubernetes": logging.WARNING,
    # urllib3 warns about every connection that it opens again; failed requests are logged by us.
    "urllib3": logging.ERROR,
    "asyncio": logging.WARNING,
}
"""The lowest level at which each library may log, unless the operator's own level is higher."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal arrives; returns the exit code, see ``landfall.api.contract.ExitCode``."""
    settings = read(sys.argv[1:] if arguments is None else arguments, os.environ)
    configure_logs(settings.log_format, settings.log_level)
    disable_created_metrics()
    code = asyncio.run(_exit_code(settings))
    logging.shutdown()
    # Not sys.exit(): it waits for threads, and one that waits for a response must not keep alive a
    # process that has stopped acting.
    os._exit(code)


def configure_logs(log_format: str, level: str) -> None:
    """Log to standard error.

    Args:
        log_format: ``text`` or ``json``.
        level: The lowest level that is logged, as ``logging`` names it.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(drop_kopf_fields)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name, lowest in _LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(max(lowest, logging.getLogger().level))


def drop_kopf_fields(record: logging.LogRecord) -> bool:
    """Remove kopf's ``k8s_…`` attributes, which hold whole objects; no record is dropped."""
    for name in [name for name in vars(record) if name.startswith("k8s_")]:
        delattr(record, name)
    return True


async def _exit_code(settings: OperatorSettings) -> ExitCode:
    """Run the operator; returns what ended it."""
    try:
        await Operator(settings).run()
    except Fenced as error:
        log.error("%s", error)  # noqa: TRY400  # expected: no traceback
        return ExitCode.FENCED
    except RequestRejected as error:
        log.error("%s", error)  # noqa: TRY400  # expected: no traceback
        return ExitCode.STALLED
    except (LandfallError, config.ConfigException, OSError) as error:
        log.error("%s", error)  # noqa: TRY400  # expected: no traceback
        return ExitCode.UNAVAILABLE
    except Exception:  # the outermost handler: log the error before the process ends
        log.exception("stopped by an unexpected error")
        return ExitCode.ERROR
    return ExitCode.OK


class Operator:
    """One operator with all its parts."""

    def __init__(self, settings: OperatorSettings) -> None:
        """Assemble the parts; no request is sent before ``run``."""
        self._settings = settings
        self._cache = ObjectCache()
        self._metrics = metrics = Metrics(self._snapshot)
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        now = SteadyClock()
        # A client of its own: renewals must not wait for a connection that the passes use.
        lease_client = KubeClient(
            connection(), metrics, connections=2, answer_seconds=LEASE_REQUEST_SECONDS
        )
        identity = LeaseIdentity(settings.namespace, settings.lease, settings.holder)
        self._lease = LeaderLease(lease_client, identity, now)
        check = self._lease.check
        self._kube = KubeClient(
            connection(), metrics, connections=settings.threads, before_write=check
        )
        self._signing = SigningKeys(self._kube, settings.namespace, settings.signing_key)
        control = ControlPort(self._session, Signer(lambda: self._signing.keys))
        drivers = HttpDriverClient(self._session, control, metrics, check)
        events = EventRecorder(self._kube, metrics, now)
        pool = ThreadPoolExecutor(settings.threads)
        executor = ActionExecutor(
            kube=self._kube, cache=self._cache, drivers=drivers, events=events, pool=pool
        )
        reconciler = Reconciler(
            cache=self._cache,
            drivers=drivers,
            executor=executor,
            metrics=metrics,
            settings=ReconcilerSettings(
                context=settings.context,
                clock=now,
                interval=settings.interval,
                keys=lambda: self._signing.public,
                claims=settings.claims,
                max_rollouts=settings.max_rollouts,
            ),
        )
        self._queue = WorkQueue(reconciler.reconcile, metrics.passes)
        self._namespaces = Namespaces(
            self._kube, self._forget, settings.labelled or settings.namespaces, settings.interval
        )
        self._first_lists = FirstLists(self._kube, self._cache, self._queue.wake)
        passes = BackfillPass(
            kube=self._kube,
            cache=self._cache,
            drivers=drivers,
            promotions=HttpPromotionClient(control, metrics, check),
            executor=executor,
            context=settings.context,
            clock=now,
        )
        self._backfill_queue = WorkQueue(
            passes.reconcile,
            metrics.backfill_passes,
            noun="backfill",
            concurrent=CONCURRENT_PASSES,
            pass_seconds=PASS_SECONDS,
            repeats_failed=False,
        )
        self._backfills = Backfills(
            self._kube,
            self._cache,
            metrics,
            BackfillScope(
                namespaces=lambda: self._namespaces.watched,
                is_ready=self._knows_groups,
                is_managed=self._manages,
                take=lambda body: self._backfill_queue.wake(passes.take(body)),
                wake=self._queue.wake,
            ),
        )
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Wait for the lease, act as leader, and return after a signal.

        Raises:
            Fenced: The lease is lost.
            RequestRejected: A right is missing.
        """
        settings = self._settings
        log.info(
            "starting",
            extra={"version": __version__, "namespaces": _scope(settings)},
        )
        server = await http.serve(
            registry=self._metrics.registry,
            healthy=self._healthy,
            ready=self._ready,
            host=settings.host,
            port=settings.port,
            groups=lambda: group_list(self._metrics.group_snapshots, is_leader=self._lease.held),
        )
        log.info(
            "serving",
            extra={
                "address": ",".join(
                    f"http://{address[0]}:{address[1]}" for address in server.addresses
                )
            },
        )
        try:
            self._take_signals()
            await _until_first(self._until_stopped(), self._lead())
        finally:
            # The order matters: the lease is released after the last pass has ended, not before.
            await self._queue.stop()
            await self._backfill_queue.stop()
            await self._lease.release()
            await server.cleanup()
            await self._session.close()
        log.info("stopped")

    async def _lead(self) -> None:
        await self._wait_for_api()
        await self._lease.acquire()
        await _until_first(self._lease.keep(), self._act())

    async def _act(self) -> None:
        """Manage the groups; drivers know this operator by its key, so that comes first."""
        await self._load_keys()
        await _until_first(
            self._signing.keep_loading(),
            self._namespaces.watch(self._watch),
            self._namespaces.keep_checking(),
            self._backfills.keep_listing(),
            self._resync(),
        )

    async def _load_keys(self) -> None:
        """Wait until the keys are read.

        Raises:
            UnreadableKey: The Secret has something that is no key.
            RequestRejected: A right is missing.
        """
        while True:
            try:
                await asyncio.to_thread(self._signing.load)
            except Retry as error:
                log.warning("waiting for the signing key: %s", error)
                await asyncio.sleep(2)
            else:
                return

    async def _wait_for_api(self) -> None:
        """Wait until the API server answers and serves ConsumerGroups; kopf would look only once.

        Raises:
            RequestRejected: A right is missing.
        """
        logged = ""
        while missing := await asyncio.to_thread(self._missing):
            if missing != logged:
                log.warning("waiting for %s", missing)
            logged = missing
            # Waiting is healthy: the liveness probe must not restart the operator for it.
            self._lease.last_check = time.monotonic()
            await asyncio.sleep(2)

    def _missing(self) -> str:
        """Return what is missing for a start; empty when nothing is."""
        try:
            if not self._kube.serves(GROUP):
                return "the CustomResourceDefinition of ConsumerGroups"
            if labelled := self._settings.labelled:
                self._kube.may_list("Namespace", None, labelled.label)
            elif not self._settings.namespaces:
                watcher.check_rights(self._kube, ())
        except Retry as error:
            return f"the API server: {error}"
        return ""

    async def _watch(self, namespaces: tuple[str, ...], changed: asyncio.Event) -> None:
        registry = watcher.registry(self._cache, self._first_lists.wake, connection)
        await _until_first(
            run_kopf(registry, namespaces, changed, self._take_signals),
            self._first_lists.list(namespaces),
        )

    def _forget(self, namespace: str) -> None:
        """Leave the groups of a namespace alone, until it is watched again."""
        self._first_lists.forget(namespace)
        for key in self._cache.forget(namespace):
            self._queue.wake(key)

    def _take_signals(self) -> None:
        """Let SIGTERM and SIGINT end this process, and not only kopf, which takes them, too."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)

    async def _until_stopped(self) -> None:
        await self._stopped.wait()

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            if self._namespaces.problem or self._namespaces.is_idle:
                continue
            try:
                missed = await watcher.resync(self._kube, self._cache, self._namespaces.watched)
                if missed:
                    log.info("found changes that the watch missed", extra={"groups": len(missed)})
                for key in missed:
                    self._first_lists.wake(key)
            except LandfallError as error:
                log.warning("resync failed: %s", error)

    def _manages(self, key: Key) -> bool:
        """Return whether this operator manages a group; true also if there is none of this name."""
        group = self._cache.groups.get(key)
        if group is None:
            return True
        claim = self._settings.claims.on(group.labels, group.annotations)
        return claim is Claim.MANAGE

    def _knows_groups(self) -> bool:
        nothing = self._namespaces.problem or self._namespaces.is_idle
        return self._first_lists.complete and not nothing

    def _snapshot(self) -> OperatorSnapshot:
        return OperatorSnapshot(
            is_leader=self._lease.held,
            groups=len(self._queue),
            oldest_pass=self._queue.oldest,
            namespaces=dict.fromkeys(self._namespaces.configured, True)
            | dict.fromkeys(self._namespaces.dropped, False),
            unwatched=dict(self._namespaces.unwatched),
        )

    def _healthy(self) -> tuple[bool, str]:
        unchecked = time.monotonic() - self._lease.last_check
        if unchecked > LIVENESS_SECONDS:
            return False, f"the lease was last checked {unchecked:.0f} s ago"
        if self._queue.stalled > LIVENESS_SECONDS:
            return False, f"no reconcile pass has ended for {self._queue.stalled:.0f} s"
        return True, "ok"

    def _ready(self) -> tuple[bool, str]:
        if not self._lease.held:
            return self._lease.on_standby, "on standby" if self._lease.on_standby else "starting"
        if self._namespaces.problem:
            return False, self._namespaces.problem
        if self._namespaces.is_idle:
            return True, "leading; no namespace carries the label that it looks for"
        return self._first_lists.complete, f"leading; groups: {len(self._queue)}"


def _scope(settings: OperatorSettings) -> str:
    """Return which namespaces the operator manages, for the log."""
    if settings.labelled:
        return f"labelled {settings.labelled.label}"
    return ",".join(settings.namespaces) or "all"


def connection() -> Configuration:
    """The connection to the API server: of $KUBECONFIG, else of the pod, else kubectl's default.

    Raises:
        ConfigException: None of these exists.
    """
    made = Configuration()
    if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
        config.load_incluster_config(client_configuration=made)
    else:
        config.load_kube_config(client_configuration=made)
    return made


async def _until_first(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run all until the first one ends, and cancel the rest; raises the error that ended it."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
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
