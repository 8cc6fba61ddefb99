"""Manages Backfills, beside the groups: lists them every few seconds, and runs a pass over each.

They are few, live for hours, and wait for pods, so they are listed instead of watched: a definition
or a right that is missing then costs the groups nothing, and is found again by itself. A pass that
fails is repeated with the next list, and cannot hold up another one. Whatever goes wrong here, the
groups are managed by other parts of the operator.

Between passes nothing is remembered but what the metrics show.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from landfall.errors import Fenced, Retry
from landfall_operator.api.backfill import KIND
from landfall_operator.core.backfill_snapshot import RETRY, status_of
from landfall_operator.core.backfills import is_settled
from landfall_operator.core.cache import Key, ObjectCache
from landfall_operator.objects.names import is_reserved
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.backfill_pass import BackfillPass
from landfall_operator.runtime.kube_client import KubeClient, NotFound, RequestRejected
from landfall_operator.runtime.metrics import BackfillSnapshot, Metrics
from landfall_operator.runtime.work_queue import run_pass

log = logging.getLogger(__name__)

INTERVAL = 5.0
"""Seconds between two lists while a Backfill goes on."""
QUIET_INTERVAL = 15.0
"""Seconds between two lists while none does: a new one is found that late."""
PER_NAMESPACE = 0.2
"""Seconds more for each namespace beyond the first: each is one request."""
PASS_SECONDS = 90.0
"""A pass that takes longer is given up; the next one goes on by what is in the cluster."""
CONCURRENT_PASSES = 8
SETTLED_LISTS = 12
"""Of a backfill that nothing goes on with, only every so many lists lead to a pass."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where backfills are managed.

    Attributes:
        namespaces: returns the namespaces that are watched; empty for the whole cluster.
        is_ready: returns whether the groups are all known, and may be watched.
        on_listed: is called with each complete list: its namespace (None for the cluster), the
            Backfills, and its resourceVersion.
        is_managed: returns whether this operator manages a group, by its namespace and name.
    """

    namespaces: Callable[[], tuple[str, ...]]
    is_ready: Callable[[], bool]
    on_listed: Callable[[str | None, list[Json], str], None] = lambda *_: None
    is_managed: Callable[[tuple[str, str]], bool] = lambda _: True


class Backfills:
    """Lists the Backfills, and has a pass run over each."""

    def __init__(
        self,
        kube: KubeClient,
        passes: BackfillPass,
        metrics: Metrics,
        scope: Scope,
    ) -> None:
        """Nothing is listed yet."""
        self._kube = kube
        self._passes = passes
        self._metrics = metrics
        self._scope = scope
        self._goes_on = True
        self._slots = asyncio.Semaphore(CONCURRENT_PASSES)
        self._problems: dict[str | None, str] = {}
        self._lists = 0

    async def keep_managing(self) -> None:
        """Manage them until the task is canceled.

        Raises:
            Fenced: This operator is no longer the leader.
        """
        while True:
            namespaces = self._scope.namespaces()
            if self._scope.is_ready():
                try:
                    await self.manage(namespaces)
                except Fenced:
                    raise
                except Exception:  # an error in here must not end the operator
                    log.exception("backfills not managed")
            await asyncio.sleep(self.pause(len(namespaces)))

    def pause(self, namespaces: int) -> float:
        """Seconds until the next list."""
        interval = INTERVAL if self._goes_on else QUIET_INTERVAL
        return interval + PER_NAMESPACE * max(0, namespaces - 1)

    async def manage(self, namespaces: tuple[str, ...]) -> None:
        """List them once, and run a pass over each that needs one.

        Raises:
            Fenced: This operator is no longer the leader.
        """
        bodies = [
            body
            for namespace in namespaces or (None,)
            for body in await self._listed(namespace)
            if self._scope.is_managed(_group_of(body))
        ]
        self._metrics.backfill_snapshots = {
            (each.namespace, each.name): each for each in map(_snapshot, bodies)
        }
        self._goes_on = any(not _is_over(body) for body in bodies)
        due = [*self._due(bodies)]
        self._lists += 1
        for result in await asyncio.gather(*map(self._pass, due), return_exceptions=True):
            if isinstance(result, Fenced | asyncio.CancelledError):
                raise result

    def _due(self, bodies: list[Json]) -> Iterator[Json]:
        for body in bodies:
            if not _is_over(body) or not self._lists % SETTLED_LISTS:
                yield body

    async def _listed(self, namespace: str | None) -> list[Json]:
        """All of a namespace, or of the cluster; none if they cannot be listed now."""
        found: list[Json] = []
        rest, problem = "", ""
        try:
            while True:
                page = await asyncio.to_thread(self._kube.page, KIND, namespace, "", rest)
                found += (b for b in page.items if not is_reserved(b["metadata"]["namespace"]))
                if not (rest := page.rest):
                    self._scope.on_listed(namespace, found, page.version)
                    break
        except NotFound:
            problem = "the CustomResourceDefinition of Backfills is missing"
        except RequestRejected as error:
            problem = str(error)
        except Retry as error:
            log.info("backfills not listed: %s", error)
            return []
        if problem:
            self._scope.on_listed(namespace, [], "0")
        if problem and self._problems.get(namespace) != problem:
            log.warning("backfills are not managed: %s", problem)
        self._problems[namespace] = problem
        return found

    async def _pass(self, body: Json) -> None:
        fields = {"backfill": f"{body['metadata']['namespace']}/{body['metadata']['name']}"}
        async with self._slots:
            ended = await run_pass(partial(self._passes.run, body), PASS_SECONDS, fields)
        self._metrics.backfill_passes.labels(ended.outcome).inc()
        if ended.fenced:
            raise ended.fenced


def _group_of(body: Json) -> tuple[str, str]:
    return body["metadata"]["namespace"], str(body.get("spec", {}).get("group", ""))


def _is_over(body: Json) -> bool:
    """Whether nothing goes on with a Backfill, and nobody asks for anything."""
    metadata = body["metadata"]
    status = status_of(body.get("status", {}))
    is_new = status.observed_generation != metadata.get("generation")
    asks = "deletionTimestamp" in metadata or RETRY in metadata.get("annotations", {})
    return not (is_new or asks) and is_settled(status, body.get("spec", {}).get("promote", ""))


def _snapshot(body: Json) -> BackfillSnapshot:
    metadata = body["metadata"]
    return BackfillSnapshot(
        metadata["namespace"],
        metadata["name"],
        str(body.get("spec", {}).get("group", "")),
        status_of(body.get("status", {})),
    )


class TrialLists:
    """Takes each list of Backfills."""

    def __init__(self, cache: ObjectCache, wake: Callable[[Key], None]) -> None:
        """``wake`` is called for each group with a trial that has changed."""
        self._cache = cache
        self._wake = wake

    def take(self, namespace: str | None, bodies: Iterable[Json], version: str) -> None:
        """Take a complete list of a namespace, or of the cluster, and its resourceVersion.

        Where Backfills cannot be listed at all, an empty list of version 0 says that there is no
        use in waiting for one.
        """
        listed = list(bodies)
        put = (self._cache.put(KIND, body) for body in listed)
        changed = {key for key in put if key}
        uids = {body["metadata"]["uid"] for body in listed}
        is_first = namespace not in self._cache.trials_listed
        self._cache.trials_listed.add(namespace)
        if is_first:  # what waited for it goes on
            changed |= {key for key in self._cache.groups if namespace in {None, key[0]}}
        for key in sorted(changed | self._cache.drop_missing(KIND, namespace, uids, version)):
            self._wake(key)
