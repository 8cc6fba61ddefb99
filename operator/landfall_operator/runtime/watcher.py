"""kopf's part: it lists and watches, and everything it sees goes into the stock and wakes groups. Nothing is decided here.

Only kopf's lowest handlers are used: index functions, which it runs over everything there is before
any other handler, so that no group is looked at before all of its objects are known; and event
handlers, which wake. So kopf writes nothing: no annotations, no finalizers, no Events. It is given
exact namespaces and may not scan for more, hence needs no right beyond list and watch of what is
watched. What it misses when a watch has to begin anew, ``sweep`` finds.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
from kubernetes.client import Configuration

from landfall_operator.core.cache import GROUP, Key, ObjectCache
from landfall_operator.objects import names
from landfall_operator.runtime.kube_client import KINDS, Kind, Kube

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
"""Kinds of what groups own and the operator watches; Secrets are not among them."""
SELECTORS: Mapping[str, str] = {
    **dict.fromkeys(OWNED, f"{names.GROUP_LABEL},app.kubernetes.io/managed-by={names.OPERATOR}"),
    "Pod": f"{names.GROUP_LABEL},{names.ROLE_LABEL}=driver",
    GROUP: "",
}
"""Labels that the API server selects by, for each kind that is watched."""
_LOGIN = timedelta(minutes=10)
"""How long a token is used before it is read again: the kubelet writes a new one from time to time.
"""
_PAGE = 500


def registry(
    cache: ObjectCache, wake: Callable[[Key], None], connection: Callable[[], Configuration]
) -> kopf.OperatorRegistry:
    """What kopf is to call."""
    made = kopf.OperatorRegistry()
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
    where = (kind.group, kind.version, kind.plural)

    @kopf.index(*where, registry=made, id=f"index-{kind.plural}")
    async def index(body: kopf.Body, **_: Any) -> None:
        if key := cache.put(kind.name, body):
            changed.add(key)

    @kopf.on.event(*where, registry=made, id=f"event-{kind.plural}")
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
    """How kopf is to behave."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    made.networking.connect_timeout = 5
    made.networking.request_timeout = 60
    made.watching.chunk_size = _PAGE
    made.watching.connect_timeout = 5
    made.process.ultimate_exiting_timeout = 30
    for kind, selector in SELECTORS.items():
        known = KINDS[kind]
        if selector:
            made.watching.label_selectors[known.group, known.version, known.plural] = selector
    return made


def credentials(configuration: Configuration) -> kopf.ConnectionInfo:
    """The same way to the API server that everything else here takes."""
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
        expiration=datetime.now(UTC) + _LOGIN,
    )


def check(kube: Kube, namespaces: tuple[str, ...]) -> None:
    """Ask for everything that is going to be watched: kopf would try again and again without saying what is wrong.

    Raises:
        Refused: a right is missing; says which.
    """
    for namespace in namespaces or (None,):
        for kind, selector in SELECTORS.items():
            kube.may_list(kind, namespace, selector)


def sweep(kube: Kube, cache: ObjectCache, namespaces: tuple[str, ...]) -> set[Key]:
    """List everything once; returns the groups that have to be looked at for what the watches did not tell."""
    changed: set[Key] = set()
    for namespace in namespaces or (None,):
        for kind, selector in SELECTORS.items():
            listing = kube.list(kind, namespace, selector)
            found = cache.sweep(kind, namespace, listing.items, listing.version)
            if found:
                log.info(
                    "found changes that no watch told of",
                    extra={"kind": kind, "groups": len(found)},
                )
            changed |= found
    return changed
