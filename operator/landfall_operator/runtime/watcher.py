"""Watches the API server with kopf: objects go into the cache, and every change wakes its group.

Nothing is decided here, and only two kinds of kopf's handlers are used. Index functions run over
all existing objects before any other handler, so no group is reconciled before all of its objects
are in the cache. Event handlers wake the groups. Thus kopf writes nothing: no annotations, no
finalizers, no Events. It gets the exact namespaces and may not scan for others, so it needs no
right except list and watch on the watched kinds. ``resync`` finds what kopf misses when a watch
restarts.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
from kubernetes.client import Configuration

from landfall_operator.core.cache import GROUP, Key, ObjectCache
from landfall_operator.objects import names
from landfall_operator.runtime.kube_client import KINDS, PAGE_SIZE, Kind, KubeClient

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
    # Groups that changed while kopf was indexing. Only event handlers wake them, because those run
    # after the index is complete.
    changed: set[Key] = set()
    for kind in SELECTORS:
        _register(made, KINDS[kind], cache, changed, wake)

    @kopf.on.login(registry=made, id="login")
    def login(**_: Any) -> kopf.ConnectionInfo:
        return credentials(connection())

    return made


def _register(
    made: kopf.OperatorRegistry,
    kind: Kind,
    cache: ObjectCache,
    changed: set[Key],
    wake: Callable[[Key], None],
) -> None:
    resource = (kind.group, kind.version, kind.plural)

    @kopf.index(*resource, registry=made, id=f"index-{kind.plural}")
    async def index(body: kopf.Body, **_: Any) -> None:
        if key := cache.put(kind.name, body):
            changed.add(key)

    @kopf.on.event(*resource, registry=made, id=f"event-{kind.plural}")
    async def event(event: kopf.RawEvent, **_: Any) -> None:
        body = event["object"]
        key = (
            cache.drop(kind.name, body)
            if event["type"] == "DELETED"
            else cache.put(kind.name, body)
        )
        if key:
            changed.add(key)
        while changed:
            wake(changed.pop())


def settings() -> kopf.OperatorSettings:
    """Kopf's settings: no Events, no scanning for namespaces, timeouts on all requests."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.networking.connect_timeout = 5
    made.networking.request_timeout = 60
    made.watching.chunk_size = PAGE_SIZE
    made.watching.connect_timeout = 5
    made.process.ultimate_exiting_timeout = 30
    for kind, selector in SELECTORS.items():
        served = KINDS[kind]
        if selector:
            made.watching.label_selectors[served.group, served.version, served.plural] = selector
    return made


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

    Without this check, kopf would retry forever and not say which right is missing.

    Raises:
        RequestRejected: A right is missing; the message names it.
    """
    for namespace in namespaces or (None,):
        for kind, selector in SELECTORS.items():
            kube.may_list(kind, namespace, selector)


async def resync(kube: KubeClient, cache: ObjectCache, namespaces: tuple[str, ...]) -> set[Key]:
    """List everything once; returns the groups of which the watches missed a change.

    Only the requests run in threads. The cache changes on the event loop alone, page by page, so
    that neither all objects are in memory at once nor passes wait for all of them.
    """
    changed: set[Key] = set()
    for namespace in namespaces or (None,):
        for kind in SELECTORS:
            found = await _resync_kind(kube, cache, kind, namespace)
            if found:
                log.info(
                    "found changes that the watch missed",
                    extra={"kind": kind, "groups": len(found)},
                )
            changed |= found
    return changed


async def _resync_kind(
    kube: KubeClient, cache: ObjectCache, kind: str, namespace: str | None
) -> set[Key]:
    changed: set[Key] = set()
    listed: set[str] = set()
    rest, version = "", ""
    while rest or not version:
        page = await asyncio.to_thread(kube.page, kind, namespace, SELECTORS[kind], rest)
        changed |= {key for body in page.items if (key := cache.put(kind, body))}
        listed |= {body["metadata"]["uid"] for body in page.items}
        rest, version = page.rest, page.version
    return changed | cache.drop_missing(kind, namespace, listed, version)
