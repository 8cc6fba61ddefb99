"""What a user may say of the pods a group runs in: sizes, places, permissions.

Only the operator acts on it; a driver on a bare machine reads past it. The parts that are
Kubernetes' own are passed on as they are: the API server judges them better than a copy of its
rules could.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from landfall.api.values import DnsName, Name, matching

Anything = dict[str, JsonValue]
"""A mapping that is passed on as it is."""
Labels = dict[str, str]
Quantity = Annotated[
    str,
    Field(coerce_numbers_to_str=True, json_schema_extra={"format": "quantity"}),
    matching(
        r"[0-9]{1,15}(\.[0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?",
        "a quantity such as 500m, 2 or 1Gi",
    ),
]


class Model(BaseModel):
    """The common ground of everything in a spec: frozen, camelCase, nothing unknown."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class Resources(Model):
    """What a container asks for and may use."""

    requests: dict[Name, Quantity] = Field(default_factory=dict)
    """What it is sure to get."""
    limits: dict[Name, Quantity] = Field(default_factory=dict)
    """What it cannot exceed."""


class Named(BaseModel):
    """Something of Kubernetes' that has a name, by which it is merged with ours; the rest is passed on."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: Name


class Mount(BaseModel):
    """A volume mount, known by its path; the rest is passed on."""

    model_config = ConfigDict(
        frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True
    )

    name: Name
    mount_path: Name


class Pod(Model):
    """A pod of the group. What is written here is merged into what Landfall needs; lists are merged by name."""

    labels: Labels = Field(default_factory=dict)
    """Labels, beside ours."""
    annotations: Labels = Field(default_factory=dict)
    """Annotations, beside ours."""
    service_account_name: DnsName | None = None
    """One of your own, as web identities need it; the driver's is given the rights that Spark
    needs.
    """
    node_selector: Labels = Field(default_factory=dict)
    """Labels of the nodes to run on."""
    tolerations: tuple[Anything, ...] = ()
    """Taints of nodes to bear."""
    affinity: Anything | None = None
    """Where to be, rather or never."""
    topology_spread_constraints: tuple[Anything, ...] = ()
    """How to spread over nodes and zones."""
    priority_class_name: DnsName | None = None
    """Which pods go first when there is no room."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When to pull the image."""
    image_pull_secrets: tuple[Named, ...] = ()
    """Secrets of the image's registry."""
    security_context: Anything | None = None
    """Security of the pod; without one, it runs as Kubernetes' ``restricted`` standard wants."""
    env: tuple[Named, ...] = ()
    """Environment variables, beside ours; yours win."""
    volumes: tuple[Named, ...] = ()
    """Volumes, beside ours."""
    volume_mounts: tuple[Mount, ...] = ()
    """Where volumes are seen."""
    resources: Resources = Resources()
    """What the container asks for and may use."""
    containers: tuple[Named, ...] = ()
    """Containers, beside ours; one with the name of ours is merged into it."""
    init_containers: tuple[Named, ...] = ()
    """Containers that run first."""


class DriverPod(Pod):
    """The driver's pod; its container is called ``driver``."""


class ExecutorPod(Pod):
    """Pods of executors; their container is called ``executor``."""

    cores: Annotated[int, Field(ge=1, le=64)] = 1
    """Tasks that run at the same time in one executor."""
