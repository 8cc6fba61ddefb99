"""Which of the configured namespaces can be watched now, and what becomes of the others.

With ``--namespace``, the operator's rights are in Roles of these namespaces, and a namespace that
is deleted takes them along. The operator then drops that namespace and manages the groups of all
others; when it may watch the namespace again, it takes it back. Without ``--namespace`` there is
one set of rights for the whole cluster, and nothing to drop.

The rights to list groups and to remove their finalizer outlive the Role where the chart's
``rbac.finalizers`` is set, so groups do not keep a namespace from being deleted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import kopf

from landfall.errors import Retry
from landfall_operator.api.backfill import KIND as BACKFILL
from landfall_operator.core.backfill_snapshot import FINALIZER as DISCARD
from landfall_operator.core.cache import GROUP, Key, ObjectCache
from landfall_operator.objects.names import FINALIZER
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime import watcher
from landfall_operator.runtime.kube_client import KubeClient, NotFound, RequestRejected

log = logging.getLogger(__name__)

CHECK_INTERVALS = 2
"""Reconcile intervals between two looks at the rights in every namespace: one request for each."""
_PROBED = "Deployment"
"""The kind whose right is looked at: the right to list groups may outlive all others."""

Watch = Callable[[tuple[str, ...], asyncio.Event], Awaitable[None]]
"""Watches namespaces until the event is set; raises what ends it before."""


class Namespaces:
    """The configured namespaces, and which of them are watched.

    Attributes:
        configured: All of them; empty for the whole cluster.
        dropped: Why a namespace is not watched, by its name.
    """

    def __init__(
        self,
        kube: KubeClient,
        cache: ObjectCache,
        wake: Callable[[Key], None],
        configured: tuple[str, ...],
        interval: float,
    ) -> None:
        """No namespace has been looked at yet; ``wake`` is called for groups that are dropped.

        ``interval`` is the number of seconds between two reconcile passes over a group.
        """
        self._seconds = CHECK_INTERVALS * interval
        self._kube = kube
        self._cache = cache
        self._wake = wake
        self.configured = configured
        self.dropped: dict[str, str] = {}
        self._complete: set[str] = set()
        self._changed = asyncio.Event()
        self._checking = asyncio.Lock()

    @property
    def watched(self) -> tuple[str, ...]:
        """The namespaces that can be watched; empty also if the whole cluster is."""
        return tuple(name for name in self.configured if name not in self.dropped)

    @property
    def problem(self) -> str:
        """Why nothing at all is watched; empty while something is."""
        if not self.configured or self.watched:
            return ""
        return f"no namespace can be watched: {'; '.join(self.dropped.values())}"

    async def watch(self, watch: Watch) -> None:
        """Watch what can be watched, and start again whenever that changes.

        Raises:
            Exception: What ended ``watch``, if no lost right explains it.
        """
        await self.check()
        while True:
            self._changed = changed = asyncio.Event()
            if self.problem:
                await changed.wait()
                continue
            try:
                await watch(self.watched, changed)
            except Exception:  # kopf raises what it met, such as a 403, without a public type
                if not await self.check():
                    raise

    async def keep_checking(self) -> None:
        """Look at the rights in every namespace again and again."""
        while self.configured:
            await asyncio.sleep(self._seconds)
            await self.check()
        await asyncio.Event().wait()

    async def check(self) -> bool:
        """Look at the rights in every namespace; returns whether others are watched than before."""
        async with self._checking:
            before = self.watched
            for namespace in self.configured:
                await self._check(namespace)
            for namespace in self.dropped:
                for key in self._cache.forget(namespace):
                    self._wake(key)
                await self._release(namespace)
        if changed := before != self.watched:
            self._changed.set()
        return changed

    async def _check(self, namespace: str) -> None:
        try:
            await asyncio.to_thread(self._try_to_list, namespace)
        except RequestRejected as error:
            if namespace not in self.dropped:
                log.error(  # noqa: TRY400  # expected: no traceback
                    "namespace %s cannot be watched, and its groups are left alone: %s",
                    namespace,
                    error,
                )
            self._complete.discard(namespace)
            self.dropped[namespace] = str(error)
        except Retry as error:
            log.info("namespace %s not checked: %s", namespace, error)
        else:
            if self.dropped.pop(namespace, None):
                log.info("namespace %s is watched again", namespace)
            self._complete.add(namespace)

    def _try_to_list(self, namespace: str) -> None:
        if namespace in self._complete:
            self._kube.may_list(_PROBED, namespace, watcher.SELECTORS[_PROBED])
        else:
            watcher.check_rights(self._kube, (namespace,))

    async def _release(self, namespace: str) -> None:
        """Let the deleted groups and backfills of a namespace go; their pods end with it."""
        for kind, finalizer in ((GROUP, FINALIZER), (BACKFILL, DISCARD)):
            try:
                page = await asyncio.to_thread(self._kube.page, kind, namespace, "")
                for body in page.items:
                    finalizers = body["metadata"].get("finalizers", [])
                    if "deletionTimestamp" in body["metadata"] and finalizer in finalizers:
                        await asyncio.to_thread(self._remove_finalizer, kind, finalizer, body)
            except (Retry, RequestRejected, NotFound) as error:
                log.info("%ss of namespace %s not released: %s", kind, namespace, error)

    def _remove_finalizer(self, kind: str, finalizer: str, body: Json) -> None:
        metadata = body["metadata"]
        others = [name for name in metadata["finalizers"] if name != finalizer]
        patch = {
            "metadata": {
                "finalizers": others,
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            }
        }
        self._kube.merge(kind, metadata["namespace"], metadata["name"], patch)
        log.info("%s %s/%s released", kind, metadata["namespace"], metadata["name"])


async def run_kopf(
    registry: kopf.OperatorRegistry,
    namespaces: tuple[str, ...],
    changed: asyncio.Event,
    on_start: Callable[[], None],
) -> None:
    """Watch until ``changed`` is set; only kopf's own tasks end then.

    ``kopf.operator`` would also cancel every task that was created meanwhile, such as the passes.
    ``on_start`` is called when kopf has installed its signal handlers.
    """
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=watcher.settings(),
        memories=watcher.NoMemories(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=changed,
    )
    on_start()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # kopf kills the process some time after its tasks are canceled, unless this is set.
        changed.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
