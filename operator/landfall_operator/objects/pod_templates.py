"""The pods of a group: the templates of driver and executors, and Spark's properties. Pure.

Spark runs in client mode in the driver's pod. The driver creates the executors, and its pod owns
them (``spark.kubernetes.driver.pod.name``), so they are deleted with it.
``executor.podNamePrefix`` stays unset, so Spark gives executors a new name prefix at each start:
executors of a crashed driver may still exist. The driver binds to its pod's address, because since
Spark 4.3 executors connect to ``spark.driver.bindAddress``, which must not be ``0.0.0.0``.

Records never pass through the JVM, so its heap is small. Python gets the rest of the memory, as
Spark's memory overhead. By default, pods comply with Kubernetes' ``restricted`` Pod Security
Standard and have a read-only root file system. The user's pod settings are merged in last.

Only a driver's own executors can use its Spark ports: Spark creates a secret at each start and
passes it to executors in their environment, both sides authenticate with it, and the connections
are encrypted. They carry no records, so the encryption costs little.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from landfall.api.contract import (
    CONTROL_PORT,
    CONTROL_TOKEN_FILE,
    EXECUTORS,
    GROUP_FILE,
    HTTP_PORT,
    KNOWN_LEDGER,
    LEDGER_ANCHOR,
    LOCAL_TOKEN_FILE,
    OPERATOR_KEYS,
    PEERS,
    POD_UID,
    REVISION,
)
from landfall.api.pod_spec import DriverPod, ExecutorPod, Pod, Resources
from landfall.api.spec import ConsumerGroup, Decode
from landfall.api.spec.decode import TRANSFORMS, SchemaRegistry
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.objects.names import (
    DIGEST_ANNOTATION,
    control_name,
    driver_name,
    labels,
)
from landfall_operator.objects.overlay import Json, merged, overlay
from landfall_operator.objects.resources import (
    HEAP,
    MIB,
    completed,
    driver_resources,
    executor_cpu,
    executor_memory,
    executor_resources,
)

EXECUTORS_KEY = "executors"
"""Key of the desired executor count in the ConfigMap with live settings."""
LEDGER_KEY = "ledger"
ANCHOR_KEY = "anchor"
KEYS_KEY = "operator-keys.json"
"""Key of the operator's public keys there."""
CONFIG_VOLUME = "group"
"""Volume of the driver's pod with the ConfigMap of its revision."""
CONTROL_VOLUME = "control"
"""Volume with a control token. Deployments of earlier releases do not start without its Secret."""
KEYS_VOLUME = "operator-keys"
"""Volume with the operator's public keys. Deployments of earlier releases have none."""
GROUP_FOLDER = "/etc/landfall/group"
SECRETS_FOLDER = "/etc/landfall/secrets"
CONTROL_FOLDER = "/etc/landfall/control"
KEYS_FOLDER = "/etc/landfall/operator"
SCRATCH_FOLDER = "/tmp"  # noqa: S108  # a volume of the pod's own
"""The only writable folder of a pod, besides the local directories that Spark gives executors.

It is the home and working directory and holds temporary files of Python and the JVM as well as the
driver's blocks. A restart needs none of its content.
"""
DRIVER_PORT = 7078
BLOCK_PORT = 7079
USER = 185
"""The uid and gid of Spark in its images."""
LOST_NODE = timedelta(seconds=30)
"""How long a pod stays bound to a node that does not answer."""
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
GRACE = timedelta(seconds=30)
"""How long a driver may run beyond ``drainTimeout`` before the kubelet kills it."""


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """Settings of the operator that apply to all groups.

    Attributes:
        image: image of drivers and executors if a spec names none.
        namespace: the namespace that the operator runs in.
        operator_labels: labels of the operator's pods, which may connect to the control port.
        image_pull_policy: image pull policy if a spec names none.
        image_pull_secrets: names of image pull secrets that every pod gets.
        readers: peers of a NetworkPolicy that may read status and metrics; everyone if empty.
        driver: what the pods of all drivers get, as in ``spec.driver``; a group's own values win.
        executor: the same of executors.
        inherited: keys of the labels that the objects of a group have from it.
        labels: these labels of one group, see ``of``.
    """

    image: str
    namespace: str
    operator_labels: Mapping[str, str] = field(default_factory=dict)
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    readers: tuple[Json, ...] = ()
    driver: DriverPod = field(default_factory=DriverPod)
    executor: ExecutorPod = field(default_factory=ExecutorPod)
    inherited: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def of(self, labels: Mapping[str, str]) -> "OperatorContext":
        """The settings for a group with these labels: its pods get the inherited ones.

        They are defaults of its pods, so ``spec.driver.labels`` and ``spec.executor.labels`` win.
        """
        found = {key: labels[key] for key in self.inherited if key in labels}
        if not found:
            return self
        return replace(
            self,
            driver=self.driver.model_copy(update={"labels": {**self.driver.labels, **found}}),
            executor=self.executor.model_copy(update={"labels": {**self.executor.labels, **found}}),
            labels=found,
        )


def driver_template(
    group: ConsumerGroup, image: str, config: str, context: OperatorContext
) -> Json:
    """The pod template of the driver's Deployment, which mounts the ConfigMap ``config``."""
    name = group.metadata.name
    revision = revision_of(group)
    secrets = driver_secrets_of(group)
    grace = group.spec.upgrade.drain_timeout + GRACE
    ours: Json = {
        "metadata": {"annotations": {DIGEST_ANNOTATION: digest_of(group)}},
        "spec": {
            **_common(secrets, context, context.driver),
            "serviceAccountName": account_of(group),
            "terminationGracePeriodSeconds": int(grace.total_seconds()),
            "containers": [_driver(group, image, context)],
        },
    }
    volumes = [
        {"name": CONFIG_VOLUME, "configMap": {"name": config}},
        {
            "name": CONTROL_VOLUME,
            # Of users' own making, for programs that send requests to the driver.
            "secret": {"secretName": control_name(name), "defaultMode": 0o440, "optional": True},
        },
        {
            "name": KEYS_VOLUME,
            "configMap": {
                "name": driver_name(name),
                "items": [{"key": KEYS_KEY, "path": KEYS_KEY}],
                "optional": True,
            },
        },
    ]
    ours["spec"]["volumes"] = [*volumes, *ours["spec"]["volumes"]]
    # Landfall's environment variables are merged in again after the user's, so that no user can
    # override them: a driver with another REVISION would never take the lane.
    fixed = {"spec": {"containers": [{"name": "driver", "env": _environment(group)}]}}
    ours = merged(ours, _defaults(context.driver, "driver"))
    template = merged(merged(ours, overlay(group.spec.driver, "driver")), fixed)
    return _labelled(_fast_failover(template), labels(name, "driver", revision))


def executor_template(group: ConsumerGroup, context: OperatorContext) -> Json:
    """The template of executor pods, in which Spark sets image, command, resources and names."""
    name = group.metadata.name
    ours: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {
            **_common(secrets_of(group), context, context.executor),
            # Executors never call the API server.
            "automountServiceAccountToken": False,
            "containers": [{"name": "executor", **_container(secrets_of(group))}],
        },
    }
    ours = merged(ours, _defaults(context.executor, "executor"))
    merged_pod = _fast_failover(merged(ours, overlay(group.spec.executor, "executor")))
    resources = executor_resources(
        completed(group.spec.executor.resources, context.executor.resources)
    )
    for container in merged_pod["spec"]["containers"]:
        if container["name"] == "executor":
            # Spark adds cpu and memory from its properties, see spark_defaults.
            container.pop("resources", None)
            if resources:
                container["resources"] = resources
    return _labelled(merged_pod, labels(name, "executor", revision_of(group)))


def spark_defaults(
    group: ConsumerGroup, image: str, executors: int, context: OperatorContext
) -> str:
    """``spark-defaults.conf``: all properties that do not depend on the driver's pod.

    ``_environment`` sets the remaining ones.
    """
    spec = group.spec.executor
    heap, overhead = executor_memory(group, context.executor.resources)
    conf = {
        "spark.master": "k8s://https://kubernetes.default.svc:443",
        "spark.submit.deployMode": "client",
        "spark.kubernetes.namespace": group.metadata.namespace,
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.container.image.pullPolicy": spec.image_pull_policy
        or context.executor.image_pull_policy
        or context.image_pull_policy,
        "spark.kubernetes.authenticate.executor.serviceAccountName": spec.service_account_name
        or driver_name(group.metadata.name),
        "spark.kubernetes.executor.podTemplateFile": f"{GROUP_FOLDER}/executor.json",
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        # Spark notices a force-deleted pod only when it polls, every 30 s by default.
        "spark.kubernetes.executor.apiPollingInterval": "10s",
        "spark.kubernetes.executor.enablePollingWithResourceVersion": "true",
        "spark.kubernetes.allocation.batch.delay": "1s",
        "spark.kubernetes.allocation.batch.size": "20",
        # The driver's Role covers pods only (manifests.DRIVER_RULES), so Spark must not use
        # ConfigMaps, Services or PersistentVolumeClaims.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        # The operator decides the executor count, and the driver follows its command.
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.instances": str(executors),
        "spark.executor.cores": str(spec.cores),
        "spark.executor.memory": f"{heap // MIB}m",
        "spark.executor.memoryOverhead": f"{overhead // MIB}m",
        "spark.driver.memory": f"{HEAP // MIB}m",
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_PORT),
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        # By default Spark uses AES-CTR, in which bits can be flipped unseen, and derives no keys.
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.network.crypto.authEngineVersion": "2",
        "spark.network.crypto.saslFallback": "false",
    }
    conf |= executor_cpu(completed(spec.resources, context.executor.resources))
    return "".join(f"{key} {value}\n" for key, value in sorted(conf.items()))


def account_of(group: ConsumerGroup) -> str:
    """Name of the driver's ServiceAccount: the user's, or the one that the operator creates."""
    return group.spec.driver.service_account_name or driver_name(group.metadata.name)


def driver_secrets_of(group: ConsumerGroup) -> tuple[str, ...]:
    """Names of the Secrets that drivers mount, sorted: it alone publishes and receives events."""
    of_publishers = {
        publisher.secret_ref.name for publisher in group.spec.publish if publisher.secret_ref
    }
    events = (feed.events for feed in group.spec.source.files if feed.events)
    of_events = {name for event in events for name in event.secrets}
    return tuple(sorted({*secrets_of(group), *of_publishers, *of_events}))


def secrets_of(group: ConsumerGroup) -> tuple[str, ...]:
    """Names of the Secrets that drivers and executors mount, sorted."""
    # Entries of ``topics`` as they are written: to put each together with the group's fields takes
    # a millisecond, in every pass over the group.
    parts: tuple[Any, ...] = (group.spec, *group.spec.topics)
    references = (
        *(kafka.properties_secret_ref for kafka in (group.spec.source.kafka,) if kafka),
        *(place.access.credentials_secret_ref for place in group.spec.source.places),
        *(root.access.credentials_secret_ref for root in group.spec.roots),
        *(
            registry.secret_ref
            for part in parts
            if part.decode
            for registry in _registries(part.decode)
        ),
    )
    # Hash names the Secret with its key. What options of plug-ins mean, only plug-ins know.
    steps = (step for part in parts for step in part.transforms or ())
    of_steps = (step.options.get("secret") for step in steps if step.use in TRANSFORMS)
    names = {reference.name for reference in references if reference}
    return tuple(sorted(names | {name for name in of_steps if isinstance(name, str)}))


def _registries(decode: Decode) -> tuple[SchemaRegistry, ...]:
    of_key = decode.key.registry if decode.key else None
    return tuple(registry for registry in (decode.registry, of_key) if registry)


def _driver(group: ConsumerGroup, image: str, context: OperatorContext) -> Json:
    own = _container(driver_secrets_of(group))
    mounts = [
        {"name": CONFIG_VOLUME, "mountPath": GROUP_FOLDER, "readOnly": True},
        {"name": CONTROL_VOLUME, "mountPath": CONTROL_FOLDER, "readOnly": True},
        {"name": KEYS_VOLUME, "mountPath": KEYS_FOLDER, "readOnly": True},
    ]
    health = {"httpGet": {"path": "/healthcheck", "port": "http"}, "timeoutSeconds": 5}
    return {
        "name": "driver",
        "image": image,
        "imagePullPolicy": context.image_pull_policy,
        "args": ["driver"],
        "env": _environment(group),
        "ports": [
            {"name": "http", "containerPort": HTTP_PORT},
            {"name": "control", "containerPort": CONTROL_PORT},
            {"name": "spark", "containerPort": DRIVER_PORT},
            {"name": "blocks", "containerPort": BLOCK_PORT},
        ],
        "resources": driver_resources(group.spec.driver.resources, context.driver.resources),
        # A driver has five minutes to start its JVM and its HTTP server.
        "startupProbe": {**health, "periodSeconds": 5, "failureThreshold": 60},
        "livenessProbe": {**health, "periodSeconds": 20, "failureThreshold": 3},
        "readinessProbe": {**health, "periodSeconds": 5, "failureThreshold": 2},
        # A driver that dies without a termination message leaves the end of its log instead;
        # landfall_operator.core.parsing reads both.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **own,
        "volumeMounts": [*mounts, *own["volumeMounts"]],
    }


def _environment(group: ConsumerGroup) -> list[Json]:
    """The driver's environment. The kubelet expands ``$(NAME)``; Spark's defaults file cannot."""
    plain = {
        GROUP_FILE: f"{GROUP_FOLDER}/group.json",
        REVISION: revision_of(group),
        PEERS: f"{driver_name(group.metadata.name)}.{group.metadata.namespace}.svc",
        CONTROL_TOKEN_FILE: f"{CONTROL_FOLDER}/token",
        LOCAL_TOKEN_FILE: f"{SCRATCH_FOLDER}/control-token",
        OPERATOR_KEYS: f"{KEYS_FOLDER}/{KEYS_KEY}",
        **spark_environment(),
    }
    live = driver_name(group.metadata.name)
    settings = {EXECUTORS: EXECUTORS_KEY, KNOWN_LEDGER: LEDGER_KEY, LEDGER_ANCHOR: ANCHOR_KEY}
    # Optional: a driver starts without them, with the count in spark-defaults.conf.
    return [
        *(
            {
                "name": name,
                "valueFrom": {"configMapKeyRef": {"name": live, "key": key, "optional": True}},
            }
            for name, key in settings.items()
        ),
        *pod_fields(
            {"POD_NAME": "metadata.name", POD_UID: "metadata.uid", "POD_IP": "status.podIP"}
        ),
        *variables(plain),
    ]


def spark_environment(more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """How Spark in a pod finds its properties; ``more`` are some that ``spark_defaults`` lacks."""
    conf = {
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.driver.host": "$(POD_IP)",
        "spark.driver.bindAddress": "$(POD_IP)",
        **more,
    }
    arguments = " ".join(f"--conf {key}={value}" for key, value in conf.items())
    return {
        "SPARK_CONF_DIR": GROUP_FOLDER,
        "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell",
    }


def pod_fields(paths: Mapping[str, str]) -> Iterator[Json]:
    """Environment variables with fields of the pod, given by their paths."""
    for name, path in paths.items():
        yield {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def variables(values: Mapping[str, str]) -> Iterator[Json]:
    """Environment variables with these values."""
    return ({"name": name, "value": value} for name, value in values.items())


def _defaults(pod: Pod, container: str) -> Json:
    """The operator's defaults as a pod template, without the ones that other parts already have."""
    elsewhere = {"security_context": None, "resources": Resources()}
    return overlay(pod.model_copy(update=elsewhere), container)


def _fast_failover(template: Json) -> Json:
    """The template with a short toleration of a lost node, unless it has one of its own.

    Kubernetes' own is five minutes. The ledger fences a driver that comes back, so another one may
    start at once. Of two tolerations for a taint, the shorter one would hold.
    """
    given = [*template["spec"].get("tolerations", [])]
    ours = [
        {
            "key": taint,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": int(LOST_NODE.total_seconds()),
        }
        for taint in _LOST_NODE_TAINTS
        if not any(
            toleration.get("key", "") in {"", taint}
            and toleration.get("effect", "") in {"", "NoExecute"}
            for toleration in given
        )
    ]
    return {**template, "spec": {**template["spec"], "tolerations": [*given, *ours]}}


def _common(secrets: Iterable[str], context: OperatorContext, defaults: Pod) -> Json:
    """The parts of a pod spec that drivers and executors share."""
    pod: Json = {
        # The kubelet would add environment variables for every Service of the namespace.
        "enableServiceLinks": False,
        # The operator's default replaces it as a whole: where the cluster assigns the uid, none is
        # fixed here.
        "securityContext": defaults.security_context
        if defaults.security_context is not None
        else {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            *(
                {"name": f"secret-{i}", "secret": {"secretName": name}}
                for i, name in enumerate(secrets)
            ),
        ],
    }
    if context.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in context.image_pull_secrets]
    return pod


def _container(secrets: Iterable[str]) -> Json:
    return {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "scratch", "mountPath": SCRATCH_FOLDER},
            *(
                {"name": f"secret-{i}", "mountPath": f"{SECRETS_FOLDER}/{name}", "readOnly": True}
                for i, name in enumerate(secrets)
            ),
        ],
    }


def _labelled(template: Json, required: Mapping[str, str]) -> Json:
    """The template with the labels that select its pods; they override the user's."""
    metadata = template["metadata"]
    return {
        **template,
        "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **required}},
    }
