"""Every object that the operator creates for a group, as a manifest for the API server. Pure.

Equal arguments give equal bytes. The ``ConsumerGroup`` owns all objects, so deleting it deletes
them. Each carries the hash of what was applied, so the operator applies only what differs. The
exceptions are a driver's Deployment, which changes only when the digest of its *spec* differs, or
when a user changed what this release of the operator applied, and the ConfigMap that it mounts,
which never changes. A new release of the operator may write other templates, but must not restart
any driver, nor rewrite what one reads when it restarts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from landfall.api.contract import CONTROL_PORT, HTTP_PORT
from landfall.api.signatures import KeyDocument
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.revisions import (
    as_json,
    digest_of,
    document,
    group_file,
    manifest_hash,
    revision_of,
)
from landfall_operator.objects import names
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import (
    ANCHOR_KEY,
    BLOCK_PORT,
    DRIVER_PORT,
    EXECUTORS_KEY,
    KEYS_KEY,
    LEDGER_KEY,
    OperatorContext,
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
"""The RBAC rules of a driver: it creates, watches and deletes executors.

The operator needs the same rights (``landfall_operator.objects.rbac``). Spark is configured to need
no more (``landfall_operator.objects.pod_templates.spark_defaults``).
"""


@dataclass(frozen=True, slots=True)
class Owner:
    """The ``ConsumerGroup`` that owns all objects of a group, or another resource of Landfall's."""

    name: str
    namespace: str
    uid: str
    kind: str = "ConsumerGroup"
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels that its objects inherit."""

    def reference(self) -> Json:
        """The owner reference in the metadata of its objects."""
        return {
            "apiVersion": names.API_VERSION,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }


def shared_objects(
    owner: Owner,
    accounts: Iterable[str],
    context: OperatorContext,
    account_annotations: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Json, ...]:
    """The objects that all drivers of a group share, in the order of their creation.

    The Secret with a control token is not among them: only drivers of earlier releases need it.

    Args:
        owner: the group's resource.
        accounts: the ServiceAccounts of all drivers that run or start; they may be users' own.
        context: settings of the operator that apply to all groups.
        account_annotations: annotations of the ServiceAccount that the group has from here.
    """
    annotations = {**context.driver.service_account_annotations, **account_annotations}
    return tuple(
        with_hash(manifest)
        for manifest in (
            _service_account(owner, annotations),
            _role(owner),
            _role_binding(owner, accounts),
            _service(owner),
            _network_policy(owner, context),
            _executors_policy(owner),
            _disruption_budget(owner),
        )
    )


def control_secret(owner: Owner, token: str) -> Json:
    """The Secret with the token that drivers of earlier releases need."""
    return {
        **_object(owner, "v1", "Secret", names.control_name(owner.name)),
        "stringData": {"token": token},
    }


def signing_key(namespace: str, name: str, data: Json) -> Json:
    """The Secret of the operator's own with its key; ``data`` is in base64."""
    labels = {"app.kubernetes.io/managed-by": names.OPERATOR}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": data,
    }


def config_map(
    owner: Owner, group: ConsumerGroup, image: str, executors: int, context: OperatorContext
) -> Json:
    """The files that a revision's driver reads: group file, Spark properties, executor template.

    It is named after its content and never changes: a Deployment keeps the one that it was created
    with, even if a later release of the operator would write another one.
    """
    data = {
        "group.json": group_file(group),
        "spark-defaults.conf": spark_defaults(group, image, executors, context),
        "executor.json": as_json(executor_template(group, context)),
    }
    name = names.config_name(owner.name, manifest_hash(data))
    base = _object(owner, "v1", "ConfigMap", name, revision=revision_of(group))
    return with_hash({**base, "data": data, "immutable": True})


def restored(config: Json, name: str) -> Json:
    """Give a ConfigMap the name that a Deployment mounts, to restore a deleted one."""
    rest = {key: value for key, value in config.items() if key != "immutable"}
    return with_hash({**rest, "metadata": {**config["metadata"], "name": name}})


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """Settings that change while drivers run.

    Attributes:
        executors: the desired executor count.
        ledger: the position that the ledger has reached at least; empty if none is known.
        anchor: that position with the hash of the slot there; empty if none is known.
        keys: the operator's public keys, the current one first.
    """

    executors: int
    ledger: str = ""
    anchor: str = ""
    keys: tuple[bytes, ...] = ()


def live_settings(owner: Owner, group: ConsumerGroup, settings: LiveSettings) -> Json:
    """The ConfigMap with the live settings, and with the spec in force.

    A driver that starts while no operator runs starts with these. The operator's keys are in a file
    of the driver's pod, which follows the ConfigMap while it runs.
    The operator itself reads the spec back, as the last valid one.
    """
    base = _object(
        owner, "v1", "ConfigMap", names.driver_name(owner.name), revision=revision_of(group)
    )
    optional = {
        LEDGER_KEY: settings.ledger,
        ANCHOR_KEY: settings.anchor,
        KEYS_KEY: KeyDocument(owner.uid, settings.keys).text() if settings.keys else "",
    }
    data = {
        "group.json": group_file(group),
        EXECUTORS_KEY: str(settings.executors),
        **{key: value for key, value in optional.items() if value},
    }
    return with_hash({**base, "data": data})


def deployment(owner: Owner, group: ConsumerGroup, replicas: int, template: Json) -> Json:
    """A revision's driver. ``Recreate`` ensures that it never has more than one pod.

    ``decide`` compares the digest of its spec. The hash, which leaves out the replicas, shows
    whether this release of the operator would write the same.
    """
    revision = revision_of(group)
    base = _object(
        owner,
        "apps/v1",
        "Deployment",
        names.revision_name(owner.name, revision),
        revision=revision,
    )
    base["metadata"]["annotations"] = {names.DIGEST_ANNOTATION: digest_of(group)}
    spec = {
        "strategy": {"type": "Recreate"},
        "revisionHistoryLimit": 2,
        "selector": {"matchLabels": names.selector(owner.name, "driver", revision)},
        "template": template,
    }
    hashed = with_hash({**base, "spec": spec})
    return {**hashed, "spec": {"replicas": replicas, **spec}}


def controller_revision(owner: Owner, group: ConsumerGroup, image: str, number: int) -> Json:
    """The immutable record of a spec that is rolled out, for the history and for rollbacks."""
    base = _object(
        owner, "apps/v1", "ControllerRevision", names.record_name(owner.name, digest_of(group))
    )
    base["metadata"]["labels"][names.REVISION_LABEL] = revision_of(group)
    return {**base, "revision": number, "data": {"group": document(group), "image": image}}


def with_hash(manifest: Json) -> Json:
    """The manifest with its own hash as an annotation."""
    metadata = manifest["metadata"]
    annotations = {
        **metadata.get("annotations", {}),
        names.HASH_ANNOTATION: manifest_hash(manifest),
    }
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def owned_object(
    owner: Owner, api_version: str, kind: str, name: str, labels: Mapping[str, str]
) -> Json:
    """An object without content that belongs to a resource."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": {**owner.labels, **labels},
            "ownerReferences": [owner.reference()],
        },
    }


def _object(
    owner: Owner, api_version: str, kind: str, name: str, revision: str | None = None
) -> Json:
    labels = names.labels(owner.name, revision=revision)
    return owned_object(owner, api_version, kind, name, labels=labels)


def _service_account(owner: Owner, annotations: Mapping[str, str]) -> Json:
    made = _object(owner, "v1", "ServiceAccount", names.driver_name(owner.name))
    if annotations:
        made["metadata"]["annotations"] = dict(annotations)
    return made


def _role(owner: Owner) -> Json:
    """The rights that Spark needs in client mode."""
    return {
        **_object(owner, "rbac.authorization.k8s.io/v1", "Role", names.driver_name(owner.name)),
        "rules": list(DRIVER_RULES),
    }


def _role_binding(owner: Owner, accounts: Iterable[str]) -> Json:
    name = names.driver_name(owner.name)
    subjects = [
        {"kind": "ServiceAccount", "name": account, "namespace": owner.namespace}
        for account in sorted(set(accounts))
    ]
    return {
        **_object(owner, "rbac.authorization.k8s.io/v1", "RoleBinding", name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": subjects,
    }


def _service(owner: Owner) -> Json:
    """A headless Service for metrics and the operator; it resolves to unready drivers, too."""
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
    """Control is open to the operator, Spark's ports to the group's executors, HTTP to readers."""
    drivers, executors = (
        {"podSelector": {"matchLabels": names.selector(owner.name, role)}}
        for role in ("driver", "executor")
    )
    return {
        **_object(owner, "networking.k8s.io/v1", "NetworkPolicy", names.driver_name(owner.name)),
        "spec": {
            "podSelector": {"matchLabels": names.selector(owner.name, "driver")},
            "policyTypes": ["Ingress"],
            "ingress": [
                # A driver asks the group's other driver whether it still drains.
                http_rule(context, drivers),
                {"ports": [tcp(CONTROL_PORT)], "from": [operator_peer(context)]},
                {"ports": [tcp(DRIVER_PORT), tcp(BLOCK_PORT)], "from": [executors]},
            ],
        },
    }


def _executors_policy(owner: Owner) -> Json:
    """Executors are open to the group's drivers and executors, on the ports that Spark picks."""
    name = names.executors_name(owner.name)
    return {
        **_object(owner, "networking.k8s.io/v1", "NetworkPolicy", name),
        "spec": executors_policy(
            names.selector(owner.name, "executor"), names.selector(owner.name, "driver")
        ),
    }


def executors_policy(executors: dict[str, str], driver: dict[str, str]) -> Json:
    """The spec of a NetworkPolicy: executors, by their labels, are open to Spark alone."""
    peers = [{"podSelector": {"matchLabels": labels}} for labels in (driver, executors)]
    return {
        "podSelector": {"matchLabels": executors},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": peers}],
    }


def http_rule(context: OperatorContext, *asking: Json) -> Json:
    """Make the rule of who may read status and metrics besides pods that ask; default: everyone."""
    # Status and metrics hold no secrets, and the namespace that they are scraped from is unknown.
    peers = [*context.readers, operator_peer(context), *asking] if context.readers else []
    return {"ports": [tcp(HTTP_PORT)]} | ({"from": peers} if peers else {})


def operator_peer(context: OperatorContext) -> Json:
    """The operator's pods. Without labels, the selector would match all of its neighbours."""
    labels = dict(context.operator_labels) or {"app.kubernetes.io/name": names.OPERATOR}
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": context.namespace}},
        "podSelector": {"matchLabels": labels},
    }


def _disruption_budget(owner: Owner) -> Json:
    """Evicts one driver at a time: nodes can drain, but a handover never loses both drivers."""
    return {
        **_object(owner, "policy/v1", "PodDisruptionBudget", names.driver_name(owner.name)),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": names.selector(owner.name, "driver")},
        },
    }


def tcp(port: int) -> dict[str, Any]:
    """A port of a NetworkPolicy."""
    return {"protocol": "TCP", "port": port}
