"""Every object the operator makes for a group, as the API server takes it. Pure: the same observation, the same bytes.

All of them are owned by the ``ConsumerGroup``, so deleting it deletes them, and carry the hash of
what was applied, so that only what differs is applied again. The exception is a driver's
Deployment: it is changed only when the digest of its *spec* differs, so that a new release of the
operator, which may write other templates, starts no driver again.
"""

import json
from dataclasses import dataclass
from typing import Any

from landfall.api.contract import CONTROL_PORT, HTTP_PORT
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.revisions import (
    contract,
    digest_of,
    document,
    manifest_hash,
    revision_of,
)
from landfall_operator.objects import names
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import (
    BLOCK_PORT,
    DRIVER_PORT,
    OperatorContext,
    driver_template,
    executor_template,
    spark_defaults,
)

DRIVER_RULES = (
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["create", "get", "list", "watch", "delete", "deletecollection"],
    },
)
"""What a driver may do: make executors, look after them and end them. The operator must be allowed
all
of it: see ``landfall_operator.objects.rbac``. Spark is told to need no more: see
``landfall_operator.objects.pod_templates.spark_defaults``.
"""


@dataclass(frozen=True, slots=True)
class Owner:
    """The resource that owns everything here."""

    name: str
    namespace: str
    uid: str


def shared(owner: Owner, account: str, context: OperatorContext) -> tuple[Json, ...]:
    """What all drivers of a group share, in the order to make it in; the Secret with the token is not among it.

    Args:
        owner: whose it is.
        account: the ServiceAccount that drivers run as, which may be the user's own.
        context: where the operator is.
    """
    return tuple(
        with_hash(manifest)
        for manifest in (
            _service_account(owner),
            _role(owner),
            _role_binding(owner, account),
            _service(owner),
            _network_policy(owner, context),
            _disruption_budget(owner),
        )
    )


def control_secret(owner: Owner, token: str) -> Json:
    """The Secret with the token of the control port; made once, with a token that nobody else knows."""
    return {
        **_object(owner, "v1", "Secret", names.control_name(owner.name)),
        "stringData": {"token": token},
    }


def config_map(
    owner: Owner, group: ConsumerGroup, image: str, executors: int, context: OperatorContext
) -> Json:
    """What a revision's driver reads: the contract, Spark's properties, the executors' template."""
    name = names.revision_name(owner.name, revision_of(group))
    data = {
        "group.json": contract(group),
        "spark-defaults.conf": spark_defaults(group, image, executors, context),
        "executor.json": _json(executor_template(group, context)),
    }
    return with_hash({**_object(owner, "v1", "ConfigMap", name, revision_of(group)), "data": data})


def deployment(
    owner: Owner, group: ConsumerGroup, image: str, replicas: int, context: OperatorContext
) -> Json:
    """A revision's driver: one pod at most, ever (Recreate)."""
    revision = revision_of(group)
    base = _object(
        owner, "apps/v1", "Deployment", names.revision_name(owner.name, revision), revision
    )
    base["metadata"]["annotations"] = {names.DIGEST_ANNOTATION: digest_of(group)}
    return {
        **base,
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": names.selector(owner.name, "driver", revision)},
            "template": driver_template(group, image, context),
        },
    }


def controller_revision(owner: Owner, group: ConsumerGroup, image: str, number: int) -> Json:
    """A spec that is to be run, for history and for going back to it. The API server lets nobody change it."""
    base = _object(
        owner, "apps/v1", "ControllerRevision", names.record_name(owner.name, digest_of(group))
    )
    base["metadata"]["labels"][names.REVISION_LABEL] = revision_of(group)
    return {**base, "revision": number, "data": {"group": document(group), "image": image}}


def with_hash(manifest: Json) -> Json:
    """With the hash of itself as an annotation."""
    metadata = manifest["metadata"]
    annotations = {
        **metadata.get("annotations", {}),
        names.HASH_ANNOTATION: manifest_hash(manifest),
    }
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _object(
    owner: Owner, api_version: str, kind: str, name: str, revision: str | None = None
) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": names.labels(owner.name, revision=revision),
            "ownerReferences": [
                {
                    "apiVersion": names.API_VERSION,
                    "kind": "ConsumerGroup",
                    "name": owner.name,
                    "uid": owner.uid,
                    "controller": True,
                }
            ],
        },
    }


def _service_account(owner: Owner) -> Json:
    return _object(owner, "v1", "ServiceAccount", names.driver_name(owner.name))


def _role(owner: Owner) -> Json:
    """What Spark does in client mode: executors, and what comes with them."""
    return {
        **_object(owner, "rbac.authorization.k8s.io/v1", "Role", names.driver_name(owner.name)),
        "rules": list(DRIVER_RULES),
    }


def _role_binding(owner: Owner, account: str) -> Json:
    name = names.driver_name(owner.name)
    return {
        **_object(owner, "rbac.authorization.k8s.io/v1", "RoleBinding", name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": owner.namespace}],
    }


def _service(owner: Owner) -> Json:
    """Headless: a name for the driver's pods, ready or not, for scraping and for the operator."""
    return {
        **_object(owner, "v1", "Service", names.driver_name(owner.name)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": names.selector(owner.name, "driver"),
            "ports": [
                {"name": "http", "port": HTTP_PORT, "targetPort": "http"},
                {"name": "control", "port": CONTROL_PORT, "targetPort": "control"},
            ],
        },
    }


def _network_policy(owner: Owner, context: OperatorContext) -> Json:
    """The control port is for the operator, Spark's ports for the group's executors, status and metrics for everybody."""
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": context.namespace}},
        "podSelector": {"matchLabels": dict(context.operator_labels)},
    }
    executors = {"podSelector": {"matchLabels": names.selector(owner.name, "executor")}}
    return {
        **_object(owner, "networking.k8s.io/v1", "NetworkPolicy", names.driver_name(owner.name)),
        "spec": {
            "podSelector": {"matchLabels": names.selector(owner.name, "driver")},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"ports": [_tcp(HTTP_PORT)]},
                {"ports": [_tcp(CONTROL_PORT)], "from": [operator]},
                {"ports": [_tcp(DRIVER_PORT), _tcp(BLOCK_PORT)], "from": [executors]},
            ],
        },
    }


def _disruption_budget(owner: Owner) -> Json:
    """One driver at a time may be evicted: a drain of nodes goes on, and the two of a hand-over do not go at once."""
    return {
        **_object(owner, "policy/v1", "PodDisruptionBudget", names.driver_name(owner.name)),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": names.selector(owner.name, "driver")},
        },
    }


def _tcp(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}


def _json(value: Json) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
