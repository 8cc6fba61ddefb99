"""The objects of a Backfill: the files that it is landed by, and the pods that land and discard it.

The pod that lands is like a driver's, with the user's pod settings, but it runs one command and
ends: ``landfall backfill land``. No Service, no NetworkPolicy and no selector of the group takes it
for the group's driver, nor its executors for the group's. The ConfigMap is made once and never
changes, so a pod that is started again lands by the same spec. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from landfall.api.contract import (
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
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.backfill import BackfillSpec
from landfall_operator.api.revisions import as_json, group_file
from landfall_operator.objects import names
from landfall_operator.objects.manifests import (
    Owner,
    executors_policy,
    http_rule,
    owned_object,
    tcp,
)
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import (
    BLOCK_PORT,
    CONTROL_FOLDER,
    CONTROL_VOLUME,
    DRIVER_PORT,
    GROUP_FOLDER,
    KEYS_FOLDER,
    KEYS_VOLUME,
    SECRETS_FOLDER,
    OperatorContext,
    driver_template,
    executor_template,
    pod_fields,
    spark_defaults,
    spark_environment,
    variables,
)

BACKFILL_LABEL = "landfall.dev/backfill"
LANDS = "backfill"
LANDS_EXECUTOR = "backfill-executor"
DISCARDS = "backfill-discard"
"""Values of ``ROLE_LABEL``, as the two above."""
CORES_ANNOTATION = "landfall.dev/max-cores"
"""The value of ``maxCores`` when a pod was started."""
IMAGE_ANNOTATION = "landfall.dev/image"
"""Of the ConfigMap: the image that lands the backfill."""
GROUP_KEY = "group.json"
OBJECTS_KEY = "objects.json"
BACKUP_KEY = "backup.json"
GROUP_PATH = f"{GROUP_FOLDER}/{GROUP_KEY}"
_UID_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Lander:
    """The group, image and source that land a backfill.

    Attributes:
        group: the group, with the spec that lands it.
        image: the image that runs it.
        backup: the group from whose landed objects the records are read, if not from Kafka.
    """

    group: ConsumerGroup
    image: str
    backup: ConsumerGroup | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the Secrets by which the backup is read, sorted."""
        roots = self.backup.spec.roots if self.backup else ()
        references = (root.access.credentials_secret_ref for root in roots)
        return tuple(sorted({reference.name for reference in references if reference}))


def object_name(backfill: str) -> str:
    """Name of the ConfigMap, the pod that lands and its NetworkPolicy."""
    return f"backfill-{backfill}"


def discard_name(backfill: str) -> str:
    """Name of the pod that discards."""
    return f"discard-{backfill}"


def side_lane_name(backfill: str, uid: str) -> str:
    """Name of the side lane.

    The name of a side lane is never used again, but a Backfill's may be.
    """
    return f"{backfill}-{uid.replace('-', '')[:_UID_DIGITS]}"


def config_map(owner: Owner, spec: BackfillSpec, lander: Lander, context: OperatorContext) -> Json:
    """Make the files of the pods: the group file, Spark's properties, the executors' template."""
    executors = executor_template(lander.group, context)
    executors["metadata"]["labels"] |= _labels(owner, spec.group, LANDS_EXECUTOR)
    _mount(executors, "executor", lander.secrets)
    data = {
        GROUP_KEY: group_file(lander.group),
        OBJECTS_KEY: spec.keys(),
        "spark-defaults.conf": spark_defaults(lander.group, lander.image, 1, context),
        "executor.json": as_json(executors),
    }
    if lander.backup:
        data[BACKUP_KEY] = group_file(lander.backup)
    made = _object(owner, "v1", "ConfigMap", object_name(owner.name), group=spec.group)
    made["metadata"]["annotations"] = {IMAGE_ANNOTATION: lander.image}
    return {**made, "data": data, "immutable": True}


def network_policies(
    owner: Owner, spec: BackfillSpec, context: OperatorContext
) -> tuple[Json, ...]:
    """Spark's ports are open to the pods of the backfill, its report to readers of metrics."""
    driver, executors = (_selector(owner, role) for role in (LANDS, LANDS_EXECUTOR))
    spark_peer = {"podSelector": {"matchLabels": executors}}
    of_driver = {
        "podSelector": {"matchLabels": driver},
        "policyTypes": ["Ingress"],
        "ingress": [
            http_rule(context),
            {"ports": [tcp(DRIVER_PORT), tcp(BLOCK_PORT)], "from": [spark_peer]},
        ],
    }
    name = object_name(owner.name)
    kind = ("networking.k8s.io/v1", "NetworkPolicy")
    return (
        {**_object(owner, *kind, name, spec.group), "spec": of_driver},
        {
            **_object(owner, *kind, names.executors_name(name), spec.group),
            "spec": executors_policy(executors, driver),
        },
    )


def _compacts(group: ConsumerGroup) -> bool:
    """Return whether objects may be merged; images from before the option do not have it."""
    return bool(group.spec.compact or any(topic.compact for topic in group.spec.topics))


def landing_pod(owner: Owner, spec: BackfillSpec, lander: Lander, context: OperatorContext) -> Json:
    """The pod that lands and compares; it runs Spark, and owns its executors."""
    objects = ["--objects", f"{GROUP_FOLDER}/{OBJECTS_KEY}"] if spec.objects else []
    backup = ["--backup", f"{GROUP_FOLDER}/{BACKUP_KEY}"] if lander.backup else []
    command = [
        *("land", GROUP_PATH, side_lane_name(owner.name, owner.uid)),
        *spec.choice(),
        *(("--may-shrink",) if spec.promote == "Never" and _compacts(lander.group) else ()),
        *objects,
        *backup,
        *("--master", "configured", "--host", "0.0.0.0", "--http-port", str(HTTP_PORT)),  # noqa: S104  # the operator asks from outside
    ]
    made = _pod(owner, lander.group, lander.image, context)
    _name(made, object_name(owner.name), _labels(owner, spec.group, LANDS))
    made["metadata"].setdefault("annotations", {})[CORES_ANNOTATION] = cores_text(spec)
    container = _container(made)
    container["args"] = ["landfall", "backfill", *command]
    container["env"] = [*container["env"], *_spark(spec, lander.group)]
    container["ports"] = [
        {"name": "http", "containerPort": HTTP_PORT},
        {"name": "spark", "containerPort": DRIVER_PORT},
        {"name": "blocks", "containerPort": BLOCK_PORT},
    ]
    _mount(made, "driver", lander.secrets)
    return made


def discarding_pod(
    owner: Owner, spec: BackfillSpec, lander: Lander, context: OperatorContext
) -> Json:
    """The pod that deletes the objects of the side lane."""
    made = _pod(owner, lander.group, lander.image, context)
    _name(made, discard_name(owner.name), _labels(owner, spec.group, DISCARDS))
    # It asks the API server for nothing.
    made["spec"]["automountServiceAccountToken"] = False
    lane = side_lane_name(owner.name, owner.uid)
    _container(made)["args"] = [
        *("landfall", "backfill", "discard", GROUP_PATH, lane, "--if-planned")
    ]
    return made


def cores_text(spec: BackfillSpec) -> str:
    """``maxCores`` as the annotation has it."""
    return "" if spec.max_cores is None else str(spec.max_cores)


def executor_count(spec: BackfillSpec, group: ConsumerGroup) -> tuple[int, int]:
    """How many executors land a backfill, and how many cores each has."""
    cores = group.spec.executor.cores
    most = cores if spec.max_cores is None else spec.max_cores
    return max(1, most // cores), min(most, cores)


def _spark(spec: BackfillSpec, group: ConsumerGroup) -> list[Json]:
    executors, cores = executor_count(spec, group)
    # maxCores may change while the ConfigMap stays.
    changing = {
        "spark.executor.instances": str(executors),
        "spark.executor.cores": str(cores),
    }
    return [
        *pod_fields({"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}),
        *variables(spark_environment(changing)),
    ]


def _pod(owner: Owner, group: ConsumerGroup, image: str, context: OperatorContext) -> Json:
    """A pod like the group's driver, without the driver's digest and revision."""
    template = driver_template(group, image, object_name(owner.name), context)
    metadata = template["metadata"]
    spec = template["spec"]
    annotations = metadata.get("annotations", {})
    users = {key: value for key, value in annotations.items() if key != names.DIGEST_ANNOTATION}
    labels = {k: v for k, v in metadata["labels"].items() if k != names.REVISION_LABEL}
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": owner.namespace,
            "labels": labels,
            "annotations": users,
            "ownerReferences": [owner.reference()],
        },
        "spec": {
            **spec,
            # A container that failed is started again, with growing pauses.
            "restartPolicy": "OnFailure",
            "volumes": _without(spec["volumes"], "name", CONTROL_VOLUME, KEYS_VOLUME),
        },
    }
    container = _container(made)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe", "ports"):
        container.pop(probe, None)
    container["volumeMounts"] = _without(
        container["volumeMounts"], "mountPath", CONTROL_FOLDER, KEYS_FOLDER
    )
    container["env"] = [
        variable for variable in container["env"] if variable["name"] not in _OF_DRIVERS
    ]
    return made


_OF_DRIVERS = frozenset(
    {
        *(GROUP_FILE, REVISION, PEERS, EXECUTORS, KNOWN_LEDGER, LEDGER_ANCHOR),
        *(CONTROL_TOKEN_FILE, LOCAL_TOKEN_FILE, OPERATOR_KEYS),
        *("POD_NAME", POD_UID, "POD_IP", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"),
    }
)
"""The environment of a driver that defines what it lands, and how it runs Spark."""


def _container(pod: Json, name: str = "driver") -> Json:
    containers: Sequence[Json] = pod["spec"]["containers"]
    return next(container for container in containers if container["name"] == name)


def _mount(pod: Json, name: str, secrets: Sequence[str]) -> None:
    """Mount Secrets in a container, unless it has them."""
    container = _container(pod, name)
    mounted = {volume_mount["mountPath"] for volume_mount in container["volumeMounts"]}
    for number, secret in enumerate(secrets):
        path = f"{SECRETS_FOLDER}/{secret}"
        volume = f"backup-{number}"
        if path not in mounted:
            mount = {"name": volume, "mountPath": path, "readOnly": True}
            container["volumeMounts"] = [*container["volumeMounts"], mount]
            source = {"name": volume, "secret": {"secretName": secret}}
            pod["spec"]["volumes"] = [*pod["spec"]["volumes"], source]


def _name(pod: Json, name: str, labels: Mapping[str, str]) -> None:
    """Give a pod its name, and labels that override its own."""
    metadata = pod["metadata"]
    metadata["name"] = name
    metadata["labels"] = {**metadata.get("labels", {}), **labels}


def _without(items: Sequence[Json], key: str, *values: str) -> list[Json]:
    return [item for item in items if item.get(key) not in values]


def _selector(owner: Owner, role: str) -> dict[str, str]:
    return {BACKFILL_LABEL: owner.name, names.ROLE_LABEL: role}


def _labels(owner: Owner, group: str, role: str) -> dict[str, str]:
    """Labels of a pod. The group's are there, too: rules of a cluster may go by them."""
    return {**names.labels(group, role), **_selector(owner, role)}


def _object(owner: Owner, api_version: str, kind: str, name: str, group: str) -> Json:
    """An object that is not a pod, without the label by which a group finds its objects."""
    labels = {key: v for key, v in names.labels(group).items() if key != names.GROUP_LABEL}
    labels[BACKFILL_LABEL] = owner.name
    return owned_object(owner, api_version, kind, name, labels=labels)
