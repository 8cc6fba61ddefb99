"""The pods of a group: the driver's template, the executors' template, and how Spark is set up between them. Pure.

Spark runs in client mode in the driver's pod. Executors are made by the driver and owned by its pod
(``spark.kubernetes.driver.pod.name``), so they go when it goes. Their names get a new prefix at
each start, Spark's own way, because ``executor.podNamePrefix`` is left unset: executors of a driver
that crashed may still be there. The driver binds to its pod's address: executors dial
``spark.driver.bindAddress`` since Spark 4.3, and ``0.0.0.0`` would kill them.

Data never passes through the JVM, so it gets little; Python gets the rest, as Spark's memory
overhead. By default pods run as Kubernetes' ``restricted`` standard wants, on a read-only root;
what the user says of pods is merged in last.

Nobody may talk to a driver's Spark ports but its own executors: Spark makes a secret at each start
and hands it to executors in their environment, so that both prove to have it, and encrypts what
they say. Little is said: no data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from landfall.api.contract import CONTROL_PORT, CONTROL_TOKEN_FILE, GROUP_FILE, HTTP_PORT, REVISION
from landfall.api.spec import ConsumerGroup
from landfall.api.values import quantity
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.objects.names import (
    DIGEST_ANNOTATION,
    control_name,
    driver_name,
    labels,
    revision_name,
)
from landfall_operator.objects.overlay import Json, merged, overlay

MIB = 2**20
HEAP = 512 * MIB
PER_TASK = 192 * MIB
"""Of a Python worker, beyond the output buffers of its task."""
LEAST_OVERHEAD = 384 * MIB
GROUP_FOLDER = "/etc/landfall/group"
SECRETS_FOLDER = "/etc/landfall/secrets"
CONTROL_FOLDER = "/etc/landfall/control"
SCRATCH_FOLDER = "/tmp"  # noqa: S108  # a volume of the pod's own
"""All that is written to in a pod, beside the local directories that Spark gives executors: home
and
working directory, temporary files of Python and the JVM, the driver's blocks. Nothing in it is
missed after a restart.
"""
DRIVER_PORT = 7078
BLOCK_PORT = 7079
USER = 185
GRACE = timedelta(seconds=30)
"""What a driver gets beyond ``drainTimeout`` before it is killed."""


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What holds for all groups of an operator.

    Attributes:
        image: of driver and executors where a spec names none.
        namespace: where the operator runs.
        operator_labels: of the operator's pods, which may reach the control port.
        image_pull_policy: where a spec says nothing.
        image_pull_secrets: names; added to every pod.
    """

    image: str
    namespace: str
    operator_labels: Mapping[str, str] = field(default_factory=dict)
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()


def driver_template(group: ConsumerGroup, image: str, context: OperatorContext) -> Json:
    """The pod template of the driver's Deployment."""
    name, revision = group.metadata.name, revision_of(group)
    grace = group.spec.upgrade.drain_timeout + GRACE
    ours: Json = {
        "metadata": {"annotations": {DIGEST_ANNOTATION: digest_of(group)}},
        "spec": {
            **_common(group, context),
            "serviceAccountName": account_of(group),
            "terminationGracePeriodSeconds": int(grace.total_seconds()),
            "containers": [_driver(group, image, context)],
        },
    }
    volumes = [
        {"name": "group", "configMap": {"name": revision_name(name, revision)}},
        {"name": "control", "secret": {"secretName": control_name(name), "defaultMode": 0o440}},
    ]
    ours["spec"]["volumes"] = [*volumes, *ours["spec"]["volumes"]]
    # what the driver is told by its environment stays as it is: a REVISION of somebody else's would
    # never get the lane
    told = {"spec": {"containers": [{"name": "driver", "env": _environment(group)}]}}
    template = merged(merged(ours, overlay(group.spec.driver, "driver")), told)
    return _labelled(template, labels(name, "driver", revision))


def executor_template(group: ConsumerGroup, context: OperatorContext) -> Json:
    """The pod Spark starts from when it makes an executor; it fills in image, command, sizes and names."""
    name = group.metadata.name
    ours: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {
            **_common(group, context),
            "automountServiceAccountToken": False,
            "containers": [{"name": "executor", **_container(group)}],
        },
    }
    merged_pod = merged(ours, overlay(group.spec.executor, "executor"))
    for container in merged_pod["spec"]["containers"]:
        if container["name"] == "executor":
            container.pop(
                "resources", None
            )  # they are Spark's properties, or it would overwrite them
    return _labelled(merged_pod, labels(name, "executor", revision_of(group)))


def spark_defaults(
    group: ConsumerGroup, image: str, executors: int, context: OperatorContext
) -> str:
    """``spark-defaults.conf``: what is known before the driver's pod is; the rest comes by its environment."""
    spec, size = group.spec.executor, group.spec.executor.resources
    heap, overhead = executor_memory(group)
    conf = {
        "spark.master": "k8s://https://kubernetes.default.svc:443",
        "spark.submit.deployMode": "client",
        "spark.kubernetes.namespace": group.metadata.namespace,
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.container.image.pullPolicy": spec.image_pull_policy
        or context.image_pull_policy,
        "spark.kubernetes.authenticate.executor.serviceAccountName": spec.service_account_name
        or driver_name(group.metadata.name),
        "spark.kubernetes.executor.podTemplateFile": f"{GROUP_FOLDER}/executor.json",
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        # of a pod that was deleted by force Spark learns only when it looks: half a minute late by
        # its default
        "spark.kubernetes.executor.apiPollingInterval": "10s",
        "spark.kubernetes.executor.enablePollingWithResourceVersion": "true",
        "spark.kubernetes.allocation.batch.delay": "1s",
        "spark.kubernetes.allocation.batch.size": "20",
        # what a driver is not allowed to make, it does not look for: see manifests.DRIVER_RULES
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
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
        "spark.network.crypto.saslFallback": "false",
    }
    cpu = {"request": size.requests.get("cpu"), "limit": size.limits.get("cpu")}
    conf |= {
        f"spark.kubernetes.executor.{kind}.cores": value for kind, value in cpu.items() if value
    }
    return "".join(f"{key} {value}\n" for key, value in sorted(conf.items()))


def executor_memory(group: ConsumerGroup) -> tuple[int, int]:
    """Bytes of the JVM's heap, and of everything else in an executor: the limit or request if given, or what tasks need."""
    size, tasks = group.spec.executor.resources, group.spec.executor.cores
    given = size.limits.get("memory") or size.requests.get("memory")
    total = quantity(given) if given else HEAP + tasks * (group.spec.tuning.task_memory + PER_TASK)
    return HEAP, max(total - HEAP, LEAST_OVERHEAD)


def account_of(group: ConsumerGroup) -> str:
    """The ServiceAccount of the driver: the user's or the one we make."""
    return group.spec.driver.service_account_name or driver_name(group.metadata.name)


def secrets_of(group: ConsumerGroup) -> tuple[str, ...]:
    """Names of the Secrets that driver and executors read."""
    references = (
        group.spec.source.kafka.properties_secret_ref,
        group.spec.output.s3.credentials_secret_ref,
    )
    return tuple(sorted({reference.name for reference in references if reference}))


def _driver(group: ConsumerGroup, image: str, context: OperatorContext) -> Json:
    own = _container(group)
    mounts = [
        {"name": "group", "mountPath": GROUP_FOLDER, "readOnly": True},
        {"name": "control", "mountPath": CONTROL_FOLDER, "readOnly": True},
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
        "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "1536Mi"}},
        "startupProbe": {**health, "periodSeconds": 5, "failureThreshold": 60},
        "livenessProbe": {**health, "periodSeconds": 20, "failureThreshold": 3},
        "readinessProbe": {**health, "periodSeconds": 5, "failureThreshold": 2},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **own,
        "volumeMounts": [*mounts, *own["volumeMounts"]],
    }


def _environment(group: ConsumerGroup) -> list[Json]:
    """``$(NAME)`` is filled in by the kubelet; Spark's own defaults file cannot do that."""
    pod = {
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.driver.host": "$(POD_IP)",
        "spark.driver.bindAddress": "$(POD_IP)",
    }
    arguments = " ".join(f"--conf {key}={value}" for key, value in pod.items())
    plain = {
        GROUP_FILE: f"{GROUP_FOLDER}/group.json",
        REVISION: revision_of(group),
        CONTROL_TOKEN_FILE: f"{CONTROL_FOLDER}/token",
        "SPARK_CONF_DIR": GROUP_FOLDER,
        "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell",
    }
    fields = {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}
    return [
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in fields.items()
        ),
        *({"name": name, "value": value} for name, value in plain.items()),
    ]


def _common(group: ConsumerGroup, context: OperatorContext) -> Json:
    """What both kinds of pod have."""
    pod: Json = {
        "enableServiceLinks": False,
        "securityContext": {
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
                for i, name in enumerate(secrets_of(group))
            ),
        ],
    }
    if context.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in context.image_pull_secrets]
    return pod


def _container(group: ConsumerGroup) -> Json:
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
                for i, name in enumerate(secrets_of(group))
            ),
        ],
    }


def _labelled(template: Json, required: Mapping[str, str]) -> Json:
    """With the labels that things are found by, whatever the user says."""
    metadata = template["metadata"]
    return {
        **template,
        "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **required}},
    }
