"""Lists the Backfills every few seconds, and wakes the Backfills and groups that need a pass.

They are few, live for hours, and wait for pods, so they are listed instead of watched: a definition
or a right that is missing then costs the groups nothing, and is found again by itself. Each list is
the input of the passes, which ``work_queue`` runs: one that fails is repeated with the next list. A
failure here does not affect the groups: other parts of the operator manage them.

Between lists nothing is remembered but what the metrics show.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from landfall.errors import Retry
from landfall_operator.api.backfill import KIND
from landfall_operator.api.backfill_status import BackfillPhase, BackfillStatus
from landfall_operator.api.status_values import readable
from landfall_operator.core.backfill_snapshot import RETRY
from landfall_operator.core.backfills import is_settled
from landfall_operator.core.cache import Key, ObjectCache
from landfall_operator.objects.names import is_reserved
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime.kube_client import KubeClient, NotFound, RequestRejected
from landfall_operator.runtime.metrics import BackfillSnapshot, Metrics

log = logging.getLogger(__name__)

INTERVAL = 5.0
"""Seconds between two lists while a Backfill runs."""
QUIET_INTERVAL = 15.0
"""Seconds between two lists while none does: a new one is found that late."""
PER_NAMESPACE = 0.2
"""Seconds more for each namespace beyond the first: each is one request."""
SETTLED_LISTS = 12
"""For a settled backfill, one in so many lists leads to a pass."""


@dataclass(frozen=True, slots=True)
class BackfillScope:
    """Namespaces in which backfills are managed, and the functions that learn of them.

    Attributes:
        namespaces: returns the namespaces that are watched; empty for the whole cluster.
        is_ready: returns whether the groups are all known, and may be watched.
        is_managed: returns whether this operator manages a group, by its namespace and name.
        take: takes a listed Backfill over which a pass is due.
        wake: is called with each group that has a changed trial.
    """

    namespaces: Callable[[], tuple[str, ...]]
    is_ready: Callable[[], bool]
    is_managed: Callable[[Key], bool]
    take: Callable[[Json], None]
    wake: Callable[[Key], None]


class Backfills:
    """Lists the Backfills."""

    def __init__(
        self, kube: KubeClient, cache: ObjectCache, metrics: Metrics, scope: BackfillScope
    ) -> None:
        """Nothing is listed yet."""
        self._kube = kube
        self._cache = cache
        self._metrics = metrics
        self._scope = scope
        self._goes_on = True
        self._problems: dict[str | None, str] = {}
        self._lists = 0

    async def keep_listing(self) -> None:
        """List them until the task is canceled."""
        while True:
            namespaces = self._scope.namespaces()
            if self._scope.is_ready():
                try:
                    await self.look(namespaces)
                except Exception:  # an error in here must not end the operator
                    log.exception("backfills not listed")
            await asyncio.sleep(self.pause(len(namespaces)))

    def pause(self, namespaces: int) -> float:
        """Seconds until the next list."""
        interval = INTERVAL if self._goes_on else QUIET_INTERVAL
        return interval + PER_NAMESPACE * max(0, namespaces - 1)

    async def look(self, namespaces: tuple[str, ...]) -> None:
        """List them once, and take each that needs a pass."""
        bodies = [
            body
            for namespace in namespaces or (None,)
            for body in await self._listed(namespace)
            if self._scope.is_managed(_group_of(body))
        ]
        self._metrics.backfill_snapshots = {
            (snapshot.namespace, snapshot.name): snapshot for snapshot in map(_snapshot, bodies)
        }
        self._goes_on = any(not _is_over(body) for body in bodies)
        self._take_promotions(bodies)
        for body in bodies:
            if not _is_over(body) or not self._lists % SETTLED_LISTS:
                self._scope.take(body)
        self._lists += 1

    def _take_promotions(self, bodies: Iterable[Json]) -> None:
        """Wake the groups whose drivers are to promote one, which may sleep, or may again."""
        before = self._cache.promoting
        asked = (body for body in bodies if _status(body).phase is BackfillPhase.PROMOTING)
        self._cache.promoting = frozenset(map(_group_of, asked))
        for key in sorted(before ^ self._cache.promoting):
            self._scope.wake(key)

    async def _listed(self, namespace: str | None) -> list[Json]:
        """All Backfills of a namespace, or of the cluster; none if they cannot be listed now.

        Where Backfills cannot be listed at all, there is no use in a trial's waiting for a list.
        """
        found: list[Json] = []
        version: str | None = None
        problem = ""
        try:
            for page in await asyncio.to_thread(lambda: [*self._kube.pages(KIND, namespace)]):
                found += (b for b in page.items if not is_reserved(b["metadata"]["namespace"]))
                version = page.version
        except NotFound:
            problem = "the CustomResourceDefinition of Backfills is missing"
        except RequestRejected as error:
            problem = str(error)
        except Retry as error:
            log.info("backfills not listed: %s", error)
            return []
        self.take_trials(namespace, found, version)
        if problem and self._problems.get(namespace) != problem:
            log.warning("backfills not managed: %s", problem)
        self._problems[namespace] = problem
        return found

    def take_trials(
        self, namespace: str | None, bodies: Iterable[Json], version: str | None
    ) -> None:
        """Wake the groups that have a changed trial.

        Args:
            namespace: what was listed; None for the cluster.
            bodies: the complete list.
            version: its resourceVersion; None where Backfills cannot be listed at all.
        """
        listed = [*bodies]
        changed = {key for body in listed if (key := self._cache.put(KIND, body))}
        uids = {body["metadata"]["uid"] for body in listed}
        if namespace not in self._cache.trials_listed:  # what waited for it continues
            self._cache.trials_listed.add(namespace)
            changed |= {key for key in self._cache.groups if namespace in {None, key[0]}}
        if version is not None:
            changed |= self._cache.drop_missing(KIND, namespace, uids, version)
        for key in sorted(changed):
            self._scope.wake(key)


def _group_of(body: Json) -> Key:
    return body["metadata"]["namespace"], str(body.get("spec", {}).get("group", ""))


def _status(body: Json) -> BackfillStatus:
    return readable(BackfillStatus, body.get("status", {}))


def _is_over(body: Json) -> bool:
    """Return whether a Backfill has ended and has no pending request."""
    metadata = body["metadata"]
    status = _status(body)
    is_new = status.observed_generation != metadata.get("generation")
    asks = "deletionTimestamp" in metadata or RETRY in metadata.get("annotations", {})
    return not (is_new or asks) and is_settled(status, body.get("spec", {}).get("promote", ""))


def _snapshot(body: Json) -> BackfillSnapshot:
    metadata = body["metadata"]
    return BackfillSnapshot(
        metadata["namespace"],
        metadata["name"],
        str(body.get("spec", {}).get("group", "")),
        _status(body),
    )
