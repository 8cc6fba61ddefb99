"""The sections ``spec.driver`` and ``spec.executor``: how the pods of a group are configured.

Only the operator uses them; a driver outside Kubernetes ignores them. Values of Kubernetes' own
types, such as affinity, are passed on unchecked: the API server validates them, and a copy of its
rules here would go stale.
"""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from textwrap import dedent
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, JsonValue
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from landfall.api.values import DnsName, Name, matching

Passthrough = dict[str, JsonValue]
"""A mapping of a Kubernetes type, passed on unchanged."""
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
    """Base of every model in a spec: immutable, camelCase in YAML, unknown fields are rejected."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
    )
    # The class whose source documents the fields, if it is not the model itself.
    documented_by: ClassVar[type | None] = None

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe each field by the string below it.

        Pydantic can do so when it makes the class (``use_attribute_docstrings``), but then every
        start of Python pays for what only a schema needs.
        """
        result = handler(schema)
        properties = handler.resolve_ref_schema(result).get("properties", {})
        for name, text in attribute_docstrings(cls.documented_by or cls).items():
            field = cls.model_fields.get(name)
            alias = field.alias if field and field.alias else name
            if alias in properties:
                properties[alias]["description"] = text
        return result


class Resources(Model):
    """Resource requests and limits of a container."""

    requests: dict[Name, Quantity] = Field(default_factory=dict)
    """Resources reserved for the container, such as ``cpu: 500m``."""
    limits: dict[Name, Quantity] = Field(default_factory=dict)
    """Resources the container cannot exceed, such as ``memory: 2Gi``."""


class NamedEntry(BaseModel):
    """A Kubernetes list entry merged by its ``name``; other fields are passed on unchanged."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: Name


class Mount(BaseModel):
    """A volume mount merged by its ``mountPath``; other fields are passed on unchanged."""

    model_config = ConfigDict(
        frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True
    )

    name: Name
    mount_path: Name


class Pod(Model):
    """Settings of a pod, merged into the pod that Landfall creates. Lists are merged by name."""

    labels: Labels = Field(default_factory=dict)
    """Pod labels, added to Landfall's."""
    annotations: Labels = Field(default_factory=dict)
    """Pod annotations, added to Landfall's."""
    service_account_name: DnsName | None = None
    """An existing ServiceAccount, for example one with a cloud identity. The driver's is granted
    the permissions that Spark needs: to create and delete pods of the namespace. Do not name
    ``default``, which is the account of every pod that names none. If not set, the one that
    Landfall creates for the group.
    """
    node_selector: Labels = Field(default_factory=dict)
    """Labels of the nodes the pod can run on."""
    tolerations: tuple[Passthrough, ...] = ()
    """Pod tolerations."""
    affinity: Passthrough | None = None
    """Pod affinity rules."""
    topology_spread_constraints: tuple[Passthrough, ...] = ()
    """Topology spread constraints of the pod."""
    priority_class_name: DnsName | None = None
    """PriorityClass of the pod."""
    scheduler_name: DnsName | None = None
    """Scheduler that places the pod, such as ``volcano``. Kubernetes' default if not set."""
    runtime_class_name: DnsName | None = None
    """RuntimeClass of the pod, such as one for gVisor or GPUs."""
    dns_config: Passthrough | None = None
    """DNS settings of the pod: ``nameservers``, ``searches`` and ``options``."""
    host_aliases: tuple[Passthrough, ...] = ()
    """Host names that the pod resolves without DNS, each entry with an ``ip`` and ``hostnames``."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """Image pull policy of the containers. The operator's, `image.pullPolicy` of the chart, if not
    set.
    """
    image_pull_secrets: tuple[NamedEntry, ...] = ()
    """Secrets with the credentials of the image registry."""
    security_context: Passthrough | None = None
    """Security context of the pod. If not set, one that meets the ``restricted`` Pod Security
    Standard.
    """
    env: tuple[NamedEntry, ...] = ()
    """Environment variables of the container. They override Landfall's."""
    volumes: tuple[NamedEntry, ...] = ()
    """Volumes, added to Landfall's."""
    volume_mounts: tuple[Mount, ...] = ()
    """Volume mounts of the container, added to Landfall's."""
    resources: Resources = Resources()
    """Resource requests and limits of the container. A limit that is not set is at least the
    request.
    """
    containers: tuple[NamedEntry, ...] = ()
    """Additional containers. One with the name of Landfall's container is merged into it."""
    init_containers: tuple[NamedEntry, ...] = ()
    """Init containers."""


class DriverPod(Pod):
    """The driver's pod. Its container is called ``driver``."""

    service_account_annotations: Labels = Field(default_factory=dict)
    """Annotations of the ServiceAccount that Landfall creates for the group, such as the role of a
    cloud identity. One that ``serviceAccountName`` names has its own.
    """


class ExecutorPod(Pod):
    """The executors' pods. Their container is called ``executor``."""

    cores: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of tasks that run at the same time in one executor."""


# Finds the strings below the fields of a class, which document them.
#
# Reading sources takes a hundred times as long as defining the classes, so it is done only for
# those who want the descriptions: the generator of the custom resource definition.


def attribute_docstrings(cls: type) -> dict[str, str]:
    """By name, the documentation of each field that the class annotates, its bases included.

    A base of Pydantic has none, nor one whose source cannot be read, such as a class that was made
    at run time.
    """
    found: dict[str, str] = {}
    bases = [base for base in cls.__mro__ if base.__module__.partition(".")[0] != "pydantic"]
    for base in reversed(bases):
        found |= _own_docstrings(base)
    return found


@cache  # a base belongs to many classes, and a definition is made more than once
def _own_docstrings(cls: type) -> Mapping[str, str]:
    try:
        source = dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return {}
    definition = ast.parse(source).body[0]
    if not isinstance(definition, ast.ClassDef):
        return {}
    found = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                found[name] = inspect.cleandoc(said)
    return found
