"""Decides which namespaces are watched, and releases groups where that is no longer possible.

With ``--namespace-label``, the namespaces are the ones that carry a label, looked up every few
seconds. The operator binds itself to the ClusterRole with its rights in each of them, and removes
that binding when the label goes. Groups elsewhere are counted, for a metric and a warning: they may
be another operator's, or unmanaged.

With ``--namespace``, the operator's rights are in Roles of these namespaces, and a namespace that
is deleted takes them along. The operator then drops that namespace and manages the groups of all
other namespaces; when it may watch the namespace again, it takes it back. Without either there is
one set of rights for the whole cluster, and nothing to drop.

The rights to list groups and to remove their finalizer outlive the Role where the chart's
``rbac.finalizers`` is set, so groups do not keep a namespace from being deleted.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from landfall.errors import Retry
from landfall_operator.api.backfill import KIND as BACKFILL
from landfall_operator.core.backfill_snapshot import FINALIZER as DISCARD
from landfall_operator.core.cache import GROUP
from landfall_operator.objects import rbac
from landfall_operator.objects.names import FINALIZER, is_reserved
from landfall_operator.objects.overlay import Json
from landfall_operator.runtime import watcher
from landfall_operator.runtime.action_executor import finalizer_patch
from landfall_operator.runtime.kube_client import Conflict, KubeClient, NotFound, RequestRejected

log = logging.getLogger(__name__)

CHECK_INTERVALS = 2
"""Reconcile intervals between two looks at the rights in every namespace: one request for each."""
LABEL_SECONDS = 5.0
"""Time between two lists of the namespaces with the label."""
BINDING_SECONDS = 1.0
"""Time until the API server grants the rights of a new RoleBinding."""
COUNT_SECONDS = 600.0
"""Time between two counts of the groups in other namespaces: each lists all groups."""
_BINDINGS = ",".join(f"{name}={value}" for name, value in rbac.BINDING_LABELS.items())
_PROBED = "Deployment"
"""The kind whose right is looked at: the right to list groups may outlive all other rights."""

Watch = Callable[[tuple[str, ...], asyncio.Event], Awaitable[None]]
"""Watches namespaces until the event is set; raises what ends it before."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """The namespaces that carry a label.

    Attributes:
        label: The label, as ``key=value``.
        role: The ClusterRole that the operator binds itself to in each of them; empty if it has its
            rights there otherwise.
        account: The operator's account.
    """

    label: str
    role: str
    account: rbac.Account


class Namespaces:
    """The namespaces to watch, and the subset that is watched.

    Attributes:
        configured: All of them: the given namespaces, or the namespaces that have the label now.
            Without ``labelled``, empty for the whole cluster.
        dropped: Why a namespace is not watched, by its name.
        unwatched: The number of groups in every other namespace that has some; only counted with
            ``labelled``.
    """

    def __init__(
        self,
        kube: KubeClient,
        forget: Callable[[str], None],
        scope: tuple[str, ...] | Labelled,
        interval: float,
    ) -> None:
        """No namespace has been looked at yet.

        Args:
            kube: The client.
            forget: Called with each namespace that is not watched any more, perhaps repeatedly.
            scope: The namespaces, or how they are found; empty for the whole cluster.
            interval: Seconds between two reconcile passes over a group.
        """
        self._labelled = scope if isinstance(scope, Labelled) else None
        self.unwatched: dict[str, int] = {}
        self._counted = -COUNT_SECONDS
        self._warned: set[str] = set()
        self._seconds = CHECK_INTERVALS * interval
        self._kube = kube
        self._forget = forget
        self.configured = () if isinstance(scope, Labelled) else scope
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
        """Return why nothing at all is watched; empty while something is."""
        if not self.configured or self.watched:
            return ""
        return f"no namespace can be watched: {'; '.join(self.dropped.values())}"

    @property
    def is_idle(self) -> bool:
        """Return whether no namespace carries the label, so that there is nothing to watch."""
        return self._labelled is not None and not self.configured

    async def watch(self, watch: Watch) -> None:
        """Watch what can be watched, and start again whenever that changes.

        Raises:
            Exception: What ended ``watch``, if no lost right explains it.
        """
        await self.check()
        while True:
            self._changed = changed = asyncio.Event()
            if self.problem or self.is_idle:
                await changed.wait()
                continue
            try:
                await watch(self.watched, changed)
            except Exception:  # kopf raises what it met, such as a 403, without a public type
                if not await self.check():
                    raise

    async def keep_checking(self) -> None:
        """Look at the rights in every namespace again and again, and at the labels more often."""
        if self._labelled:
            checked = time.monotonic()
            while True:
                await asyncio.sleep(LABEL_SECONDS)
                is_due = time.monotonic() - checked >= self._seconds or self.dropped
                if is_due or await self._with_label() != self.configured:
                    await self.check()
                    checked = time.monotonic()
        while self.configured:
            await asyncio.sleep(self._seconds)
            await self.check()
        await asyncio.Event().wait()

    async def check(self) -> bool:
        """Look at the rights in every namespace; returns whether the watched namespaces changed."""
        async with self._checking:
            before = self.watched
            if self._labelled:
                await self._look_up(self._labelled)
            for namespace in self.configured:
                await self._check(namespace)
            for namespace in self.dropped:
                self._forget(namespace)
                await self._release(namespace)
            changed = before != self.watched
            if self._labelled and (changed or self._is_count_due()):
                await self._count_unwatched(self._labelled)
        if changed:
            self._changed.set()
        return changed

    async def _look_up(self, labelled: Labelled) -> None:
        """Take the namespaces that carry the label now, with rights in these namespaces only."""
        found = await self._with_label()
        for namespace in set(self.configured) - set(found):
            log.warning(
                "namespace %s no longer carries the label %s: its groups are left alone, and their"
                " drivers continue to land",
                namespace,
                labelled.label,
            )
            self.dropped.pop(namespace, None)
            self._complete.discard(namespace)
            self._forget(namespace)
        for namespace in set(found) - set(self.configured):
            log.info("namespace %s carries the label %s", namespace, labelled.label)
        self.configured = found
        if labelled.role:
            try:
                if await asyncio.to_thread(self._bind, labelled, found):
                    await asyncio.sleep(BINDING_SECONDS)
            except (Retry, RequestRejected, NotFound) as error:
                log.warning("rights in the labelled namespaces not complete: %s", error)

    async def _with_label(self) -> tuple[str, ...]:
        """The namespaces that carry the label now; the known ones if they cannot be listed."""
        if not self._labelled:
            return self.configured
        try:
            bodies = await asyncio.to_thread(
                lambda label: list(self._listed("Namespace", label)), self._labelled.label
            )
        except (Retry, RequestRejected) as error:
            log.warning("namespaces not listed: %s", error)
            return self.configured
        found = sorted(body["metadata"]["name"] for body in bodies)
        for name in filter(is_reserved, set(found) - self._warned):
            log.warning("namespace %s left alone: it has the label, but is Kubernetes' own", name)
            self._warned.add(name)
        return tuple(name for name in found if not is_reserved(name))

    def _bind(self, labelled: Labelled, found: tuple[str, ...]) -> int:
        """Make the RoleBindings that are missing, and delete the superfluous ones.

        Returns how many it made.
        """
        made = 0
        bound = {
            body["metadata"]["namespace"]: body["metadata"]
            for body in self._listed("RoleBinding", _BINDINGS)
            if body["metadata"]["name"] == labelled.role
        }
        for namespace in bound.keys() - set(found):
            self._kube.delete("RoleBinding", namespace, labelled.role, bound[namespace]["uid"])
        for namespace in set(found) - bound.keys():
            binding = rbac.namespace_binding(namespace, labelled.role, labelled.account)
            try:
                self._kube.create(binding)
                made += 1
            except Conflict:
                log.info("another RoleBinding %s/%s exists", namespace, labelled.role)
            except (RequestRejected, NotFound) as error:  # as in one that is being deleted
                log.info("rights in namespace %s missing: %s", namespace, error)
        return made

    def _listed(self, kind: str, selector: str) -> Iterator[Json]:
        """All objects of a kind in the cluster."""
        for page in self._kube.pages(kind, None, selector):
            yield from page.items

    def _is_count_due(self) -> bool:
        return time.monotonic() - self._counted >= COUNT_SECONDS

    async def _count_unwatched(self, labelled: Labelled) -> None:
        """Count the groups of other namespaces, and log them when there are new ones."""
        self._counted = time.monotonic()
        try:
            counts = await asyncio.to_thread(
                lambda: Counter(g["metadata"]["namespace"] for g in self._listed(GROUP, ""))
            )
        except (Retry, RequestRejected, NotFound) as error:
            log.info("groups of other namespaces not counted: %s", error)
            return
        unwatched = {name: n for name, n in sorted(counts.items()) if name not in self.configured}
        if unwatched.keys() - self.unwatched.keys():
            log.warning(
                "groups exist in namespaces without the label %s, which this operator does not"
                " manage: %s",
                labelled.label,
                ", ".join(f"{name} ({n})" for name, n in unwatched.items()),
            )
        self.unwatched = unwatched

    async def _check(self, namespace: str) -> None:
        try:
            await asyncio.to_thread(self._try_to_list, namespace)
        except RequestRejected as error:
            if namespace not in self.dropped:
                log.error(  # noqa: TRY400  # expected: no traceback
                    "namespace %s not watched, its groups left alone: %s",
                    namespace,
                    error,
                )
            self._complete.discard(namespace)
            self.dropped[namespace] = str(error)
        except Retry as error:
            log.info("namespace %s not checked: %s", namespace, error)
        else:
            if self.dropped.pop(namespace, None):
                log.info("namespace %s watched again", namespace)
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
        patch = finalizer_patch(metadata, finalizer, present=False)
        self._kube.merge(kind, metadata["namespace"], metadata["name"], patch)
        log.info("%s %s/%s released", kind, metadata["namespace"], metadata["name"])
