"""The ``CustomResourceDefinition``, made from the models: ``python -m landfall_operator.api.crd > crds/…`` (``make crds``).

What the models check field by field is in the schema; what takes two fields, or the object as it
was before, is a CEL rule here. The rest (a regular expression that does not compile, an unknown
time zone) only the operator can tell, and does so by ``SpecValid=False``. A test fails when the
file in ``crds/`` is not what this module makes. Pure, but for ``main``.
"""

import sys
from collections.abc import Mapping
from typing import Any

import yaml

from landfall.api.spec import GroupSpec
from landfall_operator.api.schema import Schema, explained, rule, structural, without_defaults
from landfall_operator.api.status import GroupStatus

GROUP = "landfall.dev"
VERSION = "v1alpha1"
KIND = "ConsumerGroup"
PLURAL = "consumergroups"
LONGEST_NAME = 40

HEADER = (
    "# Made by `make crds` from landfall.api.spec and landfall_operator.api.status: change those.\n"
)

COLUMNS = (
    ("Phase", "string", ".status.phase", "What the group is doing", 0),
    ("Generation", "integer", ".status.activeGeneration", "The generation that lands", 0),
    ("Replicas", "integer", ".status.replicas", "Executors at work", 0),
    ("Lag", "string", ".status.lag.recordsText", "Records not landed yet", 0),
    ("Lag-Time", "string", ".status.lag.secondsText", "Age of the oldest of them", 0),
    (
        "Commit-Failures",
        "integer",
        ".status.commits.failures",
        "Failures since the driver started",
        0,
    ),
    ("Last-Commit", "date", ".status.commits.lastTime", "Time since the last commit", 0),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the group was made", 0),
    ("Topics", "string", ".status.topics", "What is landed", 1),
    ("Reason", "string", ".status.reason", "Why the phase is what it is", 1),
    ("Desired", "integer", ".status.executors.wanted", "Executors there should be", 1),
    ("Image", "string", ".status.image", "Of the driver that lands", 1),
)

RULES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "": (
        (
            f"self.metadata.name.matches('^[a-z]([-a-z0-9]{{0,{LONGEST_NAME - 2}}}[a-z0-9])?$')",
            f"metadata.name must be at most {LONGEST_NAME} lower case letters, digits and -, a letter first: pods and Services bear it",
        ),
    ),
    "spec.source.kafka": (
        (
            "(has(self.topics) && size(self.topics) > 0) != (has(self.topicPattern) && size(self.topicPattern) > 0)",
            "exactly one of topics and topicPattern is needed",
        ),
        (
            "has(self.groupId) == has(oldSelf.groupId) && (!has(self.groupId) || self.groupId == oldSelf.groupId)",
            "groupId cannot be changed: other tools follow the group by it; make a new group",
        ),
    ),
    "spec.decode.timestamp": (
        ("(self.unit == 'Custom') == has(self.format)", "unit Custom needs a format, and only Custom has one"),
        (
            "self.separator == '' || !('' in self.field.split(self.separator))",
            "no step of field may be empty; separator: '' takes it as one name",
        ),
    ),
    "spec.output": (
        (
            "has(self.store) || !self.url.contains('://') || self.url.matches('^(s3://[^/]+(/.*)?|file:///.+)$')",
            "without a store of your own, url must be s3://BUCKET/PREFIX or file:///FOLDER",
        ),
    ),
    "spec.output.url": (
        ("self == oldSelf", "cannot be changed: the ledger that knows what is landed is there; make a new group"),
    ),
    "spec.output.s3.sse": (
        ("!has(self.kmsKeyId) || self.type != 'AES256'", "kmsKeyId goes with type aws:kms or aws:kms:dsse"),
    ),
    "spec.autoscaling": (
        ("self.minReplicas <= self.maxReplicas", "minReplicas must not be over maxReplicas"),
    ),
}  # fmt: skip
"""CEL rules and what a user is told, by the field they stand at."""

EXTRAS: Mapping[str, Schema] = {
    "spec.source.kafka.bootstrapServers": {"maxLength": 4096},
    "spec.source.kafka.topics": {"maxItems": 1000, "x-kubernetes-list-type": "set"},
    "spec.source.kafka.topicPattern": {"maxLength": 4096},
    "spec.decode.timestamp.field": {"maxLength": 1024},
    "spec.decode.timestamp.separator": {"maxLength": 16},
    "spec.source.kafka.groupId": {"maxLength": 255},
    "spec.output.url": {"maxLength": 2048},
    "spec.decode.columns": {
        "maxItems": 2000,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    "spec.uploadPolicy.overrides": {"maxItems": 200},
    "spec.transforms": {"maxItems": 100},
    "status.conditions": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    **{
        f"spec.{pod}.{field}": {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [key],
        }
        for pod in ("driver", "executor")
        for field, key in (
            ("env", "name"),
            ("volumes", "name"),
            ("volumeMounts", "mountPath"),
            ("containers", "name"),
            ("initContainers", "name"),
            ("imagePullSecrets", "name"),
        )
    },
}
"""Bounds, which the cost of rules is reckoned by, and how lists are merged."""


def crd() -> dict[str, Any]:
    """The whole definition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": "consumergroup",
                "shortNames": ["cg"],
                "categories": ["all", "landfall"],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [_column(*column) for column in COLUMNS],
        "schema": {"openAPIV3Schema": schema()},
    }


def schema() -> Schema:
    """The structural schema, with its rules."""
    text = {"type": "string"}
    root: Schema = {
        "description": "A consumer group: Kafka topics that are landed in S3, exactly once.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"type": "object"},
            "spec": structural(GroupSpec.model_json_schema()),
            "status": without_defaults(structural(GroupStatus.model_json_schema())),
        },
    }
    for path, more in EXTRAS.items():
        at(root, path).update(more)
    for path, rules in RULES.items():
        node = at(root, path)
        node["x-kubernetes-validations"] = node.get("x-kubernetes-validations", []) + [
            rule(*each) for each in rules
        ]
    root["properties"]["spec"] = explained(root["properties"]["spec"])
    return root


def at(node: Schema, path: str) -> Schema:
    """The field at a path such as ``spec.output.url``.

    Raises:
        KeyError: there is none.
    """
    for name in filter(None, path.split(".")):
        node = node["properties"][name]
    return node


def _column(name: str, kind: str, path: str, description: str, priority: int) -> dict[str, Any]:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return {**column, "priority": priority} if priority else column


def written() -> str:
    """The file in ``crds/``."""
    return HEADER + yaml.dump(crd(), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes everything out, so that the file reads the same whatever is shared in memory."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML's signature
        return True


if __name__ == "__main__":
    sys.stdout.write(written())
