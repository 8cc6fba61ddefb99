"""Watches the API server with kopf: objects go into the cache, and every change wakes its group.

Nothing is decided here, and only event handlers of kopf are used. Thus kopf writes nothing: no
annotations, no finalizers, no Events. It gets the exact namespaces and may not scan for more, so it
needs no right except list and watch on the watched kinds. Of kopf, only what it exports is used
(docs/adr/0082): what it remembers of each object, 0.8 kB, is the price of that.

``resync`` lists everything: when the watches begin (``FirstLists``), and from time to time for what
kopf misses when a watch restarts. Index functions of kopf would do the former too, but they keep
every listed object in memory until all are indexed, and the time that they take grows with the
square of the number of objects.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
from kubernetes.client import Configuration

from landfall.errors import Retry
from landfall_operator.core.cache import GROUP, Key, ObjectCache
from landfall_operator.objects import names
from landfall_operator.runtime.kube_client import KINDS, PAGE_SIZE, KubeClient, ResourceKind

log = logging.getLogger(__name__)

OWNED = (
    "Deployment",
    "ControllerRevision",
    "ConfigMap",
    "ServiceAccount",
    "Service",
    "Role",
    "RoleBinding",
    "NetworkPolicy",
    "PodDisruptionBudget",
)
"""The kinds that groups own and the operator watches. It has no right to list Secrets."""
SELECTORS: Mapping[str, str] = {
    **dict.fromkeys(OWNED, f"{names.GROUP_LABEL},app.kubernetes.io/managed-by={names.OPERATOR}"),
    "Pod": f"{names.GROUP_LABEL},{names.ROLE_LABEL}=driver",
    GROUP: "",
}
"""The label selector of each watched kind."""
_CREDENTIALS_LIFETIME = timedelta(minutes=10)
"""How long a token is used before it is read again: the kubelet rotates the pod's token."""


def registry(
    cache: ObjectCache, wake: Callable[[Key], None], connection: Callable[[], Configuration]
) -> kopf.OperatorRegistry:
    """The handlers that kopf calls."""
    made = kopf.OperatorRegistry()
    for kind in SELECTORS:
        _register(made, KINDS[kind], cache, wake)

    @kopf.on.login(registry=made, id="login")
    def login(**_: Any) -> kopf.ConnectionInfo:
        return credentials(connection())

    return made


def _register(
    made: kopf.OperatorRegistry,
    kind: ResourceKind,
    cache: ObjectCache,
    wake: Callable[[Key], None],
) -> None:
    resource = (kind.group, kind.version, kind.plural)

    @kopf.on.event(*resource, registry=made, id=f"event-{kind.plural}")
    async def event(event: kopf.RawEvent, **_: Any) -> None:
        body = event["object"]
        if kind.name == GROUP and names.is_reserved(body["metadata"]["namespace"]):
            log.warning("%s left alone: its namespace is Kubernetes' own", _name(body))
        key = (
            cache.drop(kind.name, body)
            if event["type"] == "DELETED"
            else cache.put(kind.name, body)
        )
        if key:
            wake(key)


def _name(body: Mapping[str, Any]) -> str:
    return f"{body['kind']} {body['metadata']['namespace']}/{body['metadata']['name']}"


def settings() -> kopf.OperatorSettings:
    """Kopf's settings: no Events, no scanning for namespaces, timeouts on all requests."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.networking.connect_timeout = 5
    made.networking.request_timeout = 60
    made.watching.chunk_size = PAGE_SIZE
    made.watching.connect_timeout = 5
    # A worker keeps the last object that it has handled until it ends.
    made.queueing.idle_timeout = 0.5
    made.process.ultimate_exiting_timeout = 30
    for kind, selector in SELECTORS.items():
        served = KINDS[kind]
        if selector:
            made.watching.label_selectors[served.group, served.version, served.plural] = selector
    return made


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
        settings=settings(),
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


def credentials(configuration: Configuration) -> kopf.ConnectionInfo:
    """The connection of the Kubernetes client, in kopf's form."""
    header = configuration.get_api_key_with_prefix(
        "BearerToken"
    ) or configuration.get_api_key_with_prefix("authorization")
    scheme, _, token = (header or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        username=configuration.username or None,
        password=configuration.password or None,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        expiration=datetime.now(UTC) + _CREDENTIALS_LIFETIME,
    )


def check_rights(kube: KubeClient, namespaces: tuple[str, ...]) -> None:
    """Return if the operator may list every kind that it watches.

    Without this check, kopf would retry forever and not report which right is missing.

    Raises:
        RequestRejected: A right is missing; the message names it.
    """
    for namespace in namespaces or (None,):
        for kind, selector in SELECTORS.items():
            kube.may_list(kind, namespace, selector)


async def resync(kube: KubeClient, cache: ObjectCache, namespaces: tuple[str, ...]) -> set[Key]:
    """List everything once; returns the groups with changes that the watches missed.

    Only the requests run in threads. The cache changes on the event loop alone, page by page, so
    that neither all objects are in memory at once nor passes wait for all of them.
    """
    changed: set[Key] = set()
    for namespace in namespaces or (None,):
        for kind in SELECTORS:
            changed |= await _resync_kind(kube, cache, kind, namespace)
    return changed


async def _resync_kind(
    kube: KubeClient, cache: ObjectCache, kind: str, namespace: str | None
) -> set[Key]:
    changed: set[Key] = set()
    listed: set[str] = set()
    rest = ""
    while True:
        page = await asyncio.to_thread(kube.page, kind, namespace, SELECTORS[kind], rest=rest)
        changed |= {key for body in page.items if (key := cache.put(kind, body))}
        listed |= {body["metadata"]["uid"] for body in page.items}
        rest = page.rest
        if not rest:
            return changed | cache.drop_missing(kind, namespace, listed, page.version)


REPEAT_SECONDS = 60.0
"""Time to a second list, which finds what was deleted after the first one and before the watch."""
RETRY_SECONDS = 2.0


class FirstLists:
    """The namespaces that have been listed since their watch began.

    Attributes:
        listed: the namespaces whose groups are reconciled; None stands for all.
    """

    def __init__(self, kube: KubeClient, cache: ObjectCache, wake: Callable[[Key], None]) -> None:
        """Nothing is listed; ``wake`` is called for each group that is to be reconciled."""
        self._kube = kube
        self._cache = cache
        self._wake = wake
        self.listed: frozenset[str | None] = frozenset()
        self._watched: frozenset[str | None] = frozenset()

    @property
    def complete(self) -> bool:
        """Return whether all that is watched has been listed."""
        return bool(self._watched) and self._watched <= self.listed

    def wake(self, key: Key) -> None:
        """Wake a group, unless objects of it may be missing in the cache."""
        if self.listed & {None, key[0]}:
            self._wake(key)

    def forget(self, namespace: str) -> None:
        """Let a namespace that is no longer watched be listed completely when it comes back."""
        self.listed -= {namespace}

    async def list(self, namespaces: tuple[str, ...]) -> None:
        """List what was not watched before, wake its groups, and list it once more; does not end.

        Args:
            namespaces: what is watched from now on; empty for the whole cluster.

        Raises:
            RequestRejected: A right is missing.
        """
        self._watched = frozenset(namespaces or {None})
        self.listed &= self._watched
        if new := self._watched - self.listed:
            await self._resync(new, RETRY_SECONDS)
            self.listed |= new
            for key in tuple(self._cache.groups):
                self.wake(key)
            await asyncio.sleep(REPEAT_SECONDS)
            for key in await self._resync(new, REPEAT_SECONDS):
                self.wake(key)
        await asyncio.Event().wait()

    async def _resync(self, namespaces: frozenset[str | None], pause: float) -> set[Key]:
        """List namespaces, again after a pause while the API server cannot answer."""
        names = tuple(sorted(filter(None, namespaces)))
        while True:
            try:
                return await resync(self._kube, self._cache, names)
            except Retry as error:
                log.warning("objects not listed yet: %s", error)
                await asyncio.sleep(pause)
